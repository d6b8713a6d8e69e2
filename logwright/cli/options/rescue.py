"""The options of ``logwright rescue``."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.cli.options.common import declare, dry_run_option, metadata_option, now_option
from logwright.cli.options.parameters import LogDir, log_format_option, output_option


@declare("rescue")
@click.argument("log_dirs", metavar="LOG_DIR [LOG_DIR ...]", nargs=-1, required=True, type=LogDir())
@click.option(
    "--set-aside",
    "aside",
    metavar="PATH",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Also move this out: a directory of a log directory, or a file of a log; repeatable.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Allow dropping whole segments that follow a corrupt one.",
)
@click.option("--undo", is_flag=True, help="Bring back what a rescue set aside or replaced.")
@click.option(
    "--user",
    metavar="NAME",
    help="Who starts the broker, by name or number [default: the owner of meta.properties].",
)
@metadata_option
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@dry_run_option
@now_option
@output_option
@log_format_option
@click.option("--verbose", is_flag=True, help="Also what the start repairs without a loss.")
def command() -> None:
    """Do what `doctor` says, so that a broker starts. Give all directories of its log.dirs. Nothing
    is deleted: what is in the way is set aside, and what is replaced is kept.

    Exit status: as of `doctor`, which is asked again in the end.
    """
