"""Plan a read of ``kafka-log``: options and filters → the ranges that each task reads.

1. The partitions that the options name are found in the log directories, without a broker.
2. Each log is observed once, and what readers see of it is cut into ranges of batches, by bytes.
   Each range has the stamps of its files: a task that finds others refuses to read them.
3. Small ranges share a task.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Final

from pydantic.alias_generators import to_camel

from logwright.config.marked import nearest
from logwright.config.policy_models import INTERNAL_TOPICS
from logwright.errors import PolicyError, PreconditionError
from logwright.format.names import TopicPartition
from logwright.latest.model import LatestPlan
from logwright.latest.plan import plan_latest
from logwright.log.checkpoints import Checkpoints, read_checkpoints
from logwright.log.load import list_partitions, observe
from logwright.log.local_start import require_local_start
from logwright.log.model import ReadableLog
from logwright.log.watermark import require_high_watermark
from logwright.metadata.find import find_metadata
from logwright.metadata.read import read_metadata
from logwright.place.model import Place, is_running
from logwright.reading import reading
from logwright.records.model import RANGE_BYTES, ReadRequest, RecordsRange
from logwright.records.observe import first_offset_at
from logwright.records.plan import plan_records, visible_offsets
from logwright.running.place import as_it_runs
from logwright.spark.kafka_log_options import (
    EARLIEST,
    LATEST,
    PerPartition,
    Pruning,
    ReadOptions,
    by_partition,
)
from logwright.tier.place import without_local

_LOG = logging.getLogger(__name__)

_PER_PARTITION: Final = (
    "starting_offsets",
    "ending_offsets",
    "starting_offsets_by_timestamp",
    "ending_offsets_by_timestamp",
    "as_of_offset",
)
"""Options with a value for each partition."""

SHARED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of ranges that share a task: a tenth of a second of reading."""

OPENING_BYTES: Final = 256 * 1024
"""What opening a range costs, as bytes that Spark would take in meanwhile: 1.2 ms at 200 MB/s."""

SMALLEST_BYTES: Final = 4096
"""No range is made smaller for ``minPartitions``: ``index.interval.bytes`` divides batches."""

_SHOWN: Final = 10
"""Partitions that an error names."""

_MOST_TASKS: Final = 100_000
"""More than that are refused: Spark's driver would not survive them."""


Work = tuple[RecordsRange, ...] | LatestPlan
"""What one task reads: some ranges, or one partition's latest state."""


def plan_read(options: ReadOptions, pruning: Pruning) -> list[Work]:
    """Return what each task reads. Effects: reads the log directories, with brokers kept out; of
    records also those that a broker has open, as they are shown at this moment.

    Raises:
        PolicyError: the options name what the log directories do not have.
        LogwrightError: as `observe`, `plan_records` and `plan_latest`.
    """

    def choose(present: Collection[TopicPartition]) -> list[TopicPartition]:
        return [one for one in chosen_partitions(options, present) if pruning.has(one)]

    log_dirs = options.log_dirs
    if options.view == "records":
        log_dirs = tuple(map(as_it_runs, log_dirs))
    log_dirs = options.with_tier(log_dirs)
    with observed_logs(options, choose, log_dirs) as logs:
        for log in logs:
            require_all_local(log, offset_of(options.starting_offsets, log.partition))
        _warn_of_remote_only(log_dirs)
        if options.view == "latest":
            return [_latest(log, options) for log in logs]
        requests = [
            (log, with_times(log, request_of(options, pruning, log), options)) for log in logs
        ]
        return [*tasks_of(requests, options)]


def require_all_local(log: ReadableLog, start_offset: int | None = None) -> None:
    """Require that the records of a log from an offset on are in its segments, or were deleted. A
    broker records the log start offset once a minute
    (``log.flush.start.offset.checkpoint.interval.ms``): what it deleted since is not missing, if
    the metadata says that nothing is in remote storage. Effects: may read the metadata.

    Args:
        start_offset: None: the log start offset.

    Raises:
        PreconditionError: some are elsewhere, or that is not known.
        LogwrightError: the metadata cannot be read.
    """
    try:
        require_local_start(log, start_offset)
    except PreconditionError:
        metadata = find_metadata(log.log_dir) if is_running(log.log_dir) else None
        if metadata is None or read_metadata(metadata).is_remote(log.partition.topic):
            raise


def _warn_of_remote_only(log_dirs: Sequence[Place]) -> None:
    """Warn of logs of which only remote segments are read. Effects: logs it."""
    for log_dir in log_dirs:
        logs = without_local(log_dir)
        if logs:
            _LOG.warning(
                "only remote segments are read of %s: newer records are on the brokers that have"
                " the log",
                ", ".join(logs[:_SHOWN]) + (" and others" if len(logs) > _SHOWN else ""),
            )


def _latest(log: ReadableLog, options: ReadOptions) -> LatestPlan:
    """Return the latest state of one partition. Effects and errors: see `plan_latest`."""
    as_of = options.as_of_offset
    return plan_latest(
        log,
        start_offset=offset_of(options.starting_offsets, log.partition),
        end_offset=None if as_of is None else offset_of(as_of, log.partition),
        end_timestamp_ms=options.as_of_timestamp,
    )


