"""Everything below a directory, listed once.

Each entry is opened relative to its parent, and no symlink is followed. What is neither a file nor
a directory, or cannot be listed, is in `Tree.others`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from logwright.errors import NotALogDir, PreconditionError, UnreadableFile
from logwright.place.files import open_log_dir
from logwright.place.model import Entry, OpenDir, Place
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

    root: Place
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


def list_tree(root: Place) -> Tree:
    """List everything below a directory. Entries that vanish meanwhile are left out. Effects: reads
    directories.

    Raises:
        NotALogDir: it is not a directory.
        UnreadableFile: it cannot be opened.
        PreconditionError: there are more than `MOST_FILES` files.
    """
    tree = Tree(root=root)
    with open_log_dir(root) as directory:
        for path, entry in _walk(directory, "", 0):
            if isinstance(entry, str):
                tree.others[path] = entry
            elif entry.kind == "directory":
                tree.directories.append(path)
            else:
                tree.files[path] = stamp_of(entry)
            if len(tree.files) > MOST_FILES:
                raise PreconditionError(f"has more than {MOST_FILES:,} files.", path=root)
    return replace(tree, files=dict(sorted(tree.files.items())))


def bytes_below(directory: Place) -> ByteCount:
    """Return the bytes of all files below a directory, 0 if it cannot be listed. Effects: as
    `list_tree`.
    """
    with suppress(NotALogDir, UnreadableFile):
        return list_tree(directory).total_bytes
    return ByteCount(0)


def stamp_of(entry: Entry) -> Stamp:
    """Return the stamp of a file."""
    _, size, modified_ns, inode = entry.stamp
    return Stamp(entry.device, inode, size, modified_ns, entry.changed_ns, entry.links)


def _walk(directory: OpenDir, prefix: str, level: int) -> Iterator[tuple[str, Entry | str]]:
    """Generate (path, a file or directory, or why it is not read)."""
    try:
        entries = directory.entries()
    except UnreadableFile as error:
        yield prefix.rstrip("/"), _why(error)
        return
    for entry in entries:
        path = prefix + entry.stamp.name
        if entry.kind == "file":
            yield path, entry
        elif entry.kind == "link":
            yield path, "a symbolic link, which is not followed"
        elif entry.kind != "directory":
            article = "an" if entry.kind == "unfinished upload" else "a"
            yield path, f"{article} {entry.kind}"
        elif level == MOST_LEVELS:
            yield path, f"more than {MOST_LEVELS} levels deep"
        else:
            try:
                with directory.open_dir(entry.stamp.name) as inner:
                    yield path, entry
                    yield from _walk(inner, f"{path}/", level + 1)
            except NotALogDir:
                continue
            except UnreadableFile as error:
                yield path, _why(error)


def _why(error: UnreadableFile) -> str:
    return error.problem.removesuffix(".")
