"""The options of ``logwright move``."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.cli.options.common import declare, request_options


@declare("move")
@click.option(
    "--to",
    "destination",
    metavar="DIR",
    type=click.Path(path_type=Path, readable=False),
    help="Destination log directory.",
)
@click.option("--abandon", is_flag=True, help="Give up an unfinished move and remove its copy.")
@request_options
def command() -> None:
    """Move partitions to another log directory of the same broker; finish interrupted moves."""
