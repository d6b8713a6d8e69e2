"""What removes the records that were found while a broker has their log open. Pure.

Its own cleaner and retention do; nobody else may. So, unlike `logwright.erasure.outlook.removals`:

1. Its cleaner takes the dirtiest log first, as fast as it may, and rolls nothing: what a cleaning
   removes has a rule and no date.
2. Its retention deletes a closed segment within ``log.retention.check.interval.ms`` of the time at
   which it is due, and unlinks it ``file.delete.delay.ms`` later. Where the log is compacted too a
   cleaning may join the segment with younger ones, and the active segment is appended to: no date.
3. It unlinks ``.deleted`` files, and logs that were deleted, at a time that it has in memory: their
   own plus the delay. What is there longer has no date.
4. What logwright removes (a purge) waits until the broker is stopped: no date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from logwright.erasure.outlook.cleanings import NO_TIME, RATIO
from logwright.erasure.outlook.removals import (
    DELETE_RETENTION,
    RETENTION_RULES,
    RULES,
    Records,
    Removals,
    retention_times,
)
from logwright.erasure.outlook.upkeep import Upkeep
from logwright.log.inventory import DELETE_DELAY, DELETED_LOG_DELAY, UPKEEP
from logwright.units import INT64_MAX

if TYPE_CHECKING:
    from logwright.erasure.find.kinds import Judged
    from logwright.erasure.find.result import LiveHits, Settings
    from logwright.log.record_files import RecordFile

_OF_THE_CLEANER: Final = frozenset(("cleaned", "swap"))


def removal_of_records_by_broker(
    live: LiveHits, judged: Judged, settings: Settings
) -> tuple[list[str], list[int | None]]:
    """Return rule and time of each record of a running log; time None: never, or not known."""
    config, cleaner = settings.of_topic(live.log.partition.topic)
    records, log, now_ms = Records.of(live, judged), live.log, settings.now_ms
    count = len(records.offsets)
    result = Removals(
        rules=np.zeros(count, dtype=np.int8), times=np.full(count, NO_TIME, dtype=np.int64)
    )
    everything = np.ones(count, dtype=np.bool_)
    if config.policy_known and config.delete and config.retention_ms >= 0:
        result.set(everything, RETENTION_RULES["time"], NO_TIME)
    if config.policy_known and config.compact and cleaner.off is None:
        result.set(records.tombstones, DELETE_RETENTION, NO_TIME)
        result.set(records.superseded | records.aborted, RATIO, NO_TIME)
    if config.compact:
        return _lists(result)
    wait_ms = settings.broker.retention_check_interval_ms + config.file_delete_delay_ms
    bases = np.array([each.base_offset for each in log.segments], dtype=np.int64)
    segments = bases[np.maximum(np.searchsorted(bases, records.offsets, side="right") - 1, 0)]
    for base, (rule, at_ms) in retention_times(log, config, now_ms, Upkeep()).items():
        if base != log.active.base_offset:
            result.set(segments == base, rule, min(at_ms + wait_ms, INT64_MAX))
    return _lists(result)


def removal_of_file_by_broker(file: RecordFile, settings: Settings) -> tuple[str, int | None]:
    """Return what removes a file that is not part of a live log, and by when, None: not known.

    Raises:
        LogwrightError: the settings of its topic cannot be read.
    """
    rule = file.place.rule
    if rule == UPKEEP or file.is_kept or is_being_cleaned(file):
        return "", None
    if rule == DELETE_DELAY:
        delay_ms = settings.of_topic(file.partition.topic)[0].file_delete_delay_ms
    elif rule == DELETED_LOG_DELAY:
        delay_ms = settings.broker.file_delete_delay_ms
    else:
        return rule, None
    if file.since_ms is None:
        return rule, None
    due_ms = file.since_ms + delay_ms
    return rule, due_ms if due_ms > settings.now_ms else None


def is_being_cleaned(file: RecordFile) -> bool:
    """Return whether a file is one that the cleaner writes: it becomes a segment."""
    return file.place.kind in _OF_THE_CLEANER


def _lists(removed: Removals) -> tuple[list[str], list[int | None]]:
    rules = [RULES[number] for number in removed.rules.tolist()]
    return rules, [None if at_ms == NO_TIME else at_ms for at_ms in removed.times.tolist()]
