"""The options of ``logwright verify``."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.cli.options.common import declare, read_options


@declare("verify", running="bounded", tiered=True)
@click.option(
    "--against",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Compare with an earlier copy of the log directory, by the checks of a cleaning.",
)
@read_options
def command() -> None:
    """Check everything; print one line per problem, and a result for each log; exit status 3 if
    there is any problem.

    Without TOPIC-N also what a broker reads in the directory itself before it starts. A log that
    cannot be checked, such as one of an unknown message format, is named in one line.
    """
