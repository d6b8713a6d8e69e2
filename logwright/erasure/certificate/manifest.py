"""The manifest: every regular file below a directory, with its size and SHA-256.

1. `logwright.log.tree` lists everything below a directory.
2. `hash_files` reads each file as it was listed. A file that is another one by now, or that changes
   while it is read, is an error: a certificate is about one state.
3. `require_same` lists again and compares: what was searched in between is what was hashed.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from logwright.errors import StalePlan
from logwright.log.files import DIRECTORY_FLAGS, FILE_FLAGS, open_log_dir, unreadable
from logwright.log.tree import Stamp, Tree, list_tree, stamp_of

Report = Callable[[int, int], None]
"""Called with (bytes done, total bytes)."""

_READ_BYTES: Final = 1024 * 1024
_MOST_THREADS: Final = 8
_CHANGED: Final = "Stop other programs that use the directory, and run the command again."


class File(NamedTuple):
    """A file's size in bytes and its SHA-256 in hex."""

    size: int
    sha256: str


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
        if not stat.S_ISREG(before.st_mode) or listed not in (None, stamp_of(before)):
            raise _changed(root / path)
        digest, size, buffer = hashlib.sha256(), 0, bytearray(_READ_BYTES)
        while count := os.readv(file, [buffer]):
            digest.update(memoryview(buffer)[:count])
            size += count
        if size != before.st_size or stamp_of(os.fstat(file)) != stamp_of(before):
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


def _changed(path: Path) -> StalePlan:
    return StalePlan("changed while it was searched.", path=path, remedy=_CHANGED)
