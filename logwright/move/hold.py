"""The lock and the pause of a partition while it is moved."""

from __future__ import annotations

import logging
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from logwright.errors import LogwrightError, Paused, PreconditionError, StalePlan
from logwright.format.names import TopicPartition
from logwright.locks import lock_partition_directory
from logwright.move.observe import Stage, stage_of
from logwright.move.plan import Places
from logwright.state.model import NOTHING, OpenMove, PartitionState, Pause, printable
from logwright.state.store import change_state, read_state
from logwright.steps.filesystem import FileSystem
from logwright.units import TimestampMs

_LOG = logging.getLogger(__name__)

LEASE_MS: Final = 60 * 60 * 1000
"""How long a move's pause holds; it is renewed after half of it. The pause of a killed move ends
then.
"""

_NS_PER_MS: Final = 1_000_000


def places_of(
    source: Path, partition: TopicPartition, destination: Path, state: PartitionState
) -> Places:
    """Return the directories of the open move, or of a new one."""
    move = state.move
    if move is not None and Path(move.destination) != destination:
        raise PreconditionError(
            f"there is {move.sentence}.",
            path=source / partition.directory_name,
            remedy="Nothing was changed. Finish it, or give it up with --abandon.",
        )
    return Places(
        source=source,
        destination=destination,
        partition=partition,
        move_id=secrets.token_hex(16) if move is None else move.move_id,
    )


@contextmanager
def locked(
    source: Path, partition: TopicPartition, destination: Path, now_ms: TimestampMs
) -> Iterator[tuple[Places, PartitionState, Stage]]:
    """Lock the partition under its current name, and observe it under the lock."""
    before = read_state(source).get(partition, NOTHING)
    places = places_of(source, partition, destination, before)
    stage = stage_of(places)
    held = {"copying": places.live, "done": places.placed}.get(stage, places.moved)
    with lock_partition_directory(held):
        state = read_state(source).get(partition, NOTHING)
        if state.move != before.move or stage_of(places) != stage:
            raise StalePlan(
                "another process has moved on with it.", path=held, remedy="Run it again."
            )
        _refuse_paused(places, state, now_ms)
        yield places, state, stage


def _refuse_paused(places: Places, state: PartitionState, now_ms: TimestampMs) -> None:
    own = f"move:{places.move_id}"
    others = [one for one in state.pauses if one.owner != own and one.holds(now_ms)]
    if others:
        raise Paused(
            "; ".join(one.sentence for one in others) + ".",
            path=places.live,
            remedy="Nothing was changed. `logwright resume` lifts a pause.",
        )


@contextmanager
def paused(
    places: Places, state: PartitionState, now_ms: TimestampMs, fs: FileSystem
) -> Iterator[Callable[[], None]]:
    """Record the move and pause the partition; yields a function that renews the pause. Lifts it at
    the end.

    Effects: the source's state file.
    """
    began_ns = time.monotonic_ns()
    move = state.move or OpenMove(
        move_id=places.move_id, destination=str(places.destination), since_ms=now_ms
    )
    renewed_ms = now_ms

    def pause(at_ms: TimestampMs) -> None:
        wanted = Pause(
            owner=move.owner,
            reason=printable(f"it is being moved to {places.destination}"),
            since_ms=now_ms,
            expires_at_ms=TimestampMs(at_ms + LEASE_MS),
        )
        change_state(
            places.source,
            places.partition,
            lambda now: replace(now.with_pause(wanted), move=move),
            fs,
        )

    def renew() -> None:
        nonlocal renewed_ms
        passed_ms = (time.monotonic_ns() - began_ns) // _NS_PER_MS
        at_ms = TimestampMs(now_ms + passed_ms)
        if at_ms - renewed_ms > LEASE_MS // 2:
            pause(at_ms)
            renewed_ms = at_ms

    try:
        pause(now_ms)
        yield renew
    finally:
        try:
            change_state(
                places.source,
                places.partition,
                lambda now: now.without_pauses(move.owner),
                fs,
            )
        except LogwrightError as error:
            _LOG.warning("the pause stays until it expires: %s", error)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay Ctrl-C until the end. Effects: changes this thread's signal mask."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
