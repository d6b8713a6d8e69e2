"""Do the steps of a rescue, and undo them.

1. The journal ``.logwright-rescue.json`` in the log directory's root names each step before it is
   done. A rescue that was killed is run again: it plans what is left; the journal gets longer.
2. A directory or file that is moved or set aside is renamed: it has one of two names.
3. A file that is replaced gets a second name before, by a hard link; the new one is written under a
   temporary name and renamed.
4. Before a log is moved out, or brought back, the marker of a clean stop loses its broker epoch
   (`logwright.steps.marker.doubt`): the directory has less than it acknowledged, or what is older.
   So it does where it is accepted that a log is missing; that is not in the journal: nothing undoes
   it but the next clean stop.
5. At the end the journal has the stamp of each file that was written: an undo brings back what was
   there only if nobody changed the file since, and the directory is still there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from logwright.errors import CannotUndo, CorruptLogError
from logwright.format.names import CLEAN_SHUTDOWN_MARKER, TopicPartition
from logwright.locks import lock_checkpoints, lock_log_dir
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.place.files import entry_at, exists, open_bytes, rescued_of
from logwright.recovery.model import DirectoryPlan
from logwright.recovery.root import DAMAGED
from logwright.rescue.repair import Repair
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.marker import APPEND_WAIT_SECONDS, doubt, lock_marker
from logwright.steps.replace import replace_file
from logwright.steps.step import (
    FileStep,
    FsyncDir,
    Link,
    MakeDir,
    RemoveDir,
    Rename,
    RenameDir,
    Unlink,
)

JOURNAL: Final = ".logwright-rescue.json"
_MOST_BYTES: Final = 16 * 1024 * 1024
_EPOCH: Final = "epoch removed"
_BY_HAND: Final = "Look at what is there, and rename what was kept by hand."


@dataclass(frozen=True, slots=True)
class Done:
    """A step in the journal.

    Attributes:
        kind: as of `Repair`.
        path: below the log directory. target: absolute or below it; None: there was nothing.
        stamp: size in bytes, modification time in ns and inode of what was written.
    """

    kind: str
    path: str
    target: str | None
    stamp: tuple[int, int, int] | None = None


def do_repairs(steps: Sequence[Repair]) -> None:
    """Do the steps. The caller holds the locks of the log directories. Effects: changes them.

    Raises:
        DiskFull, StepFailed: a step failed; those before it are done, and in the journal.
        CorruptLogError: a journal cannot be read.
    """
    for log_dir in dict.fromkeys(step.log_dir for step in steps):
        own = [step for step in steps if step.log_dir == log_dir]
        add_to_journal(log_dir, (_done_of(step) for step in own if step.kind != _EPOCH))
        with (
            lock_marker(log_dir, wait_seconds=APPEND_WAIT_SECONDS),
            RealFileSystem(log_dir.parent) as files,
            lock_checkpoints(log_dir),
        ):
            if any(step.kind == _EPOCH or _is_log(step.kind, step.path.name) for step in own):
                execute(doubt(log_dir), files)
            for step in own:
                execute(_file_steps(step), files)


def _is_log(kind: str, name: str) -> bool:
    return kind == "moved out" and TopicPartition.parse(name) is not None


def _done_of(step: Repair) -> Done:
    target = step.target
    if target is not None and target.parent == step.log_dir:
        target = Path(target.name)
    path = str(step.path.relative_to(step.log_dir))
    return Done(step.kind, path, None if target is None else str(target))


def _file_steps(step: Repair) -> Iterator[FileStep]:
    """Yield the file steps; after each, the old name or the new one is there."""
    path, target, parent = step.path, step.target, step.path.parent
    if step.kind == _EPOCH:
        return
    if step.kind == "removed":
        yield from (RemoveDir(path), FsyncDir(parent))
    elif step.kind == "moved out" and target is not None:
        if not exists(target.parent):
            yield from (MakeDir(target.parent, like=step.log_dir), FsyncDir(target.parent.parent))
        yield from (RenameDir(path, target), FsyncDir(target.parent), FsyncDir(parent))
    elif step.kind == "set aside" and target is not None:
        yield from (Rename(path, target), FsyncDir(target.parent), FsyncDir(parent))
    else:
        if target is not None and not exists(target):
            yield from (Link(path, target), FsyncDir(target.parent))
        if step.content is not None:
            yield from replace_file(path, step.content, like=path if exists(path) else parent)


def note_recovery(plan: DirectoryPlan) -> None:
    """Put into the journal which checkpoints a recovery replaces, and where it keeps them. Effects:
    writes it, if there are any.
    """
    replaced = (
        Done("kept", name, f"{DAMAGED}-{name}-{plan.now_ms}")
        for name in CHECKPOINT_FILES
        if name in plan.root.malformed
    )
    add_to_journal(plan.log_dir, replaced)


def add_to_journal(log_dir: Path, more: Iterable[Done]) -> None:
    """Write the journal with more steps, if there are any. Effects and errors: as of files."""
    new = [*more]
    if new:
        _write(log_dir, [*read_journal(log_dir), *new])


def seal_journal(log_dir: Path) -> None:
    """Note the stamps of what was written, so that it can be undone; those of an earlier rescue
    stay, since the files may have changed after it. Effects: writes the journal, if there is one.
    """
    before = read_journal(log_dir)
    after = [
        replace(done, stamp=_stamp(log_dir / done.path))
        if done.kind in ("written", "kept") and done.stamp is None
        else done
        for done in before
    ]
    if after != before:
        _write(log_dir, after)


def read_journal(log_dir: Path) -> list[Done]:
    """Return the steps that were begun, in their order; none without a journal. Effects: reads it.

    Raises:
        UnreadableFile: it cannot be read.
        CorruptLogError: it is not what a rescue writes.
    """
    path = log_dir / JOURNAL
    if not exists(path):
        return []
    with open_bytes(path) as file:
        content = file.span(0, _MOST_BYTES)
    try:
        rows = json.loads(content)["steps"]
        done = [Done(**{**row, "stamp": row["stamp"] and tuple(row["stamp"])}) for row in rows]
        for each in done:
            _refuse_outside(log_dir, each)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptLogError(
            "is not the journal of a rescue.", path=path, remedy="Move it away."
        ) from error
    return done


def _refuse_outside(log_dir: Path, done: Done) -> None:
    """Refuse names that lead out of the directory: it is read like any other file of it."""
    target = done.target or ""
    leads_out = any(".." in text.split("/") for text in (done.path, target))
    is_elsewhere = target.startswith("/") and not target.startswith(f"{rescued_of(log_dir)}/")
    if leads_out or is_elsewhere or done.path.startswith("/"):
        raise ValueError


def _write(log_dir: Path, steps: Sequence[Done]) -> None:
    content = json.dumps({"version": 1, "steps": [asdict(step) for step in steps]}, indent=1)
    with RealFileSystem(log_dir) as files:
        execute(replace_file(log_dir / JOURNAL, content.encode(), like=log_dir), files)


def _stamp(path: Path) -> tuple[int, int, int] | None:
    entry = entry_at(path)
    return (
        None if entry is None else (entry.stamp.bytes, entry.stamp.modified_ns, entry.stamp.inode)
    )


def undo_repairs(log_dir: Path) -> list[tuple[Done, CannotUndo | None]]:
    """Bring back what a rescue set aside, last step first; return each step and why it was not
    undone. Those stay in the journal. The clean-shutdown marker goes if a file is brought back that
    a recovery replaced. Effects: changes the log directory, under its lock.

    Raises:
        LogDirLocked: a broker or another command works on it.
        CorruptLogError: the journal cannot be read.
        DiskFull, StepFailed: a step failed; the undo is run again.
    """
    outcome: list[tuple[Done, CannotUndo | None]] = []
    with (
        lock_log_dir(log_dir),
        lock_marker(log_dir, wait_seconds=APPEND_WAIT_SECONDS),
        lock_checkpoints(log_dir),
        RealFileSystem(log_dir.parent) as files,
    ):
        left = read_journal(log_dir)
        if any(_is_log(done.kind, Path(done.path).name) for done in left):
            execute(doubt(log_dir), files)
        for done in reversed(list(left)):
            try:
                execute(_undo_steps(log_dir, done), files)
            except CannotUndo as error:
                outcome.append((done, error))
                continue
            outcome.append((done, None))
            left.remove(done)
            _write(log_dir, left)
        if exists(log_dir / JOURNAL) and not left:
            execute((Unlink(log_dir / JOURNAL), FsyncDir(log_dir)), files)
    return outcome


def _undo_steps(log_dir: Path, done: Done) -> Iterator[FileStep]:
    """Yield the file steps that undo a step; none if it had not been done, or was undone."""
    path = log_dir / done.path
    if done.target is None:
        yield from _undo_new(log_dir, done, path)
        return
    target = Path(done.target) if done.target.startswith("/") else log_dir / done.target
    if not exists(target):
        return
    if not exists(path.parent):
        raise CannotUndo("its directory is gone.", path=path, remedy=_BY_HAND)
    if done.kind in ("moved out", "set aside"):
        if exists(path):
            raise CannotUndo("its name is taken.", path=path, remedy=_BY_HAND)
        rename = RenameDir if done.kind == "moved out" else Rename
        yield from (rename(target, path), FsyncDir(path.parent), FsyncDir(target.parent))
        if done.kind == "moved out":
            yield RemoveDir(target.parent, missing_ok=True, full_ok=True)
        return
    if exists(path) and path.samefile(
        target
    ):  # nothing replaced it, or another step's copy is back
        yield from (Unlink(target), FsyncDir(target.parent))
        return
    _refuse_changed(done, path)
    marker = log_dir / CLEAN_SHUTDOWN_MARKER
    yield from (Unlink(marker, missing_ok=True), FsyncDir(log_dir))
    yield from (Rename(target, path), FsyncDir(path.parent), FsyncDir(target.parent))


def _undo_new(log_dir: Path, done: Done, path: Path) -> Iterator[FileStep]:
    """Yield the steps that undo one without anything to bring back."""
    if done.kind == "removed" and not exists(path):
        yield from (MakeDir(path, like=log_dir), FsyncDir(log_dir))
    elif done.kind == "written" and exists(path):
        _refuse_changed(done, path)
        yield from (Unlink(path), FsyncDir(path.parent))


def _refuse_changed(done: Done, path: Path) -> None:
    if done.stamp is None:
        raise CannotUndo(
            "the rescue did not end.", path=path, remedy="Run `logwright rescue` again, then undo."
        )
    if exists(path) and _stamp(path) != done.stamp:
        raise CannotUndo("it changed since the rescue.", path=path, remedy=_BY_HAND)
