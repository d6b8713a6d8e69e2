"""Retention of one log in a bucket: in a working copy that has only the segments that it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from logwright.bucket.agreement import limits_of
from logwright.errors import InvariantError, LogwrightError, StalePlan
from logwright.maintenance.maintain import Maintenance
from logwright.maintenance.scratch import own_temporary
from logwright.place.bucket import bucket_of
from logwright.place.model import is_local
from logwright.retention.account import RetentionAccount, untouched
from logwright.retention.commit import plan_retention_of
from logwright.sweep.retain import retain, retain_log

if TYPE_CHECKING:
    from logwright.log.committed import HighWatermark
    from logwright.place.model import AnyPlace, Place
    from logwright.retention.plan import RetentionPlan
    from logwright.sweep.model import LogSettings, LogWork
    from logwright.units import TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """A retention in a working copy.

    Attributes:
        plan: as it was done; it may delete nothing.
        account: what was looked at, and what was left.
    """

    plan: RetentionPlan
    account: RetentionAccount


def retain_copy(
    log_dir: Path,
    planned: RetentionPlan[Place],
    again: Callable[[Path], RetentionPlan | None],
) -> Retained | None:
    """Retain a working copy. Effects: changes it.

    Args:
        log_dir: the copy; the segments that `planned` does not read may have no content there.
        planned: of the log in the bucket.
        again: plans in the copy, which may be of a newer version; None: the log is held.

    Raises:
        StalePlan: more segments are due than were.
        LogwrightError: as `retain`.
    """
    plan = again(log_dir)
    if plan is None:
        return None
    if not plan.changes:
        return Retained(plan=plan, account=untouched(plan.log))
    if not plan.read_segments <= planned.read_segments:
        raise StalePlan(
            "more segments are due than were.", path=plan.log.partition, remedy="Run it again."
        )
    return Retained(plan=plan, account=retain(plan))


def retain_anywhere(
    work: LogWork[Place],
    settings: LogSettings,
    *,
    now_ms: TimestampMs,
    high_watermark: HighWatermark,
    force: bool = False,
) -> LogWork[Place]:
    """Decide and do the retention of one log, here or in a bucket. Returns and effects: see
    `retain_log` and `retain_in_bucket`.
    """
    retain_it = retain_log if is_local(work.log_dir) else retain_in_bucket
    return retain_it(
        cast("LogWork", work),  # each function gets what it is for
        settings,
        now_ms=now_ms,
        high_watermark=high_watermark,
        force=force,
    )


def retain_in_bucket(
    work: LogWork[Place],
    settings: LogSettings,
    *,
    now_ms: TimestampMs,
    high_watermark: HighWatermark,
    force: bool = False,
) -> LogWork[Place]:
    """Decide and do the retention of one log in a bucket; see `logwright.sweep.retain.retain_log`.
    Effects: changes the log, see `Maintenance.run`; nothing is downloaded if nothing is due.

    Args:
        work: the log.
        settings: of its topic.
        now_ms: the clock.
        high_watermark: what counts as committed.
        force: past a quarantine.

    Returns:
        the work, with what was deleted and the version that has it, or with why it failed.
    """
    try:
        config, _ = settings.of(work.log_dir, work.partition.topic)

        def plan_of(log_dir: AnyPlace) -> RetentionPlan[AnyPlace]:
            return plan_retention_of(
                log_dir,
                work.partition,
                config,
                now_ms=now_ms,
                high_watermark=high_watermark,
                force=force,
            )

        planned = plan_of(work.log_dir)
        if not planned.changes:
            account = untouched(planned.log)
            return replace(work, retained=planned, retention_account=account)
        bucket = bucket_of(work.log_dir)
        done = Maintenance(
            bucket=bucket,
            partition=work.partition,
            operation="retain",
            scratch=own_temporary(),
            limits=limits_of(bucket),
            now_ms=now_ms,
            needed=planned.read_segments.__contains__,
            past_quarantine=planned.past_quarantine,
        ).run(lambda log_dir: retain_copy(log_dir, planned, plan_of))
    except LogwrightError as error:
        return work.failed(error)
    if done is None or done.result is None:
        raise InvariantError("a job of its own was not made by another process")
    plan, account = done.result.plan, done.result.account
    version = work.version if done.version is None else done.version
    return replace(work, retained=plan, retention_account=account, version=version)
