"""What the catalogue shows of each asset, which its decorator cannot take or all of them share."""

from datetime import timedelta
from types import MappingProxyType
from typing import Final

import dagster as dg

from logwright.assets.archive.archived import ARCHIVED
from logwright.assets.erasure.deadlines import (
    DELETION_DEADLINE,
    DELETION_DEADLINES,
    ERASURE_REQUESTS,
)
from logwright.assets.fleet.inventory import fleet_schema
from logwright.assets.ingest import INGESTED
from logwright.assets.lib.automation import after_changes
from logwright.assets.lib.partitions import (
    FLEET_INVENTORY,
    FLEET_PAGE,
    MAINTENANCE_HISTORY,
    PURGE_ASSET,
    RETENTION_ASSET,
    SEGMENT_SET,
)

HOURLY: Final = dg.FreshnessPolicy.time_window(
    warn_window=timedelta(minutes=90), fail_window=timedelta(hours=3)
)
"""Of what is made each hour: one run may be late or fail; three may not."""
HOURLY_ASSETS: Final = frozenset((FLEET_INVENTORY, FLEET_PAGE, MAINTENANCE_HISTORY))

RECORDS: Final = MappingProxyType(
    {
        "key": ("binary", "the record's key, not decoded"),
        "value": ("binary", "the record's value, not decoded; null: a tombstone"),
        "topic": ("string", "of the log"),
        "partition": ("int32", "of the log"),
        "offset": ("int64", "of the record"),
        "timestamp": ("timestamp[us, tz=UTC]", "of the record, by its producer or the broker"),
        "timestampType": ("int32", "0: by its producer; 1: by the broker"),
        "headers": (
            "list<element: struct<key: string not null, value: binary> not null>",
            "if `includeHeaders` is set",
        ),
    }
)
"""The columns of the records in a log, as the format ``kafka-log`` reads them: those that a table's
columns are from. (type, description)."""

PART: Final = "logwright/part"
"""Tag: by which an asset is found in the catalogue."""
PARTS: Final = MappingProxyType(
    {
        SEGMENT_SET: "maintenance",
        RETENTION_ASSET: "maintenance",
        PURGE_ASSET: "maintenance",
        FLEET_INVENTORY: "reports",
        FLEET_PAGE: "reports",
        MAINTENANCE_HISTORY: "reports",
        INGESTED: "ingest",
        ERASURE_REQUESTS: "erasure",
        DELETION_DEADLINES: "erasure",
        DELETION_DEADLINE: "erasure",
    }
)
ARCHIVES: Final = "archives"
"""The part of the assets of the group `archived`."""
TABLES: Final = "tables"
"""The part of all other assets."""


def described(spec: dg.AssetSpec) -> dg.AssetSpec:
    """Return the spec of an asset of the platform with its tags, its freshness policy, of the
    segment set the columns of its records and, of the inventory, its columns and when it is made.
    """
    other = ARCHIVES if spec.group_name == ARCHIVED else TABLES
    spec = spec.merge_attributes(tags={"domain": "kafka", PART: PARTS.get(spec.key, other)})
    if spec.key in HOURLY_ASSETS:
        spec = spec.replace_attributes(freshness_policy=HOURLY)
    if spec.key == FLEET_INVENTORY:
        spec = spec.replace_attributes(
            automation_condition=after_changes(),
            metadata={**spec.metadata, "dagster/column_schema": fleet_schema()},
        )
    if spec.key == SEGMENT_SET:
        columns = [
            dg.TableColumn(name, kind, description=meaning)
            for name, (kind, meaning) in RECORDS.items()
        ]
        schema = dg.TableSchema(columns)
        spec = spec.merge_attributes(metadata={"dagster/column_schema": schema})
    return spec
