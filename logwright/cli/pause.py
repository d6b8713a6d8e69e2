"""``logwright pause``: pause maintenance of partitions; durable."""

from __future__ import annotations

import getpass
import os
import re
from typing import TYPE_CHECKING, Final

import click

from logwright.cli.request import Request, request_options
from logwright.units import INT64_MAX, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from logwright.format.names import TopicPartition
    from logwright.state.model import PartitionState

_UNITS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"([0-9]{1,15})(ms|s|m|h|d)")


class _Duration(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4
    """A duration such as ``90s``, ``30m``, ``2h`` or ``7d``, converted to ms."""

    name = "DURATION"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        found = _DURATION.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not a duration such as 90s, 30m, 2h or 7d", param, ctx)
        return int(found[1]) * _UNITS[found[2]]


@click.command(name="pause")
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
def command(
    request: Request,
    *,
    reason: str | None,
    owner: str | None,
    for_ms: int | None,
    until_ms: int | None,
) -> None:
    """Pause maintenance of partitions until they are resumed or the pause expires.

    Without --reason: show the paused partitions. An owner has at most one pause per partition;
    setting it again replaces it.
    """
    from logwright.state.model import Pause, printable  # noqa: PLC0415 -- not for --help
    from logwright.state.store import change_state, read_state  # noqa: PLC0415

    if reason is None:
        state = read_state(request.log_dir)
        show_pauses(request, {one: state[one] for one in sorted(state) if _wanted(request, one)})
        return
    if not request.named:
        raise click.UsageError("name the partitions to pause: TOPIC-N ...")
    if for_ms is not None and until_ms is not None:
        raise click.UsageError("give --for or --until, not both")
    expires_ms = until_ms if for_ms is None else min(request.now_ms + for_ms, INT64_MAX)
    pause = Pause(
        owner=printable(owner or _this_user()),
        reason=printable(reason),
        since_ms=request.now_ms,
        expires_at_ms=None if expires_ms is None else TimestampMs(expires_ms),
    )
    request.require_terminal()
    partitions = request.partitions()
    if request.dry_run:
        for partition in partitions:
            request.output.text(f"{partition}: would be {pause.sentence}")
        return
    request.confirm(f"Pause {', '.join(map(str, partitions))}: {pause.sentence}?")
    changed = {
        one: change_state(request.log_dir, one, lambda now: now.with_pause(pause))
        for one in partitions
    }
    show_pauses(request, changed)


def show_pauses(request: Request, state: Mapping[TopicPartition, PartitionState]) -> None:
    """Show the pauses of partitions: owner, reason, expiry. Effects: writes to stdout."""
    from logwright.state.file import pause_object  # noqa: PLC0415 -- not for --help

    for partition, one in state.items():
        request.output.json_object(
            {
                "topicPartition": str(partition),
                "now": request.now_ms,
                "paused": any(pause.holds(request.now_ms) for pause in one.pauses),
                "pauses": [
                    pause_object(pause) | {"holds": pause.holds(request.now_ms)}
                    for pause in one.pauses
                ],
                "openMove": None if one.move is None else one.move.destination,
            }
        )
        for pause in one.pauses:
            over = "" if pause.holds(request.now_ms) else " (expired)"
            request.output.text(f"{partition}: {pause.sentence}{over}")
        if one.move is not None:
            request.output.text(f"{partition}: {one.move.sentence}")
    if not any(one.pauses for one in state.values()):
        request.output.text("Nothing is paused.")


def _this_user() -> str:
    """Return this user's name, or the uid if it has no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # Python before 3.13 raises a KeyError
        return str(os.getuid())


def _wanted(request: Request, partition: TopicPartition) -> bool:
    return not request.named or partition in request.named
