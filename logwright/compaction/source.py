"""The segments that a cleaning reads: mapped into memory, their batches numbered through, read
window by window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.errors import CorruptBatch
from logwright.format.batch import CODEC_MASK, HEADER_BYTES
from logwright.format.codec import CodecError, decompress, decompression_limit
from logwright.format.names import LOG, segment_file_name
from logwright.format.record import SMALLEST_RECORD_BYTES
from logwright.format.scan import scan_segment
from logwright.log.mapped import map_file
from logwright.log.model import Segment

WINDOW_BYTES: Final = 2 * 1024 * 1024
"""Bytes of a segment that are read at once: they stay in the CPU's cache from the CRC to the last
record.
"""
COMPRESSED_WINDOW_BYTES: Final = 256 * 1024
SCRATCH_BYTES: Final = 128 * 1024 * 1024
"""To how much a window of several batches may decompress: 500 times its size. One batch alone may
have its own limit; many small ones together must not take all memory either."""


@dataclass(slots=True, kw_only=True)
class Source:
    """One segment's log in memory.

    Attributes:
        data: uint8[bytes], a read-only map of the file.
        batches: BATCH[n]; `first_ordinal` counts through all sources of the cleaning.
    """

    base_offset: int
    path: Path
    data: NDArray[np.uint8]
    batches: NDArray[np.void]

    @property
    def records(self) -> int:
        """How many records the headers declare."""
        return int(self.batches["count"].sum(dtype=np.int64))


@dataclass(slots=True, kw_only=True)
class Window:
    """Some batches of a source and where their records lie.

    Attributes:
        batches: BATCH[n].
        scratch: uint8[m], decompressed records of the compressed batches.
        spans: int64[n, 2], start and end of each batch's records, in `scratch` if it is compressed.
    """

    batches: NDArray[np.void]
    scratch: NDArray[np.uint8]
    spans: NDArray[np.int64]

    def only(self, chosen: slice | NDArray[np.bool_]) -> Window:
        """Some of its batches."""
        return Window(batches=self.batches[chosen], scratch=self.scratch, spans=self.spans[chosen])


_NOTHING = np.zeros(0, dtype=np.uint8)


def open_source(
    directory: Path, segment: Segment, *, end_offset: int, first_ordinal: int
) -> Source:
    """Map a segment and read its batch headers. Effects: maps the file.

    Args:
        directory: the partition's.
        end_offset: the next segment's base offset.
        first_ordinal: number of the first record.

    Raises:
        UnreadableFile, StalePlan, CorruptBatch, UnsupportedFormatError: see `map_file` and
        `scan_segment`.
    """
    path = directory / segment_file_name(segment.base_offset, LOG)
    data = map_file(path, expected_bytes=segment.log_bytes)
    batches = scan_segment(data, path, base_offset=segment.base_offset, end_offset=end_offset)
    batches["first_ordinal"] += first_ordinal
    return Source(base_offset=segment.base_offset, path=path, data=data, batches=batches)


def row_ranges(source: Source, *, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Rows [first, last) of a source in windows of bounded bytes, one batch at least."""
    positions = source.batches["position"]
    ends = positions + source.batches["size"]
    row = first
    while row < last:
        compressed = bool(source.batches[row]["attributes"] & CODEC_MASK)
        limit = COMPRESSED_WINDOW_BYTES if compressed else WINDOW_BYTES
        stop = int(np.searchsorted(ends, positions[row] + limit, side="right"))
        stop = min(max(stop, row + 1), last)
        yield row, stop
        row = stop


def open_window(source: Source, rows: slice | NDArray[np.int64]) -> Window:
    """Find, and where need be decompress, the records of some batches.

    Args:
        rows: which batches; of a slice the window's batches are a view, so that kernels can set
            fields.

    Raises:
        CorruptBatch: a batch does not decompress, or to more than the limit.
    """
    batches = source.batches[rows]
    spans = np.empty((len(batches), 2), dtype=np.int64)
    spans[:, 0] = batches["position"] + HEADER_BYTES
    spans[:, 1] = batches["position"] + batches["size"]
    has_payload = batches["size"] > HEADER_BYTES
    compressed = np.flatnonzero((batches["attributes"] & CODEC_MASK) * has_payload)
    if compressed.size == 0:
        return Window(batches=batches, scratch=_NOTHING, spans=spans)
    parts: list[bytes] = []
    room = SCRATCH_BYTES
    for position, size, codec in zip(
        batches["position"][compressed].tolist(),
        batches["size"][compressed].tolist(),
        (batches["attributes"][compressed] & CODEC_MASK).tolist(),
        strict=True,
    ):
        own = decompression_limit(size)
        limit = min(own, max(room, 0)) if parts else own
        parts.append(decompress_batch(source, position, size, codec, limit=limit))
        room -= len(parts[-1])
    lengths = np.array([len(part) for part in parts], dtype=np.int64)
    _refuse_without_room(source, batches[compressed], lengths)
    ends = np.cumsum(lengths)
    spans[compressed, 0] = ends - lengths
    spans[compressed, 1] = ends
    scratch = np.frombuffer(b"".join(parts), dtype=np.uint8)
    return Window(batches=batches, scratch=scratch, spans=spans)


def _refuse_without_room(
    source: Source, batches: NDArray[np.void], lengths: NDArray[np.int64]
) -> None:
    """What is allocated for records goes by their count, so it must be possible."""
    for row in np.flatnonzero(batches["count"].astype(np.int64) * SMALLEST_RECORD_BYTES > lengths):
        batch = batches[row]
        raise CorruptBatch(
            f"the record batch at offset {int(batch['base_offset'])} decompresses to "
            f"{int(lengths[row])} bytes, too few for {int(batch['count'])} records.",
            path=source.path,
            position=int(batch["position"]),
            remedy="The log was left untouched. Restore the segment.",
        )


def decompress_batch(source: Source, position: int, size: int, codec: int, *, limit: int) -> bytes:
    """The records of one compressed batch, at most `limit` bytes.

    Raises:
        CorruptBatch: it does not decompress, or to more than the limit.
    """
    payload = source.data[position + HEADER_BYTES : position + size].data
    try:
        return decompress(codec, payload, limit=limit)
    except CodecError as error:
        base_offset = int.from_bytes(source.data[position : position + 8].tobytes(), "big")
        raise CorruptBatch(
            f"the record batch at offset {base_offset} does not decompress: {error}.",
            path=source.path,
            position=position,
            remedy="The log was left untouched. Restore the segment.",
        ) from error
