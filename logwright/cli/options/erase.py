"""The options of ``logwright erase``."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.cli.options.common import declare, request_options, scratch_option
from logwright.cli.options.keys import KeyOptions, key_options


class Given(KeyOptions):
    """Values of the options below, as click passes them."""

    at_once: bool
    purge_unreadable: bool
    threads: int | None
    scratch: Path | None


@declare("erase")
@key_options
@click.option(
    "--now-and-for-good",
    "at_once",
    is_flag=True,
    help="Rebuild every segment without these records, unlink the old files; no undo.",
)
@click.option(
    "--purge-unreadable",
    is_flag=True,
    help="With --now-and-for-good: retired, staged and cut files go also if they cannot be read.",
)
@click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(min=1),
    help="Threads per log with --now-and-for-good [default: all cores].",
)
@scratch_option
@request_options
def command() -> None:
    """Erase the records of keys: tombstones, compaction and purge; or at once.

    Only records whose own key is one of these: `logwright find --pattern` names others with a
    person's data. Tombstones are refused where a partition has several replicas: `logwright
    rolling` produces them. Then the directory is searched. Exit status: 0 nothing is left; 8
    records remain, named with what removes them; 9 not everything could be searched, as on other
    brokers.
    """
