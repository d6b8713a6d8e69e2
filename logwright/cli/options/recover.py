"""The options of ``logwright recover``."""

from __future__ import annotations

import click

from logwright.cli.options.common import declare, request_options


@declare("recover")
@click.option(
    "--like-kafka",
    is_flag=True,
    help="Truncate, drop and delete as Kafka does at start-up, without keeping a copy.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Allow dropping whole segments that follow a corrupt one.",
)
@request_options
def command() -> None:
    """Repair logs after a crash and mark the directory as cleanly shut down."""
