"""The options of ``logwright rolling``."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.cli.options.common import declare
from logwright.cli.options.parameters import log_format_option, output_option


@declare("rolling", extra="archive")
@click.argument("file", metavar="CLUSTER.yml", type=click.Path(path_type=Path))
@click.option(
    "--broker",
    "brokers",
    metavar="ID",
    type=click.IntRange(min=0),
    multiple=True,
    help="Only this broker; repeatable.",
)
@click.option(
    "--restart",
    is_flag=True,
    help="Begin a new round, also over the brokers that an interrupted one has done.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show the order, the reasons and how many tombstones are lacking; change nothing.",
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_option
@log_format_option
@click.option("--verbose", is_flag=True, help="What hooks write, and debug messages, on stderr.")
def command() -> None:
    """Maintain the brokers of a running cluster, one after another: check that every partition
    stays at min.insync.replicas, stop the broker by a hook, maintain its logs, start it, wait for
    all ISRs, elect its preferred leaders. Run again, an interrupted round continues.

    Before the first one is stopped, an `erase` of the file without --now-and-for-good produces a
    tombstone of each key that is alive, through the cluster. Exit status 9: not all that may have
    the keys could be looked at.
    """
