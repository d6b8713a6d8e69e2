"""What is recorded of the retention and the purge of logs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import dagster as dg

from logwright.assets.lib.evaluations import evaluations_of
from logwright.assets.lib.maintained import maintained
from logwright.assets.lib.partitions import PURGE_ASSET, RETENTION_ASSET, SEGMENT_SET
from logwright.assets.lib.report import table, unplotted
from logwright.assets.lib.verdict import PURGE_CHECKS, RETENTION_CHECKS, Verdict, due_verdict
from logwright.checks.due import check_retention
from logwright.config.sources import DirectorySettings
from logwright.place.model import Place
from logwright.purge.plan import PurgeResult
from logwright.retention.plan import RetentionPlan
from logwright.state.model import Hold
from logwright.sweep.model import LogWork, SweepState

SHOWN_SEGMENTS: Final = 50
"""Segments that are listed in one log's metadata; the counts are always exact."""

SHOWN_FILES: Final = 20
"""Files that are listed in one log's metadata; likewise."""

_PERCENT: Final = 100


def retention_observation(
    work: LogWork[Place], plan: RetentionPlan[Place], settings: DirectorySettings
) -> dg.AssetObservation:
    """Return what one log lost, segment by segment with the reason, and what it still has."""
    metadata = unplotted(retention_metadata(work, plan, settings))
    return dg.AssetObservation(asset_key=SEGMENT_SET, partition=work.key, metadata=metadata)


def retention_metadata(
    work: LogWork[Place], plan: RetentionPlan[Place], settings: DirectorySettings
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
        "reasons": _table(plan),
        **({} if work.version is None else {"version": str(work.version)}),
    }


def retention_outcome(work: LogWork[Place], settings: DirectorySettings) -> dict[str, Any]:
    """Return the metadata of a log's partition of the asset. Raises LogwrightError as
    `settings.of`.
    """
    if work.held is not None:
        return {"outcome": "skipped", "why": work.held.sentence}
    if work.retained is None:
        return {"outcome": "nothing was due"}
    outcome = "segments deleted" if work.retained.deleted else "nothing was due"
    return {"outcome": outcome, **retention_metadata(work, work.retained, settings)}


def retention_materializations(
    context: dg.OpExecutionContext, works: Iterable[LogWork[Place]], settings: DirectorySettings
) -> Iterator[dg.AssetMaterialization]:
    """Yield the materializations of the logs that a job's retention looked at; see `maintained`.
    Raises LogwrightError as `settings.of`.
    """
    looked = [work for work in works if work.retained is not None and work.failure is None]
    yield from maintained(
        context,
        RETENTION_ASSET,
        {work.key: retention_outcome(work, settings) for work in looked},
        changed={work.key for work in looked if work.retained and work.retained.deleted},
    )


def retention_evaluations(
    state: SweepState[Place], settings: DirectorySettings
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


def _table(plan: RetentionPlan[Place]) -> dg.TableMetadataValue:
    kept = [verdict for verdict in plan.verdicts if not verdict.deleted][:1]
    rows = [
        (verdict.base_offset, verdict.bytes, verdict.cause or "stays", verdict.reason)
        for verdict in (*plan.deleted[:SHOWN_SEGMENTS], *kept)
    ]
    return table(("segment", "bytes", "by", "why"), rows)


def purge_events(
    results: Mapping[str, PurgeResult], judged: Mapping[str, Sequence[Verdict]]
) -> Iterator[dg.AssetObservation | dg.AssetCheckEvaluation]:
    """Yield what was purged of each log, then what the checks found, both by log key."""
    yield from map(_purge_observation, results.items())
    yield from evaluations_of(PURGE_ASSET, PURGE_CHECKS, judged)


def purge_outcome(result: PurgeResult | None, held: Hold | None = None) -> dict[str, Any]:
    """Return the metadata of a log's partition of the asset.

    Args:
        result: None if nothing was due.
        held: why it was not looked at.
    """
    if held is not None:
        return {"outcome": "skipped", "why": held.sentence}
    if result is None:
        return {"outcome": "nothing was due"}
    return {"outcome": "purged", **purge_metadata(result)}


def _purge_observation(purged: tuple[str, PurgeResult]) -> dg.AssetObservation:
    key, result = purged
    return dg.AssetObservation(
        asset_key=SEGMENT_SET, partition=key, metadata=unplotted(purge_metadata(result))
    )


def purge_metadata(result: PurgeResult) -> dict[str, Any]:
    """Return the metadata of one log's purge."""
    metadata: dict[str, Any] = {
        "files purged": len(result.removed),
        "bytes freed": result.removed_bytes,
        "leftovers removed": len(result.leftovers) + len(result.staging),
        "files still waiting": len(result.pending),
        "purged": table(("file",), ((name,) for name in result.removed), most=SHOWN_FILES),
    }
    if result.pending:
        soonest_ms = min(pending.due_at_ms for pending in result.pending)
        metadata["next due"] = dg.MetadataValue.timestamp(
            datetime.fromtimestamp(soonest_ms / 1000, tz=UTC)
        )
    return metadata
