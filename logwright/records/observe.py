"""What planning reads of a log: index entries, and the headers that they lead to. An index is a
hint: the batch that an entry names must be there, with a right CRC.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.segment_file import Piece, SegmentPart, open_segment
from logwright.errors import CorruptLogError, UnsupportedFormatError
from logwright.format.batch import CONTROL, parse_batch
from logwright.format.index import OFFSET_ENTRY_BYTES
from logwright.format.names import INDEX, LOG, segment_file_name
from logwright.format.record import read_records
from logwright.format.scan import bad_crcs
from logwright.log.model import ReadableLog, Segment
from logwright.place.mapped import map_file
from logwright.place.model import FileStamp, below
from logwright.records import schema as names
from logwright.records.model import OnCorrupt, ReadCounts, RecordsRange
from logwright.records.pieces import Pieces, require_crcs
from logwright.records.read import read_pieces
from logwright.units import INT64_MAX

_ENTRY: Final = struct.Struct(">ii")
_HEADER_PIECE: Final = 64 * 1024
_LARGEST_MS: Final = INT64_MAX // 1000


class BatchAt(NamedTuple):
    """Where a batch begins: its position, and its base offset."""

    position: int
    offset: int


def parts_of(log: ReadableLog, start_offset: int, end_offset: int) -> list[SegmentPart]:
    """Return the segments, whole, that can have offsets in [start, end). Pure."""
    stamps = {stamp.name: stamp for stamp in log.fingerprint.files}
    ends = [segment.base_offset for segment in log.segments[1:]] + [log.log_end_offset]
    return [
        _whole(segment, end, stamps[segment_file_name(segment.base_offset, LOG)])
        for segment, end in zip(log.segments, ends, strict=True)
        if segment.log_bytes and segment.base_offset < end_offset and end > start_offset
    ]


def _whole(segment: Segment, end_offset: int, stamp: FileStamp) -> SegmentPart:
    return SegmentPart(
        base_offset=segment.base_offset,
        end_offset=end_offset,
        stamp=stamp,
        start=0,
        end=segment.log_bytes,
    )


class IndexedSegment:
    """A segment and its offset index. Effects: maps the index, or reads it; reads the batches that
    it names, and no others; errors: see `open_segment`.
    """

    def __init__(self, log: ReadableLog, part: SegmentPart) -> None:
        index = map_file(below(log.readable, segment_file_name(part.base_offset, INDEX)))
        self._entries = index.data
        self._rows = range(len(index) // OFFSET_ENTRY_BYTES)
        self._part = part
        self._path = below(log.readable, segment_file_name(part.base_offset, LOG))
        self._buffer = np.empty(min(_HEADER_PIECE, part.end), dtype=np.uint8)

    def before(self, offset: int) -> BatchAt | None:
        """Return the last batch with an entry that ends at or before an offset; None if there is
        none, or the entry is wrong.
        """
        row = bisect_right(self._rows, offset, key=lambda row: self._entry(row)[0]) - 1
        return self._at(row) if row >= 0 else None

    def after(self, offset: int) -> BatchAt | None:
        """Return a batch with an entry, all of which is at or after an offset; as `before`."""
        row = bisect_left(self._rows, offset, key=lambda row: self._entry(row)[0]) + 1
        place = self._at(row) if row < len(self._rows) else None
        # The entries of a wrong index do not ascend.
        return place if place is not None and place.offset >= offset else None

    def near(self, position: int) -> BatchAt | None:
        """Return the first batch with an entry at or after a position; as `before`."""
        row = bisect_left(self._rows, position, key=lambda row: self._entry(row)[1])
        return self._at(row) if row < len(self._rows) else None

    def _entry(self, row: int) -> tuple[int, int]:
        """Return (offset of a batch's last record, its position), as one entry says."""
        offset, position = _ENTRY.unpack_from(self._entries, row * OFFSET_ENTRY_BYTES)
        return self._part.base_offset + offset, position

    def _at(self, row: int) -> BatchAt | None:
        last_offset, position = self._entry(row)
        part = self._part
        if not part.start < position < part.end:
            return None
        with open_segment(self._path, part, self._buffer) as file:
            piece, _ = file.piece(position, part.base_offset)
        batches = piece.batches[:1]
        if not len(batches) or batches["last_offset"][0] != last_offset:
            return None
        if bad_crcs(piece.data, batches):
            return None
        return BatchAt(position, int(batches["base_offset"][0]))


def first_offset_at(log: ReadableLog, timestamp_ms: int, on_corrupt: OnCorrupt) -> int | None:
    """Return the first offset, from the log start offset on, whose timestamp is at or above a time,
    as KafkaConsumer.offsetsForTimes finds it (FileRecords.searchForTimestamp): markers count, and
    aborted data. None if there is none. Effects: reads headers, from the first segment on whose
    time index says that it has such a timestamp; and the batches that may have it.

    Raises:
        CorruptBatch, UnsupportedFormatError: unless such batches are skipped.
        StalePlan, UnreadableFile: see `Pieces`.
    """
    parts = {part.base_offset: part for part in parts_of(log, log.log_start_offset, INT64_MAX)}
    for segment in log.segments:
        part = parts.get(segment.base_offset)
        if part is None or is_before(segment, timestamp_ms):
            continue
        records_range = RecordsRange(
            log_dir=log.log_dir,
            partition=log.partition,
            parts=(part,),
            start_offset=log.log_start_offset,
            end_offset=part.end_offset,
            log_start_offset=log.log_start_offset,
            isolation="read_uncommitted",
            on_corrupt=on_corrupt,
        )
        for piece in Pieces(records_range, ReadCounts()).in_memory():
            for offset in _offsets_at(records_range, piece, timestamp_ms):
                return offset
    return None


def is_before(segment: Segment, timestamp_ms: int) -> bool:
    """Return whether all of a segment is before a time, by the last entry of its time index."""
    return segment.timeindex_bytes > 0 and segment.largest_timestamp_ms < timestamp_ms


def _offsets_at(records_range: RecordsRange, piece: Piece, timestamp_ms: int) -> Iterator[int]:
    """Yield the offset of the first record at or above a time, of each batch that has one."""
    batches = piece.batches
    late = (batches["max_timestamp"] >= timestamp_ms) & (batches["count"] > 0)
    for row in np.flatnonzero(
        late & (batches["last_offset"] >= records_range.start_offset)
    ).tolist():
        single = piece._replace(batches=batches[row : row + 1])
        try:
            offsets, times = _times(records_range, single)
        except (CorruptLogError, UnsupportedFormatError):
            if records_range.on_corrupt == "fail":
                raise
            continue
        reached = offsets[times >= max(min(timestamp_ms, _LARGEST_MS), -_LARGEST_MS)]
        yield from reached[:1].tolist()


def _times(
    records_range: RecordsRange, single: Piece
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return offsets and timestamps in ms, int64[n] each, of a batch."""
    batch = single.batches[0]
    if batch["attributes"] & CONTROL:
        require_crcs(single, single.batches)
        position, size = int(batch["position"]), int(batch["size"])
        content = single.data[position : position + size].tobytes()
        records = [
            (record.offset, record.timestamp_ms)
            for record in read_records(parse_batch(content), content)
        ]
        pairs = np.array(records, dtype=np.int64).reshape(-1, 2)
        pairs = pairs[pairs[:, 0] >= records_range.start_offset]
        return pairs[:, 0], pairs[:, 1]
    record_batches = list(
        read_pieces([single], records_range, columns=(names.OFFSET, names.TIMESTAMP))
    )
    if not record_batches:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    parts = [
        [each.column(at).cast("int64").to_numpy() for each in record_batches] for at in range(2)
    ]
    return np.concatenate(parts[0]), np.concatenate(parts[1]) // 1000
