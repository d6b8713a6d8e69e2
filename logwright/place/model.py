"""Where a log directory is, and what can be done there.

A directory of this machine is a `Path`: it can be read, locked and changed. Any other place is a
`ReadOnlyPlace`, which can be read and nothing else: it has no locks, no renames and no file steps.
So a function that only reads takes a `Place`, one that changes a log takes a `Path`, and a type
checker knows the difference (ADR 40).

A new place is a module of this package with one class of `ReadOnlyPlace` and one of `Bytes`, and
its line in `logwright.place.named`, by which the command line and Spark reach it. Their methods
raise OSError, as functions of `os` do; readers never see it, since what is here and in
`logwright.place.files` turns it into an error with file and position.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import (
    TYPE_CHECKING,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Self,
    TypeAlias,
    TypeGuard,
    TypeVar,
    cast,
)

import numpy as np

from logwright.errors import StalePlan, UnreadableFile, unreadable
from logwright.units import ByteCount

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    import typing_extensions
    from numpy.typing import NDArray

    from logwright.format.names import TopicPartition


LARGEST_FILE_BYTES: Final = 2_147_483_647
"""No file of a segment is larger: Kafka's positions are int32 (LogSegment, FileRecords)."""
RANGE_BYTES: Final = 8 * 1024 * 1024
"""Bytes that are read at once."""

Kind: TypeAlias = Literal[
    "file", "directory", "link", "named pipe", "socket", "device", "unfinished upload"
]
"""What there is under a name. Of an ``unfinished upload`` to remote storage nothing can be read."""


class FileStamp(NamedTuple):
    """One file as it was seen: enough to notice that it changed.

    Attributes:
        bytes: its size.
        modified_ns: time of the last change, ns since the epoch.
        inode: what another file of the same name, size and time does not have.
    """

    name: str
    bytes: ByteCount
    modified_ns: int
    inode: int


class Entry(NamedTuple):
    """What a directory has under one name.

    Attributes:
        stamp: its `bytes` are 0 unless it is a file.
        changed_ns: time of the last change of what a file system keeps of it, its name included.
        links: how many names the file has; only with the same `device` are two inodes one file.
    """

    kind: Kind
    stamp: FileStamp
    changed_ns: int
    links: int = 1
    device: int = 0


class KnownLog(NamedTuple):
    """A log whose files need not be looked at to plan it.

    Attributes:
        segments: `logwright.bucket.rows.SEGMENT`[n], ascending, n > 0; read-only.
        snapshots: the offsets of the producer snapshots, ascending.
        end: the log end offset.
        version: what another state of the log does not have.
    """

    segments: NDArray[np.void]
    snapshots: tuple[int, ...]
    end: int
    version: FileStamp


class Bytes(ABC):
    """An open file. As a context manager it closes the file on leaving.

    Attributes:
        path: for messages.
        seen: (bytes, modified_ns, inode) when it was opened, as a `FileStamp` has them.
    """

    __slots__ = ("path", "seen")

    def __init__(self, path: object, seen: tuple[int, int, int]) -> None:
        self.path = path
        self.seen = seen

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:  # noqa: B027 -- many places have nothing to give back
        """Give back what it holds."""

    @abstractmethod
    def entry(self) -> Entry:
        """Return what this file is now; whether it has its name still does not count.

        Raises:
            OSError: the device fails.
        """

    @abstractmethod
    def read_into(self, data: NDArray[np.uint8], position: int) -> int:
        """Read bytes from a position on into an array, uint8[n]. Returns how many were read: fewer
        than n at any time, 0 only at the file's end.

        Raises:
            OSError: the device fails.
        """

    def fill(self, data: NDArray[np.uint8], position: int) -> None:
        """Read bytes from a position on until an array is full. Effects: reads.

        Raises:
            StalePlan: the file ends before.
            UnreadableFile: the device fails.
        """
        if self._read(data, position) < len(data):
            raise StalePlan("became shorter.", path=self.path, remedy="Plan again.")

    def span(self, position: int, size: int) -> bytes:
        """Return `size` bytes from a position on; fewer only at the file's end. Effects: reads.

        Raises:
            UnreadableFile: the device fails.
        """
        data = np.empty(size, dtype=np.uint8)
        return data[: self._read(data, position)].tobytes()

    def whole(self) -> NDArray[np.uint8]:
        """Return all of it as uint8[bytes], read-only. Effects: reads; a file of this machine is
        mapped.

        Raises:
            StalePlan: it became shorter since it was opened.
            UnreadableFile: the device fails, or the file is larger than any of a log.
        """
        size = self.seen[0]
        if size > LARGEST_FILE_BYTES:
            raise too_large(size, self.path)
        data = np.empty(size, dtype=np.uint8)
        self.fill(data, 0)
        data.flags.writeable = False
        return data

    def _read(self, data: NDArray[np.uint8], position: int) -> int:
        """Read until an array is full or the file ends; return how many bytes were read."""
        done = 0
        while done < len(data):
            try:
                count = self.read_into(data[done : done + RANGE_BYTES], position + done)
            except OSError as error:
                raise unreadable(error, self.path, position + done) from error
            if not count:
                break
            done += count
        return done


class OpenDir(ABC):
    """An open directory. As a context manager it closes the directory on leaving.

    Attributes:
        name: its path for messages, as text: making paths costs as much as reading the files.
    """

    __slots__ = ("name",)
    name: str

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    @abstractmethod
    def path(self) -> Place:
        """The directory's path."""

    def file(self, name: str) -> str:
        """Return the path of one of its files, as text."""
        return f"{self.name}/{name}"

    def close(self) -> None:  # noqa: B027 -- only a descriptor is given back
        """Give the descriptor back, if there is one."""

    @abstractmethod
    def open_dir(self, name: str) -> OpenDir:
        """Open one of its directories, without following a symlink.

        Raises:
            NotALogDir: it is missing.
            UnreadableFile: it may not be read, or is not a directory.
        """

    @abstractmethod
    def kinds(self) -> dict[str, Kind]:
        """Return what each entry is, by name, in no order; what is neither a file, a directory nor
        a link is a "device" here. Effects: reads the directory.

        Raises:
            UnreadableFile: it cannot be read.
        """

    def names(self) -> list[str]:
        """Return the names of all entries, sorted. Effects and errors: as `kinds`."""
        return sorted(self.kinds())

    @abstractmethod
    def entries(self) -> list[Entry]:
        """Return all entries, sorted by name. Effects and errors: as `kinds`."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Return whether something has this name. Effects: looks.

        Raises:
            UnreadableFile: the device fails.
        """

    @abstractmethod
    def open(self, name: str) -> Bytes:
        """Open a regular file for reading.

        Raises:
            UnreadableFile: it is missing, may not be read, or is not a regular file.
        """

    def read_part(self, name: str, position: int, size: int) -> bytes:
        """Read a small part of a file that was listed as a regular one. Effects: reads it.

        Raises:
            UnreadableFile: as `open`; or the device fails.
        """
        with self.open(name) as file:
            return file.span(position, size)

    def read(self, name: str) -> bytes:
        """Return a regular file's content. Effects: reads it.

        Raises:
            UnreadableFile: as `open`; or it is larger than any file of a log may be, or cannot be
                read completely.
        """
        with self.open(name) as file:
            size = file.seen[0]
            if size > LARGEST_FILE_BYTES:
                raise too_large(size, file.path)
            return file.span(0, size)


