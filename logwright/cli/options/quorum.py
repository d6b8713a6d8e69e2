"""The options of ``logwright quorum``."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.cli.options.common import declare, dry_run_option, yes_option
from logwright.cli.options.parameters import LogDir, log_format_option, output_option


@declare("quorum")
@click.argument("log_dirs", metavar="LOG_DIR [LOG_DIR ...]", nargs=-1, required=True, type=LogDir())
@click.option(
    "--to",
    "destination",
    metavar="DIR",
    type=click.Path(path_type=Path, readable=False),
    help="Write a new directory, from which one controller starts as the only voter.",
)
@click.option(
    "--node-id",
    metavar="ID",
    type=click.IntRange(min=0),
    help="The node of that controller [default: the one with the newest state].",
)
@click.option(
    "--endpoint",
    metavar="NAME://HOST:PORT",
    help="Where it listens, if it was no voter or has another address; only with kraft.version 1.",
)
@yes_option
@dry_run_option
@output_option
@log_format_option
def command() -> None:
    """Show what is left of a KRaft cluster's metadata when its quorum is gone. Give the log
    directories of stopped controllers and brokers: those that have a __cluster_metadata-0, and
    others of brokers, whose replicas are compared. They are only read.

    Exit status 3: a file of them is damaged. With --to it is 0 once the directory is written.
    """
