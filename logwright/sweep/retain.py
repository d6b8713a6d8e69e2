"""Retention of one log, and of the compacted logs of a sweep."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from logwright.errors import LogwrightError
from logwright.retention.account import untouched
from logwright.retention.commit import plan_retention_of, retain_partition
from logwright.roll.commit import sealing_steps
from logwright.roll.plan import force_roll
from logwright.sweep.holds import hold_from_retention

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwright.log.committed import HighWatermark
    from logwright.place.model import AnyPlace
    from logwright.retention.account import RetentionAccount
    from logwright.retention.plan import RetentionPlan
    from logwright.sweep.model import LogSettings, LogWork, SweepState
    from logwright.units import TimestampMs


def retain(plan: RetentionPlan) -> RetentionAccount:
    """Do a retention. Returns, effects and errors: see `retain_partition`."""
    return retain_partition(plan, lambda log: sealing_steps(log, force_roll(log, cause="emptied")))


def retain_log(
    work: LogWork,
    settings: LogSettings,
    *,
    now_ms: TimestampMs,
    high_watermark: HighWatermark,
    force: bool = False,
) -> LogWork:
    """Decide and do the retention of one log. Effects: changes the log.

    Returns:
        the work, with what was deleted, perhaps nothing, and the account of it, or with why it
        failed.
    """
    try:
        config, _ = settings.of(work.log_dir, work.partition.topic)
        plan = plan_retention_of(
            work.log_dir,
            work.partition,
            config,
            now_ms=now_ms,
            high_watermark=high_watermark,
            force=force,
        )
        account = retain(plan) if plan.deleted else untouched(plan.log)
    except LogwrightError as error:
        return work.failed(error)
    return replace(work, retained=plan, retention_account=account)


def retain_compacted(
    state: SweepState, settings: LogSettings, *, high_watermark: HighWatermark, force: bool = False
) -> Iterator[LogWork]:
    """Do the retention of the compacted logs of a sweep, after their compactions: Kafka's cleaner
    does it in the same loop (LogCleaner.cleanupLogs, 4.3.0). Effects: as `retain`.

    Args:
        state, settings, force: see `compacted`.
        high_watermark: what counts as committed.

    Returns:
        as they end, the logs that were observed: with what was deleted, perhaps nothing, or with
        why they failed.
    """
    for work in compacted(state, settings, force=force):
        yield (
            work
            if work.failure is not None
            else retain_log(
                work, settings, now_ms=state.now_ms, high_watermark=high_watermark, force=force
            )
        )


def compacted(
    state: SweepState[AnyPlace], settings: LogSettings, *, force: bool = False
) -> Iterator[LogWork[AnyPlace]]:
    """Yield the logs whose retention is done by a sweep, and those of which that is not known:
    these have failed. Effects: as `hold_from_retention`.

    Args:
        state: the logs that have not failed and are not held count. Logs that are not compacted are
            skipped, and so are those that `hold_from_retention` holds.
        settings: of their topics.
        force: see `hold_from_retention`.
    """
    free = [work for work in state.going_on if work.held is None]
    looked = hold_from_retention(replace(state, works=tuple(free)), settings, force=force)
    for work in looked.works:
        if work.failure is not None or (
            work.held is None and settings.of(work.log_dir, work.partition.topic)[0].compact
        ):
            yield work
