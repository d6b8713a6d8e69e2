"""Materializations that jobs record for the logs that they maintain."""

from collections.abc import Collection, Iterator, Mapping

import dagster as dg

from logwright.assets.lib.report import Metadata, unplotted


def maintained(
    context: dg.OpExecutionContext,
    asset_key: dg.AssetKey,
    metadata: Mapping[str, Metadata],
    *,
    changed: Collection[str] = (),
) -> Iterator[dg.AssetMaterialization]:
    """Yield the materializations of an asset's partitions that a job has made or found in order: of
    each log that was changed, and of each other one that has none yet. A log that is in order each
    time has one (docs/adr/0025). Effects: reads the instance.

    Args:
        context: of a step of the job.
        asset_key: the asset.
        metadata: partition key → metadata, for the logs that did not fail.
        changed: the keys of those that were changed.
    """
    if not metadata:
        return
    known = context.instance.get_materialized_partitions(asset_key)
    for key, shown in metadata.items():
        if key in changed or key not in known:
            yield dg.AssetMaterialization(
                asset_key=asset_key, partition=key, metadata=unplotted(shown)
            )
