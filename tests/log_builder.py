"""Log directories made by hand, batch by batch, for rules that no Kafka-written case shows on its
own.

log = LogBuilder(tmp_path / "logs")
log.segment(0).batch(0, [("a", "1"), ("b", None)]).batch(2, [(None, "x")])
log.segment(3).batch(3, [("a", "2")], producer_id=7, transactional=True).marker(4, 7, "abort")
log.segment(5)
log.write(cleaner_checkpoint=None, producers=True)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from logwright.format.batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    RecordBatch,
    parse_batch,
    serialize_batch,
)
from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.codec import compress
from logwright.format.control import ControlType, serialize_control_key, serialize_marker_value
from logwright.format.index import (
    serialize_offset_index,
    serialize_time_index,
    serialize_txn_index,
)
from logwright.format.names import TopicPartition, segment_file_name
from logwright.format.record import Record, RecordHeader, encode_records
from logwright.format.snapshot import serialize_snapshot
from logwright.units import INT32_MAX, Offset, TimestampMs
from tests.old_formats import last_offset
from tests.producer_files import ProducerState

START_MS = 1_760_000_000_000
INDEX_BYTES = 10 * 1024 * 1024
"""``segment.index.bytes``."""

Pair = tuple[str | bytes | None, str | bytes | None]


def _bytes(content: str | bytes | None) -> bytes | None:
    return content.encode() if isinstance(content, str) else content


def _payload(
    header: RecordBatch,
    rows: Sequence[tuple[int, int, Pair]],
    headers: tuple[RecordHeader, ...],
) -> bytes:
    """The records of (offset, timestamp, key and value), uncompressed."""
    records = [
        Record(
            offset=Offset(offset),
            timestamp_ms=TimestampMs(time),
            sequence=-1,
            key=_bytes(key),
            value=_bytes(value),
            headers=headers,
        )
        for offset, time, (key, value) in rows
    ]
    return encode_records(header, records)


def with_count(batch: bytes, count: int) -> bytes:
    """A batch whose header gives this number of records, with the CRC of that."""
    content = bytearray(batch)
    content[57:61] = count.to_bytes(4, "big")
    return serialize_batch(parse_batch(bytes(content)), bytes(content[61:]))


@dataclass(slots=True)
class SegmentBuilder:
    """One segment while it is put together.

    Attributes:
        indexed_as: by the number of a batch what its entry in the offset index names, if that is
            not its last offset.
        appends: of how many batches each append is, as brokers before 4.0 index them; not given:
            of one each.
    """

    base_offset: int
    modified_ms: int = START_MS
    batches: list[bytes] = field(default_factory=list)
    largest: tuple[int, int] = (-1, 0)
    indexed_as: dict[int, int] = field(default_factory=dict)
    appends: list[int] | None = None

    def batch(
        self,
        base_offset: int,
        pairs: Sequence[Pair],
        *,
        offsets: Sequence[int] | None = None,
        last_offset: int | None = None,
        timestamps: Sequence[int] | None = None,
        codec: int = 0,
        horizon_ms: int | None = None,
        append_time_ms: int | None = None,
        headers: tuple[RecordHeader, ...] = (),
        producer_id: int = -1,
        producer_epoch: int = 0,
        sequence: int | None = None,
        transactional: bool = False,
        extra_attributes: int = 0,
    ) -> SegmentBuilder:
        """Append a batch of records with these keys and values, by default at consecutive
        offsets. A producer's sequence is 0 where none is given, as group coordinators write it.
        """
        at = list(offsets) if offsets is not None else [base_offset + n for n in range(len(pairs))]
        times = list(timestamps) if timestamps is not None else [START_MS + n for n in at]
        last = last_offset if last_offset is not None else (at[-1] if at else base_offset)
        attributes = codec | extra_attributes | (TRANSACTIONAL if transactional else 0)
        base_timestamp = times[0] if times else -1
        largest = max(times, default=START_MS + last)
        if horizon_ms is not None:
            attributes |= DELETE_HORIZON
            base_timestamp = horizon_ms
        if append_time_ms is not None:
            attributes |= LOG_APPEND_TIME
            largest = append_time_ms
        header = RecordBatch(
            base_offset=Offset(base_offset),
            batch_length=49,
            partition_leader_epoch=0,
            crc=0,
            attributes=attributes,
            last_offset_delta=last - base_offset,
            base_timestamp=TimestampMs(base_timestamp),
            max_timestamp=TimestampMs(largest),
            producer_id=producer_id,
            producer_epoch=producer_epoch if producer_id >= 0 else -1,
            base_sequence=sequence if sequence is not None else min(producer_id, 0),
            records_count=len(pairs),
        )
        payload = _payload(header, list(zip(at, times, pairs, strict=True)), headers)
        self.batches.append(serialize_batch(header, compress(codec, payload) if codec else payload))
        if largest > self.largest[0]:
            self.largest = (largest, last)
        return self

    def old(
        self, content: bytes, largest_ms: int = -1, *, indexed_as: int | None = None
    ) -> SegmentBuilder:
        """Append a batch of format v0 or v1 (`tests.old_formats`) with this largest timestamp."""
        if indexed_as is not None:
            self.indexed_as[len(self.batches)] = indexed_as
        self.batches.append(content)
        if largest_ms > self.largest[0]:
            self.largest = (largest_ms, last_offset(content))
        return self

    def marker(
        self,
        offset: int,
        producer_id: int,
        kind: Literal["abort", "commit"],
        *,
        epoch: int = 0,
        empty: bool = False,
        horizon_ms: int | None = None,
    ) -> SegmentBuilder:
        """Append a transaction marker; if `empty` what a cleaning left of one."""
        key = serialize_control_key(ControlType[kind.upper()])
        pairs = [] if empty else [(key, serialize_marker_value(0))]
        return self.batch(
            offset,
            pairs,
            producer_id=producer_id,
            producer_epoch=epoch,
            sequence=-1,
            transactional=True,
            extra_attributes=CONTROL,
            horizon_ms=horizon_ms,
        )

    @property
    def content(self) -> bytes:
        """The ``.log``."""
        return b"".join(self.batches)


class LogBuilder:
    """A log directory with one partition, cleanly shut down."""

    def __init__(self, log_dir: Path, partition: str = "t-0") -> None:
        parsed = TopicPartition.parse(partition)
        assert parsed is not None
        self.log_dir = log_dir
        self.partition = parsed
        self.segments: list[SegmentBuilder] = []

    @property
    def directory(self) -> Path:
        """The partition's."""
        return self.log_dir / self.partition.directory_name

    def segment(self, base_offset: int, *, modified_ms: int = START_MS) -> SegmentBuilder:
        """Begin the next segment."""
        self.segments.append(SegmentBuilder(base_offset, modified_ms))
        return self.segments[-1]

    def write(
        self,
        *,
        cleaner_checkpoint: int | None = None,
        log_start: int | None = None,
        high_watermark: int | None = None,
        producers: bool = False,
        index_interval: int | None = None,
    ) -> LogBuilder:
        """Write it all as a broker leaves it.

        Args:
            cleaner_checkpoint, log_start, high_watermark: what the checkpoint files say.
            producers: with what producers need: transaction indexes, a snapshot for each roll and
                one at the end, a leader epoch file.
            index_interval: ``index.interval.bytes`` of the offset indexes, which without it have
                no entries. Time indexes have their final entry only, unless `appends` is given.
        """
        self.directory.mkdir(parents=True)
        state = ProducerState()
        for segment in self.segments:
            path = self.directory / segment_file_name(segment.base_offset, ".log")
            path.write_bytes(segment.content)
            index, timeindex = _indexes(segment, index_interval)
            path.with_suffix(".index").write_bytes(index)
            path.with_suffix(".timeindex").write_bytes(timeindex)
            os.utime(path, ns=(segment.modified_ms * 1_000_000,) * 2)
            if producers:
                self._write_producers(segment, state)
        for name, offset in (
            ("cleaner-offset-checkpoint", cleaner_checkpoint),
            ("log-start-offset-checkpoint", log_start),
            ("replication-offset-checkpoint", high_watermark),
        ):
            entries_of = {} if offset is None else {self.partition: offset}
            (self.log_dir / name).write_bytes(serialize_offset_checkpoint(entries_of))
        (self.log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
        return self

    def kill(self) -> LogBuilder:
        """Leave it as a broker that was killed does: no marker of a clean stop, and the indexes of
        the active segment are as large as they were allocated.
        """
        (self.log_dir / ".kafka_cleanshutdown").unlink()
        for suffix, entry_bytes in ((".index", 8), (".timeindex", 12)):
            path = self.directory / segment_file_name(self.segments[-1].base_offset, suffix)
            os.truncate(path, INDEX_BYTES - INDEX_BYTES % entry_bytes)
        return self

    @property
    def end_offset(self) -> int:
        """Offset after the last batch."""
        active = self.segments[-1]
        return last_offset(active.batches[-1]) + 1 if active.batches else active.base_offset

    def _write_producers(self, segment: SegmentBuilder, state: ProducerState) -> None:
        """What a segment's batches leave next to it, and the snapshot of the roll before it."""
        if segment is not self.segments[0]:
            self._write_snapshot(segment.base_offset, state)
        known = len(state.aborted)
        state.append(segment.batches)
        if state.aborted[known:]:
            path = self.directory / segment_file_name(segment.base_offset, ".txnindex")
            path.write_bytes(serialize_txn_index(state.aborted[known:]))
        if segment is self.segments[-1]:
            self._write_snapshot(self.end_offset, state)
            (self.directory / "leader-epoch-checkpoint").write_bytes(b"")

    def _write_snapshot(self, offset: int, state: ProducerState) -> None:
        path = self.directory / segment_file_name(offset, ".snapshot")
        path.write_bytes(serialize_snapshot(state.entries()))


def _indexes(segment: SegmentBuilder, interval: int | None) -> tuple[bytes, bytes]:
    """By the rule of LogSegment.append: an entry for the append before which enough bytes lie."""
    entries, times = [], []
    largest, position, since, number = (-1, 0), 0, 0, 0
    for count in segment.appends or [1] * len(segment.batches):
        together = segment.batches[number : number + count]
        for content in together:
            if segment.appends is not None and parse_batch(content).max_timestamp > largest[0]:
                largest = (parse_batch(content).max_timestamp, last_offset(content))
        if interval is not None and since > interval:
            named = segment.indexed_as.get(number, last_offset(together[-1]))
            entries.append((named, position))
            if largest[0] > (times[-1][0] if times else -1):
                times.append(largest)
            since = 0
        size = sum(map(len, together))
        since, position, number = since + size, position + size, number + count
    last = segment.largest
    says = last[0] > (times[-1][0] if times else -1)
    if says and last[1] - segment.base_offset <= INT32_MAX:
        times.append(last)
    tables = (np.array(each, dtype=np.int64).reshape(-1, 2) for each in (entries, times))
    index, timeindex = tables
    base = segment.base_offset
    return serialize_offset_index(index, base), serialize_time_index(timeindex, base)
