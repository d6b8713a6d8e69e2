"""The options of ``logwright rescue``."""

from __future__ import annotations

import click

from logwright.cli.options.common import declare, directory_options, dry_run_option
from logwright.cli.options.parameters import Pair, Size


@declare("rescue")
@directory_options
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@dry_run_option
@click.option(
    "--free",
    "target",
    metavar="SIZE",
    type=Size(),
    required=True,
    help="Bytes that shall be free, such as 20GiB, on the file system of the log directories.",
)
@click.option(
    "--reserve",
    metavar="SIZE",
    type=Size(),
    help="Bytes that a compaction leaves free at every moment [default: 1 % of the file system,"
    " at most 64MiB].",
)
@click.option(
    "--stray",
    "strays",
    metavar="DIRECTORY",
    multiple=True,
    help="Also remove this stray log, by its directory's name; repeatable.",
)
@click.option(
    "--tighter-retention",
    "tighter",
    metavar="TOPIC=SETTING:VALUE",
    type=Pair(),
    multiple=True,
    help="At last, and only as far as needed, delete the oldest segments of this topic by another"
    " retention.ms or retention.bytes than its own; repeatable.",
)
def command() -> None:
    """Free a full disk: what costs nothing first, and no more than is needed. The broker must be
    stopped. It works with no byte free. There is no undo.

    The order: what is due for removal; retired files that only an undo needs; retention by the
    topics' own settings; compaction; with --tighter-retention, a tighter retention.

    Exit status 0: as many bytes are free as were asked for; 5: they are not.
    """
