"""The options of ``logwright latest``."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict

import click

from logwright.cli.options.common import declare, dry_run_option, topic_options
from logwright.cli.options.parameters import LateChoice, TablePath, Time

if TYPE_CHECKING:
    from logwright.config.table import SchemaChanges, Unique, UniqueBy, UpdateMode

COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)


class Given(TypedDict):
    """Values of the options below, as click passes them."""

    topics: tuple[str, ...]
    to: Path | str
    form_of_table: str | None
    key: str | None
    value: str | None
    update_mode: UpdateMode | None
    unique: Unique | None
    unique_by: UniqueBy | None
    schema_changes: SchemaChanges | None
    rebuild: bool
    offsets: tuple[str, ...]
    time_ms: int | None
    columns: str | None


@declare("latest", extra="tables", running="exact", tiered=True)
@click.option(
    "--to",
    metavar="PATH",
    type=TablePath(),
    required=True,
    help="Directory or URL of the table.",
)
@click.option(
    "--format",
    "form_of_table",
    type=LateChoice("logwright.config.table", lambda table: table.FORMATS),
    help="Format [default: --policies, parquet; URL: delta].",
)
@click.option(
    "--key",
    metavar="SPEC",
    help="As --value [default: from --policies, else binary].",
)
@click.option(
    "--value",
    metavar="SPEC",
    help="How values are decoded: json, '{format: avro, schema_file: v.avsc}' …, or @FILE. All are"
    " in docs/decoding.md.",
)
@click.option(
    "--update-mode",
    metavar="MODE",
    type=click.Choice(["merge-on-read", "copy-on-write"]),
    help="merge-on-read [default], copy-on-write.",
)
@click.option(
    "--unique",
    metavar="SCOPE",
    type=click.Choice(["partition", "topic"]),
    help="Where a key has one row: partition [default], topic.",
)
@click.option(
    "--unique-by",
    metavar="FORM",
    type=click.Choice(["bytes", "decoded"]),
    help="What makes keys the same: bytes [default], decoded.",
)
@click.option(
    "--schema-changes",
    metavar="MODE",
    type=click.Choice(["grow", "follow", "fixed"]),
    help="With a newer schema of a registry: grow [default], follow, fixed (docs/columns.md).",
)
@click.option(
    "--rebuild",
    is_flag=True,
    help="Make the table again, with the newest columns.",
)
@click.option(
    "--as-of-offset",
    "offsets",
    metavar="[P:]OFFSET",
    multiple=True,
    help="State below this offset of partition P; repeatable.",
)
@click.option(
    "--as-of-time",
    "time_ms",
    metavar="TIME",
    type=Time(zone=UTC),
    help="State before the first record after it (ISO 8601, ms).",
)
@click.option(
    "--columns",
    metavar="NAMES",
    help=f"Plain Parquet files, not updated, with these columns: {', '.join(COLUMNS)}.",
)
@topic_options
@dry_run_option
def command() -> None:
    """Write the newest committed record of each key of TOPIC to a table.

    Records without a key are left out, and keys whose newest record is a tombstone. A repeated run
    updates the table from what is new in the log.
    """