@contextmanager
def observed_logs(
    options: ReadOptions,
    choose: Callable[[Collection[TopicPartition]], Iterable[TopicPartition]],
    log_dirs: Sequence[Place],
) -> Iterator[Sequence[ReadableLog]]:
    """Observe each log that is read, once. Effects: reads the log directories.

    Args:
        choose: which ones, of all that the log directories have.
        log_dirs: the log directories, in the options' order.

    Raises:
        PolicyError: a partition is in two log directories.
        PreconditionError: a log has no high watermark on record that is asked for.
        LogwrightError: as `reading`, `list_partitions` and `observe`.
    """
    with ExitStack() as locks:
        for log_dir in log_dirs:
            locks.enter_context(reading(log_dir))
        places = _places(log_dirs)
        chosen = choose(places)
        checkpoints: dict[Place, Checkpoints] = {
            log_dir: read_checkpoints(log_dir) for log_dir in log_dirs
        }
        logs = [
            observe(
                places[partition],
                partition,
                high_watermark=options.high_watermark,
                checkpoints=checkpoints[places[partition]],
            )
            for partition in chosen
        ]
        if options.high_watermark == "checkpoint":
            for log in logs:
                require_high_watermark(log)
        yield logs


def _places(log_dirs: Sequence[Place]) -> dict[TopicPartition, Place]:
    """Return the log directory of each partition. Effects: lists them."""
    places: dict[TopicPartition, Place] = {}
    for log_dir in log_dirs:
        for partition in list_partitions(log_dir):
            if partition in places:
                raise PolicyError(
                    f"{partition} is in {places[partition]} too.",
                    path=log_dir,
                    remedy="Give log directories of one broker, each once.",
                )
            places[partition] = log_dir
    return places


def chosen_partitions(
    options: ReadOptions, present: Collection[TopicPartition]
) -> list[TopicPartition]:
    """Return the partitions that the options name, sorted. Pure.

    A pattern does not choose Kafka's internal topics (a consumer's ``exclude.internal.topics``).

    Raises:
        PolicyError: one of them is not present; or offsets or times are given for others.
    """
    chosen = present_partitions(options, present)
    if options.assign is not None:
        named = {TopicPartition(topic, n) for topic, of in options.assign.items() for n in of}
        missing = sorted(named - chosen)
        if missing:
            raise _missing("assign", [str(one) for one in missing], map(str, present))
    elif options.subscribe_pattern is None:
        topics = {one.topic for one in present}
        absent = sorted(set(options.subscribe) - topics)
        if absent:
            raise _missing("subscribe", absent, topics)
    for name in _PER_PARTITION:
        given = getattr(options, name)
        if isinstance(given, Mapping):
            _refuse_others(to_camel(name), by_partition(given).keys(), chosen)
    return sorted(chosen)


def present_partitions(
    options: ReadOptions, present: Collection[TopicPartition]
) -> set[TopicPartition]:
    """Return those of the partitions that the options name. Pure; see `chosen_partitions`."""
    if options.assign is not None:
        assigned = options.assign
        return {one for one in present if one.partition in assigned.get(one.topic, ())}
    if options.subscribe_pattern is not None:
        pattern = re.compile(options.subscribe_pattern)
        topics = {one.topic for one in present} - INTERNAL_TOPICS.keys()
        matched = {topic for topic in topics if pattern.fullmatch(topic)}
        return {one for one in present if one.topic in matched}
    return {one for one in present if one.topic in options.subscribe}


def _missing(option: str, names: Sequence[str], present: Iterable[str]) -> PolicyError:
    near = nearest(names[0], frozenset(present))
    return PolicyError(
        f"option {option}: {_listed(names)} not in the log directory.",
        remedy="Check the path and the name." if near is None else f"Did you mean {near}?",
    )


def _refuse_others(
    option: str, given: AbstractSet[TopicPartition], chosen: AbstractSet[TopicPartition]
) -> None:
    """Refuse offsets that are not for the partitions that are read, as Spark's source does."""
    for problem, names in (
        ("has no value for", chosen - given),
        ("has a value for", given - chosen),
    ):
        if names:
            raise PolicyError(
                f"option {option} {problem} {_listed([str(one) for one in sorted(names)])}.",
                remedy="It must have one for each partition that is read.",
            )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def request_of(options: ReadOptions, pruning: Pruning, log: ReadableLog) -> ReadRequest:
    """Return what is read of one log, without ``starting…`` and ``ending…`` times. Pure.

    Raises:
        PolicyError: an offset is not in the log.
    """
    committed = options.isolation_level == "read_committed"
    end = log.last_stable_offset if committed else log.high_watermark
    limit = "the last stable offset" if committed else "the high watermark"
    start = offset_of(options.starting_offsets, log.partition)
    stop = offset_of(options.ending_offsets, log.partition)
    for name, offset in (("startingOffsets", start), ("endingOffsets", stop)):
        if offset is not None and not log.log_start_offset <= offset <= end:
            raise PolicyError(
                f"option {name}: offset {offset} of {log.partition} is not between the log start"
                f" offset {log.log_start_offset} and {limit} {end}.",
                path=log.directory,
                remedy="Use -2 for the earliest and -1 for the latest.",
            )
    if start is not None and stop is not None and start > stop:
        raise PolicyError(
            f"startingOffsets {start} of {log.partition} is above endingOffsets {stop}.",
            path=log.directory,
        )
    starts = [one for one in (start, pruning.start_offset) if one is not None]
    stops = [one for one in (stop, pruning.end_offset) if one is not None]
    return ReadRequest(
        start_offset=max(starts, default=None),
        end_offset=min(stops, default=None),
        min_timestamp_ms=pruning.min_timestamp_ms,
        max_timestamp_ms=pruning.max_timestamp_ms,
        isolation=options.isolation_level,
        on_corrupt=options.on_corrupt,
    )


