"""What is recorded of the retention of one log."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import dagster as dg

from logwright.assets.evaluations import evaluations_of
from logwright.assets.partitions import RETENTION_ASSET, SEGMENT_SET
from logwright.assets.verdict import RETENTION_CHECKS, Verdict, due_verdict
from logwright.checks.due import check_retention
from logwright.config.sources import DirectorySettings
from logwright.retention.plan import RetentionPlan
from logwright.sweep.model import LogWork, SweepState

SHOWN_SEGMENTS: Final = 50
"""Segments that are listed in one log's metadata; the counts are always exact."""

_PERCENT: Final = 100


def retention_observation(
    work: LogWork, plan: RetentionPlan, settings: DirectorySettings
) -> dg.AssetObservation:
    """Return what one log lost, segment by segment with the reason, and what it still has."""
    metadata = retention_metadata(work, plan, settings)
    return dg.AssetObservation(asset_key=SEGMENT_SET, partition=work.key, metadata=metadata)


def retention_metadata(
    work: LogWork, plan: RetentionPlan, settings: DirectorySettings
) -> dict[str, Any]:
    """Return the metadata of one log's retention. Raises LogwrightError as `settings.of`."""
    config, _ = settings.of(work.log_dir, work.partition.topic)
    limit = config.retention_bytes
    return {
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


def retention_evaluations(
    state: SweepState, settings: DirectorySettings
) -> Iterator[dg.AssetCheckEvaluation]:
    """Yield the evaluations of the asset's checks: of what was deleted, and of what is left, for
    the logs that a retention looked at. Raises LogwrightError as `settings.of`.
    """
    judged: dict[str, tuple[Verdict, ...]] = {}
    for work in state.going_on:
        if work.retention_account is not None:
            config, _ = settings.of(work.log_dir, work.partition.topic)
            results = check_retention(work.retention_account, config, state.now_ms)
            judged[work.key] = tuple(map(due_verdict, results))
    yield from evaluations_of(RETENTION_ASSET, RETENTION_CHECKS, judged)


def _table(plan: RetentionPlan) -> str:
    kept = [verdict for verdict in plan.verdicts if not verdict.deleted][:1]
    rows: Iterable[str] = (
        f"| {verdict.base_offset} | {verdict.bytes} | {verdict.cause or 'stays'} |"
        f" {verdict.reason} |"
        for verdict in (*plan.deleted[:SHOWN_SEGMENTS], *kept)
    )
    return "\n".join(["| segment | bytes | by | why |", "|---|---|---|---|", *rows])
