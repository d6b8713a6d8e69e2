"""The files below a prefix of a bucket as they are: each object is a file, as of a table. A log
directory in a bucket is a place of its own (`logwright.place.bucket`).

To look at the root lists all objects, and what is below it is of the last such list. Objects can be
replaced: who needs one state of them looks at the root again in the end, and compares. Each file's
stamp has the entity tag, which other content does not have.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import numpy as np

from logwright.bucket.store import Bucket
from logwright.errors import StalePlan
from logwright.place.model import RANGE_BYTES, Bytes, Entry, FileStamp, ReadOnlyPlace
from logwright.units import ByteCount

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from logwright.bucket.store import Stored

_NS_PER_MS: Final = 1_000_000


class Listing:
    """The objects below a prefix, as they were listed last. For several threads, of which one
    lists.
    """

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket
        self._files: dict[str, Entry] = {}
        self._directories: dict[str, dict[str, Entry]] = {}

    def look(self) -> None:
        """List the objects. Effects: as said.

        Raises:
            FileNotFoundError: there are none.
            OSError: the bucket does not answer, or does not permit it.
        """
        stored = self.bucket.listing("")
        if not stored:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        if any(not each.key for each in stored):
            raise OSError(errno.EINVAL, "an object has the name of the directory")
        self._files = {each.key: entry_of_object(each) for each in stored}
        self._directories = {"": {}}
        for key, entry in self._files.items():
            self._add(key, entry)

    def _add(self, key: str, entry: Entry) -> None:
        """Add a file, or a directory, to the directory that it is in. If an object has the name of
        a directory, both are there.
        """
        above, _, _ = key.rpartition("/")
        if above not in self._directories:
            self._directories[above] = {}
            self._add(above, directory_entry(above.rpartition("/")[2]))
        self._directories[above][f"{entry.kind} {entry.stamp.name}"] = entry

    def file(self, key: str) -> Entry | None:
        """Return a file, None if there is none of this name. Effects and errors: of the first
        question those of `look`.
        """
        if not self._files:
            self.look()
        return self._files.get(key)

    def directory(self, key: str) -> list[Entry] | None:
        """Return what is in a directory, None if there is none of this name. Effects and errors: of
        the first question those of `look`.
        """
        if not self._files:
            self.look()
        inside = self._directories.get(key)
        return None if inside is None else list(inside.values())


@dataclass(frozen=True, order=True)
class ObjectsPlace(ReadOnlyPlace):
    """The files below a prefix, or something in them.

    Attributes:
        root: its path.
        listing: what was seen of it.
    """

    root: PurePosixPath
    listing: Listing = field(compare=False, repr=False)

    def __str__(self) -> str:
        """The URL."""
        key = self._key()
        url = self.listing.bucket.url
        return f"{url}/{key}" if key else url

    def entry(self) -> Entry:
        """See `ReadOnlyPlace.entry`; of the root it lists all objects."""
        key = self._key()
        if not key:
            self.listing.look()
        if self.listing.directory(key) is not None:
            return directory_entry(self.name)
        file = self.listing.file(key)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return file

    def entries(self) -> Iterable[Entry]:
        """See `ReadOnlyPlace.entries`."""
        inside = self.listing.directory(self._key())
        if inside is not None:
            return inside
        if self.listing.file(self._key()) is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory")

    def open(self) -> Bytes:
        """See `ReadOnlyPlace.open`."""
        file = self.listing.file(self._key())
        if file is not None:
            return ObjectBytes(self, file, self.listing.bucket, self._key())
        if self.listing.directory(self._key()) is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        raise IsADirectoryError(errno.EISDIR, "Is a directory")

    def _key(self) -> str:
        """Return its name below the prefix; nothing of the prefix itself."""
        return "/".join(self.pure.parts[len(self.root.parts) :])


class ObjectBytes(Bytes):
    """An object as it was listed."""

    __slots__ = ("_bucket", "_entry", "_key", "_window")

    def __init__(self, place: ReadOnlyPlace, entry: Entry, bucket: Bucket, key: str) -> None:
        super().__init__(place, entry.stamp[1:])
        self._entry, self._bucket, self._key = entry, bucket, key
        self._window: tuple[int, bytes] = 0, b""

    def entry(self) -> Entry:
        """See `Bytes.entry`: whether it is another one by now, the next list says."""
        return self._entry

    def read_into(self, data: NDArray[np.uint8], position: int) -> int:
        """See `Bytes.read_into`; windows of 8 MiB are fetched.

        Raises:
            StalePlan: the object is gone.
        """
        size = self.seen[0]
        if position >= size:
            return 0
        start, window = self._window
        if not start <= position < start + len(window):
            start, window = position, self._fetch(position, min(RANGE_BYTES, size - position))
            self._window = start, window
        part = window[position - start :][: len(data)]
        data[: len(part)] = np.frombuffer(part, dtype=np.uint8)
        return len(part)

    def _fetch(self, position: int, size: int) -> bytes:
        try:
            return self._bucket.part(self._key, position, size)
        except FileNotFoundError as error:
            raise StalePlan(
                "is gone.", path=self.path, remedy="Something removed it meanwhile. Run it again."
            ) from error


def entry_of_object(stored: Stored) -> Entry:
    """Return what an object is."""
    modified_ns = stored.modified_ms * _NS_PER_MS
    tag = int.from_bytes(blake2b(stored.e_tag.encode(), digest_size=8).digest(), "big")
    name = stored.key.rpartition("/")[2]
    stamp = FileStamp(name, ByteCount(stored.bytes), modified_ns, tag)
    return Entry("file", stamp, modified_ns)


def directory_entry(name: str) -> Entry:
    """Return what a directory is: it has no stamp."""
    return Entry("directory", FileStamp(name, ByteCount(0), 0, 0), 0)


def objects_of(url: str) -> ObjectsPlace:
    """Return the files below a URL.

    Raises:
        PolicyError: it is not a URL of a bucket.
        MissingExtra: the extra `bucket` is not installed.
    """
    bucket = Bucket.of(url)
    root = PurePosixPath(f"/{bucket.url.partition('://')[2]}")
    return ObjectsPlace(root, root, Listing(bucket))