@dataclass(frozen=True, order=True)
class ReadOnlyPlace(ABC):
    """A directory or file that is somewhere else: it can be read, and nothing of it changed. It is
    sent to Spark's tasks, so it can be pickled: open connections do not belong to it.

    Whoever reads it keeps no broker out: a place where files change shows one state of them all.

    Attributes:
        running: a broker has it open: each log is shown up to what is committed, and is whole.
        versioned: a log there is changed by a new version of it.
        pure: its path; what `str` gives is for messages, and may name the place too.
    """

    running: ClassVar[bool] = False
    versioned: ClassVar[bool] = False
    pure: PurePosixPath

    def __str__(self) -> str:
        return str(self.pure)

    def __truediv__(self, name: str | PurePosixPath | Path) -> Self:
        return replace(self, pure=self.pure / name)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.pure.name

    @property
    def parent(self) -> Self:
        """The directory that it is in."""
        return replace(self, pure=self.pure.parent)

    def narrowed(
        self, *, partitions: Collection[TopicPartition] = (), topic: str | None = None
    ) -> Self:
        """Return this log directory for one who looks only at these partitions and those of this
        topic; the others may be shown or not. Effects: may list it.
        """
        del partitions, topic
        return self

    def again(self) -> Self:
        """Return the same place for one who has to see what was changed since it was looked at."""
        return self

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which it is read; on leaving, what was read is known to be true.

        Raises:
            Unsettled: on leaving: it is not.
        """
        return nullcontext()

    def not_shown(self) -> Iterable[tuple[str, str]]:
        """Yield what may hold records of this log directory and is not shown: the name of a
        partition's directory, and a sentence. Effects: may read.

        Raises:
            LogwrightError: it is not known.
        """
        return ()

    def known_part(self, name: str, position: int, size: int) -> bytes | None:
        """Return `size` bytes of a file in this directory, fewer only at its end, if they are known
        without opening it; None if they are not. Effects: as `entries`.
        """
        del name, position, size
        return None

    def known_log(self) -> KnownLog | None:
        """Return the log in this directory, if a plan need not look at its files. Effects: as
        `entries`.
        """
        return None

    @abstractmethod
    def entry(self) -> Entry:
        """Return what is there; no link is followed.

        Raises:
            FileNotFoundError: nothing is.
            OSError: the device fails.
        """

    @abstractmethod
    def entries(self) -> Iterable[Entry]:
        """Return what is in this directory, in any order.

        Raises:
            FileNotFoundError, NotADirectoryError: there is no such directory.
            OSError: the device fails.
        """

    @abstractmethod
    def open(self) -> Bytes:
        """Open this file.

        Raises:
            FileNotFoundError: it does not exist.
            IsADirectoryError: it is not a file.
            OSError: the device fails.
        """


Place: TypeAlias = Path | ReadOnlyPlace
"""Where a directory or file is that is only read."""
PlaceOrText: TypeAlias = Path | ReadOnlyPlace | str
"""The same; a path of this machine may be text, since making a `Path` costs as much as reading a
small file.
"""


if TYPE_CHECKING:
    AnyPlace = typing_extensions.TypeVar("AnyPlace", bound=Place, default=Path)
    AnyPlace_co = typing_extensions.TypeVar(
        "AnyPlace_co", bound=Place, covariant=True, default=Path
    )
else:  # Python 3.11 knows no default
    AnyPlace = TypeVar("AnyPlace")
    AnyPlace_co = TypeVar("AnyPlace_co")  # noqa: PLC0105


def is_local(place: Place) -> TypeGuard[Path]:
    """Return whether a place is of this machine, and can be changed."""
    return isinstance(place, Path)


def is_running(place: Place) -> bool:
    """Return whether a broker has this place open, and it is shown as `ReadOnlyPlace.running`."""
    return isinstance(place, ReadOnlyPlace) and place.running


def is_versioned(place: Place) -> bool:
    """Return whether a log in this place is changed by a new version of it."""
    return isinstance(place, ReadOnlyPlace) and place.versioned


def narrowed(
    place: AnyPlace,
    *,
    partitions: Collection[TopicPartition] = (),
    topic: str | None = None,
) -> AnyPlace:
    """Return a log directory for one who looks only at these partitions and those of this topic, at
    all if there is neither; see `ReadOnlyPlace.narrowed`.
    """
    if isinstance(place, ReadOnlyPlace) and (partitions or topic is not None):
        return cast("AnyPlace", place.narrowed(partitions=partitions, topic=topic))
    return place


def reading(place: Place) -> AbstractContextManager[None]:
    """Return `ReadOnlyPlace.reading` of a place; a context without effect for one of this
    machine.
    """
    return place.reading() if isinstance(place, ReadOnlyPlace) else nullcontext()


def again(place: AnyPlace) -> AnyPlace:
    """Return a place for one who looks after a change; see `ReadOnlyPlace.again`."""
    return cast("AnyPlace", place.again()) if isinstance(place, ReadOnlyPlace) else place


def below(directory: PlaceOrText, name: str) -> PlaceOrText:
    """Return a file or directory in a directory, to be opened; text on this machine."""
    return f"{directory}/{name}" if isinstance(directory, str | Path) else directory / name


def too_large(size: int, path: object) -> UnreadableFile:
    """Return the error for a file that is larger than any of a log."""
    return UnreadableFile(
        f"the file has {size} bytes, which no file of a log has.",
        path=path,
        remedy="Kafka cannot open it either; restore it.",
    )
