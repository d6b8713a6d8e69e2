"""Retention of one log by its topic's policy, and what is recorded of it; the job is elsewhere."""

from collections.abc import Iterable
from typing import Any, Final

import dagster as dg

from logwright import maintain
from logwright.assets.holds import retention_holds
from logwright.assets.partitions import SEGMENT_SET
from logwright.assets.wave import LogWork
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError
from logwright.resources.log_dirs import MaintainedLog
from logwright.retention.plan import RetentionPlan
from logwright.units import TimestampMs

SHOWN_SEGMENTS: Final = 50
"""Segments that are listed in one log's metadata; the counts are always exact."""

_PERCENT: Final = 100


def retain_log(
    log: MaintainedLog, settings: DirectorySettings, *, now_ms: TimestampMs, force: bool = False
) -> RetentionPlan:
    """Decide and do it; with `force` also in a quarantine. Effects: changes the log.

    Raises:
        LogwrightError: the log cannot be planned or changed as it is.
    """
    config, _ = settings.of(log.log_dir, log.partition.topic)
    plan = maintain.plan_retention(
        log.log_dir,
        log.partition,
        config,
        now_ms=now_ms,
        high_watermark=settings.policies.high_watermark,
        force=force,
    )
    if plan.deleted:
        maintain.retain(plan)
    return plan


def retain_swept(
    works: Iterable[LogWork], settings: DirectorySettings
) -> tuple[dict[str, RetentionPlan], dict[str, LogwrightError]]:
    """Retention of those swept logs whose ``cleanup.policy`` is compact,delete: Kafka's cleaner
    does both in one loop (CleanerThread.cleanLogs, 4.3.0). Effects: changes the logs.

    Returns:
        by key, what was done to logs that lost segments, and why others failed.
    """
    retained: dict[str, RetentionPlan] = {}
    failures: dict[str, LogwrightError] = {}
    for work in works:
        if work.plan is None or work.log is None:
            continue
        if not (work.plan.config.compact and work.plan.config.delete):
            continue
        now_ms, force = TimestampMs(work.now_ms), work.plan.options.force
        held = retention_holds([work.log], settings, now_ms=now_ms, force=force).get(work.key)
        try:
            if isinstance(held, LogwrightError):
                raise held
            if held is None:
                plan = retain_log(work.log, settings, now_ms=now_ms, force=force)
                retained |= {work.key: plan} if plan.deleted else {}
        except LogwrightError as error:
            failures[work.key] = error
    return retained, failures


def retention_observation(
    log: MaintainedLog, plan: RetentionPlan, settings: DirectorySettings
) -> dg.AssetObservation:
    """What one log lost, segment by segment with the reason, and what it has left."""
    config, _ = settings.of(log.log_dir, log.partition.topic)
    limit = config.retention_bytes
    metadata: dict[str, Any] = {
        "segments deleted": len(plan.deleted),
        "segments left": len(plan.verdicts) - len(plan.deleted) + plan.rolls,
        "bytes before": plan.log.log_bytes,
        "bytes after": plan.bytes_after,
        "bytes to be freed": plan.freed_bytes,
        "log start offset before": plan.log.log_start_offset,
        "log start offset": plan.log_start_offset,
        "rolled": plan.rolls,
        # Kafka's gauge RetentionSizeInPercent
        "retention size in percent": plan.bytes_after * _PERCENT // limit if limit > 0 else 0,
        "reasons": dg.MetadataValue.md(_table(plan)),
    }
    return dg.AssetObservation(asset_key=SEGMENT_SET, partition=log.key, metadata=metadata)


def _table(plan: RetentionPlan) -> str:
    kept = [verdict for verdict in plan.verdicts if not verdict.deleted][:1]
    rows: Iterable[str] = (
        f"| {verdict.base_offset} | {verdict.bytes} | {verdict.cause or 'stays'} |"
        f" {verdict.reason} |"
        for verdict in (*plan.deleted[:SHOWN_SEGMENTS], *kept)
    )
    return "\n".join(["| segment | bytes | by | why |", "|---|---|---|---|", *rows])
