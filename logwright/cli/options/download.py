"""The options of ``logwright download``."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.cli.options.common import declare, read_options


@declare("download", extra="bucket")
@click.option(
    "--to",
    "destination",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path, file_okay=False, readable=False),
    help="Log directory of a stopped broker, or a new directory.",
)
@read_options
def command() -> None:
    """Write logs from a bucket into a log directory, byte for byte, so that a broker can open
    them. LOG_DIR is the URL of the bucket. A partition of which the directory has another log is
    refused. After an interruption run it again: what was written is not read again.
    """
