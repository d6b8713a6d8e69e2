"""What Dagster shows of the assets: freshness, columns, and what makes them by itself
(docs/adr/0022).
"""

from dataclasses import fields
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

import dagster as dg

from logwright.assets.fleet import FleetRow
from logwright.assets.partitions import FLEET_INVENTORY

COLUMN_TYPES: Final = MappingProxyType({str: "string", int: "int", float: "float"})

FRESHNESS: Final = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(minutes=90), fail_window=timedelta(hours=3)
)
"""Of the inventory: one of the hourly reports may be late or fail; three may not."""


def after_changes() -> dg.AutomationCondition[Any]:
    """Return when the inventory is made by itself: a log was materialized, and no run of the assets
    is in progress.

    `AutomationCondition.eager` would wait until every log has a materialization; a log that is
    never due has none.
    """
    condition = dg.AutomationCondition
    return (
        condition.any_deps_updated().since_last_handled()
        & ~condition.any_deps_in_progress()
        & ~condition.in_progress()
    ).with_label("after_changes")


def fleet_schema() -> dg.TableSchema:
    """Return the columns of the inventory."""
    types: dict[str, Any] = {one.name: one.type for one in fields(FleetRow)}
    columns = [
        dg.TableColumn(
            name,
            COLUMN_TYPES[kind],
            constraints=dg.TableColumnConstraints(nullable=False, unique=name == "log"),
        )
        for name, kind in types.items()
    ]
    return dg.TableSchema(columns=columns)


def described(spec: dg.AssetSpec) -> dg.AssetSpec:
    """Return the spec of an asset of the platform, with what its decorator cannot take."""
    if spec.key == FLEET_INVENTORY:
        spec = spec.replace_attributes(
            freshness_policy=FRESHNESS,
            automation_condition=after_changes(),
            metadata={**spec.metadata, "dagster/column_schema": fleet_schema()},
        )
    return spec
