"""``logwright quarantine``: show, set and clear the partitions that cannot be cleaned."""

from __future__ import annotations

from dataclasses import replace

import click

from logwright.cli.output import human_bytes
from logwright.cli.request import Request
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
        _show(request, read_state(request.log_dir))


def _set(request: Request, cause: str) -> None:
    """Ask, then add the quarantine. Effects: changes the state file."""
    if not request.named:
        raise click.UsageError("name the partitions to quarantine: TOPIC-N ...")
    request.require_terminal()
    partitions = request.partitions()
    if request.dry_run:
        return
    request.confirm(f"Quarantine {', '.join(map(str, partitions))}?")
    error = CorruptLogError(cause)
    changed = {
        one: change_state(
            request.log_dir, one, lambda now: _by_hand(now.with_failure(error, request.now_ms))
        )
        for one in partitions
    }
    _show(request, changed)


def _by_hand(state: PartitionState) -> PartitionState:
    if state.quarantine is None:
        return state
    return replace(state, quarantine=replace(state.quarantine, cause="operator"))


def _clear(request: Request) -> None:
    """Ask, then remove the quarantine. Effects: changes the state file."""
    request.require_terminal()
    state = read_state(request.log_dir)
    there = [
        one
        for one in sorted(state)
        if state[one].quarantine is not None and (not request.named or one in request.named)
    ]
    if there and not request.dry_run:
        request.confirm(f"Release {', '.join(map(str, there))} from quarantine?")
        for one in there:
            change_state(request.log_dir, one, lambda now: replace(now, quarantine=None))
    for one in there:
        request.output.json_object(
            {"topicPartition": str(one), "now": request.now_ms, "quarantine": None}
        )
        request.output.text(f"{one}: released from quarantine")
    if not there:
        request.output.text("Nothing is in quarantine.")


def _show(request: Request, state: dict[TopicPartition, PartitionState]) -> None:
    """Print the partitions in quarantine. Effects: writes to stdout."""
    count = total = 0
    for partition in sorted(state):
        quarantine = state[partition].quarantine
        if quarantine is None or (request.named and partition not in request.named):
            continue
        count += 1
        size = uncleanable_bytes(request.log_dir, partition)
        total += size
        request.output.json_object(
            {
                "topicPartition": str(partition),
                "now": request.now_ms,
                "quarantine": quarantine_object(quarantine),
                "holds": quarantine.holds(request.now_ms),
                "uncleanableBytes": size,
            }
        )
        request.output.text(f"{partition}: {quarantine.sentence}")
    if count:
        request.output.text(f"uncleanable-partitions-count: {count}, {human_bytes(total)}")
    else:
        request.output.text("Nothing is in quarantine.")