def offset_of(offsets: str | PerPartition, partition: TopicPartition) -> int | None:
    """Return an option's offset for a partition; None if it is the earliest or the latest. Pure."""
    if isinstance(offsets, str):
        return None
    offset = offsets[partition.topic][partition.partition]
    return None if offset in {EARLIEST, LATEST} else offset


def with_times(log: ReadableLog, request: ReadRequest, options: ReadOptions) -> ReadRequest:
    """Return the request with the options' times. Effects: reads the log, to find the first one.

    Raises:
        PolicyError: no record is as young as the first time, and the strategy is "error".
        LogwrightError: as `first_offset_at`.
    """
    start, end = options.starting_timestamp, options.ending_timestamp
    if options.starting_offsets_by_timestamp is not None:
        start = by_partition(options.starting_offsets_by_timestamp)[log.partition]
    if options.ending_offsets_by_timestamp is not None:
        end = by_partition(options.ending_offsets_by_timestamp)[log.partition]
    if (
        start is not None
        and options.starting_offsets_by_timestamp_strategy == "error"
        and first_offset_at(log, start, options.on_corrupt) is None
    ):
        raise PolicyError(
            f"no record of {log.partition} has a timestamp of {start} or above.",
            path=log.directory,
            remedy="Use an earlier time, or startingOffsetsByTimestampStrategy=latest.",
        )
    return replace(request, start_timestamp_ms=start, end_timestamp_ms=end)


_Request = tuple[ReadableLog, ReadRequest]


def _divided(requests: Iterable[_Request], most: int) -> list[_Request]:
    """Return requests of at most this number of offsets each. Pure.

    Raises:
        PolicyError: there are more than `_MOST_TASKS`.
    """
    divided: list[_Request] = []
    for log, request in requests:
        start, end = visible_offsets(log, request)
        if len(divided) + (end - start) // most > _MOST_TASKS:
            raise PolicyError(
                f"maxRecordsPerPartition={most} makes more than {_MOST_TASKS} tasks.",
                remedy="Use a larger one.",
            )
        divided += [
            (log, replace(request, start_offset=first, end_offset=min(first + most, end)))
            for first in range(start, end, most)
        ]
    return divided


def tasks_of(requests: Sequence[_Request], options: ReadOptions) -> list[tuple[RecordsRange, ...]]:
    """Return the ranges of each task: as many tasks as are wanted, as far as batches can be
    divided. Effects and errors: those of `plan_records`; PolicyError: there are too many.
    """
    wanted = options.min_partitions
    if options.max_records_per_partition is not None:
        requests = _divided(requests, options.max_records_per_partition)
    size = RANGE_BYTES
    ranges = _ranges(requests, size)
    if wanted is None and options.max_records_per_partition is None:
        return packed(ranges, SHARED_BYTES)
    if wanted is not None and len(ranges) < wanted:
        size = min(size, sum(one.bytes for one in ranges) // wanted)
        ranges = _ranges(requests, max(size, SMALLEST_BYTES))
        while len(ranges) < wanted and size > SMALLEST_BYTES:
            size //= 2
            ranges = _ranges(requests, max(size, SMALLEST_BYTES))
    return [(one,) for one in ranges]


def _ranges(requests: Iterable[_Request], range_bytes: int) -> list[RecordsRange]:
    return [
        records_range
        for log, request in requests
        for records_range in plan_records(log, replace(request, range_bytes=range_bytes))
    ]


def packed(ranges: Sequence[RecordsRange], most_bytes: int) -> list[tuple[RecordsRange, ...]]:
    """Return the ranges in groups of at most this size, in order, at least one in each. Opening one
    counts as `OPENING_BYTES`. Pure.
    """
    groups: list[list[RecordsRange]] = []
    size = 0
    for records_range in ranges:
        cost = records_range.bytes + OPENING_BYTES
        if not groups or size + cost > most_bytes:
            groups.append([])
            size = 0
        groups[-1].append(records_range)
        size += cost
    return [tuple(group) for group in groups]
