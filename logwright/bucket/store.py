"""A bucket, or a prefix in one, by its URL: ``s3://``, ``gs://``, ``az://``, ``file://``.

Credentials are those of the environment, as the stores' own tools read it; a URL that has any is
refused. They are in no message, and are not sent to Spark's tasks: what is pickled is the URL. A
message of the library is never passed on, since it may have a signed URL.

What is read, and what is written under a name of its own, is tried again inside. A create is not:
an answer that was lost, and asked for again, looks like a refusal. So `create` returns whether the
answer was yes, and nothing else is known of any other answer; `logwright.bucket.commit` settles it.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, Final, TypeVar

from logwright import durable
from logwright.credentials import is_any_url
from logwright.errors import PolicyError
from logwright.extras import require

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

SCHEMES: Final = ("s3", "gs", "az", "file")
_T = TypeVar("_T")
_REMOTE: Final = re.compile(
    r"(?:s3|gs|az)://[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9_=-][A-Za-z0-9._=-]*)*"
)
_LOCAL: Final = re.compile(r"file:///[^?#%]*")
_PLAIN: Final = {
    "s3": "AWS_ALLOW_HTTP",
    "gs": "GOOGLE_ALLOW_HTTP",
    "az": "AZURE_ALLOW_HTTP",
}
"""Variable by which an endpoint without TLS is allowed: options that are given here replace it."""
_UNFINISHED: Final = re.compile(r"[^/]*#[0-9]+")
"""The name of a file that the client is writing, or was: ``#`` and a number are at its end."""
_TIMEOUT_SECONDS: Final = 30
_RETRIES: Final = 5
_RETRY_SECONDS: Final = 120
_TRIES: Final = 3
_WAIT_SECONDS: Final = 0.2
_NAMES_AT_ONCE: Final = 1000
_PART_BYTES: Final = 8 * 1024 * 1024
_PARTS_AT_ONCE: Final = 4


class _TooLarge(OSError):
    """An object is larger than what is read into memory."""


class RefusedName(OSError):
    """An object has a name that the client refuses, so it does not show the list with it."""


@dataclass(frozen=True, slots=True)
class Stored:
    """An object, as it is listed.

    Attributes:
        modified_ms: by the server's clock, ms since the epoch.
        e_tag: what other content under this name does not have; empty if the store says none.
    """

    key: str
    bytes: int
    modified_ms: int
    e_tag: str


