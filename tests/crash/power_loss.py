"""What a power loss may leave of a whole log directory: a twin of the disk that remembers what is
not synced, next to the real one.
"""

# ruff: noqa: D102  the methods are those of FileSystem, described there

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from pathlib import Path
from typing import Any

from logwright.steps.filesystem import FileSystem
from tests.crash.filesystems import is_lock

Tree = dict[str, bytes]
"""Content by path relative to the log directory."""

EXHAUSTIVE = 6
"""Up to this many unsynced changes are tried in all subsets; of more, the smallest, the largest
and random ones.
"""


@dataclass(slots=True)
class Inode:
    """A file's content: as it is durable, and every content that it had since."""

    durable: bytes
    versions: list[bytes] = field(default_factory=list)

    @property
    def now(self) -> bytes:
        return self.versions[-1] if self.versions else self.durable

    def possible(self) -> list[bytes]:
        """What a power loss may leave: any version; of the last change also a part."""
        versions = [self.durable, *self.versions]
        if self.versions:
            before = versions[-2]
            grown = self.now[len(before) :] if self.now.startswith(before) else b""
            if len(grown) > 1:
                versions.append(before + grown[: len(grown) // 2])
        return versions


Entries = dict[Path, Inode]
Change = Callable[[Entries], None]


class TwinFileSystem:
    """Makes every call on the real file system and on the twin.

    `states` gathers, before each sync and at the end, what may be on disk if the power goes, each
    that differs to Kafka once; `tried` counts all.
    """

    def __init__(self, real: FileSystem, root: Path, seed: int = 1) -> None:
        self.real = real
        self.root = root
        self.durable: Entries = {
            path.relative_to(root): Inode(path.read_bytes())
            for path in root.rglob("*")
            if path.is_file() and not is_lock(path.name)
        }
        self.view = dict(self.durable)
        self.pending: list[tuple[set[Path], Change]] = []
        self.states: dict[frozenset[tuple[str, bytes]], tuple[str, Tree]] = {}
        self.tried = 0
        self.random = random.Random(seed)
        self.calls = 0
        self._note("before")

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  forwards any method
        act = getattr(self.real, name)

        def both(*args: Any, **options: Any) -> None:  # noqa: ANN401
            self.calls += 1
            if name.startswith("fsync"):
                self._note(f"call {self.calls}")
            act(*args, **options)
            paths = [Path(one) if isinstance(one, str) else one for one in args]
            getattr(self, f"twin_{name}")(*paths, **options)

        return both

    def finish(self) -> None:
        """The states at the end; the twin must be what the disk is."""
        self._note("end")
        finished = {
            p.relative_to(self.root): p.read_bytes() for p in self.root.rglob("*") if p.is_file()
        }
        ours = {path: inode.now for path, inode in self.view.items()}
        assert ours == {path: data for path, data in finished.items() if not is_lock(path.name)}

    def _note(self, label: str) -> None:
        for number, tree in enumerate(self._possible()):
            self.tried += 1
            self.states.setdefault(_seen_by_kafka(tree), (f"{label}.{number}", tree))

    def _possible(self) -> Iterator[Tree]:
        for chosen in _subsets(self.pending, self.random):
            entries = dict(self.durable)
            for _, change in chosen:
                change(entries)
            open_files = [path for path, inode in entries.items() if inode.versions]
            choices = [entries[path].possible() for path in open_files]
            for contents in product(*choices):
                tree = {str(path): inode.durable for path, inode in entries.items()}
                tree |= dict(zip(map(str, open_files), contents, strict=True))
                yield tree

    def _change(self, paths: Sequence[Path], change: Change) -> None:
        change(self.view)
        self.pending.append(({path.parent for path in paths}, change))

    def twin_write_file(self, path: Path, content: bytes, *, like: Path | None) -> None:
        del like
        name, inode = path.relative_to(self.root), Inode(b"")
        if content:
            inode.versions.append(content)
        self._change([name], lambda entries: entries.__setitem__(name, inode))

    def twin_append(self, path: Path, content: bytes, *, create: bool) -> None:
        name = path.relative_to(self.root)
        if name not in self.view:
            assert create
            self.twin_write_file(path, content, like=None)
        else:
            self.view[name].versions.append(self.view[name].now + content)

    def twin_truncate(self, path: Path, length_bytes: int) -> None:
        inode = self.view[path.relative_to(self.root)]
        inode.versions.append(inode.now[:length_bytes])

    def twin_link(self, source: Path, target: Path) -> None:
        old, new = source.relative_to(self.root), target.relative_to(self.root)
        inode = self.view[old]
        self._change([new], lambda entries: entries.__setitem__(new, inode))

    def twin_rename(self, source: Path, target: Path) -> None:
        old, new = source.relative_to(self.root), target.relative_to(self.root)
        inode = self.view[old]
        assert not inode.versions, f"{old} is renamed before it is synced"

        def change(entries: Entries) -> None:
            if entries.get(old) is inode:
                del entries[old]
                entries[new] = inode

        self._change([old, new], change)

    def twin_unlink(self, path: Path) -> None:
        name = path.relative_to(self.root)
        if name not in self.view:
            raise FileNotFoundError(name)
        self._change([name], lambda entries: entries.pop(name, None) and None)

    def twin_remove_dir(self, path: Path) -> None:
        del path

    def twin_rename_dir(self, source: Path, target: Path) -> None:
        old, new = source.relative_to(self.root), target.relative_to(self.root)

        def change(entries: Entries) -> None:
            for path in [path for path in entries if path.is_relative_to(old)]:
                entries[new / path.relative_to(old)] = entries.pop(path)

        self._change([old, new], change)

    def twin_fsync_file(self, path: Path) -> None:
        inode = self.view[path.relative_to(self.root)]
        inode.durable, inode.versions = inode.now, []

    def twin_fsync_dir(self, path: Path) -> None:
        directory = path.relative_to(self.root)
        for directories, change in self.pending:
            if directory in directories:
                change(self.durable)
        self.pending = [one for one in self.pending if directory not in one[0]]

    def twin_set_mtime(self, path: Path, modified_ns: int) -> None:
        del path, modified_ns

    def twin_set_owner(self, path: Path, *, like: Path) -> None:
        del path, like


def _seen_by_kafka(tree: Tree) -> frozenset[tuple[str, bytes]]:
    """Without what its loader passes over, and what it deletes first of all."""
    return frozenset(
        (name, content)
        for name, content in tree.items()
        if ".logwright" not in name and not name.endswith((".deleted", ".tmp"))
    )


def _subsets(
    pending: list[tuple[set[Path], Change]], rng: random.Random
) -> Iterator[tuple[tuple[set[Path], Change], ...]]:
    """All subsets in their order; of many changes those of few, those of nearly all, and some."""
    count = len(pending)
    if count <= EXHAUSTIVE:
        for size in range(count + 1):
            yield from combinations(pending, size)
        return
    for number in range(count + 1):
        yield tuple(pending[:number])
        yield tuple(pending[number:])
    for left_out in range(count):
        yield (pending[left_out],)
        yield tuple(one for at, one in enumerate(pending) if at != left_out)
    for _ in range(64):
        yield tuple(one for one in pending if rng.random() < 0.5)
