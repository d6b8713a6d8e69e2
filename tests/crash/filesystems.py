"""File systems that stop, fail or lose power: the twins of the real one.

Three small classes. The first two let the real file system work and interrupt it; the third keeps a
directory's entries in memory and says what a power loss may leave of them.
"""

# ruff: noqa: D102  the methods are those of FileSystem, described there

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from logwright.errors import invariant
from logwright.steps.filesystem import FileSystem
from logwright.steps.step import FileStep

LOCKS = {
    "lock",
    ".lock",
    ".logwright-checkpoints.lock",
    ".logwright-marker.lock",
}
"""Made and removed by what holds a lock, not by steps."""


def is_lock(name: str) -> bool:
    """Whether a file of this name is a lock's; that of a process's plans is named after it."""
    return name in LOCKS or name.startswith(".logwright-plans-")


class Crash(BaseException):
    """The process died. No `except Exception` may survive it."""


class InterceptedFileSystem:
    """Counts the calls and asks `before_call` about each before it is made."""

    def __init__(self, inner: FileSystem) -> None:
        self.inner = inner
        self.calls = 0

    def before_call(self) -> None:
        """Decide about the call that has just been counted."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  forwards any method
        act = getattr(self.inner, name)

        def intercepted(*args: object, **options: object) -> object:
            self.calls += 1
            self.before_call()
            return act(*args, **options)

        return intercepted


class CrashingFileSystem(InterceptedFileSystem):
    """Dies instead of making call number `crash_at` (from 1)."""

    def __init__(self, inner: FileSystem, *, crash_at: int) -> None:
        super().__init__(inner)
        self.crash_at = crash_at

    def before_call(self) -> None:
        if self.calls == self.crash_at:
            raise Crash


class FailingFileSystem(InterceptedFileSystem):
    """Call number `fail_at` (from 1) fails with an errno; the others are made.

    Attributes:
        found: if there is a `root`, what was below it when the call failed: the state of a process
            that dies there.
    """

    def __init__(
        self, inner: FileSystem, *, fail_at: int, code: int, root: Path | None = None
    ) -> None:
        super().__init__(inner)
        self.fail_at = fail_at
        self.code = code
        self.root = root
        self.found: Files = {}

    def before_call(self) -> None:
        if self.calls == self.fail_at:
            if self.root is not None:
                self.found = every_file(self.root)
            raise OSError(self.code, os.strerror(self.code))


Files = dict[Path, tuple[bytes, int]]
"""Content and modification time by path relative to the log directory."""


def every_file(root: Path) -> Files:
    """All but the files of locks, which go when an operation fails, and staged files, which may."""
    return {
        path.relative_to(root): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and not is_lock(path.name) and "staging" not in path.parts
    }


Entries = dict[str, bytes]
"""What a directory holds after a crash: name -> content."""


def with_paths(steps: Iterable[FileStep]) -> Iterator[FileStep]:
    """The same steps, as they are asked for; what is text of their paths is a `Path`, as tests name
    files.
    """
    kinds = ("path", "source", "target", "like")
    for step in steps:
        paths = {name: getattr(step, name, None) for name in kinds}
        yield replace(step, **{name: Path(value) for name, value in paths.items() if value})


class PowerLossModel:
    """One directory whose entries are durable only once it is fsynced.

    Since the last fsync of the directory any subset of its changes may have reached the disk, in
    any order (each name change is atomic). That content is fsynced before its file is renamed and
    before the directory is fsynced is asserted. Files outside the directory (the staging
    directory, the ledger) are looked at only as sources.
    """

    def __init__(self, directory: Path, files: dict[Path, bytes]) -> None:
        self.directory = directory
        self.others = {path: data for path, data in files.items() if path.parent != directory}
        self.durable: Entries = {
            path.name: data for path, data in files.items() if path.parent == directory
        }
        self.view: Entries = dict(self.durable)
        self.pending: list[tuple[str | None, str | None, bytes]] = []
        self.unsynced_content: set[str] = set()
        self.fsyncs = 0

    def write_file(self, path: Path, content: bytes, *, like: Path | None) -> None:
        if path.parent != self.directory:
            self.others[path] = content
            return
        self.view[path.name] = content
        self.unsynced_content.add(path.name)
        self.pending.append((None, path.name, content))

    def append(self, path: Path, content: bytes, *, create: bool) -> None:
        if path.parent != self.directory:
            self.others[path] = self.others.get(path, b"") + content
            return
        invariant(not create, "the model appends to what is there")
        self.view[path.name] += content
        self.unsynced_content.add(path.name)
        self.pending.append((path.name, path.name, self.view[path.name]))

    def truncate(self, path: Path, length_bytes: int) -> None:
        """Durable once the file is fsynced, whether or not the directory is."""
        self.view[path.name] = self.view[path.name][:length_bytes]
        self.unsynced_content.add(path.name)
        self.pending.append((path.name, path.name, self.view[path.name]))

    def link(self, source: Path, target: Path) -> None:
        if target.parent != self.directory:
            self.others[target] = self.view[source.name]
            return
        invariant(target.name not in self.view, f"{target.name} exists")
        self.view[target.name] = self.view[source.name]
        self.pending.append((None, target.name, self.view[source.name]))

    def rename(self, source: Path, target: Path) -> None:
        if self.directory not in (source.parent, target.parent):
            self.others[target] = self.others.pop(source)
            return
        invariant(target.parent == self.directory, "renames lead into the directory")
        if source.parent == self.directory:
            invariant(source.name not in self.unsynced_content, f"{source.name} is not synced")
            data = self.view.pop(source.name)
            self.pending.append((source.name, target.name, data))
        else:
            data = self.others.pop(source)
            self.pending.append((None, target.name, data))
        self.view[target.name] = data

    def unlink(self, path: Path) -> None:
        if path.parent != self.directory:
            del self.others[path]
            return
        self.pending.append((path.name, None, self.view.pop(path.name)))

    def remove_dir(self, path: Path) -> None:
        pass

    def make_dir(self, path: Path, *, like: Path | None) -> None:
        raise NotImplementedError

    def rename_dir(self, source: Path, target: Path) -> None:
        raise NotImplementedError

    def copy_range(self, source: Path, target: Path, position: int, length_bytes: int) -> None:
        raise NotImplementedError

    def fsync_file(self, path: Path) -> None:
        if path.parent != self.directory:
            return
        self.unsynced_content.discard(path.name)
        made = [one for one in self.pending if one[:2] == (None, path.name)]
        for change in [one for one in self.pending if one[:2] == (path.name, path.name)]:
            self.pending.remove(change)
            if made:
                self.pending[self.pending.index(made[-1])] = made[-1] = (None, *change[1:])
            else:
                self.durable[path.name] = change[2]

    def fsync_dir(self, path: Path) -> None:
        if path == self.directory:
            invariant(not self.unsynced_content, f"not synced: {self.unsynced_content}")
            self.durable = dict(self.view)
            self.pending.clear()
            self.fsyncs += 1

    def set_mtime(self, path: Path, modified_ns: int) -> None:
        pass

    def set_owner(self, path: Path, *, like: Path) -> None:
        pass

    def after_power_loss(self) -> Iterator[Entries]:
        """Every directory that a power loss now may leave: each subset of what is not synced.

        A change whose source name does not exist in the subset (since the change that made it was
        lost) does not happen either.
        """
        for count in range(len(self.pending) + 1):
            for chosen in combinations(self.pending, count):
                entries = dict(self.durable)
                for source, target, data in chosen:
                    if source is not None and source not in entries:
                        continue
                    if source is not None:
                        del entries[source]
                    if target is not None:
                        entries[target] = data
                yield entries


class RecordingFileSystem(InterceptedFileSystem):
    """Keeps what a directory's plain files are before each call: where a process may die."""

    def __init__(self, inner: FileSystem, directory: Path) -> None:
        super().__init__(inner)
        self.directory = directory
        self.states: list[Entries] = []

    def before_call(self) -> None:
        self.states.append(plain_files(self.directory))


def plain_files(directory: Path) -> Entries:
    """Name and content of the plain files in a directory."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
