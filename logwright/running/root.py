"""All that a log directory has while a broker has it open: every directory at one moment each, and
the files of its root.

A broker renames directories (a topic that is deleted, a log that moves), so one that is listed
under a name can be missed under both. The root counts as looked at once all its directories are
held and a listing after that has the same names and inodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from logwright.format.names import (
    FUTURE_DIRECTORY,
    TopicPartition,
    parse_deleted_directory_name,
    parse_marked_directory_name,
)
from logwright.place.files import open_log_dir
from logwright.place.local import entry_of, is_named
from logwright.running.bytes import HeldFile
from logwright.running.picture import TRANSIENT

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from logwright.place.model import Entry
    from logwright.running.picture import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """The root of a log directory.

    Attributes:
        entries: all of them, by name.
        files: its regular files, as far as they can be opened, by name.
        gone: directories that were listed, and gone before they could be opened.
    """

    entries: Mapping[str, Entry]
    files: Mapping[str, HeldFile]
    gone: tuple[str, ...] = ()

    @property
    def directories(self) -> dict[str, int]:
        """The inodes of its directories, by name."""
        return {
            name: entry.stamp.inode
            for name, entry in self.entries.items()
            if entry.kind == "directory"
        }


def read_root(log_dir: Path) -> Root:
    """Return the root as it is now. Effects: lists it; opens its files.

    Raises:
        NotALogDir, UnreadableFile: it cannot be listed.
    """
    with open_log_dir(log_dir) as directory:
        entries = {entry.stamp.name: entry for entry in directory.entries()}
        files: dict[str, HeldFile] = {}
        for name, entry in list(entries.items()):
            if entry.kind != "file":
                continue
            try:
                files[name] = HeldFile(name, directory.fd, directory.file(name))
            except FileNotFoundError:
                del entries[name]
            except OSError:
                continue  # who reads it says why it cannot
    entries |= {name: entry_of(name, held.status) for name, held in files.items()}
    return Root(entries=entries, files=files)


def grows(directory: str) -> bool:
    """Return whether a broker may append to a log in a directory of this name. Pure."""
    if TopicPartition.parse(directory) is not None:
        return True
    marked = parse_marked_directory_name(directory)
    return marked is not None and marked[1] == FUTURE_DIRECTORY


def passing(directory: str, picture: Picture) -> list[str]:
    """Return the files of a log that a broker is writing, or about to delete. Pure."""
    if parse_deleted_directory_name(directory) is not None:
        return list(picture.sizes)
    if not grows(directory):
        return []
    return [name for name in picture.sizes if name.endswith(TRANSIENT)]


def is_there(picture: Picture, name: str) -> bool:
    """Return whether a file still has the name that it had in a picture. Effects: looks."""
    return is_named(picture.snapshot.files[name].fd, picture.snapshot.directory, name)
