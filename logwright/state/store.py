"""Read and change the state of a log directory: its state file; in a bucket, its newest version."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from logwright.errors import LogwrightError, UnreadableFile
from logwright.locks import lock_checkpoints
from logwright.log.topic_id import read_topic_id
from logwright.place.files import entry_at, open_log_dir
from logwright.place.model import is_local, is_versioned
from logwright.state.file import LARGEST_STATE_BYTES, STATE_FILE, parse_state, serialize_state
from logwright.state.model import NOTHING, LogDirState, PartitionState
from logwright.steps.filesystem import FileSystem, RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.replace import replace_file
from logwright.steps.step import FileStep, FsyncDir, Unlink

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from logwright.format.names import TopicPartition
    from logwright.place.model import OpenDir, Place


def read_state(log_dir: Place) -> dict[TopicPartition, PartitionState]:
    """Return the state of the partitions, without the quarantine of a log whose topic id has
    changed: its topic was deleted, and a new one has the name. Effects: reads the state file, if
    there is one, in a bucket the newest version of the state; and the topic ids of partitions in
    quarantine.

    Raises:
        NotALogDir: there is no such directory.
        UnreadableFile: the file cannot be read or is not a state file.
        Unsettled: the bucket does not answer.
    """
    with open_log_dir(log_dir) as directory:
        if is_versioned(log_dir):
            from logwright.state.in_bucket import read_states  # noqa: PLC0415 -- of an extra

            return _of_topics(directory, read_states(log_dir))
        path = directory.path / STATE_FILE
        entry = entry_at(path)
        if entry is None:
            return {}
        size = entry.stamp.bytes
        if size > LARGEST_STATE_BYTES:
            raise UnreadableFile(
                f"it has {size} bytes, too many for a state file.", path=path, remedy="Remove it."
            )
        try:
            content = directory.read(STATE_FILE)
        except UnreadableFile as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return {}  # the last state was removed in between
            raise
        return _of_topics(directory, parse_state(content, path))


def _of_topics(directory: OpenDir, states: LogDirState) -> dict[TopicPartition, PartitionState]:
    return {
        partition: _of_topic(directory, partition, state) for partition, state in states.items()
    }


def _of_topic(
    directory: OpenDir, partition: TopicPartition, state: PartitionState
) -> PartitionState:
    quarantine = state.quarantine
    if quarantine is None or quarantine.topic_id is None:
        return state
    if _topic_id(directory, partition) in {quarantine.topic_id, None}:
        return state
    return replace(state, quarantine=None)


def _topic_id(directory: OpenDir, partition: TopicPartition) -> str | None:
    """Return the topic id of a partition in an open log directory; None if it cannot be read."""
    try:
        with directory.open_dir(partition.directory_name) as opened:
            return read_topic_id(opened)
    except LogwrightError:
        return None


def change_state(
    log_dir: Place,
    partition: TopicPartition,
    change: Callable[[PartitionState], PartitionState],
    fs: FileSystem | None = None,
) -> PartitionState:
    """Change the state of one partition. Effects: takes the checkpoint files' lock,
    replaces the file, if something changes; in a bucket creates the next version.

    Args:
        log_dir: the log directory.
        partition: whose state.
        change: makes the new state from the old one; in a bucket perhaps several times.
        fs: where the steps are executed; None: on the disk.

    Returns:
        the new state.

    Raises:
        NotALogDir, UnreadableFile: as `read_state`.
        LogDirLocked: the lock was not free for too long.
        DiskFull, StepFailed: the file could not be written; the old one stays.
        Unsettled, TooLate: the bucket does not answer. Whether the change is in is not known.
    """
    if not is_local(log_dir):
        return _change_in_bucket(log_dir, partition, change)
    with lock_checkpoints(log_dir):
        if fs is not None:
            return change_state_locked(log_dir, partition, change, fs)
        with RealFileSystem(log_dir) as disk:
            return change_state_locked(log_dir, partition, change, disk)


def change_state_locked(
    log_dir: Path,
    partition: TopicPartition,
    change: Callable[[PartitionState], PartitionState],
    fs: FileSystem,
) -> PartitionState:
    """Change the state like `change_state`; the caller holds the checkpoint files' lock."""
    before = read_state(log_dir)
    state = before.get(partition, NOTHING)
    changed = _changed(log_dir, partition, state, change)
    if changed != state:
        execute(_steps(log_dir, before | {partition: changed}, replaces=bool(before)), fs)
    return changed


def _change_in_bucket(
    log_dir: Place,
    partition: TopicPartition,
    change: Callable[[PartitionState], PartitionState],
) -> PartitionState:
    from logwright.state.in_bucket import change_states  # noqa: PLC0415 -- of an extra

    last = NOTHING

    def following(
        states: dict[TopicPartition, PartitionState],
    ) -> dict[TopicPartition, PartitionState]:
        nonlocal last
        with open_log_dir(log_dir) as directory:
            before = _of_topics(directory, states)
        state = before.get(partition, NOTHING)
        last = _changed(log_dir, partition, state, change)
        return before | {partition: last}

    change_states(log_dir, following)
    return last


def _changed(
    log_dir: Place,
    partition: TopicPartition,
    state: PartitionState,
    change: Callable[[PartitionState], PartitionState],
) -> PartitionState:
    """Return the changed state, a new quarantine with the topic id of the log."""
    changed = change(state)
    if changed.quarantine is None or changed.quarantine == state.quarantine:
        return changed
    with open_log_dir(log_dir) as directory:
        topic_id = _topic_id(directory, partition)
    return replace(changed, quarantine=replace(changed.quarantine, topic_id=topic_id))


def _steps(log_dir: Path, state: LogDirState, *, replaces: bool) -> tuple[FileStep, ...]:
    """Return the steps that replace the file, or remove it if there is no state left."""
    path = log_dir / STATE_FILE
    if all(one == NOTHING for one in state.values()):
        return (Unlink(path, missing_ok=True), FsyncDir(log_dir))
    return replace_file(path, serialize_state(state), like=path if replaces else log_dir)
