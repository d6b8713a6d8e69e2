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
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Final, NamedTuple

import numpy as np

from logwright.errors import NotALogDir, StalePlan, UnreadableFile, unreadable
from logwright.log.tree import Stamp, Tree, list_tree, stamp_of
from logwright.place.files import open_log_dir
from logwright.place.model import OpenDir, Place

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
    files: dict[str, File] = {}
    done, total = 0, tree.total_bytes
    threads = min(_MOST_THREADS, len(os.sched_getaffinity(0)))
    with open_log_dir(tree.root) as directory, ThreadPoolExecutor(threads) as pool:
        work = pool.map(lambda one: _hash(directory, tree.root, *one), tree.files.items())
        for path, file in zip(tree.files, work, strict=True):
            files[path] = file
            done += file.size
            if report is not None:
                report(done, total)
    return files


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


def digest_of(root: Place, path: str) -> File:
    """Return one file as it is now. Effects: reads it.

    Raises:
        LogwrightError: it cannot be read, or changes meanwhile.
    """
    with open_log_dir(root) as directory:
        return _hash(directory, root, path, None)


def _hash(directory: OpenDir, root: Place, path: str, listed: Stamp | None) -> File:
    """Return a file's size and digest; `listed`: what it must be, None: whatever it is."""
    with ExitStack() as stack:
        *parents, name = path.split("/")
        try:
            for parent in parents:  # no part of its path may be a symlink
                directory = stack.enter_context(directory.open_dir(parent))
            file = stack.enter_context(directory.open(name))
        except (NotALogDir, UnreadableFile) as error:
            refused = isinstance(error.__cause__, OSError) and not _is_away(error.__cause__)
            if listed is None or refused:
                raise
            raise _changed(root / path) from error
        try:
            before = stamp_of(file.entry())
            if listed not in (None, before):
                raise _changed(root / path)
            digest, size, buffer = hashlib.sha256(), 0, np.empty(_READ_BYTES, dtype=np.uint8)
            while count := file.read_into(buffer, size):
                digest.update(buffer[:count].data)
                size += count
            if size != before.size or stamp_of(file.entry()) != before:
                raise _changed(root / path)
        except OSError as error:
            raise unreadable(error, root / path) from error
    return File(size, digest.hexdigest())


def _is_away(error: OSError) -> bool:
    """Return whether something else, or nothing, is where a file was listed."""
    others = (FileNotFoundError, NotADirectoryError, IsADirectoryError)
    return isinstance(error, others) or error.errno == errno.ELOOP


def _changed(path: Place) -> StalePlan:
    return StalePlan("changed while it was searched.", path=path, remedy=_CHANGED)
