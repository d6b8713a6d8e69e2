"""``logwright pause``: pause maintenance of partitions; durable."""

from __future__ import annotations

import getpass
import os
from collections.abc import Mapping

import click

from logwright.cli.request import Request
from logwright.format.names import TopicPartition
from logwright.state.file import pause_object
from logwright.state.model import PartitionState, Pause, printable
from logwright.state.store import change_state, read_state
from logwright.units import INT64_MAX, TimestampMs


def run(
    request: Request,
    *,
    reason: str | None,
    owner: str | None,
    for_ms: int | None,
    until_ms: int | None,
) -> None:
    """Run the command."""
    if reason is None:
        states = read_state(request.changeable)
        wanted = {name: states[name] for name in filter(request.is_wanted, states)}
        show_pauses(request, wanted)
        if not any(state.pauses for state in wanted.values()):
            request.output.text("Nothing is paused.")
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
    request.require_terminal(versioned=True)
    partitions = request.partitions()
    if request.dry_run:
        for partition in partitions:
            request.output.text(f"{partition}: would be {pause.sentence}")
        return
    request.confirm(f"Pause {', '.join(map(str, partitions))}: {pause.sentence}?")
    changed = {
        partition: change_state(request.place, partition, lambda state: state.with_pause(pause))
        for partition in partitions
    }
    show_pauses(request, changed)


def show_pauses(request: Request, states: Mapping[TopicPartition, PartitionState]) -> None:
    """Show the pauses of partitions: owner, reason, expiry. Effects: writes to stdout."""
    for partition, state in sorted(states.items()):
        holds = {pause: pause.holds(request.now_ms) for pause in state.pauses}
        request.output.result(
            None,
            topicPartition=str(partition),
            now=request.now_ms,
            paused=any(holds.values()),
            pauses=[pause_object(pause) | {"holds": held} for pause, held in holds.items()],
            openMove=None if state.move is None else state.move.destination,
        )
        for pause, held in holds.items():
            request.output.text(f"{partition}: {pause.sentence}{'' if held else ' (expired)'}")
        if state.move is not None:
            request.output.text(f"{partition}: {state.move.sentence}")


def _this_user() -> str:
    """Return this user's name, or the uid if it has no name, as in a container."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # Python before 3.13 raises a KeyError
        return str(os.getuid())
