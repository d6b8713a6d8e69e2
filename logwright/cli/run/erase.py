"""``logwright erase``: erase the records of some keys, by Kafka's rules or at once."""

from __future__ import annotations

from typing import Unpack

import click

from logwright.cli.options.erase import Given
from logwright.cli.request import Request
from logwright.cli.run.erase_run import run_erasure
from logwright.cli.run.keys import read_wanted


def run(request: Request, **given: Unpack[Given]) -> int:
    """Run the command."""
    request.require_terminal()
    if given["keys"] is None and given["requests"] is None:
        raise click.UsageError("say which keys: --keys FILE, or --requests DIR")
    keys = read_wanted(request, given).keys
    return run_erasure(request, keys, given)
