"""A segment's log while it is read: piece by piece into memory that is used again.

Read, not mapped: whoever changes the file meanwhile does not change what was checked, and reading
costs less than the page faults of a map. Only a batch that is larger than a piece is mapped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.legacy import convert_run, converted_rows, is_legacy_at
from logwright.errors import LogwrightError, StalePlan
from logwright.format.scan import scan_piece
from logwright.place.files import open_bytes
from logwright.place.mapped import MappedFile, in_a_file
from logwright.place.model import Bytes, FileStamp, PlaceOrText

PIECE_BYTES: Final = 4 * 1024 * 1024
"""Bytes that are read at once; they stay in the CPU's cache until they are rows."""


class SegmentPart(NamedTuple):
    """A part of one segment's log.

    Attributes:
        base_offset: of the segment. end_offset: the next segment's, or the log end offset.
        stamp: of the ``.log`` when it was planned.
        start, end: positions; batches begin at both.
    """

    base_offset: int
    end_offset: int
    stamp: FileStamp
    start: int
    end: int


class Piece(NamedTuple):
    """Some batches of a segment.

    Attributes:
        path: of the ``.log``.
        shift: position in the file of the first byte of `data`.
        data: uint8[n].
        batches: BATCH[m]; their positions are in `data`.
        end: position in the file after them.
    """

    path: PlaceOrText
    shift: int
    data: NDArray[np.uint8]
    batches: NDArray[np.void]
    end: int

    @property
    def is_converted(self) -> bool:
        """Whether the batches are of an old format: then `data` are not the file's bytes."""
        return bool(self.batches["legacy"].any())


@contextmanager
def in_file(shift: int) -> Iterator[None]:
    """Make the position of an error one in the file, from one in a piece."""
    try:
        yield
    except LogwrightError as error:
        if error.position is not None:
            error.position += shift
        raise


class SegmentFile(NamedTuple):
    """An open segment; `buffer`: uint8[n], what its pieces are read into."""

    path: PlaceOrText
    file: Bytes
    part: SegmentPart
    buffer: NDArray[np.uint8]

    def piece(self, position: int, next_offset: int) -> tuple[Piece, LogwrightError | None]:
        """Return the next batches, at least one unless something is wrong; and what is wrong with
        the batch after them, if it was read. They are valid until the next call.

        Raises:
            StalePlan: the file became shorter.
            UnreadableFile: the device fails.
        """
        left = self.part.end - position
        data = self.buffer[: min(left, len(self.buffer))]
        self.file.fill(data, position)
        scanned = self._scan(data, position, next_offset)
        if len(scanned[0].batches) or scanned[1] is not None:
            return scanned
        return self._scan(self._mapped(position), position, next_offset)

    def int32_at(self, position: int) -> int:
        """Return a big-endian int32 at a position."""
        data = np.empty(4, dtype=np.uint8)
        self.file.fill(data, position)
        return int.from_bytes(data.tobytes(), "big", signed=True)

    def _scan(
        self, data: NDArray[np.uint8], position: int, next_offset: int
    ) -> tuple[Piece, LogwrightError | None]:
        batches, after, problem = scan_piece(
            data,
            self.path,
            span=(0, self.part.end - position),
            next_offset=next_offset,
            end_offset=self.part.end_offset,
            piece_bytes=len(self.buffer),
        )
        if problem is not None and is_legacy_at(data, after):
            if not len(batches):
                return _legacy_piece(self, data, (0, position), next_offset)
            problem = None  # the next piece has them
        if problem is not None:
            problem.position = position + (problem.position or 0)
        return Piece(self.path, position, data, batches, position + after), problem

    def _mapped(self, position: int) -> NDArray[np.uint8]:
        return self.file.whole()[position : self.part.end]


class MappedSegment(NamedTuple):
    """A segment that is mapped: its pieces stay valid."""

    path: PlaceOrText
    log: MappedFile
    part: SegmentPart

    def piece(self, position: int, next_offset: int) -> tuple[Piece, LogwrightError | None]:
        """Return the next batches, as `SegmentFile.piece` does; `shift` is 0."""
        data = self.log.data
        batches, after, problem = scan_piece(
            data,
            self.path,
            span=(position, self.part.end),
            next_offset=next_offset,
            end_offset=self.part.end_offset,
            piece_bytes=PIECE_BYTES,
        )
        if problem is not None and is_legacy_at(data, after):
            if not len(batches):
                return _legacy_piece(self, data, (position, 0), next_offset)
            problem = None  # the next piece has them
        return Piece(self.path, 0, data, batches, after), problem

    def int32_at(self, position: int) -> int:
        """Return a big-endian int32 at a position."""
        content = self.log.data[position : position + 4].tobytes()
        return int.from_bytes(content, "big", signed=True)


def _legacy_piece(
    file: SegmentFile | MappedSegment,
    data: NDArray[np.uint8],
    begin: tuple[int, int],
    next_offset: int,
) -> tuple[Piece, LogwrightError | None]:
    """Return the next batches if they are of an old format, converted; see `SegmentFile.piece`.

    Args:
        data: uint8[n], a part of the file. begin: (position of the batches there, of `data` in the
            file).
    """
    (start, shift), part = begin, file.part
    bounds = (next_offset, part.end_offset)
    run = convert_run(data, file.path, (start, min(len(data), part.end - shift)), offsets=bounds)
    stays = isinstance(file, MappedSegment)
    content = in_a_file([run.content]) if stays else np.frombuffer(run.content, dtype=np.uint8)
    batches = converted_rows(content, file.path)
    problem = None if len(batches) else run.problem
    if len(data) < part.end - shift and not len(batches):
        problem = None  # the batch may be longer than this part of the file
    if problem is not None:
        problem.position = shift + (problem.position or 0)
    return Piece(file.path, start + shift, content, batches, shift + run.end), problem


@contextmanager
def open_segment(
    path: PlaceOrText, part: SegmentPart, buffer: NDArray[np.uint8]
) -> Iterator[SegmentFile]:
    """Open the log of a planned segment, without following a symbolic link. Effects: a descriptor,
    closed on leaving.

    Raises:
        UnreadableFile: it cannot be opened, or is not a regular file.
        StalePlan: it has been written or replaced since it was planned.
    """
    with open_bytes(path) as file:
        if file.seen != part.stamp[1:]:
            raise StalePlan("has been written or replaced.", path=path, remedy="Plan again.")
        yield SegmentFile(path, file, part, buffer)
