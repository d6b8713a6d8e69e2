"""File steps: the only changes that are made to a live log, as values.

A plan is a tuple of these; `logwright.steps.interpreter` executes them one after the other. Paths
are absolute and inside one log directory; in a move between two, inside either of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

AnyPath = Path | str
"""Text where there are many: making a `Path` costs more than a rename."""


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Create a file with this content; one that has the name already is removed first.
    Not durable before an FsyncFile.

    `like` is a file or directory: the new file gets its owner, group and mode (a directory's
    without the execute bits). Without it the file is private: mode 0600.
    """

    path: AnyPath
    content: bytes
    like: AnyPath | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Append to an existing file. With `create` an absent one is made first, with mode 0600."""

    path: AnyPath
    content: bytes
    create: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    """Truncate a file to `bytes`."""

    path: AnyPath
    bytes: int


@dataclass(frozen=True, slots=True)
class Link:
    """Give a file a second name, by hard link; `target` must not exist."""

    source: AnyPath
    target: AnyPath


@dataclass(frozen=True, slots=True)
class Rename:
    """Rename, atomically, over `target` if that exists."""

    source: AnyPath
    target: AnyPath


@dataclass(frozen=True, slots=True)
class Unlink:
    """Remove a file. With `missing_ok` an absent one is not an error."""

    path: AnyPath
    missing_ok: bool = False


@dataclass(frozen=True, slots=True)
class FsyncFile:
    """Make a file's content durable."""

    path: AnyPath


@dataclass(frozen=True, slots=True)
class FsyncDir:
    """Make a directory's entries durable."""

    path: AnyPath


@dataclass(frozen=True, slots=True)
class SetMtime:
    """Set a file's modification time (its access time too), in ns since the epoch."""

    path: AnyPath
    modified_ns: int


@dataclass(frozen=True, slots=True)
class SetOwner:
    """Give a file the owner, group and mode of the file `like`."""

    path: AnyPath
    like: AnyPath


@dataclass(frozen=True, slots=True)
class RemoveDir:
    """Remove an empty directory. With `missing_ok` an absent one is not an error; with `full_ok` a
    directory that is not empty stays.
    """

    path: AnyPath
    missing_ok: bool = False
    full_ok: bool = False


@dataclass(frozen=True, slots=True)
class MakeDir:
    """Make a directory. `like` is a directory: the new one gets its owner, group and mode. Without
    it the new one is private: mode 0700.
    """

    path: AnyPath
    like: AnyPath | None = None


@dataclass(frozen=True, slots=True)
class RenameDir:
    """Rename a directory, atomically; `target` must not exist."""

    source: AnyPath
    target: AnyPath


@dataclass(frozen=True, slots=True)
class CopyRange:
    """Copy `bytes` from `position` on to the same place of an existing file."""

    source: AnyPath
    target: AnyPath
    position: int
    bytes: int


FileStep = (
    WriteFile
    | Append
    | Truncate
    | Link
    | Rename
    | Unlink
    | FsyncFile
    | FsyncDir
    | SetMtime
    | SetOwner
    | RemoveDir
    | MakeDir
    | RenameDir
    | CopyRange
)
