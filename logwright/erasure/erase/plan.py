"""Decide how a log is erased. Pure."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from logwright.compaction.model import CleaningOptions, CleanPlan, CompactionPlan
from logwright.compaction.plan import first_dirty_offset
from logwright.erasure.erase.model import Copy, ErasePlan, Scan
from logwright.live_plans import new_plan_id
from logwright.roll.plan import force_roll, not_rolled
from logwright.units import ByteCount, DurationMs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from logwright.config.topic import CleanerConfig, TopicConfig
    from logwright.log.model import PartitionLog
    from logwright.units import TimestampMs

_OPTIONS: Final = CleaningOptions(force=True, checks="thorough")


def plan_erasure(
    log: PartitionLog,
    settings: tuple[TopicConfig, CleanerConfig],
    scan: Scan,
    copies: Iterable[Copy],
    *,
    now_ms: TimestampMs,
    purge_unreadable: bool = False,
) -> ErasePlan:
    """Decide about one log.

    A segment is replaced only when it is sealed, so a match in the active one has it rolled first.

    Args:
        log: as observed.
        scan: of its segments. copies: its retired files.
        now_ms: the clock of the retirement.
        purge_unreadable: see `ErasePlan`.
    """
    config, cleaner = settings
    active = {segment.base_offset for segment in scan.segments} & {log.active.base_offset}
    roll = not_rolled("the active segment has no match")
    if active:
        roll = force_roll(log, cause="forced")
    rolled = roll.applied_to(log)
    rebuilt = ByteCount(sum(segment.log_bytes for segment in scan.segments))
    dirty, _ = first_dirty_offset(log)
    compaction = CompactionPlan(
        first_dirty_offset=dirty,
        first_uncleanable_dirty_offset=rolled.active.base_offset,
        first_uncleanable_offset=rolled.active.base_offset,
        clean_bytes=ByteCount(0),
        cleanable_bytes=rebuilt,
        cleanable_ratio=0.0,
        min_cleanable_ratio=config.min_cleanable_dirty_ratio,
        compaction_delay_ms=DurationMs(0),
        need_compaction_now=False,
        force_update_checkpoint=False,
        eligible=False,
        due_at_ms=None,
        reasons=(f"{scan.records} records in {len(scan.segments)} segments are erased",),
    )
    return ErasePlan(
        clean=CleanPlan(
            plan_id=new_plan_id(now_ms),
            now_ms=now_ms,
            log=log,
            config=config,
            cleaner=cleaner,
            options=_OPTIONS,
            roll=roll,
            compaction=compaction,
            clean=bool(scan.segments),
            planned_ns=time.time_ns(),
        ),
        scan=scan,
        copies=tuple(copies),
        purge_unreadable=purge_unreadable,
    )
