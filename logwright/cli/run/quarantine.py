"""``logwright quarantine``: show, set and clear the partitions that cannot be cleaned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import click

from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.cli.wording import counted
from logwright.errors import CorruptLogError
from logwright.format.names import TopicPartition
from logwright.state.file import quarantine_object
from logwright.state.model import PartitionState
from logwright.state.store import change_state, read_state
from logwright.state.uncleanable import uncleanable_bytes


def run(request: Request, *, cause: str | None, clear: bool) -> None:
    """Run the command."""
    if cause is not None and clear:
        raise click.UsageError("give --set or --clear, not both")
    if cause is not None:
        _set(request, cause)
    elif clear:
        _clear(request)
    else:
        _show(request, read_state(request.changeable))


def _set(request: Request, cause: str) -> None:
    """Ask, then add the quarantine. Effects: changes the state."""
    if not request.named:
        raise click.UsageError("name the partitions to quarantine: TOPIC-N ...")
    request.require_terminal(versioned=True)
    partitions = request.partitions()
    if request.dry_run:
        return
    request.confirm(f"Quarantine {', '.join(map(str, partitions))}?")
    error = CorruptLogError(cause)

    def change(state: PartitionState) -> PartitionState:
        failed = state.with_failure(error, request.now_ms)
        if failed.quarantine is None:
            return failed
        return replace(failed, quarantine=replace(failed.quarantine, cause="operator"))

    _show(request, {name: change_state(request.place, name, change) for name in partitions})


def _clear(request: Request) -> None:
    """Ask, then remove the quarantine. Effects: changes the state."""
    request.require_terminal(versioned=True)
    held = [
        partition
        for partition, state in sorted(read_state(request.place).items())
        if state.quarantine is not None and request.is_wanted(partition)
    ]
    if not held:
        request.partitions()  # refuse names of which there is nothing
    if held and not request.dry_run:
        request.confirm(f"Release {', '.join(map(str, held))} from quarantine?")
        for partition in held:
            change_state(request.place, partition, lambda state: replace(state, quarantine=None))
    for partition in held:
        request.output.result(
            f"{partition}: released from quarantine",
            topicPartition=str(partition),
            now=request.now_ms,
            quarantine=None,
        )
    if not held:
        request.output.text("Nothing is in quarantine.")


def _show(request: Request, states: Mapping[TopicPartition, PartitionState]) -> None:
    """Print the partitions in quarantine. Effects: writes to stdout."""
    sizes = []
    for partition, state in sorted(states.items()):
        quarantine = state.quarantine
        if quarantine is None or not request.is_wanted(partition):
            continue
        sizes.append(uncleanable_bytes(request.place, partition))
        request.output.result(
            f"{partition}: {quarantine.sentence}",
            topicPartition=str(partition),
            now=request.now_ms,
            quarantine=quarantine_object(quarantine),
            holds=quarantine.holds(request.now_ms),
            uncleanableBytes=sizes[-1],
        )
    if sizes:
        total = human_bytes(sum(sizes))
        request.output.text(f"{counted(len(sizes), 'log')} in quarantine, {total} not cleaned.")
    else:
        request.output.text("Nothing is in quarantine.")
