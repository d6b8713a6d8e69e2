"""``logwright erase``: erase the records of some keys, by Kafka's rules or at once."""

from __future__ import annotations

from typing import Unpack

import click

from logwright.cli.keys import KeyOptions, key_options, read_wanted
from logwright.cli.planning import FailureLog
from logwright.cli.request import Request, request_options


class _Given(KeyOptions):
    """Values of the options below, as click passes them."""

    at_once: bool
    purge_unreadable: bool
    threads: int | None


@click.command(name="erase")
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
@request_options
def command(
    request: Request,
    **given: Unpack[_Given],
) -> None:
    """Erase the records of keys: tombstones, compaction and purge; or at once.

    Only records whose own key is one of these are erased: `logwright find --pattern` names records
    of other keys that have something of a person in their values.

    At the end the log directory is searched for what is left. Exit status: 0 nothing is left; 8
    records remain, and are named with what removes them; 9 not everything could be searched, such
    as replicas on other brokers; a log's error, if one was not erased.
    """
    from logwright.cli.erase_run import run_erasure  # noqa: PLC0415 -- kernels: not for --help

    request.require_terminal()
    failures = FailureLog(output=request.output)
    if given["keys"] is None and given["requests"] is None:
        raise click.UsageError("say which keys: --keys FILE, or --requests DIR")
    wanted = read_wanted(request, given).keys
    options = (given["at_once"], given["purge_unreadable"], given["threads"])
    status = run_erasure(request, wanted, failures, options)
    click.get_current_context().exit(failures.exit_status or status)
