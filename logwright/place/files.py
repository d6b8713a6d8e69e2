"""Opening and reading files of a log directory, which is untrusted: no symlinks, no FIFOs. What is
done in another place than this machine is in `PlaceDir`, or one line of a function.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, overload

from logwright.errors import (
    NotALogDir,
    UnreadableFile,
    link_or_file,
    no_directory,
    unreadable,
    unreadable_file,
)
from logwright.format.names import RESCUED
from logwright.place.local import ROOT_FLAGS, LocalDir, entry_of, open_local
from logwright.place.model import Bytes, Entry, Kind, OpenDir, Place, PlaceOrText, ReadOnlyPlace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwright.format.names import TopicPartition


class PlaceDir(OpenDir):
    """A directory of another place."""

    __slots__ = ("place",)

    def __init__(self, place: ReadOnlyPlace) -> None:
        self.place = place
        self.name = str(place)

    @property
    def path(self) -> ReadOnlyPlace:
        """The directory's path."""
        return self.place

    def open_dir(self, name: str) -> PlaceDir:
        """Open one of its directories; see `OpenDir.open_dir`."""
        place = self.place / name
        entry = entry_at(place)
        if entry is None:
            raise no_directory(place)
        if entry.kind != "directory":
            raise link_or_file(place)
        return PlaceDir(place)

    def kinds(self) -> dict[str, Kind]:
        """See `OpenDir.kinds`."""
        return {entry.stamp.name: entry.kind for entry in self.entries()}

    def entries(self) -> list[Entry]:
        """See `OpenDir.entries`."""
        try:
            return sorted(self.place.entries(), key=lambda entry: entry.stamp.name)
        except FileNotFoundError as error:
            raise no_directory(self.place) from error
        except OSError as error:
            raise unreadable(error, self.name) from error

    def exists(self, name: str) -> bool:
        """See `OpenDir.exists`."""
        return exists(self.place / name)

    def open(self, name: str) -> Bytes:
        """See `OpenDir.open`."""
        return open_bytes(self.place / name)

    def read_part(self, name: str, position: int, size: int) -> bytes:
        """See `OpenDir.read_part`."""
        known = self.place.known_part(name, position, size)
        return super().read_part(name, position, size) if known is None else known


@overload
def open_log_dir(log_dir: Path) -> LocalDir: ...
@overload
def open_log_dir(log_dir: Place) -> OpenDir: ...
def open_log_dir(log_dir: Place) -> OpenDir:
    """Open the log directory. It may be reached through symlinks: the operator named it.

    Effects: opens a descriptor.

    Raises:
        NotALogDir: it is missing, or not a directory.
        UnreadableFile: it may not be read.
    """
    try:
        if isinstance(log_dir, Path):
            return LocalDir(os.open(log_dir, ROOT_FLAGS), str(log_dir))
        if log_dir.entry().kind == "directory":
            return PlaceDir(log_dir)
        raise NotADirectoryError(str(log_dir))
    except (FileNotFoundError, NotADirectoryError) as error:
        missing = isinstance(error, FileNotFoundError)
        raise NotALogDir(
            f"the log directory {'does not exist' if missing else 'is not a directory'}.",
            path=log_dir,
            remedy="Give a directory of log.dirs.",
        ) from error
    except OSError as error:
        raise unreadable(error, log_dir) from error


@contextmanager
def open_partition_dir(log_dir: Place, partition: TopicPartition) -> Iterator[OpenDir]:
    """Open a partition's directory. Effects: opens descriptors, closed on leaving.

    Raises:
        NotALogDir: the log directory or the partition's is missing, or not a directory.
        UnreadableFile: one may not be read, or the partition's is a symlink.
    """
    with open_log_dir(log_dir) as parent, parent.open_dir(partition.directory_name) as directory:
        yield directory


def open_bytes(path: PlaceOrText) -> Bytes:
    """Open a regular file for reading. Effects: opens a descriptor.

    Raises:
        UnreadableFile: it is missing, may not be read, or is not a regular file.
    """
    if isinstance(path, str | Path):
        return open_local(path, path, None)
    try:
        return path.open()
    except OSError as error:
        raise unreadable_file(error, path) from error


def names_in(directory: Place) -> list[str]:
    """Return the names of all entries of a directory, sorted; none if it does not exist. Effects:
    reads it.

    Raises:
        UnreadableFile: it cannot be read.
    """
    try:
        if isinstance(directory, ReadOnlyPlace):
            return sorted(entry.stamp.name for entry in directory.entries())
        return sorted(os.listdir(directory))  # noqa: PTH208 -- names are enough
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(error, directory) from error


def entry_at(path: Place) -> Entry | None:
    """Return what is there, None if nothing is; no symlink is followed. Effects: looks.

    Raises:
        UnreadableFile: the device fails.
    """
    try:
        if isinstance(path, ReadOnlyPlace):
            return path.entry()
        return entry_of(path.name, path.lstat())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise unreadable(error, path) from error


def require_named(path: Path) -> None:
    """Refuse a file that the operator names and that is not there. Effects: looks.

    Raises:
        UnreadableFile: it is not there, or the device fails.
    """
    if entry_at(path) is None:
        raise UnreadableFile("there is no such file.", path=path)


def absolute(path: Place) -> Place:
    """Return a path from the root on; unlike `Path.resolve` it follows no symlink."""
    if isinstance(path, Path):
        return Path(os.path.abspath(path))  # noqa: PTH100 -- resolve() would follow symlinks
    return path


def rescued_of(log_dir: Path) -> Path:
    """Return where a rescue moves what is in the way in a log directory. Effects: follows links."""
    log_dir = log_dir.resolve()
    return log_dir.with_name(f"{log_dir.name}{RESCUED}")


def moved_out(log_dir: Path) -> Iterator[tuple[str, str]]:
    """Yield what is next to a log directory of what a rescue moved out of it: as
    `ReadOnlyPlace.not_shown`. Effects: looks.
    """
    path = rescued_of(log_dir)
    if exists(path):
        yield "", f"what a rescue moved to {path} was not searched"


def exists(path: Place) -> bool:
    """Return whether something is there. Effects and errors: as `entry_at`."""
    return entry_at(path) is not None


def is_directory(path: Place) -> bool:
    """Return whether this is a directory; a symlink to one is not. Effects and errors: as
    `entry_at`.
    """
    entry = entry_at(path)
    return entry is not None and entry.kind == "directory"


def is_regular(path: Place) -> bool:
    """Return whether this is a regular file; a symlink to one is not. Effects and errors: as
    `entry_at`.
    """
    entry = entry_at(path)
    return entry is not None and entry.kind == "file"
