"""What may happen in the middle of an operation: the process dies, the power goes, a call fails, or
another operation runs whole.

Every call on the file system, and every lock that is taken, counts as one; the fault comes before
call number `at`. The calls are made on the real disk.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import logwright.ingest.commit
import logwright.locks
import logwright.steps.marker
from logwright.steps.filesystem import RealFileSystem
from tests.crash.filesystems import Crash, is_lock
from tests.crash.power_loss import Entries, Inode, TwinFileSystem

Kind = Literal["none", "kill", "power", "errno", "meanwhile"]

CALLS: Final = (
    "write_file",
    "append",
    "truncate",
    "link",
    "rename",
    "unlink",
    "remove_dir",
    "make_dir",
    "rename_dir",
    "copy_range",
    "fsync_file",
    "fsync_dir",
    "set_mtime",
    "set_owner",
)
WAITS: Final = (
    (logwright.locks, "CHECKPOINTS_WAIT_SECONDS"),
    (logwright.steps.marker, "PLAN_WAIT_SECONDS"),
    (logwright.ingest.commit, "APPEND_WAIT_SECONDS"),
)
"""For how long commands wait for each other; who runs next to a command that stands still gives up
at once."""
PLANS: Final = ".logwright-plans-"
"""Begins the name of a lock that only its own process takes, with its threads kept out."""
CODES: Final = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        at: the call before which it comes, from 1.
        choice: picks what an un-synced disk keeps, and the errno.
    """

    kind: Kind = "none"
    at: int = 0
    choice: int = 0


NO_FAULT: Final = Fault()


class _Interposed:
    """Counts the calls of one operation and lets the fault happen."""

    def __init__(self, fault: Fault, root: Path, meanwhile: Callable[[], None] | None) -> None:
        self.fault = fault
        self.meanwhile = meanwhile
        self.calls = 0
        self.inside = False
        self.dead = False
        self.happened = False
        self.twin = _Unsynced(root, fault.choice) if fault.kind == "power" else None

    def before(self) -> None:
        """One more call is about to be made."""
        if self.dead:
            raise Crash
        if self.inside:
            return
        self.calls += 1
        if self.calls != self.fault.at or self.fault.kind == "none":
            return
        self.happened = True
        if self.fault.kind == "meanwhile":
            if self.meanwhile is not None:
                self.inside = True
                try:
                    self.meanwhile()
                finally:
                    self.inside = False
        elif self.fault.kind == "errno":
            code = CODES[self.fault.choice % len(CODES)]
            raise OSError(code, os.strerror(code))
        else:
            self.dead = True
            raise Crash


@contextmanager
def interrupted(
    fault: Fault, root: Path, meanwhile: Callable[[], None] | None = None
) -> Iterator[_Interposed]:
    """While it is entered, the fault happens to what works below `root`. A power loss is done with
    when it is left: the disk is then what it may have been.

    Raises:
        Crash: the process died, or the power went.
    """
    interposed = _Interposed(fault, root, meanwhile)
    saved = {name: getattr(RealFileSystem, name) for name in CALLS}
    open_lock = logwright.locks._open

    def intercepted(name: str) -> Callable[..., None]:
        real = saved[name]

        def call(self: RealFileSystem, *args: Any, **options: Any) -> None:  # noqa: ANN401
            interposed.before()
            if interposed.twin is not None:
                interposed.twin.know(args)
            real(self, *args, **options)
            if interposed.twin is not None:
                interposed.twin.mirror(name, args, options)

        return call

    def locking(*args: Any, **options: Any) -> Any:  # noqa: ANN401
        # A death or an errno here is one before any call.
        if fault.kind == "meanwhile" and not args[1].startswith(PLANS):
            interposed.before()
        return open_lock(*args, **options)

    for name in CALLS:
        setattr(RealFileSystem, name, intercepted(name))
    logwright.locks._open = locking
    try:
        with _without_waits():
            yield interposed
    finally:
        for name, method in saved.items():
            setattr(RealFileSystem, name, method)
        logwright.locks._open = open_lock
        if interposed.twin is not None and interposed.happened:
            interposed.twin.lose_power()


