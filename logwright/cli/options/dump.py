"""The options of ``logwright dump``."""

from __future__ import annotations

from datetime import UTC
from typing import Final, TypedDict

import click

from logwright.cli.options.common import declare, read_options
from logwright.cli.options.parameters import Time

BY_POLICIES: Final = ""
"""The value of ``--decode`` without SPEC."""


class Given(TypedDict):
    """Values of the options below, as click passes them."""

    spec: str | None
    records: bool
    offset: int | None
    time_ms: int | None
    key: str | None
    count: int | None
    follow: bool


@declare("dump", running="bounded", tiered=True)
@read_options
@click.option(
    "--decode",
    "spec",
    metavar="[SPEC]",
    is_flag=False,
    flag_value=BY_POLICIES,
    help="Decode keys and values as SPEC: '{key: string, value: json}', or @FILE with it; string,"
    " of both; another format, such as json, of values alone. Without SPEC, as the topic's table:"
    " in --policies has it, or Kafka's internal topics. Give it last, or as --decode=SPEC.",
)
@click.option(
    "--records",
    is_flag=True,
    help="One committed record in each line, as a consumer with read_committed gets them.",
)
@click.option(
    "--offset",
    metavar="OFFSET",
    type=click.IntRange(min=0),
    help="Records from this offset on.",
)
@click.option(
    "--time",
    "time_ms",
    metavar="TIME",
    type=Time(zone=UTC),
    help="Records from the first one on that is of this time or later: ISO 8601, or ms.",
)
@click.option("--key", metavar="TEXT", help="Records with this key, in UTF-8.")
@click.option(
    "--count",
    metavar="N",
    type=click.IntRange(min=0),
    help="At most this number of records of each partition.",
)
@click.option(
    "--follow",
    is_flag=True,
    help="Then print new records as they are committed, while a broker has the directory open.",
)
def command() -> None:
    """Print every batch and record, index entry and snapshot as JSON lines; or, with --records,
    --offset, --time, --key, --count or --follow, only records, one in each line.

    Keys and values are in base64, or decoded. With more than one partition, every line has a
    topicPartition field.
    """
