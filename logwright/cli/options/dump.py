"""The options of ``logwright dump``."""

from __future__ import annotations

from typing import Final

import click

from logwright.cli.options.common import declare, read_options

BY_POLICIES: Final = ""
"""The value of ``--decode`` without SPEC."""


@declare("dump")
@read_options
@click.option(
    "--decode",
    "spec",
    metavar="[SPEC]",
    is_flag=False,
    flag_value=BY_POLICIES,
    help="Decode keys and values: as SPEC, such as json or '{key: string, value: json}', or as the"
    " topic's table: in --policies has it. Without both, Kafka's internal topics are decoded. Give"
    " it last, or as --decode=SPEC.",
)
def command() -> None:
    """Print every batch and record, index entry and snapshot as JSON lines.

    Keys and values are in base64, or decoded. With more than one partition, every line has a
    topicPartition field.
    """
