"""What a stream sees of logs: where they end, what is gone of them, and the records of offsets.

The offsets of a micro-batch are exact, whatever becomes of the files: they are planned by one look
at the logs, and each task takes its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from logwright.errors import DataLoss, LogDirLocked, StalePlan, Unsettled
from logwright.format.checkpoints import LeaderEpoch, parse_leader_epochs
from logwright.format.names import LEADER_EPOCH_CHECKPOINT, TopicPartition
from logwright.latest.model import LatestPlan
from logwright.log.load import observe
from logwright.log.model import ReadableLog
from logwright.log.topic_id import read_topic_id
from logwright.place.files import open_partition_dir
from logwright.place.model import Place, is_running
from logwright.reading import reading
from logwright.records.model import ReadCounts, ReadRequest, RecordsRange
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.records.schema import OFFSET
from logwright.running.place import RunningPlace, as_it_runs
from logwright.spark.kafka_log_offsets import UNKNOWN, Position, Positions
from logwright.spark.kafka_log_options import ReadOptions
from logwright.spark.kafka_log_plan import (
    Work,
    observed_logs,
    require_all_local,
    tasks_of,
)
from logwright.spark.kafka_log_rows import report_corrupt
from logwright.units import INT64_MAX

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger(__name__)

ATTEMPTS: Final = 30
"""How often a log is looked at again, each second, that changes or shows less than before."""
PAUSE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One partition as it was seen.

    Attributes:
        end: exclusive, of what readers see.
        topic_id: see `Position`.
        epochs: of the leader-epoch-checkpoint.
    """

    log: ReadableLog
    end: int
    topic_id: str | None
    epochs: tuple[LeaderEpoch, ...]

    def position(self, offset: int) -> Position:
        """Return what a stream keeps of an offset. Pure."""
        before = [one.epoch for one in self.epochs if one.start_offset < offset]
        return Position(offset, before[-1] if before else UNKNOWN, self.topic_id)


class Begin(NamedTuple):
    """Where a stream continues in a log.

    Attributes:
        loss: what is gone, in words; None if nothing is.
    """

    offset: int
    loss: str | None = None


def begin_of(position: Position | None, seen: Seen) -> Begin:
    """Return where a stream continues: where it was, unless that is gone. Pure.

    Args:
        position: None if the partition is new to the stream, which then begins at its first record.
    """
    log = seen.log
    start = int(log.log_start_offset)
    # Of a running log only what is committed is shown: that can be less than before.
    log_end = INT64_MAX if is_running(log.log_dir) else int(log.log_end_offset)
    if position is None:
        return Begin(start, f"is new, and begins at offset {start}" if start else None)
    offset, epoch, topic_id = position
    if topic_id is not None and seen.topic_id not in {None, topic_id}:
        return Begin(start, "was deleted and made again")
    later = [one.start_offset for one in seen.epochs if one.epoch > epoch]
    end = min(later[0], log_end) if later and epoch != UNKNOWN else log_end
    if end < offset:
        is_same = topic_id is not None or epoch != UNKNOWN
        return Begin(max(start, end if is_same else start), f"was truncated to offset {end}")
    if start > offset:
        return Begin(start, f"begins at offset {start}")
    return Begin(offset)


@contextmanager
def look(
    options: ReadOptions, choose: Callable[[Collection[TopicPartition]], Iterable[TopicPartition]]
) -> Iterator[dict[TopicPartition, Seen]]:
    """Look at each log that is read, once: also where a broker has it open. Effects and errors: see
    `observed_logs` and `as_it_runs`; and CorruptCheckpoint: a leader-epoch-checkpoint is malformed.
    """
    with observed_logs(options, choose, tuple(map(as_it_runs, options.log_dirs))) as logs:
        yield {log.partition: _seen(log, options) for log in logs}


def _seen(log: ReadableLog, options: ReadOptions) -> Seen:
    committed = options.isolation_level == "read_committed"
    with open_partition_dir(log.log_dir, log.partition) as directory:
        topic_id = read_topic_id(directory)
        epochs: tuple[LeaderEpoch, ...] = ()
        if directory.exists(LEADER_EPOCH_CHECKPOINT):
            content = directory.read(LEADER_EPOCH_CHECKPOINT)
            epochs = parse_leader_epochs(content, directory.file(LEADER_EPOCH_CHECKPOINT))
    end = min(log.high_watermark, log.last_stable_offset) if committed else log.high_watermark
    return Seen(log=log, end=int(end), topic_id=topic_id, epochs=epochs)


