"""The options of ``logwright rescue``."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.cli.options.common import (
    declare,
    directory_options,
    dry_run_option,
    yes_option,
)
from logwright.cli.options.parameters import Pair, Size


@declare("rescue")
@directory_options
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
@click.option(
    "--free",
    "goal",
    metavar="SIZE",
    type=Size(),
    help="Only free the disk, until SIZE such as 20GiB is free.",
)
@click.option(
    "--reserve",
    metavar="SIZE",
    type=Size(),
    help="With --free: what a compaction leaves free [default: 1 % of the disk, at most 64MiB].",
)
@click.option(
    "--stray",
    "strays",
    metavar="DIRECTORY",
    multiple=True,
    help="With --free: this stray log may go, too; repeatable.",
)
@click.option(
    "--tighter-retention",
    "tighter",
    metavar="TOPIC=SETTING:VALUE",
    type=Pair(),
    multiple=True,
    help="With --free: retention.ms or retention.bytes for a topic if nothing else is left;"
    " repeatable.",
)
@yes_option
@dry_run_option
def command() -> None:
    """Do what `doctor` says, so that a broker starts. Give all directories of its log.dirs. Nothing
    is deleted: what is in the way is set aside, and what is replaced is kept. Exit status: as of
    `doctor`, which is asked again in the end.

    With --free SIZE: free a full disk, without an undo, also one with no byte free; what costs
    nothing first, and no more than is needed: what is due for removal; retired files that only an
    undo needs; retention by the topics' own settings; compaction; with --tighter-retention, a
    tighter retention. Exit status 0: as many bytes are free, or would be; 5: they are not.
    """
