"""Everything below a directory, listed once.

Each entry is opened relative to its parent, and no symlink is followed. What is neither a file nor
a directory, or cannot be listed, is in `Tree.others`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, NamedTuple

from logwright.errors import NotALogDir, PreconditionError, UnreadableFile
from logwright.log.files import DIRECTORY_FLAGS, open_log_dir
from logwright.units import ByteCount

MOST_LEVELS: Final = 64
"""Directories below directories; a log directory has three levels."""
MOST_FILES: Final = 10_000_000
_NS_PER_MS: Final = 1_000_000


class Stamp(NamedTuple):
    """What shows that a file is the one that was listed; times in ns."""

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int
    links: int

    @property
    def touched_ms(self) -> int:
        """The later of its change and modification time, ms since the epoch."""
        return max(self.changed_ns, self.modified_ns) // _NS_PER_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """What is below a directory. All paths are relative to it.

    Attributes:
        root: the directory.
        files: path → stamp, of regular files, sorted.
        directories: that were listed, each before those inside it.
        others: path → why nothing is read there.
        hard_linked: paths of files that have another name outside of the directory.
    """

    root: Path
    files: dict[str, Stamp] = field(default_factory=dict)
    directories: list[str] = field(default_factory=list, compare=False)
    others: dict[str, str] = field(default_factory=dict)

    @property
    def total_bytes(self) -> ByteCount:
        """The size of all files."""
        return ByteCount(sum(file.size for file in self.files.values()))

    @property
    def hard_linked(self) -> tuple[str, ...]:
        """The files that have more names than this directory shows: the others keep the bytes."""
        names = Counter((file.device, file.inode) for file in self.files.values())
        return tuple(
            path for path, file in self.files.items() if file.links > names[file.device, file.inode]
        )


def list_tree(root: Path) -> Tree:
    """List everything below a directory. Entries that vanish meanwhile are left out. Effects: reads
    directories.

    Raises:
        NotALogDir: it is not a directory.
        UnreadableFile: it cannot be opened.
        PreconditionError: there are more than `MOST_FILES` files.
    """
    tree = Tree(root=root)
    with open_log_dir(root) as directory:
        for path, entry in _walk(directory.fd, "", 0):
            if isinstance(entry, str):
                tree.others[path] = entry
            elif entry is None:
                tree.directories.append(path)
            else:
                tree.files[path] = stamp_of(entry)
            if len(tree.files) > MOST_FILES:
                raise PreconditionError(f"has more than {MOST_FILES:,} files.", path=root)
    return replace(tree, files=dict(sorted(tree.files.items())))


def bytes_below(directory: Path) -> ByteCount:
    """Return the bytes of all files below a directory, 0 if it cannot be listed. Effects: as
    `list_tree`.
    """
    with suppress(NotALogDir, UnreadableFile):
        return list_tree(directory).total_bytes
    return ByteCount(0)


def stamp_of(status: os.stat_result) -> Stamp:
    """Return the stamp of a file."""
    return Stamp(
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_nlink,
    )


def _walk(fd: int, prefix: str, level: int) -> Iterator[tuple[str, os.stat_result | str | None]]:
    """Generate (path, status of a file, None of a directory, or why it is not read)."""
    try:
        with os.scandir(fd) as entries:
            names = sorted(entry.name for entry in entries)
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
                    yield path, None
                    yield from _walk(inner, f"{path}/", level + 1)
                finally:
                    os.close(inner)
        except FileNotFoundError:
            continue
        except OSError as error:
            yield path, _why(error)


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