def report_losses(losses: Mapping[TopicPartition, str], *, fail: bool) -> None:
    """Report what is gone, if something is. Effects: logs a warning.

    Raises:
        DataLoss: it is a failure.
    """
    for partition, loss in losses.items():
        problem = f"records that the stream has not read are gone: {partition} {loss}."
        if fail:
            raise DataLoss(
                problem,
                remedy="With failOnDataLoss=false the stream continues with what is there.",
            )
        _LOG.warning("%s", problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Offsets of one partition, for one task: whatever files they are in when it reads.

    Attributes:
        log_dir: the task sees for itself whether a broker has it open.
        end_offset: exclusive.
        topic_id: see `Position`.
    """

    log_dir: Place
    partition: TopicPartition
    start_offset: int
    end_offset: int
    topic_id: str | None


def plan_slices(options: ReadOptions, first: Positions, last: Positions) -> list[tuple[Slice, ...]]:
    """Return what each task of a micro-batch reads. Effects: looks at the logs, again if they show
    less than `last`.

    Args:
        first, last: where the micro-batch begins and ends.

    Raises:
        DataLoss: records of it are gone, and that is a failure.
        StalePlan: a log shows less than it did.
        LogwrightError: as `look` and `plan_records`.
    """
    changed = {one for one, position in last.items() if first.get(one) != position}
    for _ in range(ATTEMPTS):
        with look(options, changed.intersection) as seen:
            losses = dict.fromkeys(sorted(changed - seen.keys()), "is gone")
            requests = []
            for partition, log_seen in seen.items():
                begin = begin_of(first.get(partition), log_seen)
                end = begin_of(last[partition], log_seen)
                if loss := begin.loss or end.loss:
                    losses[partition] = loss
                stop = min(end.offset, last[partition].offset)
                if begin.offset < stop:
                    require_all_local(log_seen.log, begin.offset)
                    requests.append((log_seen.log, request(options, begin.offset, stop)))
            report_losses(losses, fail=options.fail_on_data_loss)
            if all(one.end >= last[at].offset or at in losses for at, one in seen.items()):
                tasks = tasks_of(requests, options)
                ids = {at: log_seen.topic_id for at, log_seen in seen.items()}
                return [tuple(_slice(part, ids[part.partition]) for part in task) for task in tasks]
        time.sleep(PAUSE_SECONDS)
    raise _shows_less()


def _slice(part: RecordsRange, topic_id: str | None) -> Slice:
    return Slice(
        log_dir=plain(part.log_dir),
        partition=part.partition,
        start_offset=part.start_offset,
        end_offset=part.end_offset,
        topic_id=topic_id,
    )


def by_offsets(work: Work) -> Work | tuple[Slice, ...]:
    """Return the work of a batch's task by offsets if a broker has its logs open: their files are
    others by the time that the task reads. Effects: reads topic ids.
    """
    if isinstance(work, LatestPlan) or not any(is_running(part.log_dir) for part in work):
        return work
    topic_ids = {part.partition: _topic_id(part.log_dir, part.partition) for part in work}
    return tuple(_slice(part, topic_ids[part.partition]) for part in work)


def _topic_id(log_dir: Place, partition: TopicPartition) -> str | None:
    with open_partition_dir(log_dir, partition) as directory:
        return read_topic_id(directory)


def plain(log_dir: Place) -> Place:
    """Return a log directory without what was seen of it. Pure."""
    return Path(log_dir.pure) if isinstance(log_dir, RunningPlace) else log_dir


def request(options: ReadOptions, start_offset: int, end_offset: int) -> ReadRequest:
    """Return what is read of one log. Pure."""
    return ReadRequest(
        start_offset=start_offset,
        end_offset=end_offset,
        isolation=options.isolation_level,
        on_corrupt=options.on_corrupt,
    )


def read_slices(
    slices: Iterable[Slice], options: ReadOptions, columns: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the records of some slices. Effects: reads the logs as they are now; reports what it
    skips.

    Raises:
        DataLoss: records are gone since the micro-batch was planned, and that is a failure.
        StalePlan: a log changes again and again, or shows less than when it was planned.
        Unsettled: a running log was truncated after rows of it were given: they must be read again.
        LogwrightError: as `observe`, `plan_records` and `read_range`.
    """
    with_offset = [*columns] if OFFSET in columns else [*columns, OFFSET]
    report = None if options.corrupt_report is None else Path(options.corrupt_report).absolute()
    for each in slices:
        start, attempts = each.start_offset, 0
        while start < each.end_offset:
            before = start
            try:
                for batch in _read_slice(each, start, options, with_offset, report):
                    start = batch.column(OFFSET)[-1].as_py() + 1
                    yield batch.select(columns)
                break
            except (StalePlan, Unsettled, LogDirLocked) as error:
                attempts = 1 if start > before else attempts + 1
                if attempts == ATTEMPTS or (start > before and isinstance(error, Unsettled)):
                    raise
                time.sleep(PAUSE_SECONDS)


def _read_slice(
    each: Slice, start: int, options: ReadOptions, columns: Sequence[str], report: Path | None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a slice from an offset on, of one state of the log."""
    place = as_it_runs(each.log_dir)
    with reading(place):
        log = observe(place, each.partition, high_watermark=options.high_watermark)
        seen = _seen(log, options)
        begin = begin_of(Position(start, topic_id=each.topic_id), seen)
        if begin.loss is not None:
            report_losses({each.partition: begin.loss}, fail=options.fail_on_data_loss)
        elif seen.end < each.end_offset:
            raise _shows_less()
        everything = request(options, max(begin.offset, start), each.end_offset)
        for part in plan_records(log, everything):
            counts = ReadCounts()
            yield from read_range(part, columns=columns, counts=counts)
            report_corrupt(part, counts, report)


def _shows_less() -> StalePlan:
    return StalePlan(
        "a log shows fewer records than when the micro-batch was planned.",
        remedy="Start the query again when its log directory is as it was.",
    )
