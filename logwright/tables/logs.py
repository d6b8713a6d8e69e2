"""The logs that a table is made from."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from pyroaring import BitMap64

from logwright.batches.runtime import Runtime, available_cores, silent
from logwright.batches.source import Source
from logwright.config.topic import CleanerConfig
from logwright.errors import LogwrightError, StalePlan
from logwright.format.checkpoints import parse_leader_epochs
from logwright.format.names import LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA
from logwright.format.scan import read_uint32
from logwright.latest.missing import first_missing
from logwright.latest.model import LatestCounts
from logwright.latest.plan import plan_latest
from logwright.latest.read import read_latest
from logwright.log.model import ReadableLog
from logwright.log.topic_id import read_topic_id
from logwright.place.files import open_partition_dir
from logwright.reading import require_history
from logwright.records.model import ReadCounts, ReadRequest
from logwright.records.pieces import Pieces
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.running.picture import Bound
from logwright.running.place import bounds_of
from logwright.state.erasure_mark import read_mark
from logwright.tables.batches import BatchesOf
from logwright.tables.columns import READ_COLUMNS
from logwright.tables.model import Tail
from logwright.tables.plan import Observed, PartitionStep
from logwright.tables.work import PartitionSource, Reading
from logwright.units import INT64_MAX

if TYPE_CHECKING:
    import pyarrow as pa

    from logwright.batches.runtime import Progress

_CRC_AT: Final = 17
"""Position of the CRC in a batch (DefaultRecordBatch)."""
_SAMPLE_BATCHES: Final = 4
_SAMPLE_ROWS: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicLog:
    """One partition's log, with the settings that matter for a table.

    Attributes:
        topic_id: as the partition directory has it.
        cleaner: has the memory budget of the offset map.
        bound: what limits the log, which a broker has open; None: it is stopped.
    """

    log: ReadableLog
    topic_id: str | None
    cleaner: CleanerConfig
    bound: Bound | None = None

    @property
    def partition(self) -> int:
        """Number of the partition."""
        return self.log.partition.partition


def topic_log(log: ReadableLog, cleaner: CleanerConfig) -> TopicLog:
    """Return a log with its topic id and its bound. Effects: reads the id.

    Raises:
        NotALogDir, UnreadableFile: it cannot be read.
    """
    with open_partition_dir(log.log_dir, log.partition) as directory:
        topic_id = read_topic_id(directory)
    bound = bounds_of(log.log_dir).get(log.partition.directory_name)
    return TopicLog(log=log, topic_id=topic_id, cleaner=cleaner, bound=bound)


def source_of(topic_log: TopicLog, *, now_ms: int, progress: Progress = silent) -> PartitionSource:
    """Return a log as an update takes it.

    Args:
        topic_log: the log.
        now_ms: when it was observed.
        progress: of reading it, see `read_latest`.
    """
    log = topic_log.log

    def read(step: PartitionStep) -> Reading:
        plan = plan_latest(
            log,
            start_offset=step.start_offset,
            end_offset=step.end_offset,
            cleaner=topic_log.cleaner,
        )
        counts = LatestCounts()
        batches = read_latest(
            plan,
            columns=READ_COLUMNS,
            tombstones=step.kind == "upsert" or step.deletes,
            runtime=Runtime(threads=available_cores()),
            progress=progress,
            counts=counts,
        )
        return Reading(0 if plan.records is None else plan.records.bytes, batches, counts)

    mark = read_mark(log.directory)
    return PartitionSource(
        partition=topic_log.partition,
        observed=Observed(
            topic_id=topic_log.topic_id,
            log_start_offset=log.log_start_offset,
            end_offset=log.last_stable_offset,
            high_watermark=log.high_watermark,
            log_end_offset=log.log_end_offset,
            now_ms=now_ms,
            erasure=mark,
            as_of_ms=None if topic_log.bound is None else topic_log.bound.recorded_ms,
            directory=_directory(log),
        ),
        log_bytes=log.log_bytes,
        read=read,
        records=lambda start, end: records_of(log, start, end),
        tail=lambda end: tail_of(log, end),
        batches=BatchesOf(log, lambda start, end: _pieces(log, start, end)).below,
        missing=lambda start, end: missing_offset(log, start, end),
        held=lambda end: offsets_of(log, end),
        epoch=lambda offset: epoch_of(log, offset),
        settle=lambda: _require_same(log, mark),
    )


def epoch_of(log: ReadableLog, offset: int) -> int | None:
    """Return the leader epoch of an offset, None if the log does not say it. Effects: reads
    ``leader-epoch-checkpoint``.

    Raises:
        UnreadableFile, CorruptCheckpoint, UnsupportedFormatError: it cannot be read.
    """
    name = LEADER_EPOCH_CHECKPOINT
    with open_partition_dir(log.log_dir, log.partition) as directory:
        content = directory.read(name) if directory.exists(name) else b""
    epochs = parse_leader_epochs(content, log.directory / name)
    return next((each.epoch for each in reversed(epochs) if each.start_offset <= offset), None)


def _directory(log: ReadableLog) -> str | None:
    """Identify the directory of a log, which a copy does not have: by the file that is written
    when it is made, and never again. None without one.
    """
    stamps = (each for each in log.fingerprint.files if each.name == PARTITION_METADATA)
    return next((f"{each.inode}:{each.modified_ns}" for each in stamps), None)


def tail_of(log: ReadableLog, end_offset: int) -> Tail | None:
    """Return what a log has right below an offset, None if no batch has it. Effects: reads headers,
    and one record.
    """
    offset = end_offset - 1
    for piece in _pieces(log, offset, end_offset):
        row = piece.first_row("last_offset", offset)
        if row < len(piece.batches) and piece.batches["base_offset"][row] <= offset:
            position = int(piece.batches["position"][row])
            crc = int(read_uint32(piece.data, position + _CRC_AT))
            record = _record_crc(log, offset)
            return Tail(int(piece.batches["base_offset"][row]), crc, record)
    return None


def _record_crc(log: ReadableLog, offset: int) -> int | None:
    """Return a CRC-32 of a record's timestamp, key and value; None if there is no record."""
    request = ReadRequest(start_offset=offset, end_offset=offset + 1, isolation="read_uncommitted")
    for part in plan_records(_whole(log), request):
        for batch in read_range(part, columns=("timestamp", "key", "value")):
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                return zlib.crc32(repr(row).encode())
    return None


