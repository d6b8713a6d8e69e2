"""What remains of some keys in a log after an erasure by the rules, and until when."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from logwright.batches.runtime import Runtime
from logwright.erasure.erase.copies import inner_copies, top_copies
from logwright.erasure.erase.scan import matches_of, open_segments
from logwright.format.batch import DELETE_HORIZON
from logwright.log.inventory import DELETE_DELAY, expires_ms, place_of
from logwright.observe import observe_unlocked
from logwright.purge.observe import list_partition
from logwright.purge.plan import retired_files
from logwright.units import TimestampMs

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.batches.projection import Records
    from logwright.config.topic import TopicConfig
    from logwright.erasure.erase.model import Matcher
    from logwright.format.names import TopicPartition
    from logwright.log.model import PartitionLog


class Remaining(NamedTuple):
    """Records, or a retired file, that an erasure by the rules has left.

    Attributes:
        what: ``records``, ``tombstones``, or the name of a retired file or of a marked directory.
        records: how many; of a file 1, of a directory its files.
        rule: the Kafka config, or the setting of the policies, that removes it; empty if nothing
            will.
        until_ms: the earliest time at which all of it can be gone, ms since the epoch; None if that
            does not follow from the settings alone.
    """

    what: str
    records: int
    rule: str
    until_ms: TimestampMs | None


def remaining(
    log_dir: Path,
    partition: TopicPartition,
    config: TopicConfig,
    keys: Matcher,
    *,
    now_ms: TimestampMs,
) -> tuple[Remaining, ...]:
    """Find what remains of the keys in a log. Effects: reads it.

    Raises:
        LogwrightError: it cannot be read.
    """
    log = observe_unlocked(log_dir, partition, high_watermark="end")
    found: list[Remaining] = []
    records, newest, horizons = _counted(log, config, keys, now_ms)
    tombstones = sum(horizons.values())
    if not config.compact:
        records, tombstones = records + tombstones, 0
    if records:
        found.append(_of_records(records, log, config, newest, now_ms))
    if tombstones:
        rule = "delete.retention.ms"
        found.append(Remaining("tombstones", tombstones, rule, TimestampMs(max(horizons))))
    return (*found, *_retired(log, config, keys), *_kept(log, keys))


def tombstones_are_due(
    log: PartitionLog, config: TopicConfig, keys: Matcher, *, now_ms: TimestampMs
) -> bool:
    """Return whether tombstones of the keys are past their delete horizon. Effects: reads the log.

    Raises:
        LogwrightError: it cannot be read.
    """
    _, _, horizons = _counted(log, config, keys, now_ms)
    return min(horizons, default=now_ms + 1) <= now_ms


def _counted(
    log: PartitionLog, config: TopicConfig, keys: Matcher, now_ms: TimestampMs
) -> tuple[int, int, Counter[int]]:
    """Return how many records with a value match, the largest timestamp of the segments with a
    match, ms, and the number of tombstones by their delete horizon, ms.
    """
    records, newest, horizons = 0, -1, Counter[int]()
    for segment, source in zip(log.segments, open_segments(log), strict=True):
        for matches in matches_of(source, keys, runtime=Runtime()):
            if not len(matches.requests):
                continue
            newest = max(newest, segment.largest_timestamp_ms)
            records += int((matches.records.rows["value_length"] >= 0).sum())
            horizons.update(_horizons(matches.records, config, now_ms))
    return records, newest, horizons


def _horizons(records: Records, config: TopicConfig, now_ms: TimestampMs) -> list[int]:
    """Return when each of the tombstones may go, ms (KIP-534): a batch without a delete horizon
    gets it by the next cleaning.
    """
    batches = records.batches[records.rows["row"][records.rows["value_length"] < 0]]
    has_horizon = (batches["attributes"] & DELETE_HORIZON) != 0
    later = int(now_ms) + config.delete_retention_ms
    found: list[int] = np.where(has_horizon, batches["base_timestamp"], later).tolist()
    return found


def _of_records(
    count: int, log: PartitionLog, config: TopicConfig, newest_ms: int, now_ms: TimestampMs
) -> Remaining:
    """Return the rule that removes records with a value."""
    if config.compact:
        if log.last_stable_offset < log.log_end_offset:
            return Remaining("records", count, "transactional.id.expiration.ms", None)
        until = TimestampMs(max(newest_ms + config.min_compaction_lag_ms, now_ms))
        return Remaining("records", count, "min.compaction.lag.ms", until)
    if config.delete and config.retention_ms >= 0:
        return Remaining(
            "records", count, "retention.ms", TimestampMs(newest_ms + config.retention_ms)
        )
    if config.delete and config.retention_bytes >= 0:
        return Remaining("records", count, "retention.bytes", None)
    return Remaining("records", count, "", None)


def _kept(log: PartitionLog, keys: Matcher) -> list[Remaining]:
    """Return the kept outputs, which expire, and the cut pieces, which nothing removes."""
    found = []
    for copy in inner_copies(log.directory, keys):
        rule, until = place_of("log", copy.path).rule, expires_ms(copy.path)
        found.append(Remaining(copy.path, 1, rule, None if until is None else TimestampMs(until)))
    return found


def _retired(log: PartitionLog, config: TopicConfig, keys: Matcher) -> list[Remaining]:
    """Return the retired files with a match, or that cannot be read, and when they are due."""
    listing = list_partition(log.directory)
    delay_ms = config.file_delete_delay_ms
    retired = retired_files(listing, file_delete_delay_ms=delay_ms)
    due = {file.name: until for file, until in retired}
    return [
        Remaining(copy.path, 1, DELETE_DELAY, due[copy.path])
        for copy in top_copies(log.directory, due, keys)
    ]
