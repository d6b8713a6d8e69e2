"""The options of ``logwright doctor``."""

from __future__ import annotations

import click

from logwright.cli.options.common import declare, metadata_option, now_option
from logwright.cli.options.parameters import LogDir, log_format_option, output_option


@declare("doctor")
@click.argument("log_dirs", metavar="LOG_DIR [LOG_DIR ...]", nargs=-1, required=True, type=LogDir())
@click.option(
    "--user",
    metavar="NAME",
    help="Who starts the broker, by name or number [default: the owner of meta.properties].",
)
@metadata_option
@now_option
@output_option
@log_format_option
@click.option("--verbose", is_flag=True, help="Also what the start repairs without a loss.")
def command() -> None:
    """Show whether a broker starts on its log directories, and what it loses then. Give all
    directories of its log.dirs. Nothing is changed.

    Exit status 5: it does not start; 4: that is not known, because of a log that cannot be judged;
    11: it starts, without records that were there; 0: it starts.
    """