def _whole(log: ReadableLog) -> ReadableLog:
    """Return the log with all of it readable, whatever was replicated."""
    return log._replace(high_watermark=log.log_end_offset)


def missing_offset(log: ReadableLog, start: int, end: int) -> int | None:
    """Return the lowest offset in [start, end) that may have no record, None if all have one.
    Effects: reads the headers of the batches.
    """
    return first_missing(_pieces(log, start, end), start, end)


def records_of(log: ReadableLog, start: int | None, end: int | None) -> Iterator[pa.RecordBatch]:
    """Yield the committed records of the offsets [start, end), also those with a newer one of their
    key, columns `READ_COLUMNS`; None: from the log's start, to its end. Effects: reads.
    """
    for part in plan_records(log, ReadRequest(start_offset=start, end_offset=end)):
        yield from read_range(part, columns=READ_COLUMNS)


def offsets_of(log: ReadableLog, end_offset: int) -> BitMap64:
    """Return the offsets of the committed records below an offset, as a compressed bitmap. Effects:
    reads.
    """
    offsets = BitMap64()
    for part in plan_records(log, ReadRequest(end_offset=end_offset)):
        for batch in read_range(part, columns=("offset",)):
            offsets |= BitMap64(batch["offset"].to_numpy())
    return offsets


def _pieces(log: ReadableLog, start: int, end: int) -> Iterator[Source]:
    """Yield the batches of the offsets [start, end), those of open transactions and above the high
    watermark too. Effects: reads headers.
    """
    request = ReadRequest(
        start_offset=start, end_offset=end, isolation="read_uncommitted", range_bytes=INT64_MAX
    )
    for records_range in plan_records(_whole(log), request):
        yield from Pieces(records_range, ReadCounts())


def sample(logs: Iterable[TopicLog]) -> Iterator[pa.RecordBatch]:
    """Yield some of the first committed records of some logs, columns `READ_COLUMNS`; of a log that
    cannot be read, those before that. Effects: reads.
    """
    for topic_log in logs:
        with suppress(LogwrightError):  # the update reports it
            for part in islice(plan_records(topic_log.log, ReadRequest()), 1):
                batches = read_range(part, columns=READ_COLUMNS, batch_rows=_SAMPLE_ROWS)
                yield from islice(batches, _SAMPLE_BATCHES)


def _require_same(log: ReadableLog, mark: str | None) -> None:
    """Require before rows of a log are committed that they are still its history, and that no
    erasure began meanwhile. Effects: looks.

    Raises:
        Unsettled: see `require_history`. StalePlan: an erasure began, or ended.
    """
    require_history(log.log_dir, log.partition.directory_name)
    if read_mark(log.directory) != mark:
        raise StalePlan(
            "was erased from while it was read.",
            path=log.directory,
            remedy="Its rows stay as they were. Run it again.",
        )
