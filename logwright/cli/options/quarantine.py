"""The options of ``logwright quarantine``."""

from __future__ import annotations

import click

from logwright.cli.options.common import declare, request_options


@declare("quarantine")
@click.option("--set", "cause", metavar="TEXT", help="Quarantine partitions, with this cause.")
@click.option("--clear", is_flag=True, help="Release partitions, so that they are cleaned again.")
@request_options
def command() -> None:
    """Show quarantined partitions: cause, file and offset, number of failures, next retry.

    A cleaning that fails permanently quarantines its partition automatically.
    """
