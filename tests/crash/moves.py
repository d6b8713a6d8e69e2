"""Two log directories between which a partition is moved, and what a power loss leaves of both."""

# ruff: noqa: D102  the methods are those of FileSystem, described there

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from logwright.format.checkpoints import parse_offset_checkpoint, serialize_offset_checkpoint
from logwright.format.names import TopicPartition
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.move.commit import MoveResult, move_partition
from logwright.steps.filesystem import FileSystem
from logwright.units import TimestampMs
from tests.crash.filesystems import Crash, InterceptedFileSystem
from tests.fixtures import copy_before

CASE = "start-inside-open-transaction"
T0 = TopicPartition("t", 0)
NEIGHBOUR = TopicPartition("u", 3)
NOW_MS = TimestampMs(1_770_000_000_000)
TOPIC_ID = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
META = "version=1\ncluster.id=CCCCCCCCCCCCCCCCCCCCCC\nnode.id=1\ndirectory.id={}\n"
OURS = ("lock", ".lock")
"""Names of files that locks make."""
MARK = Path(".logwright", "erased.json")


class Unsynced(InterceptedFileSystem):
    """Syncs nothing: a process that dies does not take with it what the system has."""

    def fsync_file(self, path: Path) -> None:
        assert path.is_file()

    def fsync_dir(self, path: Path) -> None:
        assert path.is_dir()


@dataclass(frozen=True)
class Pair:
    """Two log directories of one broker.

    Attributes:
        files: content and time of the moved partition's files, by name.
        entries: its entry in each checkpoint file.
        formatted: both are; else the destination was just added to ``log.dirs``, and is empty.
    """

    root: Path
    files: dict[str, tuple[bytes, int]]
    entries: dict[str, int | None]
    formatted: bool = True

    @property
    def source(self) -> Path:
        return self.root / "source"

    @property
    def destination(self) -> Path:
        return self.root / "destination"

    def at(self, root: Path) -> Pair:
        """The same pair elsewhere."""
        return replace(self, root=root)

    def copied(self, root: Path) -> Pair:
        """A copy of what is on disk now."""
        shutil.copytree(self.root, root, copy_function=shutil.copy2)
        return self.at(root)

    def move(self, wrap: Callable[[Any], Any] = Unsynced) -> MoveResult:
        return move_partition(
            self.source,
            T0,
            self.destination,
            now_ms=NOW_MS,
            progress=lambda _what, _done, _total: None,
            wrap=wrap,
        )

    def current(self) -> list[Path]:
        """The directories that a broker would take for the partition's current log."""
        both = (self.source / str(T0), self.destination / str(T0))
        return [path for path in both if path.is_dir()]

    def assert_moved(self) -> None:
        """The destination has the log and its entries, the source and its state nothing."""
        assert self.current() == [self.destination / str(T0)]
        assert files_of(self.destination / str(T0)) == self.files
        assert entries_of(self.destination) == self.entries
        assert entries_of(self.source) == dict.fromkeys(CHECKPOINT_FILES)
        left = {path.name for path in self.source.iterdir() if path.name.startswith("t-")}
        assert all(name.endswith("-delete") for name in left)
        for log_dir in (self.source, self.destination):
            neighbour = 7 if self.formatted or log_dir == self.source else None
            assert entries_of(log_dir, NEIGHBOUR) == dict.fromkeys(CHECKPOINT_FILES, neighbour)
            assert not [path for path in log_dir.rglob("*") if "-future" in path.name]
            assert not (log_dir / ".logwright-state.json").exists()


