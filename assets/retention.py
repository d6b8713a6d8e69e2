"""What is recorded of the retention of one log."""

from collections.abc import Iterable
from typing import Any, Final

import dagster as dg

from logwright.assets.partitions import SEGMENT_SET
from logwright.config.sources import DirectorySettings
from logwright.retention.plan import RetentionPlan
from logwright.sweep.model import LogWork

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


def _table(plan: RetentionPlan) -> str:
    kept = [verdict for verdict in plan.verdicts if not verdict.deleted][:1]
    rows: Iterable[str] = (
        f"| {verdict.base_offset} | {verdict.bytes} | {verdict.cause or 'stays'} |"
        f" {verdict.reason} |"
        for verdict in (*plan.deleted[:SHOWN_SEGMENTS], *kept)
    )
    return "\n".join(["| segment | bytes | by | why |", "|---|---|---|---|", *rows])
