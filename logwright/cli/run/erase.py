"""``logwright erase``: erase the records of some keys, by Kafka's rules or at once."""

from __future__ import annotations

from typing import Unpack

import click

from logwright.cli.failures import FailureLog
from logwright.cli.options.erase import Given
from logwright.cli.request import Request
from logwright.cli.run.erase_run import run_erasure
from logwright.cli.run.keys import read_wanted


def run(
    request: Request,
    **given: Unpack[Given],
) -> None:
    """Run the command."""
    request.require_terminal()
    failures = FailureLog(output=request.output)
    if given["keys"] is None and given["requests"] is None:
        raise click.UsageError("say which keys: --keys FILE, or --requests DIR")
    wanted = read_wanted(request, given).keys
    options = (given["at_once"], given["purge_unreadable"], given["threads"])
    status = run_erasure(request, wanted, failures, options)
    click.get_current_context().exit(failures.exit_status or status)
