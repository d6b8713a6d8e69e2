"""Segments that are read: mapped into memory, their records numbered, read window by window."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.legacy import converted_log, is_legacy_at
from logwright.batches.status import OK, StoppedAt, require_readable
from logwright.batches.unpack import NOT_GIVEN, Workspace, open_batches, remove_obstacle
from logwright.errors import UnsupportedFormatError
from logwright.format.batch import CODEC_MASK, HEADER_BYTES
from logwright.format.limits import given_limit
from logwright.format.names import LOG, segment_file_name
from logwright.format.scan import scan_segment
from logwright.log.model import ReadableLog, Segment
from logwright.place.mapped import ConvertedFile, MappedFile, MappedFiles
from logwright.place.model import PlaceOrText, below

WINDOW_BYTES: Final = 2 * 1024 * 1024
"""Bytes of a segment that are read at once: they stay in the CPU's cache from the CRC to the last
record.
"""
COMPRESSED_WINDOW_BYTES: Final = 256 * 1024
SCRATCH_BYTES: Final = 128 * 1024 * 1024
"""The limit of a window of several batches when decompressed: 500 times its size. A single batch
has its own limit; many small ones together must not take all memory either."""


@dataclass(slots=True, kw_only=True)
class Source:
    """One segment's log.

    Attributes:
        batches: BATCH[n]; `first_ordinal` counts through all sources of the cleaning.
        attributes: all bits that any of the batches has.
    """

    base_offset: int
    log: MappedFile
    batches: NDArray[np.void]
    attributes: int = field(init=False)

    def __post_init__(self) -> None:
        self.attributes = int(np.bitwise_or.reduce(self.batches["attributes"]))

    @property
    def path(self) -> PlaceOrText:
        """Path of the log file."""
        return self.log.path

    @property
    def data(self) -> NDArray[np.uint8]:
        """uint8[bytes], a read-only map of the file; errors: see `MappedFile.data`."""
        return self.log.data

    @property
    def is_converted(self) -> bool:
        """Whether batches of it are of an old format: then its bytes are not the file's."""
        return isinstance(self.log, ConvertedFile)

    @property
    def records(self) -> int:
        """Number of records that the headers declare."""
        return self.records_before(len(self.batches))

    def first_row(self, column: str, offset: int) -> int:
        """Return the first row whose value in this column is at or above an offset."""
        return int(self.batches[column].searchsorted(offset))

    def records_before(self, row: int) -> int:
        """Return the number of records that the headers declare up to a row."""
        if row == 0:
            return 0
        ordinals, last = self.batches["first_ordinal"], self.batches["count"][row - 1]
        return int(ordinals[row - 1] - ordinals[0]) + int(last)

    def bytes_before(self, row: int) -> int:
        """Return the position in the file at which the batches up to a row end."""
        batches = self.batches
        if row < len(batches):
            return int(batches["position"][row])
        return int(batches["position"][-1] + batches["size"][-1]) if row else 0


@dataclass(slots=True, kw_only=True)
class Window:
    """Some batches of a source, and the positions of their records.

    Attributes:
        batches: BATCH[n].
        scratch: uint8[m], decompressed records of the compressed batches.
        spans: int64[n, 2], start and end of each batch's records, in `scratch` if it is compressed.
    """

    batches: NDArray[np.void]
    scratch: NDArray[np.uint8]
    spans: NDArray[np.int64]

    def only(self, chosen: slice | NDArray[np.bool_]) -> Window:
        """Return the window with only some of its batches."""
        return Window(batches=self.batches[chosen], scratch=self.scratch, spans=self.spans[chosen])


class Side(NamedTuple):
    """Batches and where their records are.

    Attributes:
        data: uint8[n], the ``.log`` file.
        scratch, batches, spans: see `Window`.
    """

    data: NDArray[np.uint8]
    scratch: NDArray[np.uint8]
    batches: NDArray[np.void]
    spans: NDArray[np.int64]


def side_of(source: Source, window: Window) -> Side:
    """Return a window of a source as the kernels take it."""
    return Side(source.data, window.scratch, window.batches, window.spans)


_NOTHING = np.zeros(0, dtype=np.uint8)
_USUAL_GROWTH: Final = 4
"""By how much batches often grow when they are decompressed."""


