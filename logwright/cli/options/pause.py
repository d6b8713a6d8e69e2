"""The options of ``logwright pause``."""

from __future__ import annotations

import re
from typing import Final

import click

from logwright.cli.options.common import declare, request_options
from logwright.units import INT64_MAX

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

_DURATION: Final = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)")


class _Duration(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """A duration such as ``90s``, ``30m``, ``2h`` or ``7d``, converted to ms."""

    name = "DURATION"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        parts = _DURATION.fullmatch(str(value))
        if parts is None:
            self.fail(f"{value!r} is not a duration such as 90s, 30m, 2h or 7d", param, ctx)
        return int(parts[1]) * _UNITS[parts[2]]


@declare("pause")
@click.option("--reason", metavar="TEXT", help="Reason; required to set a pause.")
@click.option("--owner", metavar="NAME", help="Owner of the pause [default: this user].")
@click.option("--for", "for_ms", type=_Duration(), help="Expire after this time: 90s, 30m, 2h, 7d.")
@click.option(
    "--until",
    "until_ms",
    metavar="MS",
    type=click.IntRange(0, INT64_MAX),
    help="Expire at this time, ms since the epoch.",
)
@request_options
def command() -> None:
    """Pause maintenance of partitions until they are resumed or the pause expires.

    Without --reason: show the paused partitions. An owner has at most one pause per partition;
    setting it again replaces it.
    """