@dataclass(frozen=True, slots=True)
class Bucket:
    """A bucket, or what is below a prefix of one. It holds no connection, and can be pickled.

    Attributes:
        url: without a slash at the end.
    """

    url: str

    @classmethod
    def of(cls, url: str) -> Bucket:
        """Return the bucket of a URL.

        Raises:
            PolicyError: it is not a URL of a bucket, or has more than scheme, bucket and path.
            MissingExtra: the extra `bucket` is not installed.
        """
        if not is_url(url):
            raise not_of_a_bucket()
        require("bucket", by="What is in a bucket")
        return cls(_plain(url))

    def __str__(self) -> str:
        return self.url

    def below(self, name: str) -> Bucket:
        """Return what is below a directory of it."""
        return Bucket(f"{self.url}/{name}")

    def directories(self) -> list[str]:
        """Return the names of the directories in it, sorted. Effects: lists it.

        Raises:
            OSError: it does not answer, or does not permit it.
        """
        if self._is_absent():
            return []
        listed = self._insist("", lambda: _calls().list_with_delimiter(self._store(), ""))
        return sorted(name.rpartition("/")[2] for name in listed["common_prefixes"])

    def listing(self, prefix: str, after: str | None = None) -> list[Stored]:
        """Return all objects below a prefix, which ends in a slash; of an `after` those whose key
        is larger. An empty object whose name ends in a slash, which other tools make for a
        directory, is there without the slash. Effects and errors: as `directories`.
        """
        if self._is_absent():
            return []

        def pages() -> list[Stored]:
            listed = _calls().list(self._store(), prefix, offset=after, chunk_size=_NAMES_AT_ONCE)
            metas = (meta for page in listed for meta in page)
            return [_stored(meta) for meta in metas if meta["path"] or meta["size"]]

        return [*self._insist(prefix, pages), *self._unfinished(prefix, after or "")]

    def level(self, prefix: str) -> tuple[list[str], list[Stored]]:
        """Return what is right below a prefix, which ends in a slash: the prefixes of the next
        level, each ending in a slash, and the objects. Effects and errors: as `directories`.
        """
        if self._is_absent():
            return [], []
        list_level = lambda: _calls().list_with_delimiter(self._store(), prefix)  # noqa: E731 -- what is tried again
        listed = self._insist(prefix, list_level)
        return [f"{name}/" for name in listed["common_prefixes"]], [
            _stored(meta) for meta in listed["objects"]
        ]

    def _unfinished(self, prefix: str, after: str) -> Iterator[Stored]:
        """Yield what a write that was not finished left in a directory: the client hides it."""
        if self.root is None:
            return
        for path in sorted((self.root / prefix).rglob("*#*")):
            key = path.relative_to(self.root).as_posix()
            if _UNFINISHED.fullmatch(path.name) and key > after:
                with suppress(FileNotFoundError):
                    status = path.lstat()
                    if S_ISREG(status.st_mode):
                        yield stored_file(key, status)

    def read(self, key: str, start: int, end: int) -> memoryview:
        """Return some bytes of an object, which are not copied. Effects: reads.

        Raises:
            FileNotFoundError: there is no such object.
            OSError: it has fewer bytes; or the bucket does not answer, or does not permit it.
        """
        get = lambda: _calls().get_range(self._store(), key, start=start, end=end)  # noqa: E731 -- what is tried again
        part = memoryview(self._insist(key, get))
        if len(part) != end - start:
            raise OSError(errno.EIO, f"{key} has fewer bytes than its manifest says")
        return part

    def part(self, key: str, start: int, size: int) -> bytes:
        """Return bytes of an object; fewer only at its end. Effects: reads.

        Raises:
            FileNotFoundError: there is no such object.
            OSError: the bucket does not answer, or does not permit it.
        """

        def get() -> bytes:
            return bytes(_calls().get_range(self._store(), key, start=start, length=size))

        try:
            with self._named(key):
                return get()
        except (FileNotFoundError, PermissionError):
            raise
        except OSError:  # a range beyond the end is refused, with the same error as no answer
            meta = self._insist(key, lambda: _calls().head(self._store(), key))
            return self._insist(key, get) if start < meta["size"] else b""

    def content(self, key: str, most: int) -> bytes:
        """Return an object; no more than `most` bytes are read into memory. Effects: reads.

        Raises:
            FileNotFoundError: there is no such object.
            OSError: it is larger; or as `read`.
        """

        def get() -> bytes:
            answer = _calls().get(self._store(), key)
            size = answer.meta["size"]
            if size > most:
                raise _TooLarge(errno.EFBIG, f"{key} has {size} bytes, more than {most}")
            return bytes(answer.bytes())

        return self._insist(key, get)

    def size(self, key: str) -> int:
        """Return the size of an object. Effects: asks for it.

        Raises:
            FileNotFoundError: there is no such object.
            OSError: the bucket does not answer, or does not permit it.
        """
        size: int = self._insist(key, lambda: _calls().head(self._store(), key))["size"]
        return size

    def is_as_listed(self, stored: Stored) -> bool:
        """Return whether an object can be read under the name that it was listed with. Effects:
        asks for it.

        Raises:
            OSError: the bucket does not answer, or does not permit it.
        """
        try:
            meta = self._insist(stored.key, lambda: _calls().head(self._store(), stored.key))
        except (FileNotFoundError, ValueError):
            return False
        return (meta["size"], meta["e_tag"] or "") == (stored.bytes, stored.e_tag)

    def create(self, key: str, content: bytes) -> bool:
        """Write an object unless there is one of this name. Effects: as said, once.

        Returns whether the answer was yes. If not, nothing is known: the object may be there, of
        this call or of another's, or not, or come later.

        Raises:
            PermissionError: the bucket does not permit it.
        """
        try:
            with self._named(key):
                put = _calls().put
                store = self._store(writes=True, once=True)
                put(store, key, content, mode="create", use_multipart=False)
                self._sync(key)
        except PermissionError:
            raise
        except OSError:
            return False
        return True

    def put_unique(self, key: str, content: bytes | Iterator[bytes]) -> None:
        """Write an object under a name that nothing else has. Effects: as said; perhaps twice.

        Raises:
            OSError: the bucket does not answer, or does not permit it.
        """
        if isinstance(content, Iterator):
            with self._named(key):
                self._put(key, content)
        else:
            self._insist(key, lambda: self._put(key, content))

    def _put(self, key: str, content: bytes | Iterator[bytes]) -> None:
        put, store = _calls().put, self._store(writes=True)
        put(store, key, content, chunk_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE)
        self._sync(key)

    def delete(self, key: str) -> None:
        """Remove an object, if it is there. Effects: as said.

        Raises:
            OSError: the bucket does not answer, or does not permit it.
        """
        with suppress(FileNotFoundError):
            if self.root is not None and _UNFINISHED.fullmatch(key.rpartition("/")[2]):
                (self.root / key).unlink()
            else:
                self._insist(key, lambda: _calls().delete(self._store(), key))

    def clock_ms(self, key: str) -> int:
        """Return the time of the server's clock, ms since the epoch. Effects: writes an object of
        this name and removes it.

        Raises:
            OSError: the bucket does not answer, or does not permit it.
        """
        self.put_unique(key, b"")
        meta = self._insist(key, lambda: _calls().head(self._store(), key))
        self.delete(key)
        return _stored(meta).modified_ms

    def _insist(self, key: str, call: Callable[[], _T]) -> _T:
        """Do what may be done again, until it is done; errors: see `_named`."""
        for _ in range(_TRIES - 1):
            try:
                with self._named(key):
                    return call()
            except (FileNotFoundError, PermissionError, _TooLarge, RefusedName):
                raise
            except OSError:
                time.sleep(_WAIT_SECONDS)
        with self._named(key):
            return call()

    def _store(self, *, writes: bool = False, once: bool = False) -> ObjectStore:
        if self.root is None:
            return _opened(self.url, 0 if once else _RETRIES)
        if writes:
            durable.make_directory(self.root)
        elif self._is_absent():
            raise FileNotFoundError(errno.ENOENT, "no such directory")
        return _opened_directory(self.root)

    def _is_absent(self) -> bool:
        """Return whether it is a directory that does not exist; a bucket's prefix always does."""
        return self.root is not None and not self.root.is_dir()

    @property
    def root(self) -> Path | None:
        """Its directory, None if it is not of a file system."""
        is_local = self.url.startswith("file:")
        return Path(self.url.removeprefix("file://")) if is_local else None

    def _sync(self, key: str) -> None:
        """Make an object of a file system durable; a bucket's is when it answers."""
        if self.root is not None:
            durable.sync(self.root / key)
            durable.sync((self.root / key).parent)

    @contextmanager
    def _named(self, key: str) -> Iterator[None]:
        """Make an OSError of what goes wrong, which names the object and repeats no message."""
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, f"{self.url}/{key} is not there") from None
        except _library_errors() as error:
            kind = type(error).__name__
            if kind in {"PermissionDeniedError", "UnauthenticatedError"}:
                raise PermissionError(errno.EACCES, f"not permitted: {self.url}/{key}") from None
            if kind == "InvalidPathError":
                problem = f"an object below {self.url}/{key} has a name that the client refuses"
                raise RefusedName(errno.EINVAL, problem) from None
            raise OSError(errno.EIO, f"no answer for {self.url}/{key}: {kind}") from None


