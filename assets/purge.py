"""What is recorded of the purge of logs."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import dagster as dg

from logwright.assets.evaluations import evaluations_of
from logwright.assets.partitions import PURGE_ASSET, SEGMENT_SET
from logwright.assets.verdict import PURGE_CHECKS, Verdict
from logwright.purge.plan import PurgeResult

SHOWN_FILES: Final = 20


def purge_events(
    results: Mapping[str, PurgeResult], judged: Mapping[str, Sequence[Verdict]]
) -> Iterator[dg.AssetObservation | dg.AssetCheckEvaluation]:
    """Yield what was purged of each log, then what the checks found, both by log key."""
    yield from map(_observation, results.items())
    yield from evaluations_of(PURGE_ASSET, PURGE_CHECKS, judged)


def _observation(purged: tuple[str, PurgeResult]) -> dg.AssetObservation:
    key, result = purged
    return dg.AssetObservation(
        asset_key=SEGMENT_SET, partition=key, metadata=purge_metadata(result)
    )


def purge_metadata(result: PurgeResult) -> dict[str, Any]:
    """Return the metadata of one log's purge."""
    metadata: dict[str, Any] = {
        "files purged": len(result.removed),
        "bytes freed": result.removed_bytes,
        "leftovers removed": len(result.leftovers) + len(result.staging),
        "files still waiting": len(result.pending),
        "purged": dg.MetadataValue.md(
            "\n".join(f"- `{name}`" for name in result.removed[:SHOWN_FILES])
        ),
    }
    if result.pending:
        soonest_ms = min(pending.due_at_ms for pending in result.pending)
        metadata["next due"] = dg.MetadataValue.timestamp(
            datetime.fromtimestamp(soonest_ms / 1000, tz=UTC)
        )
    return metadata