def make_pair(root: Path, *, formatted: bool = True) -> Pair:
    """A log that Kafka wrote, in the first of two directories; both have a neighbour's entries, if
    the second is formatted.
    """
    root.mkdir(parents=True)
    copy_before(CASE, root / "copied").rename(root / "source")
    (root / "destination").mkdir()
    for name, directory_id in (("source", "D" * 22), ("destination", "B" * 22)):
        log_dir = root / name
        if not formatted and name == "destination":
            continue
        (log_dir / "meta.properties").write_text(META.format(directory_id))
        (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
        for file in CHECKPOINT_FILES:
            path = log_dir / file
            entries = (
                dict(parse_offset_checkpoint(path.read_bytes(), path)) if path.exists() else {}
            )
            path.write_bytes(serialize_offset_checkpoint({**entries, NEIGHBOUR: 7}))
    live = root / "source" / str(T0)
    (live / "partition.metadata").write_bytes(TOPIC_ID)
    (live / "00000000000000000000.log.deleted").write_bytes(b"retired")
    (live / MARK.parent).mkdir()
    (live / MARK).write_bytes(b"the mark of an erasure")
    path = root / "source" / "cleaner-offset-checkpoint"
    entries = dict(parse_offset_checkpoint(path.read_bytes(), path))
    path.write_bytes(serialize_offset_checkpoint({**entries, T0: 5}))
    shutil.rmtree(root / "copied", ignore_errors=True)
    return Pair(root, files_of(live), entries_of(root / "source"), formatted)


def files_of(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Content and modification time of the files that a move carries."""
    return {
        str(path.relative_to(directory)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in (*sorted(directory.iterdir()), directory / MARK)
        if path.is_file() and not path.name.endswith(".deleted")
    }


def entries_of(log_dir: Path, partition: TopicPartition = T0) -> dict[str, int | None]:
    return {
        name: parse_offset_checkpoint((log_dir / name).read_bytes(), log_dir / name).get(partition)
        for name in CHECKPOINT_FILES
    }


class DyingFileSystem(InterceptedFileSystem):
    """Makes no call any more from number `crash_at` (from 1) on: the process is dead."""

    def __init__(self, inner: FileSystem, *, crash_at: int) -> None:
        super().__init__(inner)
        self.crash_at = crash_at

    def before_call(self) -> None:
        if self.calls >= self.crash_at:
            raise Crash


@dataclass(eq=False)
class _File:
    """A file's content and time, in memory and on the disk."""

    data: bytes = b""
    modified_ns: int = 0
    durable: tuple[bytes, int] = (b"", 0)


@dataclass(eq=False)
class _Dir:
    """A directory's entries, in memory and on the disk."""

    view: dict[str, _File | _Dir] = field(default_factory=dict)
    durable: dict[str, _File | _Dir] = field(default_factory=dict)


@dataclass(eq=False)
class _Change:
    """A change of names, all of it or nothing: (directory, name, what is there then)."""

    parts: tuple[tuple[_Dir, str, _File | _Dir | None], ...]


class PowerLossTree:
    """Does everything on the disk, and knows what would be left of it without power.

    A change of names is durable once one of its directories is synced; until then any subset of
    the changes may be on the disk. A file's content and time are durable once it is synced; until
    then the old, none or the new one may be there.
    """

    def __init__(self, inner: FileSystem, root: Path) -> None:
        self.inner = inner
        self.root = root
        self.top = _load(root)
        self.pending: list[_Change] = []
        self.on_step: Callable[[], None] = lambda: None

    def write_file(self, path: Path, content: bytes, *, like: Path | None) -> None:
        self.on_step()
        self.inner.write_file(path, content, like=like)
        made = _File(data=content, modified_ns=path.stat().st_mtime_ns)
        self._change((path, made))

    def append(self, path: Path, content: bytes, *, create: bool) -> None:
        raise NotImplementedError

    def truncate(self, path: Path, length_bytes: int) -> None:
        raise NotImplementedError

    def link(self, source: Path, target: Path) -> None:
        raise NotImplementedError

    def rename(self, source: Path, target: Path) -> None:
        self.on_step()
        moved = self._find(source)
        self.inner.rename(source, target)
        self._change((source, None), (target, moved))

    def rename_dir(self, source: Path, target: Path) -> None:
        self.on_step()
        moved = self._find(source)
        self.inner.rename_dir(source, target)
        self._change((source, None), (target, moved))

    def unlink(self, path: Path) -> None:
        self.on_step()
        self.inner.unlink(path)
        self._change((path, None))

    def remove_dir(self, path: Path) -> None:
        self.on_step()
        self.inner.remove_dir(path)
        self._change((path, None))

    def make_dir(self, path: Path, *, like: Path | None) -> None:
        self.on_step()
        self.inner.make_dir(path, like=like)
        self._change((path, _Dir()))

    def copy_range(self, source: Path, target: Path, position: int, length_bytes: int) -> None:
        self.on_step()
        self.inner.copy_range(source, target, position, length_bytes)
        self._file(target).data = target.read_bytes()

    def fsync_file(self, path: Path) -> None:
        self.on_step()
        self.inner.fsync_file(path)
        file = self._file(path)
        file.durable = (file.data, file.modified_ns)

    def fsync_dir(self, path: Path) -> None:
        self.on_step()
        self.inner.fsync_dir(path)
        synced = self._find(path)
        for change in [one for one in self.pending if any(d is synced for d, _, _ in one.parts)]:
            _apply(change)
            self.pending.remove(change)

    def set_mtime(self, path: Path, modified_ns: int) -> None:
        self.on_step()
        self.inner.set_mtime(path, modified_ns)
        self._file(path).modified_ns = modified_ns

    def set_owner(self, path: Path, *, like: Path) -> None:
        raise NotImplementedError

    def write_state(self, target: Path, chosen: random.Random) -> None:
        """Put on the disk what one power loss, now, leaves."""
        kept = {id(change) for change in self.pending if chosen.random() < 0.5}
        names = _durable_names(self.top)
        for change in self.pending:
            if id(change) in kept:
                for directory, name, node in change.parts:
                    entries = names.setdefault(id(directory), dict(directory.durable))
                    entries.pop(name, None)
                    if node is not None:
                        entries[name] = node
        _write(self.top, names, target, chosen)

    def _change(self, *parts: tuple[Path, _File | _Dir | None]) -> None:
        changes = []
        for path, node in parts:
            directory = self._find(path.parent)
            assert isinstance(directory, _Dir)
            directory.view.pop(path.name, None)
            if node is not None:
                directory.view[path.name] = node
            changes.append((directory, path.name, node))
        self.pending.append(_Change(tuple(changes)))

    def _find(self, path: Path) -> _File | _Dir:
        node: _File | _Dir = self.top
        for part in path.relative_to(self.root).parts:
            assert isinstance(node, _Dir)
            node = node.view[part]
        return node

    def _file(self, path: Path) -> _File:
        node = self._find(path)
        assert isinstance(node, _File)
        return node


def _apply(change: _Change) -> None:
    for directory, name, node in change.parts:
        directory.durable.pop(name, None)
        if node is not None:
            directory.durable[name] = node


def _load(path: Path) -> _Dir:
    directory = _Dir()
    for child in path.iterdir():
        if child.name in OURS:
            continue
        if child.is_dir():
            directory.view[child.name] = _load(child)
        else:
            content = (child.read_bytes(), child.stat().st_mtime_ns)
            directory.view[child.name] = _File(*content, durable=content)
    directory.durable = dict(directory.view)
    return directory


def _durable_names(directory: _Dir) -> dict[int, dict[str, _File | _Dir]]:
    names = {id(directory): dict(directory.durable)}
    for node in directory.durable.values():
        if isinstance(node, _Dir):
            names |= _durable_names(node)
    return names


def _write(
    directory: _Dir,
    names: dict[int, dict[str, _File | _Dir]],
    target: Path,
    chosen: random.Random,
) -> None:
    target.mkdir()
    for name, node in names.get(id(directory), directory.durable).items():
        if isinstance(node, _Dir):
            _write(node, names, target / name, chosen)
            continue
        torn = (node.data[: len(node.data) // 2], node.modified_ns)
        zeros = (bytes(len(node.data)), node.modified_ns)
        states = [node.durable, (node.data, node.modified_ns), torn, zeros]
        whole = node.durable == (node.data, node.modified_ns)
        data, modified_ns = node.durable if whole else chosen.choice(states)
        (target / name).write_bytes(data)
        os.utime(target / name, ns=(modified_ns, modified_ns))
