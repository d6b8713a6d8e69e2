"""The options of ``logwright pause``."""

from __future__ import annotations

from datetime import UTC

import click

from logwright.cli.options.common import declare, request_options
from logwright.cli.options.parameters import Duration, Time


@declare("pause")
@click.option("--reason", metavar="TEXT", help="Reason; required to set a pause.")
@click.option("--owner", metavar="NAME", help="Owner of the pause [default: this user].")
@click.option("--for", "for_ms", type=Duration(), help="Expire after this time: 90s, 30m, 2h, 7d.")
@click.option(
    "--until",
    "until_ms",
    metavar="TIME",
    type=Time(zone=UTC),
    help="Expire at this time: ISO 8601, in UTC without an offset, or ms since the epoch.",
)
@request_options
def command() -> None:
    """Pause maintenance of partitions until they are resumed or the pause expires.

    Without --reason: show the paused partitions. An owner has at most one pause per partition;
    setting it again replaces it.
    """
