"""What is asked of a bucket: which objects it has, and bytes of one. A new kind of bucket is a
class with these methods, and its line in `objects_of`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

from logwright.bucket.store import SCHEMES, Bucket
from logwright.errors import PolicyError, unreadable
from logwright.log.tree import list_tree
from logwright.place.files import open_bytes
from logwright.units import ByteCount

_FILE: Final = "file"
_NS_PER_MS: Final = 1_000_000


class ObjectStat(NamedTuple):
    """An object as it was listed.

    Attributes:
        key: its name in the bucket, below the given prefix.
        modified_ns: when it was written, ns since the epoch.
    """

    key: str
    bytes: ByteCount
    modified_ns: int


class Objects(Protocol):
    """A bucket, or a part of one. It is sent to Spark's tasks, so it can be pickled, and holds no
    secret.
    """

    @property
    def name(self) -> str:
        """What a user calls it, for messages."""

    def listing(self) -> Mapping[str, ObjectStat]:
        """Return all objects, by key. Effects: lists them.

        Raises:
            LogwrightError: they cannot be listed.
        """

    def read(self, key: str, position: int, size: int) -> bytes:
        """Return bytes of an object; fewer only at its end. Effects: reads them.

        Raises:
            UnreadableFile: it cannot be read.
        """


@dataclass(frozen=True, slots=True)
class DirectoryObjects:
    """A directory of this machine as a bucket: each file below it is an object (the common
    plugin's filesystem back end, LocalTieredStorage).
    """

    root: Path

    @property
    def name(self) -> str:
        """See `Objects.name`."""
        return str(self.root)

    def listing(self) -> Mapping[str, ObjectStat]:
        """See `Objects.listing`; links are not followed."""
        files = list_tree(self.root).files
        return {
            key: ObjectStat(key, ByteCount(stamp.size), stamp.modified_ns)
            for key, stamp in files.items()
        }

    def read(self, key: str, position: int, size: int) -> bytes:
        """See `Objects.read`."""
        with open_bytes(self.root / key) as file:
            return file.span(position, size)


@dataclass(frozen=True, slots=True)
class BucketObjects:
    """What is below a prefix of object storage; credentials are those of the environment."""

    bucket: Bucket

    @property
    def name(self) -> str:
        """See `Objects.name`."""
        return str(self.bucket)

    def listing(self) -> Mapping[str, ObjectStat]:
        """See `Objects.listing`."""
        try:
            stored = self.bucket.listing("")
        except OSError as error:
            raise unreadable(error, self.name) from error
        return {
            each.key: ObjectStat(each.key, ByteCount(each.bytes), each.modified_ms * _NS_PER_MS)
            for each in stored
        }

    def read(self, key: str, position: int, size: int) -> bytes:
        """See `Objects.read`."""
        try:
            return self.bucket.part(key, position, size)
        except OSError as error:
            raise unreadable(error, f"{self.name}/{key}", position) from error


def objects_of(text: str) -> Objects:
    """Return the bucket that a text names: a path of this machine, ``file:``, or a URL of object
    storage.

    Raises:
        PolicyError: it is a URL of another kind, or is not whole.
        MissingExtra: object storage needs the extra `bucket`.
    """
    parts = urlsplit(text)
    if "://" not in text and parts.scheme != _FILE:
        return DirectoryObjects(Path(text).absolute())
    if parts.scheme == _FILE and parts.netloc in {"", "localhost"}:
        return DirectoryObjects(Path(unquote(parts.path)))
    if parts.scheme in SCHEMES:
        return BucketObjects(Bucket.of(text))
    raise PolicyError(
        f"{parts.scheme}: is not a kind of bucket that a tier can be read from.",
        remedy="Give a directory of this machine, file:///PATH, or a URL of object storage:"
        " s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH.",
    )
