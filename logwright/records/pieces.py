"""The batches of a range, piece by piece, so that memory is bounded however many there are; the
data of aborted transactions is marked.

A piece is a `Source` whose batches are some of its segment's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.compaction.outcomes import is_end
from logwright.compaction.source import Source
from logwright.errors import LogwrightError
from logwright.format.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, TRANSACTIONAL
from logwright.format.names import LOG, parse_segment_file_name, segment_file_name
from logwright.format.scan import bad_crcs, check_crcs, scan_piece
from logwright.log.files import names_in
from logwright.log.mapped import MappedFile, MappedFiles
from logwright.records.markers import NO_MARKERS, decide, markers_of, with_markers
from logwright.records.model import ReadCounts, RecordsRange, SegmentPart
from logwright.units import INT64_MAX

PIECE_BYTES: Final = 8 * 1024 * 1024
"""Bytes whose batches are found at once."""
AHEAD_BYTES: Final = 512 * 1024
"""Bytes in which markers, or the next batch, are looked for at once."""


class Pieces:
    """Iterates over a range.

    Args:
        counts: of what is skipped; added to.
    """

    def __init__(self, one: RecordsRange, counts: ReadCounts) -> None:
        self._one = one
        self._counts = counts
        self._files = MappedFiles()
        self._parts = {part.base_offset: part for part in one.parts}
        self._markers: NDArray[np.int64] = NO_MARKERS
        self._ahead: Iterator[NDArray[np.int64]] = iter(())
        self._seen = (-1, 0)
        """Segment and position up to which the markers are known."""

    def __iter__(self) -> Iterator[Source]:
        """Yield the pieces. Effects: maps the segments.

        Raises:
            StalePlan, UnreadableFile: a segment is not what was planned.
            CorruptBatch, UnsupportedFormatError: a header is wrong, and nothing is to be skipped.
        """
        for part in self._one.parts:
            yield from self._of_part(part)

    def _of_part(self, part: SegmentPart) -> Iterator[Source]:
        log = self._open(part.base_offset)
        position, next_offset = part.start, part.base_offset
        while position < part.end:
            expected = next_offset
            batches, position, problem = scan_piece(
                log.data,
                log.path,
                span=(position, part.end),
                next_offset=next_offset,
                end_offset=part.end_offset,
                piece_bytes=PIECE_BYTES,
            )
            if len(batches):
                source = Source(base_offset=part.base_offset, log=log, batches=batches)
                self._decide(source, position)
                yield source
                if self._one.end_offset < part.end_offset and self._reaches_end(source):
                    return
                next_offset = self._next_offset(source, expected)
            if problem is None:
                continue
            if self._one.on_corrupt == "fail":
                raise problem
            if not len(batches) or next_offset > batches["last_offset"][-1]:
                position = self._skip(part, log, position, next_offset)

    def _next_offset(self, source: Source, expected: int) -> int:
        """Return the offset after a piece. Where corrupt batches are skipped, one with a wrong CRC
        does not count: it could make the right ones after it look wrong.
        """
        batches = source.batches
        if self._one.on_corrupt == "fail":
            return int(batches["last_offset"][-1]) + 1
        for row in reversed(range(len(batches))):
            if not bad_crcs(source.data, batches[row : row + 1]):
                return int(batches["last_offset"][row]) + 1
        return expected

    def _open(self, base_offset: int) -> MappedFile:
        part = self._parts.get(base_offset)
        path = f"{self._one.directory}/{segment_file_name(base_offset, LOG)}"
        log = self._files.open(path)
        if part is not None:
            log.require(part.stamp)
        return log

    def _reaches_end(self, source: Source) -> bool:
        """Whether a batch of the piece has the range's last offset, or a later one; its CRC must be
        right, since a wrong offset would hide what follows.
        """
        row = source.first_row("last_offset", self._one.end_offset - 1)
        if row == len(source.batches):
            return False
        if self._one.on_corrupt == "fail":
            check_crcs(source.data, source.batches, source.path, first=row, last=row + 1)
        return not bad_crcs(source.data, source.batches[row : row + 1])

    def _skip(self, part: SegmentPart, log: MappedFile, position: int, expected: int) -> int:
        """Return where reading can continue after a header that is wrong: after this batch, if its
        length leads to a batch with a right CRC or to the end; else nowhere in this segment.
        """
        data, following = log.data, part.end
        if position + HEADER_BYTES <= part.end:
            length = int.from_bytes(data[position + 8 : position + 12].tobytes(), "big")
            after = position + LOG_OVERHEAD_BYTES + length
            if after - position >= HEADER_BYTES and after < part.end:
                batches, _, _ = scan_piece(
                    data,
                    log.path,
                    span=(after, part.end),
                    next_offset=expected,
                    end_offset=part.end_offset,
                    piece_bytes=AHEAD_BYTES,
                )
                if len(batches) and not bad_crcs(data, batches[:1]):
                    following = after
        self._counts.add_corrupt(str(log.path), position, following - position, expected)
        return following

    def _decide(self, source: Source, end: int) -> None:
        """Set `discard` of aborted data. Effects: may read headers after the piece, until the
        markers of its transactions are found.
        """
        if self._one.isolation == "read_uncommitted" or not source.attributes & TRANSACTIONAL:
            return
        one, batches = self._one, source.batches
        first = int(batches["base_offset"][0])
        here = (source.base_offset, end)
        if self._seen < here:
            # What was seen ahead is in this piece.
            self._markers = with_markers(NO_MARKERS, self._checked(source), from_offset=first)
            self._ahead = self._look_ahead(*here)
        while decide(batches, self._markers, one.start_offset, one.end_offset):
            found = next(self._ahead, None)
            if found is None:
                # Without a marker a transaction is not aborted; there is none for open ones.
                return
            self._markers = with_markers(self._markers, found, from_offset=first)

    def _checked(self, source: Source) -> NDArray[np.int64]:
        """Return the markers among batches, whose CRC must be right."""
        if self._one.on_corrupt == "fail":
            ends = source.batches[is_end(source.batches)]
            check_crcs(source.data, ends, source.path, first=0, last=len(ends))
        return markers_of(source.data, source.batches)

    def _look_ahead(self, base_offset: int, position: int) -> Iterator[NDArray[np.int64]]:
        """Yield the markers after a position, as far as they are looked for."""
        names = [parse_segment_file_name(name) for name in names_in(self._one.directory)]
        bases = sorted({base for base, suffix in filter(None, names) if suffix == LOG})
        later = [base for base in bases if base > base_offset]
        for base, end_offset in zip([base_offset, *later], [*later, INT64_MAX], strict=True):
            log = self._open(base)
            next_offset = base
            while position < log.bytes:
                batches, position, problem = scan_piece(
                    log.data,
                    log.path,
                    span=(position, log.bytes),
                    next_offset=next_offset,
                    end_offset=end_offset,
                    piece_bytes=AHEAD_BYTES,
                )
                self._seen = (base, position)
                if len(batches):
                    next_offset = int(batches["last_offset"][-1]) + 1
                    yield self._checked(Source(base_offset=base, log=log, batches=batches))
                if problem is not None:
                    self._give_up(problem)
                    return
            position = 0

    def _give_up(self, problem: LogwrightError) -> None:
        if self._one.on_corrupt == "fail":
            raise problem
