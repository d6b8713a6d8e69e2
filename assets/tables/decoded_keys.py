"""The check that a decoded key has one row: of tables whose keys are written in several ways."""

from typing import Final

import dagster as dg

from logwright.assets.lib.boundary import boundary
from logwright.assets.tables.checks import daily
from logwright.assets.tables.topic_logs import table_key, table_of
from logwright.maintenance.scratch import temporary_directory
from logwright.resources.policies import PolicyDirectory
from logwright.tables.compare import DecodedKeys, decoded_keys
from logwright.tables.topic import LocatedTable, open_store, table_errors

ONE_DECODED_KEY: Final = "one_row_per_decoded_key"


def one_decoded_key_check(topic: str) -> dg.AssetChecksDefinition:
    """Return the check of a table's decoded keys, without a look at the logs."""

    @dg.asset_check(
        asset=table_key(topic),
        name=ONE_DECODED_KEY,
        description="No decoded key has several rows: of keys with other bytes, in which a format"
        " writes the same value, each has a row, unless the table is unique_by: decoded.",
        automation_condition=daily(),
    )
    def one_row_per_decoded_key(policies: PolicyDirectory) -> dg.AssetCheckResult:
        with boundary(f"{ONE_DECODED_KEY} {topic}"):
            place, _ = table_of(policies, topic)
            with table_errors(place):
                return _result(place)

    return one_row_per_decoded_key


def _result(place: LocatedTable) -> dg.AssetCheckResult:
    """Count the keys. Effects: reads the table's column of keys."""
    store = open_store(place)
    snapshot = store.load()
    keys: DecodedKeys | None = None
    if snapshot is not None:
        with temporary_directory() as work:
            keys = decoded_keys(store, snapshot, work)
    if snapshot is None or keys is None or not keys.keys:
        nothing = "There is no table yet." if snapshot is None else "The table has no decoded key."
        return dg.AssetCheckResult(
            passed=False,
            severity=dg.AssetCheckSeverity.WARN,
            description=f"Nothing was looked at. {nothing}",
            metadata={"decoded keys": 0},
        )
    wrong = keys.in_several_rows > 0
    by_value = snapshot.form.unique_by == "decoded"
    remedy = (
        "" if by_value else " With 'unique_by: decoded' in a new table each has one row, or none."
    )
    partitions = ", ".join(f"{number}: {count}" for number, count in keys.by_partition.items())
    return dg.AssetCheckResult(
        passed=not wrong,
        severity=dg.AssetCheckSeverity.ERROR if by_value else dg.AssetCheckSeverity.WARN,
        description=f"{keys.in_several_rows} decoded keys have several rows.{remedy}"
        if wrong
        else None,
        metadata={
            "decoded keys": keys.keys,
            "decoded keys in several rows": keys.in_several_rows,
            "rows": snapshot.rows,
            **({"partitions with such keys": partitions} if partitions else {}),
        },
    )
