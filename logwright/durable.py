"""Durable files outside of log directories: pages, keys, certificates, stores, files of tables.

1. A file is written under a temporary name that no other process uses, synced, and only then gets
   its name, by one rename or link; then the directory is synced. Wherever a writer dies, the name
   has all of the old content or all of the new, and once the call has returned, also after a loss
   of power, the new.
2. A symbolic link under the name is replaced, or refused, and never followed.
3. A temporary file that a killed writer left is removed by a later one, once it is a day old.

Files in log directories are written by file steps (`steps/replace.py` for small ones).
"""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

_TEMPORARY: Final = ".{}.logwright-tmp"
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPENDED: Final = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_MODE: Final = 0o666
"""Of files without a given mode; the umask takes bits away."""
_DAY_SECONDS: Final = 86_400


def replace(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write a small file, so that a reader sees the old or the new one. Effects: see the module.

    Args:
        path: of the file, which need not exist yet; its directory must.
        content: all of it.
        mode: its permissions, exactly and from the start; None: what the umask leaves of 0666.

    Raises:
        OSError: it cannot be written, or perhaps not be kept at a loss of power. The name has all
            of the old content or all of the new.
    """
    with replacing(path, mode=mode) as file:
        file.write(content)


@contextmanager
def replacing(path: Path, *, mode: int | None = None) -> Iterator[BinaryIO]:
    """Open a file that replaces the one of this name once the block has ended without an error;
    else `replace`.
    """
    with _appearing(path, mode, os.replace) as file:
        yield file


def new(path: Path, content: bytes, *, mode: int | None = None) -> None:
    """Write a small file that must not exist yet: as `replace` else.

    Raises:
        FileExistsError: the name is taken, perhaps by another process at this moment.
        OSError: it cannot be written.
    """
    with _appearing(path, mode, os.link) as file:  # unlike a rename a link replaces nothing
        file.write(content)


@contextmanager
def created(path: Path) -> Iterator[BinaryIO]:
    """Open a new file under its own name, for content that counts only once something else names
    it. It is durable when the block has ended; after an error a part of it stays. Effects: makes
    its directory, too.

    Raises:
        FileExistsError: the name is taken.
        OSError: it cannot be written.
    """
    make_directory(path.parent)
    with _synced(os.open(path, _NEW, _MODE)) as file:
        yield file
    sync(path.parent)


def append(path: Path, content: bytes) -> None:
    """Append to a file, durably. Effects: makes it and its directory if needed.

    Raises:
        OSError: it cannot be written, or is a symbolic link.
    """
    make_directory(path.parent)
    with _synced(os.open(path, _APPENDED, _MODE)) as file:
        file.write(content)
    sync(path.parent)


@contextmanager
def directory(path: Path) -> Iterator[Path]:
    """Give a directory with a temporary name, next to this one; it gets this name once the block
    has ended. Its directories are synced before, its files are the caller's. Effects: as said;
    nothing of it is left after an error.

    Args:
        path: must not exist, or be an empty directory.

    Raises:
        OSError: it cannot be made, or there is something else.
    """
    parent = path.absolute().parent
    make_directory(parent)
    staged = parent / _TEMPORARY.format(secrets.token_hex(8))
    staged.mkdir()
    try:
        yield staged
        for folder, _, _ in os.walk(staged):
            sync(Path(folder))
        staged.rename(path)
        sync(parent)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise


def make_directory(path: Path) -> None:
    """Make a directory and the missing ones above it, durably. Effects: as said.

    Raises:
        OSError: one cannot be made.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in missing:
        sync(folder.parent)


def sync(path: Path) -> None:
    """Make the content of a file, or the names in a directory, durable. Effects: as said.

    Raises:
        OSError: it cannot be read, or synced.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(path: Path, *, older_than_s: float = _DAY_SECONDS) -> None:
    """Remove temporary files that killed writers have left in a directory. Effects: as said; what
    cannot be removed stays.

    Args:
        path: of the directory, which need not exist.
        older_than_s: 0 for a directory in which no other process writes now.
    """
    for leftover in path.glob(_TEMPORARY.format("*")):
        with suppress(OSError):
            if time.time() - leftover.lstat().st_mtime >= older_than_s:
                leftover.unlink()


@contextmanager
def _appearing(
    path: Path, mode: int | None, appear: Callable[[Path, Path], None]
) -> Iterator[BinaryIO]:
    """Open a temporary file, sync it after the block, and give it its name by this call."""
    temporary = path.with_name(_TEMPORARY.format(secrets.token_hex(8)))
    try:
        descriptor = os.open(temporary, _NEW, _MODE if mode is None else mode)
        with _synced(descriptor) as file:
            if mode is not None:
                os.fchmod(descriptor, mode)  # whatever the umask is
            yield file
        appear(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    sync(path.parent)
    remove_leftovers(path.parent)


@contextmanager
def _synced(descriptor: int) -> Iterator[BinaryIO]:
    with os.fdopen(descriptor, "wb") as file:
        yield file
        file.flush()
        os.fsync(descriptor)
