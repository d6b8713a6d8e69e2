"""Where the files of a table are: in a local directory, or below a prefix of a bucket.

A table of Delta, and what is next to one, is written by these calls only. In both places a file is
under a name that nothing else has, and counts once a commit names it. A commit is a file that must
not exist yet: in a directory a link, in a bucket a conditional put. Any answer of a bucket but yes
settles nothing, so the object is read then, and compared: each commit has an id of its own.
"""

from __future__ import annotations

import errno
import io
import secrets
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final, NamedTuple

from logwright import durable
from logwright.bucket.store import Bucket, is_in_bucket

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

AGE_MS: Final = 604_800_000
"""A file in a bucket that no version ever named is removed when it is older: until then a slow
writer may be about to name it."""
MOST_BYTES: Final = 256 << 20
"""A file above this size is not read as a whole."""
_TRIES: Final = 10
_WAIT_SECONDS: Final = 0.2
_PART_BYTES: Final = 8 << 20
_WINDOW_BYTES: Final = 1 << 20


class Changed(Exception):
    """Another process has made this version of the table."""


class Listed(NamedTuple):
    """A file.

    Attributes:
        path: below the table's place.
        modified_ms: ms since the epoch, by the clock of the place.
    """

    path: str
    bytes: int
    modified_ms: float


class TableFiles(ABC):
    """The files of a table. The calls raise OSError.

    Attributes:
        orphan_ms: a file that no version named stays for this time.
        name: of the directory, or of the last part of the prefix.
        location: the directory, or the URL, as `deltalake` and messages have it.
    """

    orphan_ms: ClassVar[int] = 0

    def __init__(self, name: str, location: str) -> None:
        self.name = name
        self.location = location

    def __str__(self) -> str:
        return self.location

    @abstractmethod
    def next_to(self, name: str) -> TableFiles:
        """Return the place of this name next to it."""

    @abstractmethod
    def output(self, path: str) -> Any:  # noqa: ANN401 -- a context manager
        """Yield a new file, open for writing. Effects: makes it; it is durable when the block has
        ended, and may be there in part after an error.
        """

    @abstractmethod
    def source(self, path: str) -> Any:  # noqa: ANN401 -- the same
        """Open a file for reading.

        Raises:
            FileNotFoundError: it is gone.
        """

    @abstractmethod
    def create(self, path: str, content: bytes) -> None:
        """Write a file that must not exist yet. Effects: as said, durably.

        Args:
            content: no other call has the same.

        Raises:
            Changed: the name is taken.
            OSError: it is not known whether it was written.
        """

    @abstractmethod
    def read(self, path: str) -> bytes:
        """Return a file of at most `MOST_BYTES`. Effects: reads.

        Raises:
            FileNotFoundError: it is gone.
        """

    @abstractmethod
    def listing(self, prefix: str = "") -> list[Listed]:
        """Return all files, or those below a directory of it, by path. Effects: lists.

        Args:
            prefix: ends in a slash.
        """

    @abstractmethod
    def names(self) -> list[str]:
        """Return the names of what is in it, one level deep; nothing if it does not exist.
        Effects: lists.
        """

    @abstractmethod
    def remove(self, path: str) -> None:
        """Remove a file, if it is there. Effects: as said."""

    @abstractmethod
    def now_ms(self) -> float:
        """Return the clock by which files have their times. Effects: of a bucket, writes an object
        and removes it.
        """

    @abstractmethod
    def sizes(self, files: Iterable[str]) -> dict[str, int]:
        """Return the sizes of those of some files that are there. Effects: looks at each, or
        lists.
        """

    def settle(self, files: Iterable[str]) -> None:  # noqa: B027 -- a bucket's are
        """Make files durable that a library has written. Effects: as said."""

    def tidy(self) -> None:  # noqa: B027 -- a bucket needs nothing
        """Remove an empty directory. Effects: as said."""

    def first_lost(self, files: Iterable[tuple[str, int | None]]) -> str | None:
        """Return the first of some files that is gone, or has another size; None if all are there.
        Effects: looks at each.

        Args:
            files: paths with their sizes, if known.
        """
        wanted = list(files)
        sizes = self.sizes(path for path, _ in wanted)
        for path, size in wanted:
            if path not in sizes:
                return f"file {path} is gone"
            if size not in (None, sizes[path]):
                return f"file {path} has {sizes[path]} bytes, and had {size}"
        return None


