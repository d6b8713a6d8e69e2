"""Execute a move, or abandon it.

Brokers are kept out of both log directories, and other logwright processes off the partition, while
a move runs. Its pause shows that to commands that only read: it has an owner, a reason and an
expiry, is renewed while bytes are copied, and is lifted however the move ends. After a killed
process it stays until it expires or the next run of the same move takes it over (KAFKA-9087).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from logwright.batches.runtime import Progress
from logwright.errors import PreconditionError
from logwright.format.names import BROKER_LOCK, CLEAN_SHUTDOWN_MARKER, TopicPartition
from logwright.locks import lock_log_dir
from logwright.log.checkpoints import CHECKPOINT_FILES, read_checkpoints
from logwright.move.build import (
    Copied,
    Copying,
    check_move,
    copied_files,
    copy_log,
    total_bytes,
)
from logwright.move.hold import locked, paused, places_of, uninterrupted
from logwright.move.observe import (
    Stage,
    check_destination,
    check_directories,
    check_source,
    list_files,
    room,
    stage_of,
)
from logwright.move.plan import Places, files_to_copy
from logwright.move.steps import abandon_steps, hide_steps, place_steps, retire_steps
from logwright.place.files import exists
from logwright.state.model import NOTHING, OpenMove, PartitionState
from logwright.state.store import change_state, read_state
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.live import set_offsets
from logwright.steps.marker import APPEND_WAIT_SECONDS, doubt, have_same_epoch, lock_marker
from logwright.steps.step import FsyncDir
from logwright.units import ByteCount, TimestampMs

_LOG = logging.getLogger(__name__)

Outcome = Literal["moved", "finished", "abandoned"]

_NOTHING_COPIED: Final = Copied(files=0, bytes=ByteCount(0), copied_bytes=ByteCount(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOutlook:
    """The result of a dry run of a move.

    Attributes:
        files, bytes: of the whole log.
        missing_bytes: of what is not copied yet.
        free_bytes: on the destination's file system.
        resumes: a move has begun before.
        stage: how far that one came; ``copying`` for a new one.
        is_older: the log may lack what the broker acknowledged since: the markers of the two
            directories are of different stops.
    """

    files: int
    bytes: ByteCount
    missing_bytes: ByteCount
    free_bytes: ByteCount
    resumes: bool
    stage: Stage
    is_older: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveResult:
    """The result of a move.

    Attributes:
        outcome: ``moved``: copied and switched; ``finished``: an earlier run had copied it, or all
            was done; ``abandoned``: the copy is removed.
        files, bytes: of the whole log; 0 if it was not copied now.
        copied_bytes: what this run copied of it.
    """

    outcome: Outcome
    files: int
    bytes: ByteCount
    copied_bytes: ByteCount


def look_at_move(source: Path, partition: TopicPartition, destination: Path) -> MoveOutlook:
    """Return what a move would do. Effects: reads only.

    Raises:
        PreconditionError and its kinds: as `move_partition`.
    """
    source, destination = source.absolute(), destination.absolute()
    check_directories(source, destination)
    for log_dir in (source, destination):
        if (log_dir / BROKER_LOCK).exists():
            with lock_log_dir(
                log_dir
            ):  # otherwise the directory of a running broker looks like one after a crash
                pass
    state = read_state(source).get(partition, NOTHING)
    places = places_of(source, partition, destination, state)
    stage = stage_of(places)
    if stage != "copying":
        return MoveOutlook(
            files=0,
            bytes=ByteCount(0),
            missing_bytes=ByteCount(0),
            free_bytes=ByteCount(0),
            resumes=True,
            stage=stage,
            is_older=_is_older(places),
        )
    check_destination(places)
    check_source(places)
    wanted = list_files(source, places.live.name)
    missing = files_to_copy(wanted, copied_files(places), frozenset())
    space = room(places, missing)
    return MoveOutlook(
        files=len(wanted),
        bytes=total_bytes(wanted),
        missing_bytes=ByteCount(space.needed),
        free_bytes=ByteCount(space.free),
        resumes=state.move is not None,
        stage=stage,
        is_older=_is_older(places),
    )


def move_partition(
    source: Path,
    partition: TopicPartition,
    destination: Path,
    *,
    now_ms: TimestampMs,
    progress: Progress,
    wrap: Callable[[FileSystem], FileSystem] = lambda fs: fs,
) -> MoveResult:
    """Move a partition's log, or continue an interrupted move. Effects: see
    `logwright.move.steps`; locks, the state file, all four checkpoints of both directories.

    Args:
        source, destination: two log directories of one stopped broker.
        partition: in the source, or on its way.
        now_ms: the command's clock.
        progress: called with the bytes copied and compared.
        wrap: wraps the file system, for tests.

    Raises:
        LogDirLocked: a broker or another process works on one of them.
        NotALogDir, UncleanLogDir, UnreadableFile: one of the directories is not as it must be.
        Paused: the partition is paused.
        PreconditionError: the destination is the source, or another broker's, or has the partition;
            another move of it is open.
        DiskFull: there is not enough space; checked before the first byte is copied.
        StalePlan: the log changed again and again.
        QualityError: the copy has other bytes than the source.
        StepFailed: a step failed. The next run continues.
    """
    source, destination = source.absolute(), destination.absolute()
    check_directories(source, destination)
    with (
        lock_log_dir(source),
        lock_log_dir(destination),
        locked(source, partition, destination, now_ms) as (places, state, stage),
        RealFileSystem(source, destination) as disk,
    ):
        fs = wrap(disk)
        copied = _NOTHING_COPIED
        if stage == "done" and state.move is None:
            return _result("finished", copied)
        if stage == "copying":
            check_move(places)
        with paused(places, state, now_ms, fs) as renew:
            if stage == "copying":
                copied = copy_log(Copying(places=places, fs=fs, progress=progress, renew=renew))
            _switch(places, stage, fs)
            _forget(places, now_ms, fs)
    _LOG.info("moved topic_partition=%s bytes=%d", partition, copied.bytes)
    return _result("moved" if stage == "copying" else "finished", copied)


def abandon_move(
    source: Path,
    partition: TopicPartition,
    *,
    now_ms: TimestampMs,
    wrap: Callable[[FileSystem], FileSystem] = lambda fs: fs,
) -> MoveResult:
    """Abandon an open move: the source stays current, the copy is removed. Effects and errors: as
    `move_partition`.

    Raises:
        PreconditionError: no move is open, or the destination is current already.
    """
    source = source.absolute()
    open_move = read_state(source).get(partition, NOTHING).move
    if open_move is None:
        raise PreconditionError(
            f"no move of {partition} is open.", path=source, remedy="Nothing was changed."
        )
    destination = Path(open_move.destination)
    check_directories(source, destination)
    with (
        lock_log_dir(source),
        lock_log_dir(destination),
        locked(source, partition, destination, now_ms) as (places, _, stage),
        RealFileSystem(source, destination) as disk,
    ):
        if stage in {"placed", "done"}:
            raise PreconditionError(
                "the destination has become current already.",
                path=places.placed,
                remedy="Nothing was changed. Run `logwright move` again to finish.",
            )
        fs = wrap(disk)
        with uninterrupted():
            copied = copied_files(places)
            execute(abandon_steps(places, hidden=stage == "hidden", copied=copied), fs)
            set_offsets(destination, partition, dict.fromkeys(CHECKPOINT_FILES), fs)
            change_state(source, partition, lambda now: _without(now, open_move), fs)
    return _result("abandoned", _NOTHING_COPIED)


def _result(outcome: Outcome, copied: Copied) -> MoveResult:
    return MoveResult(
        outcome=outcome,
        files=copied.files,
        bytes=copied.bytes,
        copied_bytes=copied.copied_bytes,
    )


def _switch(places: Places, stage: Stage, fs: FileSystem) -> None:
    """Move on from this stage to F. Effects: the renames; Ctrl-C does not interrupt them."""
    with uninterrupted():
        if stage == "copying":
            checkpoints = read_checkpoints(places.source).of(places.partition)
            set_offsets(places.destination, places.partition, dict(checkpoints), fs)
            execute(hide_steps(places), fs)
        if stage in {"copying", "hidden"}:
            _doubt_older(places, fs)
            execute(place_steps(places), fs)
        if stage != "done":
            execute(retire_steps(places), fs)
        execute((FsyncDir(places.source),), fs)


def _doubt_older(places: Places, fs: FileSystem) -> None:
    """Take the broker epoch away from the destination's marker unless the source's has the same: a
    clean stop writes one epoch into all directories, and a log that comes from another stop may
    lack what the broker has acknowledged since. Effects: changes the marker.
    """
    with lock_marker(places.destination, wait_seconds=APPEND_WAIT_SECONDS):
        if not have_same_epoch(places.source, places.destination):
            execute(doubt(places.destination), fs)


def _is_older(places: Places) -> bool:
    """Return whether `_doubt_older` would take an epoch away. Effects: reads the markers."""
    is_stopped = exists(places.destination / CLEAN_SHUTDOWN_MARKER)
    return is_stopped and not have_same_epoch(places.source, places.destination)


def _forget(places: Places, now_ms: TimestampMs, fs: FileSystem) -> None:
    """Remove the source's entries. Its quarantine moves with the log, and so do pauses that others
    set during the move and that have not expired. Effects: writes checkpoints and state files.
    """
    set_offsets(places.source, places.partition, dict.fromkeys(CHECKPOINT_FILES), fs)
    partition = places.partition
    while (state := read_state(places.source).get(partition, NOTHING)) != NOTHING:
        _hand_on(places, state, now_ms, fs)


def _hand_on(places: Places, state: PartitionState, now_ms: TimestampMs, fs: FileSystem) -> None:
    """Copy the source's state to the destination, then remove it from the source, unless it changed
    since. Effects: both state files.
    """
    kept = replace(
        state.without_pauses(f"move:{places.move_id}").without_expired(now_ms), move=None
    )

    def joined(now: PartitionState) -> PartitionState:
        for pause in kept.pauses:
            now = now.with_pause(pause)
        return now if kept.quarantine is None else replace(now, quarantine=kept.quarantine)

    def forgotten(now: PartitionState) -> PartitionState:
        return NOTHING if now == state else now

    if kept != NOTHING:
        change_state(places.destination, places.partition, joined, fs)
    change_state(places.source, places.partition, forgotten, fs)


def _without(state: PartitionState, move: OpenMove) -> PartitionState:
    return replace(state.without_pauses(move.owner), move=None)