def is_url(text: str) -> bool:
    """Return whether a text is a URL of a bucket, or of a prefix in one. Pure."""
    plain = _plain(text)
    known = _REMOTE.fullmatch(plain) or _LOCAL.fullmatch(plain)
    return known is not None and "/../" not in f"{plain}/"


def not_of_a_bucket() -> PolicyError:
    """Return the error for a URL. What was given may have a secret, and is not repeated."""
    return PolicyError(
        "not a URL of a bucket.",
        remedy="Give s3://BUCKET/PATH, gs://BUCKET/PATH, az://CONTAINER/PATH or file:///PATH;"
        " credentials are taken from the environment.",
    )


def local_path(text: str) -> Path:
    """Return a path of this machine. Pure.

    Raises:
        PolicyError: it is a URL, of whatever scheme: as a path its credentials would be names.
    """
    if is_any_url(text):
        raise not_of_a_bucket()
    return Path(text)


def is_in_bucket(path: str) -> bool:
    """Return whether a path is a URL that begins as one of a bucket. Pure."""
    scheme, colon, _ = path.partition(":")
    return bool(colon) and scheme in SCHEMES


def _plain(url: str) -> str:
    return url.rstrip("/") if not url.endswith(":///") else url


def _calls() -> Any:  # noqa: ANN401 -- a module
    """The library, imported when it is used: it is of an extra."""
    import obstore  # noqa: PLC0415 -- of an extra

    return obstore


def _library_errors() -> type[Exception]:
    from obstore.exceptions import BaseError  # noqa: PLC0415 -- of an extra

    return BaseError


def _stored(meta: ObjectMeta) -> Stored:
    modified_ms = int(meta["last_modified"].timestamp() * 1000)
    return Stored(meta["path"], meta["size"], modified_ms, meta["e_tag"] or "")


def stored_file(key: str, status: os.stat_result) -> Stored:
    """Return a file of a file system as an object."""
    tag = f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
    return Stored(key, status.st_size, status.st_mtime_ns // 1_000_000, tag)


@lru_cache(maxsize=256)
def _opened(url: str, retries: int) -> ObjectStore:
    """Return the library's store of a URL, one for a process."""
    from obstore.store import from_url  # noqa: PLC0415 -- of an extra

    return from_url(
        url,
        client_options={
            "timeout": timedelta(seconds=_TIMEOUT_SECONDS),
            "allow_http": os.environ.get(_PLAIN[url.partition(":")[0]], "") == "true",
        },
        retry_config={
            "max_retries": retries,
            "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
        },
    )


@lru_cache(maxsize=256)
def _opened_directory(root: Path) -> ObjectStore:
    from obstore.store import LocalStore  # noqa: PLC0415 -- of an extra

    return LocalStore(root)
