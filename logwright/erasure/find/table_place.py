"""Where the files of a table are that is searched: a path of this machine, or a prefix of a bucket.

Files in a bucket are searched one by one, each in a temporary copy that has its name.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from logwright.bucket.store import Bucket, Stored, is_in_bucket
from logwright.config.table import hidden_of
from logwright.errors import UnreadableFile, not_regular, unreadable
from logwright.maintenance.scratch import temporary_directory
from logwright.place.model import Place
from logwright.place.named import place_of

_FILE: Final = "file://"
_PART_BYTES: Final = 8 << 20


class Listed(NamedTuple):
    """A file of a table.

    Attributes:
        path: on this machine; of an object below `TablePlace.root`.
        problem: why it is not read.
        stamp: what shows that it is the one that was listed.
        is_empty: it is a directory without files, which has nothing but its name.
    """

    path: Path
    problem: str | None
    stamp: tuple[float | str, ...]
    is_empty: bool = False


class TablePlace(Protocol):
    """Where a table is.

    Attributes:
        root: directory of its files; or the file itself. In a bucket nothing is there.
        place: as it was given.
    """

    root: Path
    place: Place

    def listing(self) -> list[Listed]:
        """Return the files of the table, those next to it too. Effects: lists.

        Raises:
            UnreadableFile: there is no table.
        """

    @contextmanager
    def opened(self, path: Path) -> Iterator[Path]:
        """Yield where a listed file can be read. Effects: may make a copy, and removes it."""

    def has(self, address: str) -> bool:
        """Return whether an address is of a file of the table. Pure."""


class LocalTable:
    """A table on this machine, or one of its files."""

    def __init__(self, root: Path) -> None:
        self.root: Path = root
        self.place: Place = root

    def listing(self) -> list[Listed]:
        """See `TablePlace.listing`."""
        keys = hidden_of(Path(os.path.abspath(self.root)))  # noqa: PTH100 -- resolve() would follow symlinks
        beyond = _files_below(keys) if os.path.lexists(keys) else ()
        return [*_files_below(self.root), *beyond]

    @contextmanager
    def opened(self, path: Path) -> Iterator[Path]:
        """See `TablePlace.opened`."""
        yield path

    def has(self, address: str) -> bool:  # noqa: ARG002 -- its files have paths
        """See `TablePlace.has`."""
        return False


class BucketTable:
    """A table in a bucket; `work` is a directory for copies."""

    def __init__(self, url: str, work: Path) -> None:
        self._bucket = Bucket.of(url)
        above, _, name = self._bucket.url.rpartition("/")
        self.root: Path = work / name
        self._work = work
        self._sizes: dict[Path, int] = {}
        self.place: Place = place_of(url)
        keys = hidden_of(self.root)
        self._parts = {self.root: self._bucket, keys: Bucket(f"{above}/{keys.name}")}

    def listing(self) -> list[Listed]:
        """See `TablePlace.listing`."""
        files = []
        for root, bucket in self._parts.items():
            try:
                stored = bucket.listing("")
            except OSError as error:
                raise unreadable(error, self.place) from error
            if root == self.root and not stored:
                raise UnreadableFile("there is nothing of this name.", path=self.place)
            self._sizes |= {root / each.key: each.bytes for each in stored}
            in_order = sorted(stored, key=lambda each: each.key)
            files += [_listed(root / each.key, each) for each in in_order]
        return files

    @contextmanager
    def opened(self, path: Path) -> Iterator[Path]:
        """See `TablePlace.opened`."""
        root = next(each for each in self._parts if path.is_relative_to(each))
        bucket, key = self._parts[root], path.relative_to(root).as_posix()
        size = self._sizes[path]
        with tempfile.TemporaryDirectory(dir=self._work) as directory:
            copy = Path(directory) / path.name
            with copy.open("xb") as file:
                for start in range(0, size, _PART_BYTES):
                    file.write(bucket.read(key, start, min(start + _PART_BYTES, size)))
            yield copy

    def has(self, address: str) -> bool:
        """See `TablePlace.has`; ``s3a`` is what Hadoop calls ``s3``."""
        plain = f"s3:{address[4:]}" if address.startswith("s3a:") else address
        return plain.startswith(f"{self._bucket.url}/") and "/../" not in plain


@contextmanager
def table_place(root: Place | str) -> Iterator[TablePlace]:
    """Yield where a table is. Effects: makes a temporary directory, and removes it.

    Args:
        root: a path, or a prefix in a bucket, or its URL.

    Raises:
        PolicyError: it is not a URL of a bucket.
        MissingExtra: the extra `bucket` is not installed.
        LogwrightError: no temporary directory can be made.
    """
    text = str(root)
    if not is_in_bucket(text):
        yield LocalTable(Path(text))
    elif text.startswith(_FILE):
        yield LocalTable(Path(Bucket.of(text).url.removeprefix(_FILE)))
    else:
        with temporary_directory() as work:
            yield BucketTable(text, work)


def _listed(path: Path, stored: Stored) -> Listed:
    stamp = (stored.bytes, stored.modified_ms, stored.e_tag)
    return Listed(path, _problem(stored.key), stamp)


def _problem(key: str) -> str | None:
    """Return why a copy of an object cannot have its name."""
    parts = key.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        return "its name is none of a file"
    return None


def _files_below(root: Path) -> Iterator[Listed]:
    """Yield what is below a directory, or the file itself, sorted. Effects: lists directories;
    links are not followed.
    """
    try:
        status = root.lstat()
    except OSError as error:
        raise unreadable(error, root) from error
    if stat.S_ISREG(status.st_mode):
        yield Listed(root, None, _stamp(status))
    elif not stat.S_ISDIR(status.st_mode):
        raise not_regular(root)
    else:
        yield from _in_directory(root, root)


def _in_directory(directory: Path, root: Path) -> Iterator[Listed]:
    try:
        paths = sorted(directory.iterdir())
    except OSError as error:
        yield Listed(directory, unreadable(error, directory).problem, ())
        return
    if not paths and directory != root:
        yield Listed(directory, None, (), is_empty=True)
    for path in paths:
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue  # the listing is compared with one that is made after the search
        mode, stamp = status.st_mode, _stamp(status)
        if stat.S_ISDIR(mode):
            yield from _in_directory(path, root)
        elif stat.S_ISLNK(mode):
            yield Listed(path, "it is a symbolic link, which is not followed", stamp)
        else:
            problem = None if stat.S_ISREG(mode) else "it is not a regular file"
            yield Listed(path, problem, stamp)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns
