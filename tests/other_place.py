"""A place that is not on this machine, and has faults if a test wants them.

`elsewhere(log_dir)` takes a log directory into memory. The place has the same paths, so that what
is said of it can be compared; a test that removes the directory afterwards shows that nothing is
read from it. With a line in `ELSEWHERE` a user can name it, as `text_of` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.errors import PolicyError
from logwright.place.local import entry_of
from logwright.place.model import Bytes, Entry, Place, ReadOnlyPlace

SCHEME: Final = "memory"

Watch = Callable[[str, int], int | None]
"""Called with the path and the position of each read; may raise OSError, or return the most bytes
that this read gives."""


def _everything(_: str, __: int) -> None:
    """Every read gives all that is asked for."""


@dataclass
class Store:
    """What is in the place, by path, and how it behaves.

    Attributes:
        watch: see `Watch`.
        gone: files that are listed and cannot be opened.
        opened: paths of the files that were opened.
    """

    entries: dict[PurePosixPath, Entry] = field(default_factory=dict)
    contents: dict[PurePosixPath, bytes] = field(default_factory=dict)
    watch: Watch = _everything
    gone: set[str] = field(default_factory=set)
    opened: list[str] = field(default_factory=list)


_STORES: Final[list[Store]] = []
"""What is sent to a task has the store's number; its bytes stay where they are."""


@dataclass(frozen=True, order=True)
class Elsewhere(ReadOnlyPlace):
    """A file or directory in a `Store`."""

    number: int = 0

    @property
    def store(self) -> Store:
        """Where its bytes are."""
        return _STORES[self.number]

    def entry(self) -> Entry:
        """See `ReadOnlyPlace.entry`."""
        entry = self.store.entries.get(self.pure)
        if entry is None:
            raise FileNotFoundError(2, "No such file or directory")
        return entry

    def entries(self) -> Iterable[Entry]:
        """See `ReadOnlyPlace.entries`; in an order that nobody may rely on."""
        if self.entry().kind != "directory":
            raise NotADirectoryError(20, "Not a directory")
        inside = [entry for path, entry in self.store.entries.items() if path.parent == self.pure]
        return sorted(inside, key=lambda entry: entry.stamp.name[::-1])

    def open(self) -> Bytes:
        """See `ReadOnlyPlace.open`."""
        stamp = self.entry().stamp
        if str(self) in self.store.gone:
            raise FileNotFoundError(2, "No such file or directory")
        if self.pure not in self.store.contents:
            raise IsADirectoryError(21, "Is a directory")
        self.store.opened.append(str(self))
        return _Opened(self, (stamp.bytes, stamp.modified_ns, stamp.inode))


class _Opened(Bytes):
    """An open file of a `Store`."""

    def __init__(self, place: Elsewhere, seen: tuple[int, int, int]) -> None:
        super().__init__(place, seen)
        self._place = place
        self._store = place.store
        self._content = place.store.contents[place.pure]

    def entry(self) -> Entry:
        """See `Bytes.entry`."""
        return self._place.entry()

    def read_into(self, data: NDArray[np.uint8], position: int) -> int:
        """See `Bytes.read_into`."""
        most = self._store.watch(str(self.path), position)
        part = self._content[position : position + len(data)][:most]
        data[: len(part)] = np.frombuffer(part, dtype=np.uint8)
        return len(part)


def elsewhere(log_dir: Path) -> Elsewhere:
    """A log directory as it is now, in memory, with the directories that it is in."""
    store = Store()
    for path in (log_dir, *log_dir.parents, *log_dir.rglob("*")):
        entry = entry_of(path.name, path.lstat())
        store.entries[PurePosixPath(path)] = entry
        if entry.kind == "file":
            store.contents[PurePosixPath(path)] = path.read_bytes()
    _STORES.append(store)
    return Elsewhere(PurePosixPath(log_dir), len(_STORES) - 1)


def in_memory(text: str) -> Elsewhere:
    """The place of a text such as ``3/tmp/logs``."""
    number, slash, path = text.partition("/")
    if not number.isdecimal() or int(number) >= len(_STORES):
        raise PolicyError(f"{SCHEME} has no place {text!r}.")
    return Elsewhere(PurePosixPath(slash + path), int(number))


def text_of(place: Place) -> str:
    """A place as a user names it."""
    return f"{SCHEME}:{place.number}{place}" if isinstance(place, Elsewhere) else str(place)