@contextmanager
def _without_waits() -> Iterator[None]:
    waits = [(module, name, getattr(module, name)) for module, name in WAITS]
    for module, name in WAITS:
        setattr(module, name, 0.0)
    try:
        yield
    finally:
        for module, name, seconds in waits:
            setattr(module, name, seconds)


class _Unsynced(TwinFileSystem):
    """A twin of the disk that knows what is not synced; a power loss leaves some of it."""

    def __init__(self, root: Path, choice: int) -> None:
        self.root = root
        self.random = random.Random(choice)
        self.durable: Entries = {}
        self.times: dict[int, int] = {}
        self.pending = []
        inodes: dict[int, Inode] = {}
        for path in root.rglob("*"):
            if path.is_file() and not is_lock(path.name):
                self.durable[path.relative_to(root)] = self._inode(path, inodes)
        self.view = dict(self.durable)
        self.renamed: set[Path] = set()

    def _inode(self, path: Path, inodes: dict[int, Inode]) -> Inode:
        status = path.stat()
        if status.st_ino not in inodes:
            inodes[status.st_ino] = inode = Inode(path.read_bytes())
            self.times[id(inode)] = status.st_mtime_ns
        return inodes[status.st_ino]

    def know(self, args: tuple[Any, ...]) -> None:
        """Files that others than steps made, as a build does, are on the disk already."""
        for argument in args:
            if not isinstance(argument, str | Path):
                continue
            path = Path(argument)
            if path.is_file() and path.relative_to(self.root) not in self.view:
                name = path.relative_to(self.root)
                inode = self._inode(path, {})
                self.durable[name] = self.view[name] = inode

    def mirror(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> None:
        """What was done on the disk is done here, unsynced."""
        paths = [Path(one) if isinstance(one, str) else one for one in args]
        if name == "unlink" and paths[0].relative_to(self.root) not in self.view:
            return
        if name == "rename_dir":
            self.renamed |= set(paths)
        getattr(self, f"twin_{name}")(*paths, **options)

    def twin_make_dir(self, path: Path, *, like: Path | None) -> None:
        """Directories are durable at once."""

    def twin_copy_range(self, source: Path, target: Path, position: int, length: int) -> None:
        """Durable at once: moves compare what they copied."""
        inode = self.view[target.relative_to(self.root)]
        inode.durable, inode.versions = target.read_bytes(), []

    def twin_set_mtime(self, path: Path, modified_ns: int) -> None:
        """Durable with the file, or not; no rule of these sequences depends on it."""
        inode = self.view.get(path.relative_to(self.root))
        if inode is not None:
            self.times[id(inode)] = modified_ns

    def lose_power(self) -> None:
        """Effects: makes the disk what is durable, and some of the rest."""
        entries = dict(self.durable)
        share = self.random.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        for _, change in self.pending:
            if self.random.random() < share:
                change(entries)
        contents = {id(one): self.random.choice(one.possible()) for one in entries.values()}
        for name in self.view.keys() | self.durable.keys():
            (self.root / name).unlink(missing_ok=True)
        written: dict[int, Path] = {}
        for name, inode in entries.items():
            path = self.root / name
            if id(inode) in written:
                path.hardlink_to(written[id(inode)])
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(contents[id(inode)])
            time = self.times.get(id(inode))
            if time is not None:
                os.utime(path, ns=(time, time))
            written[id(inode)] = path
        for directory in self.renamed:
            _remove_empty(directory)


def _remove_empty(directory: Path) -> None:
    """The name that a lost renaming leaves is not there. Effects: removes empty directories."""
    below = sorted(directory.rglob("*"), reverse=True) if directory.is_dir() else []
    if not any(path.is_file() and not is_lock(path.name) for path in below):
        for path in (*below, directory):
            with suppress(FileNotFoundError):
                path.unlink() if path.is_file() else path.rmdir()
