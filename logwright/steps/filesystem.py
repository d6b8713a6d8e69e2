"""The file system on which steps act, reached through directories that are held open.

1. Each root (a log directory; in a move there are two) is opened once. Every path is walked from
   there, directory by directory, with O_NOFOLLOW: a file that is replaced by a symbolic link
   between check and use is refused, and nothing outside the roots can be touched.
2. Only regular files are written, renamed, linked and removed.
3. Nothing here decides anything, and nothing is durable before its fsync. A failed fsync is
   final: the kernel may have dropped the pages, so it is never retried.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Final, Protocol, Self

from logwright.errors import invariant
from logwright.steps.copy_range import copy_bytes
from logwright.steps.step import AnyPath

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PRIVATE_MODE: Final = 0o600
_MOST_OPEN: Final = 32
"""Directories that are held open."""


class FileSystem(Protocol):
    """The acts that steps are made of, one method for each step. All of them raise OSError."""

    def write_file(self, path: AnyPath, content: bytes, *, like: AnyPath | None) -> None:
        """Create a file, in place of one that has the name."""

    def append(self, path: AnyPath, content: bytes, *, create: bool) -> None:
        """Append to a file."""

    def truncate(self, path: AnyPath, length_bytes: int) -> None:
        """Truncate a file."""

    def link(self, source: AnyPath, target: AnyPath) -> None:
        """Give a file a second name."""

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        """Rename over any file that has the target's name."""

    def unlink(self, path: AnyPath) -> None:
        """Remove a name."""

    def remove_dir(self, path: AnyPath) -> None:
        """Remove an empty directory."""

    def make_dir(self, path: AnyPath, *, like: AnyPath | None) -> None:
        """Make a directory."""

    def rename_dir(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a directory to a free name."""

    def copy_range(
        self, source: AnyPath, target: AnyPath, position: int, length_bytes: int
    ) -> None:
        """Copy a part of a file to the same place of another."""

    def fsync_file(self, path: AnyPath) -> None:
        """Make a file's content and attributes durable."""

    def fsync_dir(self, path: AnyPath) -> None:
        """Make a directory's entries durable."""

    def set_mtime(self, path: AnyPath, modified_ns: int) -> None:
        """Set a file's modification time."""

    def set_owner(self, path: AnyPath, *, like: AnyPath) -> None:
        """Give a file another one's owner, group and mode."""


class RealFileSystem:
    """The disk below one directory, or below some. Effects: all of its methods.

    A context manager: it holds the roots open.
    """

    __slots__ = ("_opened", "_roots")

    def __init__(self, *roots: AnyPath) -> None:
        """Open the roots; the operator gave them, so each may lead through symbolic links."""
        self._roots: dict[str, int] = {}
        self._opened: dict[str, int] = {}
        try:
            for root in roots:
                self._roots[_text(root)] = os.open(
                    root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
                )
        except OSError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the roots. Closing twice is not an error."""
        self._forget_directories()
        while self._roots:
            _, root_fd = self._roots.popitem()
            os.close(root_fd)

    def write_file(self, path: AnyPath, content: bytes, *, like: AnyPath | None) -> None:
        """Create a file. One that has the name is unlinked first, never written through: it may
        have a second name. A new one that cannot be given to its owner is unlinked again: its owner
        could not replace it, as a broker does with a checkpoint's ``.tmp``.
        """
        directory, name = self._parent(path)
        with suppress(FileNotFoundError):
            _require_regular(directory, name)
            os.unlink(name, dir_fd=directory)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE
        file = os.open(name, flags, _PRIVATE_MODE, dir_fd=directory)
        try:
            try:
                if like is None:
                    _give_to_owner_of(directory, file)
                else:
                    _take_after(file, self._stat(like))
            except OSError:
                os.unlink(name, dir_fd=directory)
                raise
            _write_all(file, content)
        finally:
            os.close(file)

    def append(self, path: AnyPath, content: bytes, *, create: bool) -> None:
        """Append to a regular file."""
        directory, name = self._parent(path)
        flags = os.O_WRONLY | os.O_APPEND | _FILE
        try:
            file = os.open(name, flags, dir_fd=directory)
        except FileNotFoundError:
            if not create:
                raise
            flags |= os.O_CREAT | os.O_EXCL
            file = os.open(name, flags, _PRIVATE_MODE, dir_fd=directory)
            _give_to_owner_of(directory, file)
        try:
            _require_regular_file(file)
            _write_all(file, content)
        finally:
            os.close(file)

    def truncate(self, path: AnyPath, length_bytes: int) -> None:
        """Truncate a regular file."""
        with self._file(path, os.O_WRONLY) as file:
            os.ftruncate(file, length_bytes)

    def link(self, source: AnyPath, target: AnyPath) -> None:
        """Hard-link a regular file; fails if the target exists."""
        source_dir, old = self._parent(source)
        target_dir, new = self._parent(target)
        _require_regular(source_dir, old)
        os.link(old, new, src_dir_fd=source_dir, dst_dir_fd=target_dir, follow_symlinks=False)

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a regular file, over a regular file or none."""
        source_dir, old = self._parent(source)
        target_dir, new = self._parent(target)
        _require_regular(source_dir, old)
        with suppress(FileNotFoundError):
            _require_regular(target_dir, new)
        os.rename(old, new, src_dir_fd=source_dir, dst_dir_fd=target_dir)

    def unlink(self, path: AnyPath) -> None:
        """Remove a regular file's name."""
        directory, name = self._parent(path)
        _require_regular(directory, name)
        os.unlink(name, dir_fd=directory)

    def remove_dir(self, path: AnyPath) -> None:
        """Remove an empty directory."""
        self._forget_directories()
        directory, name = self._parent(path)
        os.rmdir(name, dir_fd=directory)

    def make_dir(self, path: AnyPath, *, like: AnyPath | None) -> None:
        """Make a directory that does not exist yet."""
        directory, name = self._parent(path)
        os.mkdir(name, 0o700, dir_fd=directory)
        made = os.open(name, _DIRECTORY, dir_fd=directory)
        try:
            if like is None:
                _give_to_owner_of(directory, made)
            else:
                _take_after(made, self._stat(like))
        finally:
            os.close(made)

    def rename_dir(self, source: AnyPath, target: AnyPath) -> None:
        """Rename a directory, within a file system; a name that is taken is refused."""
        self._forget_directories()
        source_dir, old = self._parent(source)
        target_dir, new = self._parent(target)
        status = os.stat(old, dir_fd=source_dir, follow_symlinks=False)
        if not stat.S_ISDIR(status.st_mode):
            raise OSError(errno.ENOTDIR, "it is not a directory")
        with suppress(FileNotFoundError):  # rename(2) would replace an empty directory
            os.stat(new, dir_fd=target_dir, follow_symlinks=False)
            raise OSError(errno.EEXIST, "the new name is taken")
        os.rename(old, new, src_dir_fd=source_dir, dst_dir_fd=target_dir)

    def copy_range(
        self, source: AnyPath, target: AnyPath, position: int, length_bytes: int
    ) -> None:
        """Copy within the kernel where it can, between any two file systems."""
        with self._file(source, os.O_RDONLY) as read, self._file(target, os.O_WRONLY) as written:
            copy_bytes(read, written, position, length_bytes)

    def fsync_file(self, path: AnyPath) -> None:
        """Sync a regular file, fsync(2)."""
        with self._file(path, os.O_RDONLY) as file:
            os.fsync(file)

    def fsync_dir(self, path: AnyPath) -> None:
        """Sync a directory, fsync(2)."""
        directory = self._directory(path)
        os.fsync(directory)

    def set_mtime(self, path: AnyPath, modified_ns: int) -> None:
        """Set modification and access time of a regular file, unless it was modified then."""
        now = self._stat(path)
        _refuse_other(now)
        if now.st_mtime_ns != modified_ns:
            with self._file(path, os.O_RDONLY) as file:
                os.utime(file, ns=(modified_ns, modified_ns))

    def set_owner(self, path: AnyPath, *, like: AnyPath) -> None:
        """Set owner and group, then the mode, where they differ."""
        wanted, now = self._stat(like), self._stat(path)
        _refuse_other(now)
        if _differs(now, wanted):
            with self._file(path, os.O_RDONLY) as file:
                _take_after(file, wanted)

    def _directory(self, path: AnyPath) -> int:
        """Open a directory at or below a root, without following a link."""
        return self._walk(_text(path))

    def _parent(self, path: AnyPath) -> tuple[int, str]:
        """Return a descriptor of a path's directory, and the name in it."""
        directory, _, name = _text(path).rpartition("/")
        invariant(name != "..", "a step's path leads outside")
        return self._walk(directory), name

    def _walk(self, path: str) -> int:
        """Open a directory from its root on, without following a link.

        It stays open: the steps of a plan use the same few directories, and a directory that takes
        the place of one is not the one that was planned for. The least recently used is closed; a
        step needs two or three.
        """
        root = self._roots.get(path)
        if root is not None:
            return root
        directory = self._opened.pop(path, None)
        if directory is None:
            self._refuse_outside(path)
            parent, _, name = path.rpartition("/")
            directory = os.open(name, _DIRECTORY, dir_fd=self._walk(parent))
        self._opened[path] = directory
        if len(self._opened) > _MOST_OPEN:
            os.close(self._opened.pop(next(iter(self._opened))))
        return directory

    def _forget_directories(self) -> None:
        """Close the cached directories: they may be about to lose their names."""
        while self._opened:
            _, directory = self._opened.popitem()
            os.close(directory)

    @contextmanager
    def _file(self, path: AnyPath, flags: int) -> Iterator[int]:
        """Open a regular file."""
        directory, name = self._parent(path)
        file = os.open(name, flags | _FILE, dir_fd=directory)
        try:
            _require_regular_file(file)
            yield file
        finally:
            os.close(file)

    def _stat(self, path: AnyPath) -> os.stat_result:
        root = self._roots.get(_text(path))
        if root is not None:
            return os.fstat(root)
        directory, name = self._parent(path)
        return os.stat(name, dir_fd=directory, follow_symlinks=False)

    def _refuse_outside(self, path: str) -> None:
        """Assert that a path is inside the roots."""
        below = [path[len(root) :] for root in self._roots if path.startswith(f"{root}/")]
        lies_in_one = len(below) == 1 and ".." not in below[0].split("/")
        invariant(lies_in_one, "a step's path is outside the roots")


def _text(path: AnyPath) -> str:
    """Return a directory's path, to which a slash and a name can be added; a relative one begins
    with a dot, so that it is below ``.`` and not below ``/``.
    """
    text = str(path)
    if text.startswith("/"):
        return text.removesuffix("/")
    return text if text == "." else f"./{text}"


def _require_regular(directory: int, name: str) -> None:
    _refuse_other(os.stat(name, dir_fd=directory, follow_symlinks=False))


def _require_regular_file(file: int) -> None:
    _refuse_other(os.fstat(file))


def _refuse_other(status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    if stat.S_ISLNK(status.st_mode):
        raise OSError(errno.ELOOP, "it is a symbolic link")
    raise OSError(errno.EINVAL, "it is not a regular file")


def _take_after(file: int, like: os.stat_result) -> None:
    """Set owner and group first, so that the mode is never wide under the wrong owner. Correct
    values are not set again: with an unchanged inode the next fsync costs nothing.
    """
    now = os.fstat(file)
    changed = _owner(now) != _owner(like)
    if changed:
        os.fchown(file, like.st_uid, like.st_gid)
    if changed or _differs(now, like):  # a new owner takes set-id bits away
        os.fchmod(file, _mode_like(now, like))


def _differs(now: os.stat_result, like: os.stat_result) -> bool:
    return _owner(now) != _owner(like) or stat.S_IMODE(now.st_mode) != _mode_like(now, like)


def _owner(status: os.stat_result) -> tuple[int, int]:
    return status.st_uid, status.st_gid


def _mode_like(now: os.stat_result, like: os.stat_result) -> int:
    """Return the mode for a file: a directory's mode without the execute bits."""
    mode = stat.S_IMODE(like.st_mode)
    return mode & 0o666 if stat.S_ISDIR(like.st_mode) and not stat.S_ISDIR(now.st_mode) else mode


def _give_to_owner_of(directory: int, file: int) -> None:
    """Give root's own files to the directory's owner, who may have to read and remove them."""
    if os.geteuid() == 0:
        status = os.fstat(directory)
        os.fchown(file, status.st_uid, status.st_gid)


def _write_all(file: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(file, rest) :]