def open_source(
    directory: PlaceOrText,
    segment: Segment,
    files: MappedFiles,
    *,
    end_offset: int,
    first_ordinal: int,
) -> Source:
    """Map a segment and read its batch headers. Effects: maps the file; one with batches of old
    formats is read and converted, see `converted_log`.

    Args:
        directory: the partition's; as text, since making a path costs as much as mapping a file.
        files: the maps, to which it is added.
        end_offset: the next segment's base offset.
        first_ordinal: number of the first record.

    Raises:
        UnreadableFile, StalePlan, CorruptBatch, UnsupportedFormatError, DiskFull: see `map_file`,
        `scan_segment` and `converted_log`.
    """
    path = below(directory, segment_file_name(segment.base_offset, LOG))
    log = files.open(path, expected_bytes=segment.log_bytes)
    base = segment.base_offset
    try:
        batches = scan_segment(
            log.data, path, base_offset=base, end_offset=end_offset, first_ordinal=first_ordinal
        )
    except UnsupportedFormatError as error:
        if not is_legacy_at(log.data, error.position or 0):
            raise
        log, batches = converted_log(
            log, base_offset=base, end_offset=end_offset, first_ordinal=first_ordinal
        )
    return Source(base_offset=base, log=log, batches=batches)


def each_source(log: ReadableLog) -> Iterator[Source]:
    """Yield the segments of a log in order, each of them numbered from 0. Effects: maps them, one
    at a time.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: see `open_source`.
    """
    ends = [*(segment.base_offset for segment in log.segments[1:]), log.log_end_offset]
    for segment, end in zip(log.segments, ends, strict=True):
        files = MappedFiles()
        yield open_source(log.readable, segment, files, end_offset=end, first_ordinal=0)


def row_ranges(
    source: Source, *, first: int, last: int, window_bytes: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield the rows [first, last) of a source's windows: of bounded bytes, at least one batch.

    Args:
        window_bytes: that bound; by default what stays in the CPU's cache.
    """
    limit = window_bytes or (
        COMPRESSED_WINDOW_BYTES if source.attributes & CODEC_MASK else WINDOW_BYTES
    )
    if first < last and source.log.bytes <= limit:
        yield first, last
        return
    positions = source.batches["position"]
    ends = positions + source.batches["size"]
    row = first
    while row < last:
        compressed = bool(source.batches[row]["attributes"] & CODEC_MASK)
        limit = window_bytes or (COMPRESSED_WINDOW_BYTES if compressed else WINDOW_BYTES)
        stop = int(np.searchsorted(ends, positions[row] + limit, side="right"))
        stop = min(max(stop, row + 1), last)
        yield row, stop
        row = stop


def open_window(source: Source, rows: slice | NDArray[np.int64]) -> Window:
    """Find the records of some batches, and decompress them if necessary.

    Args:
        rows: which batches; with a slice the window's batches are a view, so that kernels can set
            fields.

    Raises:
        CorruptBatch: a batch does not decompress.
        BatchAboveLimit: it unpacks to more than the limit.
    """
    # For an array of rows, `take` costs a tenth of indexing.
    batches = source.batches[rows] if isinstance(rows, slice) else source.batches.take(rows)
    spans = np.empty((len(batches), 2), dtype=np.int64)
    compressed = (batches["attributes"] & CODEC_MASK) != 0
    if not compressed.any():
        spans[:, 0] = batches["position"] + HEADER_BYTES
        spans[:, 1] = batches["position"] + batches["size"]
        return Window(batches=batches, scratch=_NOTHING, spans=spans)
    size = _USUAL_GROWTH * int(batches["size"][compressed].sum())
    space = Workspace(size, most=max(SCRATCH_BYTES, given_limit()))
    row, at, given = 0, 0, NOT_GIVEN
    while row < len(batches):
        scratch, limits = space.scratch, (space.cells, space.most)
        row, at, status = open_batches(source.data, batches, row, given, scratch, at, spans, limits)
        if status != OK:
            stopped = StoppedAt(source.data, source.path, batches, row)
            given = remove_obstacle(space, stopped, status, used=at)
    return Window(batches=batches, scratch=space.scratch, spans=spans)


def require_batch(source: Source, batches: NDArray[np.void], row: int, status: int) -> None:
    """Raise the error for a kernel's status of a batch; see `require_readable`."""
    require_readable(StoppedAt(source.data, source.path, batches, row), status)
