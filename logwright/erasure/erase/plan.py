"""Decide how a log is erased. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.erasure.erase.model import Copy, ErasePlan, Scan
from logwright.live_plans import new_plan_id
from logwright.roll.plan import force_roll, not_rolled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from logwright.config.topic import CleanerConfig, TopicConfig
    from logwright.log.model import PartitionLog
    from logwright.units import TimestampMs


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
    return ErasePlan(
        plan_id=new_plan_id(now_ms),
        now_ms=now_ms,
        log=log,
        config=config,
        cleaner=cleaner,
        roll=roll,
        scan=scan,
        copies=tuple(copies),
        purge_unreadable=purge_unreadable,
    )
