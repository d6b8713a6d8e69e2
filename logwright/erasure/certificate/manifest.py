"""The manifest: every regular file below a directory, with its size and SHA-256.

1. `list_tree` lists everything below a directory, each entry opened relative to its parent, and
   follows no symlink. What is neither a file nor a directory, or cannot be listed, is in `others`.
2. `hash_files` reads each file as it was listed. A file that is another one by now, or that changes
   while it is read, is an error: a certificate is about one state.
3. `require_same` lists again and compares: what was searched in between is what was hashed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from logwright.errors import PreconditionError, StalePlan
from logwright.place.files import open_log_dir
from logwright.place.local import DIRECTORY_FLAGS, FILE_FLAGS
from logwright.place.unreadable import unreadable

Report = Callable[[int, int], None]
"""Called with (bytes done, total bytes)."""

MOST_LEVELS: Final = 64
"""Directories below directories; a log directory has three levels."""
MOST_FILES: Final = 10_000_000
_READ_BYTES: Final = 1024 * 1024
_MOST_THREADS: Final = 8
_CHANGED: Final = "Stop other programs that use the directory, and run the command again."


class Stamp(NamedTuple):
    """What shows that a file is the one that was listed; times in ns."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int
    links: int


class File(NamedTuple):
    """A file's size in bytes and its SHA-256 in hex."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """What is below a directory.

    Attributes:
        root: the directory.
        files: path relative to it → stamp, of regular files, sorted.
        others: path → why nothing is read there.
        hard_linked: paths of files that have another name outside of the directory.
    """

    root: Path
    files: Mapping[str, Stamp]
    others: Mapping[str, str] = field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        """The size of all files."""
        return sum(one.size for one in self.files.values())

    @property
    def hard_linked(self) -> tuple[str, ...]:
        """The files that have more names than this directory shows: the others keep the bytes."""
        names = Counter((one.device, one.inode) for one in self.files.values())
        return tuple(
            path for path, one in self.files.items() if one.links > names[one.device, one.inode]
        )


def list_tree(root: Path) -> Tree:
    """List everything below a directory. Effects: reads directories.

    Raises:
        NotALogDir: it is not a directory.
        UnreadableFile: it cannot be read.
        PreconditionError: there are more than `MOST_FILES` files.
    """
    files: dict[str, Stamp] = {}
    others: dict[str, str] = {}
    with open_log_dir(root) as directory:
        for path, found in _walk(directory.fd, "", 0):
            if isinstance(found, str):
                others[path] = found
            else:
                files[path] = _stamp(found)
            if len(files) > MOST_FILES:
                raise PreconditionError(f"has more than {MOST_FILES:,} files.", path=root)
    return Tree(root=root, files=dict(sorted(files.items())), others=dict(sorted(others.items())))


def hash_files(tree: Tree, report: Report | None = None) -> dict[str, File]:
    """Return path → file for all files of a tree, in its order. Effects: reads them, on several
    threads.

    Raises:
        StalePlan: a file is not the one that was listed, or changed while it was read.
        UnreadableFile: a file cannot be read.
    """
    found: dict[str, File] = {}
    done, total = 0, tree.total_bytes
    threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
    with open_log_dir(tree.root) as directory, ThreadPoolExecutor(threads) as pool:
        fd = directory.fd
        work = pool.map(lambda one: _hash(fd, tree.root, *one), tree.files.items())
        for path, file in zip(tree.files, work, strict=True):
            found[path] = file
            done += file.size
            if report is not None:
                report(done, total)
    return found


def require_same(tree: Tree) -> None:
    """Require that a directory is as it was listed. Effects: lists it.

    Raises:
        StalePlan: a file was added, removed or changed.
    """
    now = list_tree(tree.root)
    for path in sorted(now.files.keys() | tree.files.keys()):
        if now.files.get(path) != tree.files.get(path):
            raise _changed(tree.root / path)
    if now.others != tree.others:
        raise _changed(tree.root)


def digest_of(root: Path, path: str) -> File:
    """Return one file as it is now. Effects: reads it.

    Raises:
        LogwrightError: it cannot be read, or changes meanwhile.
    """
    with open_log_dir(root) as directory:
        return _hash(directory.fd, root, path, None)


def _walk(fd: int, prefix: str, level: int) -> Iterator[tuple[str, os.stat_result | str]]:
    """Generate (path, status of a file, or why it is not read)."""
    try:
        with os.scandir(fd) as entries:
            names = [entry.name for entry in entries]
    except OSError as error:
        yield prefix.rstrip("/"), _why(error)
        return
    for name in names:
        path = prefix + name
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode):
                yield path, status
            elif not stat.S_ISDIR(status.st_mode):
                yield path, _kind(status.st_mode)
            elif level == MOST_LEVELS:
                yield path, f"more than {MOST_LEVELS} levels deep"
            else:
                inner = os.open(name, DIRECTORY_FLAGS, dir_fd=fd)
                try:
                    yield from _walk(inner, f"{path}/", level + 1)
                finally:
                    os.close(inner)
        except OSError as error:
            yield path, _why(error)


def _hash(fd: int, root: Path, path: str, listed: Stamp | None) -> File:
    """Return a file's size and digest; `listed`: what it must be, None: whatever it is."""
    try:
        file = _open_below(fd, path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP) and listed is not None:
            raise _changed(root / path) from error
        raise unreadable(error, root / path) from error
    try:
        before = os.fstat(file)
        if not stat.S_ISREG(before.st_mode) or listed not in (None, _stamp(before)):
            raise _changed(root / path)
        digest, size, buffer = hashlib.sha256(), 0, bytearray(_READ_BYTES)
        while count := os.readv(file, [buffer]):
            digest.update(memoryview(buffer)[:count])
            size += count
        if size != before.st_size or _stamp(os.fstat(file)) != _stamp(before):
            raise _changed(root / path)
    except OSError as error:
        raise unreadable(error, root / path) from error
    finally:
        os.close(file)
    return File(size, digest.hexdigest())


def _open_below(fd: int, path: str) -> int:
    """Open a file below an open directory; no part of its path may be a symlink."""
    *parents, name = path.split("/")
    opened: list[int] = []
    try:
        for parent in parents:
            fd = os.open(parent, DIRECTORY_FLAGS, dir_fd=fd)
            opened.append(fd)
        return os.open(name, FILE_FLAGS, dir_fd=fd)
    finally:
        for one in opened:
            os.close(one)


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_nlink,
    )


def _kind(mode: int) -> str:
    """Return the kind of an entry that is neither a file nor a directory."""
    kinds = (
        (stat.S_ISLNK, "a symbolic link, which is not followed"),
        (stat.S_ISFIFO, "a named pipe"),
        (stat.S_ISSOCK, "a socket"),
    )
    return next((kind for is_kind, kind in kinds if is_kind(mode)), "a device")


def _why(error: OSError) -> str:
    return f"cannot be read: {errno.errorcode.get(error.errno or 0, 'unknown error')}"


def _changed(path: Path) -> StalePlan:
    return StalePlan("changed while it was searched.", path=path, remedy=_CHANGED)