class DirectoryFiles(TableFiles):
    """Files in a local directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory.name, str(directory))
        self.directory = directory

    def next_to(self, name: str) -> DirectoryFiles:
        """See `TableFiles.next_to`."""
        return DirectoryFiles(self.directory.with_name(name))

    @contextmanager
    def output(self, path: str) -> Iterator[IO[bytes]]:
        """See `TableFiles.output`."""
        with durable.created(self.directory / path) as file:
            yield file

    def source(self, path: str) -> IO[bytes]:
        """See `TableFiles.source`."""
        return (self.directory / path).open("rb")

    def create(self, path: str, content: bytes) -> None:
        """See `TableFiles.create`."""
        target = self.directory / path
        durable.make_directory(target.parent)
        try:
            durable.new(target, content)
        except FileExistsError:
            raise Changed from None

    def read(self, path: str) -> bytes:
        """See `TableFiles.read`."""
        with self.source(path) as file:
            return _small(file.read(MOST_BYTES + 1), path)

    def listing(self, prefix: str = "") -> list[Listed]:
        """See `TableFiles.listing`."""
        files = []
        for path in (self.directory / prefix).rglob("*"):
            status = path.lstat()
            if path.is_file():
                relative = str(path.relative_to(self.directory))
                files.append(Listed(relative, status.st_size, status.st_mtime * 1000))
        return sorted(files)

    def names(self) -> list[str]:
        """See `TableFiles.names`."""
        if not self.directory.is_dir():
            return []
        return sorted(path.name for path in self.directory.iterdir())

    def remove(self, path: str) -> None:
        """See `TableFiles.remove`."""
        (self.directory / path).unlink(missing_ok=True)

    def now_ms(self) -> float:
        """See `TableFiles.now_ms`."""
        return time.time() * 1000

    def sizes(self, files: Iterable[str]) -> dict[str, int]:
        """See `TableFiles.sizes`."""
        sizes = {}
        for path in files:
            try:
                sizes[path] = (self.directory / path).stat().st_size
            except OSError:
                continue
        return sizes

    def settle(self, files: Iterable[str]) -> None:
        """See `TableFiles.settle`."""
        written = [self.directory / path for path in files]
        for path in (*written, *dict.fromkeys(path.parent for path in written)):
            durable.sync(path)

    def tidy(self) -> None:
        """See `TableFiles.tidy`."""
        if self.directory.is_dir() and not any(self.directory.iterdir()):
            self.directory.rmdir()


class BucketFiles(TableFiles):
    """Objects below a prefix of a bucket."""

    orphan_ms: ClassVar[int] = AGE_MS

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(bucket.url.rpartition("/")[2], bucket.url)
        self._bucket = bucket

    def next_to(self, name: str) -> BucketFiles:
        """See `TableFiles.next_to`."""
        return BucketFiles(Bucket(f"{self.location.rpartition('/')[0]}/{name}"))

    @contextmanager
    def output(self, path: str) -> Iterator[IO[bytes]]:
        """See `TableFiles.output`; it is written to a temporary file first."""
        with tempfile.TemporaryFile(prefix="logwright-") as file:
            yield file
            size = file.tell()
            file.seek(0)
            if size <= _PART_BYTES:
                self._bucket.put_unique(path, file.read())
            else:
                self._bucket.put_unique(path, iter(lambda: file.read(_PART_BYTES), b""))

    def source(self, path: str) -> IO[bytes]:
        """See `TableFiles.source`; what is asked for is read, in windows of 1 MiB at least."""
        opened = _Object(self._bucket, path, self._bucket.size(path))
        return io.BufferedReader(opened, _WINDOW_BYTES)

    def create(self, path: str, content: bytes) -> None:
        """See `TableFiles.create`."""
        for _ in range(_TRIES):
            if self._bucket.create(path, content):
                return
            try:
                there = self._bucket.content(path, MOST_BYTES)
            except FileNotFoundError:
                time.sleep(_WAIT_SECONDS)
                continue
            if there == content:
                return
            raise Changed
        raise OSError(errno.EIO, f"no answer for {self.location}/{path}")

    def read(self, path: str) -> bytes:
        """See `TableFiles.read`."""
        return self._bucket.content(path, MOST_BYTES)

    def listing(self, prefix: str = "") -> list[Listed]:
        """See `TableFiles.listing`."""
        return sorted(Listed(*_facts(one)) for one in self._bucket.listing(prefix))

    def names(self) -> list[str]:
        """See `TableFiles.names`."""
        return sorted({one.path.partition("/")[0] for one in self.listing()})

    def remove(self, path: str) -> None:
        """See `TableFiles.remove`."""
        self._bucket.delete(path)

    def now_ms(self) -> float:
        """See `TableFiles.now_ms`."""
        return self._bucket.clock_ms(f".logwright/clock-{secrets.token_hex(8)}")

    def sizes(self, files: Iterable[str]) -> dict[str, int]:
        """See `TableFiles.sizes`: one list of all files."""
        wanted = set(files)
        if not wanted:
            return {}
        return {one.path: one.bytes for one in self.listing() if one.path in wanted}


class _Object(io.RawIOBase):
    """An object, open for reading."""

    def __init__(self, bucket: Bucket, key: str, size: int) -> None:
        self._bucket, self._key, self._size = bucket, key, size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = start + offset
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        end = min(self._at + len(view), self._size)
        if self._at >= end:
            return 0
        part = self._bucket.read(self._key, self._at, end)
        view[: len(part)] = part
        self._at += len(part)
        return len(part)


def files_at(path: str) -> TableFiles:
    """Return the place of a table: a path of this machine, or the URL of a prefix in a bucket.

    Raises:
        PolicyError: it begins as a URL, and is none of a bucket.
        MissingExtra: the extra `bucket` is not installed.
    """
    if is_in_bucket(path):
        return BucketFiles(Bucket.of(path))
    return DirectoryFiles(Path(path).absolute())


def hidden_in(files: TableFiles) -> TableFiles:
    """Return where the hidden heads of a table are (`logwright.config.table.hidden_of`)."""
    return files.next_to(f".{files.name}.logwright-keys")


def _small(content: bytes, path: str) -> bytes:
    if len(content) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"{path} is too large")
    return content


def _facts(each: Any) -> tuple[str, int, float]:  # noqa: ANN401 -- `Stored`
    return each.key, each.bytes, each.modified_ms
