"""The batches of a range, piece by piece, so that memory is bounded however many there are; the
data of aborted transactions is marked.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches import segment_file
from logwright.batches.markers import NO_MARKERS, decide, markers_of, with_markers
from logwright.batches.outcomes import is_end
from logwright.batches.segment_file import (
    MappedSegment,
    Piece,
    SegmentFile,
    SegmentPart,
    in_file,
    open_segment,
)
from logwright.batches.source import Source
from logwright.errors import LogwrightError
from logwright.format.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, TRANSACTIONAL
from logwright.format.names import LOG, parse_segment_file_name, segment_file_name
from logwright.format.scan import bad_crcs, check_crcs, scan_piece
from logwright.place.files import names_in
from logwright.place.mapped import MappedFile, MappedFiles
from logwright.place.model import Place
from logwright.records.model import ReadCounts, RecordsRange
from logwright.units import INT64_MAX

AHEAD_BYTES: Final = 512 * 1024
"""Bytes in which markers are looked for at once."""


class Pieces:
    """The pieces of a range, to be iterated over once.

    Args:
        counts: of what is skipped; added to.
    """

    def __init__(self, records_range: RecordsRange, counts: ReadCounts) -> None:
        self._range = records_range
        self._counts = counts
        self._files = MappedFiles()
        self._parts = {part.base_offset: part for part in records_range.parts}
        self._markers: NDArray[np.int64] = NO_MARKERS
        self._ahead: Iterator[NDArray[np.int64]] = iter(())
        self._seen = (-1, 0)
        """Segment and position up to which the markers are known."""

    def __iter__(self) -> Iterator[Source]:
        """Yield the pieces as sources that stay valid, whose batches are some of their segment's.
        Effects: maps the segments. Errors: as `in_memory`.
        """
        with self._released():
            for part in self._range.parts:
                log = self._open(part.base_offset)
                file = MappedSegment(self._path(part.base_offset), log, part)
                for piece in self._of_part(part, file):
                    own = log.with_content(piece.data) if piece.is_converted else log
                    yield Source(base_offset=part.base_offset, log=own, batches=piece.batches)

    def in_memory(self) -> Iterator[Piece]:
        """Yield the pieces, each valid until the next. Effects: reads the segments.

        Raises:
            StalePlan, UnreadableFile: a segment is not what was planned.
            CorruptBatch, UnsupportedFormatError: a header is wrong, and nothing is to be skipped.
        """
        longest = max((part.end - part.start for part in self._range.parts), default=0)
        buffer = np.empty(min(segment_file.PIECE_BYTES, longest), dtype=np.uint8)
        with self._released():
            for part in self._range.parts:
                with open_segment(self._path(part.base_offset), part, buffer) as file:
                    yield from self._of_part(part, file)

    @contextmanager
    def _released(self) -> Iterator[None]:
        """Look ahead no more afterwards: it refers to this object, and both would keep the segments
        open until Python looks for circles.
        """
        try:
            yield
        finally:
            self._ahead = iter(())

    def _of_part(self, part: SegmentPart, file: SegmentFile | MappedSegment) -> Iterator[Piece]:
        position, next_offset = part.start, part.base_offset
        while position < part.end:
            expected = next_offset
            piece, problem = file.piece(position, next_offset)
            batches, position = piece.batches, piece.end
            if len(batches):
                self._decide(part, piece)
                yield piece
                if self._range.end_offset < part.end_offset and self._reaches_end(piece):
                    return
                next_offset = self._next_offset(piece, expected)
            if problem is None:
                continue
            if self._range.on_corrupt == "fail":
                raise problem
            if not len(batches) or next_offset > batches["last_offset"][-1]:
                position = self._skip(file, position, next_offset)

    def _next_offset(self, piece: Piece, expected: int) -> int:
        """Return the offset after a piece. Where corrupt batches are skipped, one with a wrong CRC
        does not count: it could make the right ones after it look wrong.
        """
        batches = piece.batches
        if self._range.on_corrupt == "fail":
            return int(batches["last_offset"][-1]) + 1
        for row in reversed(range(len(batches))):
            if not bad_crcs(piece.data, batches[row : row + 1]):
                return int(batches["last_offset"][row]) + 1
        return expected

    def _reaches_end(self, piece: Piece) -> bool:
        """Whether a batch of the piece has the range's last offset, or a later one; its CRC must be
        right, since a wrong offset would hide what follows.
        """
        row = int(piece.batches["last_offset"].searchsorted(self._range.end_offset - 1))
        if row == len(piece.batches):
            return False
        if self._range.on_corrupt == "fail":
            require_crcs(piece, piece.batches[row : row + 1])
        return not bad_crcs(piece.data, piece.batches[row : row + 1])

    def _skip(self, file: SegmentFile | MappedSegment, position: int, expected: int) -> int:
        """Return where reading can continue after a header that is wrong: after this batch, if its
        length leads to a batch with a right CRC or to the end; else nowhere in this segment.
        """
        following = end = file.part.end
        if position + HEADER_BYTES <= end:
            after = position + LOG_OVERHEAD_BYTES + file.int32_at(position + 8)
            if after - position >= HEADER_BYTES and after < end:
                piece, _ = file.piece(after, expected)
                if len(piece.batches) and not bad_crcs(piece.data, piece.batches[:1]):
                    following = after
        self._counts.add_corrupt(str(file.path), position, following - position, expected)
        return following

    def _path(self, base_offset: int) -> Place:
        return self._range.directory / segment_file_name(base_offset, LOG)

    def _decide(self, part: SegmentPart, piece: Piece) -> None:
        """Set `discard` of aborted data. Effects: may read headers after the piece, until the
        markers of its transactions are found.
        """
        batches, records_range = piece.batches, self._range
        if (
            records_range.isolation == "read_uncommitted"
            or not (batches["attributes"] & TRANSACTIONAL).any()
        ):
            return
        first, here = int(batches["base_offset"][0]), (part.base_offset, piece.end)
        if self._seen < here:
            # What was seen ahead is in this piece.
            self._markers = with_markers(NO_MARKERS, self._checked(piece), from_offset=first)
            self._ahead = self._look_ahead(*here)
        while decide(batches, self._markers, records_range.start_offset, records_range.end_offset):
            ahead = next(self._ahead, None)
            if ahead is None:
                # Without a marker a transaction is not aborted; there is none for open ones.
                return
            self._markers = with_markers(self._markers, ahead, from_offset=first)

    def _checked(self, piece: Piece) -> NDArray[np.int64]:
        """Return the markers among batches, whose CRC must be right."""
        if self._range.on_corrupt == "fail":
            require_crcs(piece, piece.batches[is_end(piece.batches)])
        return markers_of(piece.data, piece.batches)

    def _open(self, base_offset: int) -> MappedFile:
        part = self._parts.get(base_offset)
        log = self._files.open(self._path(base_offset))
        if part is not None:
            log.require(part.stamp)
        return log

    def _look_ahead(self, base_offset: int, position: int) -> Iterator[NDArray[np.int64]]:
        """Yield the markers after a position, as far as they are looked for."""
        names = [parse_segment_file_name(name) for name in names_in(self._range.directory)]
        bases = sorted({base for base, suffix in filter(None, names) if suffix == LOG})
        later = [base for base in bases if base > base_offset]
        for base, end_offset in zip([base_offset, *later], [*later, INT64_MAX], strict=True):
            log, path = self._open(base), self._path(base)
            next_offset = base
            while position < log.bytes:
                batches, position, problem = scan_piece(
                    log.data,
                    path,
                    span=(position, log.bytes),
                    next_offset=next_offset,
                    end_offset=end_offset,
                    piece_bytes=AHEAD_BYTES,
                    headers_only=True,
                )
                self._seen = (base, position)
                if len(batches):
                    next_offset = int(batches["last_offset"][-1]) + 1
                    yield self._checked(Piece(path, 0, log.data, batches, position))
                if problem is not None:
                    self._give_up(problem)
                    return
            position = 0

    def _give_up(self, problem: LogwrightError) -> None:
        if self._range.on_corrupt == "fail":
            raise problem


def require_crcs(piece: Piece, batches: NDArray[np.void]) -> None:
    """Require the right CRC of batches of a piece.

    Raises:
        CorruptBatch: for the first with a wrong one.
    """
    with in_file(piece.shift):
        check_crcs(piece.data, batches, piece.path, first=0, last=len(batches))
