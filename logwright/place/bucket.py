"""Logs in a bucket as a place that can be read: ``s3://``, ``gs://``, ``az://``, ``file://``.

A place shows one version of each partition, its newest when it was first looked at: a page of names
and one object for each. Its files are those that the manifest names. What a broker has in the root
of a log directory is made of the manifests: the checkpoints, the marker of a clean shutdown, the
settings of topics. To list the root or to read a checkpoint looks at all partitions, several at
once; nothing lists the names of segments.

Of each log what a plan needs stays in memory, in 48 bytes for a segment; whole manifests only as
long as they have no more than `_MOST_SEGMENTS` segments together. Another is read again.

Where a file is read from begin to end, windows of 8 MiB are fetched ahead. The first and last bytes
that a manifest keeps of a file are not asked for again; nor is an object that somebody has as a
whole, or is fetching.

What was sent to another process reads the versions that were seen here.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial
from hashlib import blake2b
from pathlib import PurePosixPath
from threading import Lock, RLock
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypeVar, cast
from weakref import WeakValueDictionary

import numpy as np

from logwright.bucket.commit import newest, read_manifest
from logwright.bucket.driver import drive
from logwright.bucket.rows import rows_of
from logwright.bucket.store import Bucket
from logwright.bucket.stored import SegmentColumns
from logwright.errors import CorruptLogError, StalePlan, invariant, unreadable
from logwright.format import names
from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.kept_topics import KEPT_FILE, KeptTopic, serialize_kept
from logwright.format.names import TopicPartition
from logwright.place.model import (
    LARGEST_FILE_BYTES,
    RANGE_BYTES,
    Bytes,
    Entry,
    FileStamp,
    KnownLog,
    ReadOnlyPlace,
    too_large,
)
from logwright.units import ByteCount

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from logwright.bucket.manifest import LogState, Manifest
    from logwright.bucket.stored import StoredFile
    from logwright.place.model import Place

_T = TypeVar("_T")
AHEAD: Final = 2
"""How many windows are fetched before they are asked for."""
_AT_ONCE: Final = 8
_NS_PER_MS: Final = 1_000_000
_MANIFESTS_AT_ONCE: Final = 8
_CHECKPOINTS: Final = (
    names.RECOVERY_POINT_CHECKPOINT,
    names.LOG_START_OFFSET_CHECKPOINT,
    names.HIGH_WATERMARK_CHECKPOINT,
    names.CLEANER_OFFSET_CHECKPOINT,
)
_MOST_SEGMENTS: Final = 100_000
"""Of the manifests that are kept whole; 60 MB."""
_SEQUENTIAL_BYTES: Final = 256 * 1024
"""Who reads so much at once reads on, probably."""


class Session:
    """The logs of one log directory in a bucket, as one command, task or step sees them. For
    several threads.

    Attributes:
        bucket: the log directory.
        only: the names of the partitions' directories that are shown; None: all.
    """

    def __init__(
        self,
        bucket: Bucket,
        versions: dict[str, int] | None = None,
        only: frozenset[str] | None = None,
    ) -> None:
        self.bucket, self.only = bucket, only
        self._versions = dict(versions or {})
        self._logs: dict[str, ShownLog | None] = {}
        self._manifests: dict[str, Manifest] = {}
        self._root: dict[str, Shown] | None = None
        self._segments = 0
        self._turn, self._keeping = RLock(), Lock()

    def __reduce__(self) -> tuple[Callable[..., Session], tuple[object, ...]]:
        """Another process reads the same versions, and connects for itself."""
        return Session, (self.bucket, self._versions, self.only)

    @property
    def place(self) -> BucketPlace:
        """The log directory."""
        scheme, _, path = self.bucket.url.partition("://")
        pure = PurePosixPath(path if scheme == "file" else f"/{path}")
        return BucketPlace(pure, scheme, self)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The parts of the path of the log directory."""
        return self.place.pure.parts

    def manifest(self, directory: str) -> Manifest | None:
        """Return the version of a partition's log that is shown, None if there is none. Effects:
        reads it, unless it is kept.

        Raises:
            CorruptLogError, UnsupportedFormatError: it is malformed.
            StalePlan: the version that was planned is gone.
            Unsettled, UnreadableFile: the bucket does not answer, or does not permit it.
        """
        with self._turn:
            log = self.log(directory)
            if log is None or directory in self._manifests:
                return self._manifests.get(directory)
            manifest = self._read(directory)
            self._keep(directory, manifest)
            return manifest

    def log(self, directory: str) -> ShownLog | None:
        """Return what is kept of a partition's log, None if there is none. Effects and errors: as
        `manifest`.
        """
        if self.only is not None and directory not in self.only:
            return None
        with self._turn:
            if directory not in self._logs:
                self._take(directory)
            log = self._logs[directory]
            if log is not None:
                self._versions[directory] = log.version
            return log

    def logs(self) -> dict[str, ShownLog]:
        """Return what is kept of each partition's log, by the name of its directory. Effects and
        errors: as `manifest`, of all.
        """
        listed = self.bucket.directories() if self.only is None else sorted(self.only)
        with self._turn:
            partitions = filter(TopicPartition.parse, listed)
            missing = [name for name in partitions if name not in self._logs]
            with ThreadPoolExecutor(_MANIFESTS_AT_ONCE) as pool:
                list(pool.map(self._take, missing))
            return {name: log for name in listed if (log := self._logs.get(name))}

    def root(self) -> dict[str, Shown]:
        """Return what the log directory has, by name. Effects and errors: as `logs`."""
        with self._turn:
            if self._root is None:
                self._root = root_of(self.logs())
            return self._root

    def files(self, directory: str) -> dict[str, Shown] | None:
        """Return the files of a partition, by name; None if there is no such partition. Effects
        and errors: as `manifest`.
        """
        manifest = self.manifest(directory)
        return None if manifest is None else files_of(manifest.state, self.bucket.below(directory))

    def file(self, directory: str, name: str) -> Shown | None:
        """Return one file of a partition; None if there is none. Effects and errors: as
        `manifest`.
        """
        log = self.log(directory)
        if log is None:
            return None
        made = _made_files(log.state).get(name)
        if made is not None:
            return made
        stored = log.state.file(name)
        if stored is None and (manifest := self.manifest(directory)) is not None:
            stored = manifest.state.file(name)
        return None if stored is None else _object(name, *stored, self.bucket.below(directory))

    def has(self, path: str, *, as_file: bool = False) -> bool:
        """Return whether a path, relative to the log directory, is shown; with `as_file` whether a
        file is. Effects and errors: as `root`.
        """
        name, slash, rest = path.partition("/")
        if slash:
            return self.file(name, rest) is not None
        shown = self.root().get(name)
        return shown is not None and (not as_file or shown.entry.kind == "file")

    def is_there(self) -> bool:
        """Return whether there is a log directory. Effects: lists it, once."""
        with self._turn:
            known = bool(self._versions) or any(self._logs.values())
            return known or bool(self.bucket.directories())

    def _take(self, directory: str) -> None:
        self._keep(directory, self._read(directory))

    def _keep(self, directory: str, manifest: Manifest | None) -> None:
        """Keep what a plan needs of a log, and its manifest, while there is room. Several threads
        of one turn may do so.
        """
        log = None if manifest is None else ShownLog.of(manifest)
        with self._keeping:
            self._logs[directory] = log
            if manifest is None:
                return
            self._manifests[directory] = manifest
            self._segments += len(manifest.state.segments)
            while self._segments > _MOST_SEGMENTS and len(self._manifests) > 1:
                oldest = self._manifests.pop(next(iter(self._manifests)))
                self._segments -= len(oldest.state.segments)

    def _read(self, directory: str) -> Manifest | None:
        known = self._logs.get(directory)
        version = self._versions.get(directory) if known is None else known.version
        requests = newest() if version is None else read_manifest(version)
        manifest = drive(self.bucket.below(directory), requests)
        if manifest is None and version is not None:
            raise StalePlan(
                f"its version {version} is gone.",
                path=f"{self.bucket}/{directory}",
                remedy="It was replaced long ago. Run it again.",
            )
        if manifest is not None and manifest.state.partition.directory_name != directory:
            raise CorruptLogError(
                f"its manifest is of {manifest.state.partition}.",
                path=f"{self.bucket}/{directory}",
                remedy="Objects were moved by hand; move them back.",
            )
        return manifest


class ShownLog(NamedTuple):
    """What is kept of a log.

    Attributes:
        version, written_ms: of the manifest.
        state: of the manifest, with the first and the last of the segments and of the snapshots.
        known: see `ReadOnlyPlace.known_log`.
    """

    version: int
    written_ms: int
    state: LogState
    known: KnownLog | None

    @classmethod
    def of(cls, manifest: Manifest) -> ShownLog:
        """Return what is kept of a manifest."""
        state = manifest.state
        rows = rows_of(SegmentColumns.of(state.segments))
        version = FileStamp(
            manifest.operation,
            ByteCount(0),
            manifest.written_ms * _NS_PER_MS,
            manifest.version,
        )
        snapshots = tuple(sorted({each.offset for each in state.snapshots}))
        known = None if rows is None else KnownLog(rows, snapshots, state.log_end_offset, version)
        ends = replace(state, segments=_ends(state.segments), snapshots=_ends(state.snapshots))
        return cls(manifest.version, manifest.written_ms, ends, known)


def _ends(values: Sequence[_T]) -> tuple[_T, ...]:
    return (values[0], values[-1]) if len(values) > 1 else tuple(values)


class Shown(NamedTuple):
    """A file or directory of the place.

    Attributes:
        content: of a file that is not an object of its own.
        stored: of any other file: the directory in the bucket, and the object.
    """

    entry: Entry
    content: bytes = b""
    stored: tuple[Bucket, StoredFile] | None = None


def _made(name: str, content: bytes, modified_ms: int) -> Shown:
    """Return a file that is made of what manifests have."""
    stamp = FileStamp(name, ByteCount(len(content)), modified_ms * _NS_PER_MS, _inode(content))
    return Shown(Entry("file", stamp, stamp.modified_ns), content)


def _directory(name: str) -> Shown:
    return Shown(Entry("directory", FileStamp(name, ByteCount(0), 0, _inode(name.encode())), 0))


def _object(name: str, file: StoredFile, modified_ns: int, directory: Bucket) -> Shown:
    stamp = FileStamp(name, ByteCount(file.bytes), modified_ns, _inode(file.key.encode()))
    return Shown(Entry("file", stamp, modified_ns), stored=(directory, file))


def _inode(identity: bytes) -> int:
    """Return a number for what another file does not have: its key, or its content."""
    return int.from_bytes(blake2b(identity, digest_size=8).digest(), "big") >> 1


def root_of(shown: dict[str, ShownLog]) -> dict[str, Shown]:
    """Return what a broker that was stopped has in a log directory's root, of these logs."""
    modified_ms = max((each.written_ms for each in shown.values()), default=0)
    logs = [each.state for each in shown.values()]
    offsets: dict[str, dict[TopicPartition, int]] = {name: {} for name in _CHECKPOINTS}
    for log in logs:
        for name, offset in root_offsets(log).items():
            if offset is not None:
                offsets[name][log.partition] = offset
    contents = {name: serialize_offset_checkpoint(each) for name, each in offsets.items()}
    kept = {
        log.topic: KeptTopic(topic_id=log.topic_id, configs=log.configs)
        for log in logs
        if log.topic_id is not None or log.configs
    }
    if kept:
        contents[KEPT_FILE] = serialize_kept(kept)
    contents[names.CLEAN_SHUTDOWN_MARKER] = b""
    root = {name: _made(name, content, modified_ms) for name, content in contents.items()}
    return root | {name: _directory(name) for name in shown}


def root_offsets(state: LogState) -> dict[str, int | None]:
    """Return the entries that a log has in a log directory's checkpoints, by the name of the file;
    None: it has none.
    """
    begins_within = state.log_start_offset > state.segments[0].base_offset
    return {
        names.RECOVERY_POINT_CHECKPOINT: state.log_end_offset,
        names.LOG_START_OFFSET_CHECKPOINT: (
            state.log_start_offset if begins_within else None  # as LogManager, Kafka 4.3.0
        ),
        names.HIGH_WATERMARK_CHECKPOINT: state.high_watermark,
        names.CLEANER_OFFSET_CHECKPOINT: state.cleaner_checkpoint,
    }


def files_of(state: LogState, directory: Bucket) -> dict[str, Shown]:
    """Return the files of a partition; the small ones are in the manifest itself."""
    shown = {
        name: _object(name, file, modified_ns, directory)
        for name, (file, modified_ns) in state.files.items()
    }
    return shown | _made_files(state)


def _made_files(state: LogState) -> dict[str, Shown]:
    """Return the files that are in the manifest itself."""
    contents = {}
    if state.leader_epochs is not None:
        contents[names.LEADER_EPOCH_CHECKPOINT] = state.leader_epochs
    if state.topic_id is not None:
        content = f"version: 0\ntopic_id: {state.topic_id}".encode()
        contents[names.PARTITION_METADATA] = content
    return {name: _made(name, content, 0) for name, content in contents.items()}


@dataclass(frozen=True, order=True)
class BucketPlace(ReadOnlyPlace):
    """A log directory in a bucket, or something in it.

    Attributes:
        scheme: of the URL.
        session: what was seen of it.
    """

    versioned: ClassVar[bool] = True
    scheme: str
    session: Session = field(compare=False, repr=False)

    def __str__(self) -> str:
        """The URL."""
        return f"{self.scheme}:/{'/' if self.scheme == 'file' else ''}{self.pure}"

    def narrowed(
        self, *, partitions: Collection[TopicPartition] = (), topic: str | None = None
    ) -> BucketPlace:
        """See `ReadOnlyPlace.narrowed`: only the manifests of these are read. Effects: of a topic
        the log directory is listed.

        Raises:
            UnreadableFile: the bucket does not answer, or does not permit it.
        """
        bucket = self.session.bucket
        only = {each.directory_name for each in partitions}
        try:
            directories = [] if topic is None else bucket.directories()
        except OSError as error:
            raise unreadable(error, str(self)) from error
        for name in directories:
            partition = TopicPartition.parse(name)
            if partition is not None and partition.topic == topic:
                only.add(name)
        return replace(self, session=Session(bucket, only=frozenset(only)))

    def again(self) -> BucketPlace:
        """See `ReadOnlyPlace.again`: a session of its own."""
        return replace(self, session=Session(self.session.bucket, only=self.session.only))

    def entry(self) -> Entry:
        """See `ReadOnlyPlace.entry`."""
        return self._look().entry

    def entries(self) -> Iterable[Entry]:
        """See `ReadOnlyPlace.entries`."""
        parts = self._parts()
        if parts and self._look().entry.kind != "directory":
            raise NotADirectoryError(errno.ENOTDIR, "Not a directory")
        inside = self.session.files(parts[0]) if parts else self.session.root()
        return [shown.entry for shown in (inside or {}).values()]

    def known_log(self) -> KnownLog | None:
        """See `ReadOnlyPlace.known_log`: manifests have what a plan needs."""
        parts = self._parts()
        log = self.session.log(parts[0]) if len(parts) == 1 else None
        return None if log is None else log.known

    def known_part(self, name: str, position: int, size: int) -> bytes | None:
        """See `ReadOnlyPlace.known_part`: the manifest has the ends of files."""
        parts = self._parts()
        shown = self.session.file(parts[0], name) if len(parts) == 1 else None
        if shown is None:
            return None
        if shown.stored is None:
            return shown.content[position : position + size]
        file = shown.stored[1]
        return _kept(file, position, min(position + size, file.bytes))

    def open(self) -> Bytes:
        """See `ReadOnlyPlace.open`."""
        shown = self._look()
        if shown.entry.kind == "directory":
            raise IsADirectoryError(errno.EISDIR, "Is a directory")
        return MadeBytes(self, shown) if shown.stored is None else ObjectBytes(self, shown)

    def _look(self) -> Shown:
        """Return what is there.

        Raises:
            FileNotFoundError: nothing is.
        """
        shown: Shown | None = None
        match self._parts():
            case ():
                shown = _directory(self.name) if self.session.is_there() else None
            case (name,) if TopicPartition.parse(name):
                shown = _directory(name) if self.session.log(name) else None
            case (name,):
                shown = self.session.root().get(name)
            case (directory, name):
                shown = self.session.file(directory, name)
        if shown is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return shown

    def _parts(self) -> tuple[str, ...]:
        """Return its names below the log directory."""
        root, parts = self.session.parts, self.pure.parts
        if parts[: len(root)] != root:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        return parts[len(root) :]


class MadeBytes(Bytes):
    """A file that is made of what manifests have."""

    __slots__ = ("_shown",)

    def __init__(self, place: BucketPlace, shown: Shown) -> None:
        super().__init__(place, shown.entry.stamp[1:])
        self._shown = shown

    def entry(self) -> Entry:
        """See `Bytes.entry`; it does not change."""
        return self._shown.entry

    def read_into(self, data: NDArray[np.uint8], position: int) -> int:
        """See `Bytes.read_into`."""
        return _copy(data, self._shown.content[position : position + len(data)])


class ObjectBytes(Bytes):
    """A file that is an object."""

    __slots__ = ("_directory", "_file", "_shown", "_windows")

    def __init__(self, place: BucketPlace, shown: Shown) -> None:
        super().__init__(place, shown.entry.stamp[1:])
        invariant(shown.stored is not None, "it is an object")
        self._shown = shown
        self._directory, self._file = cast("tuple[Bucket, StoredFile]", shown.stored)
        self._windows: dict[int, Future[memoryview]] = {}

    def close(self) -> None:
        """Forget what was fetched ahead."""
        for window in self._windows.values():
            window.cancel()
        self._windows.clear()

    def entry(self) -> Entry:
        """See `Bytes.entry`; an object does not change."""
        return self._shown.entry

    def read_into(self, data: NDArray[np.uint8], position: int) -> int:
        """See `Bytes.read_into`; of a long read a window at a time.

        Raises:
            StalePlan: the object is gone: the manifest is not the newest any more.
        """
        end = min(position + len(data), self._file.bytes)
        if position >= end:
            return 0
        kept = _kept(self._file, position, end)
        if kept is not None:
            return _copy(data, kept)
        number = position // RANGE_BYTES
        if len(data) < _SEQUENTIAL_BYTES and number not in self._windows:
            return _copy(data, self._fetch(position, end))
        start = position - number * RANGE_BYTES
        return _copy(data, self._window(number)[start : start + end - position])

    def whole(self) -> NDArray[np.uint8]:
        """See `Bytes.whole`: one range is not copied, several are fetched at once."""
        if self._file.bytes > LARGEST_FILE_BYTES:
            raise too_large(self._file.bytes, self.path)
        return _wholes().of(f"{self._directory}/{self._file.key}", self._fetch_whole)

    def _fetch_whole(self) -> NDArray[np.uint8]:
        size = self._file.bytes
        try:
            if 0 < size <= RANGE_BYTES:
                return np.frombuffer(self._fetch(0, size), dtype=np.uint8)
            data = np.empty(size, dtype=np.uint8)
            list(_pool().map(partial(self._fetch_into, data), range(0, size, RANGE_BYTES)))
        except OSError as error:
            raise unreadable(error, self.path, 0) from error
        data.flags.writeable = False
        return data

    def _window(self, number: int) -> memoryview:
        """Return a window; those after it are fetched ahead, if the one before was read, too."""
        is_next = number == 0 or number - 1 in self._windows
        last = (self._file.bytes - 1) // RANGE_BYTES
        ahead = range(number, min(number + (AHEAD if is_next else 0), last) + 1)
        for wanted in ahead:
            if wanted not in self._windows:
                start = wanted * RANGE_BYTES
                end = min(start + RANGE_BYTES, self._file.bytes)
                self._windows[wanted] = _pool().submit(self._fetch, start, end)
        for passed in [known for known in self._windows if known < number - 1]:
            self._windows.pop(passed).cancel()
        return self._windows[number].result()

    def _fetch_into(self, data: NDArray[np.uint8], start: int) -> None:
        end = min(start + RANGE_BYTES, len(data))
        _copy(data[start:end], self._fetch(start, end))

    def _fetch(self, start: int, end: int) -> memoryview:
        try:
            return self._directory.read(self._file.key, start, end)
        except FileNotFoundError as error:
            raise StalePlan(
                f"its object {self._file.key} is gone.",
                path=self.path,
                remedy="Another version has replaced this one long ago, or somebody has removed the"
                " object. Plan again.",
            ) from error


class Wholes:
    """Objects that somebody has as a whole: who wants one of them gets the same array, and who
    wants one that is being fetched waits for it. For several threads; it holds nothing itself.
    """

    def __init__(self) -> None:
        self._arrays: WeakValueDictionary[str, NDArray[np.uint8]] = WeakValueDictionary()
        self._turns: WeakValueDictionary[str, Turn] = WeakValueDictionary()
        self._turn = Lock()

    def of(self, url: str, fetch: Callable[[], NDArray[np.uint8]]) -> NDArray[np.uint8]:
        """Return an object, whose bytes are always the same. Effects: as `fetch`, if nobody has
        it.
        """
        with self._turn:
            turn = self._turns.setdefault(url, Turn())
        with turn.lock:
            array = self._arrays.get(url)
            if array is None:
                array = self._arrays[url] = fetch()
            return array


class Turn:
    """Whose turn it is to fetch one object."""

    def __init__(self) -> None:
        self.lock = Lock()


def _kept(file: StoredFile, position: int, end: int) -> bytes | None:
    """Return bytes that the manifest has of a file; None if it has not all of them."""
    if end <= len(file.head):
        return file.head[position:end]
    before_tail = file.bytes - len(file.tail)
    return (
        file.tail[position - before_tail : end - before_tail] if position >= before_tail else None
    )


def _copy(data: NDArray[np.uint8], part: bytes | memoryview) -> int:
    data[: len(part)] = np.frombuffer(part, dtype=np.uint8)
    return len(part)


@lru_cache(maxsize=1)
def _wholes() -> Wholes:
    """Return the objects that somebody of this process has."""
    return Wholes()


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Return the threads that fetch, of this process."""
    return ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="bucket")


def bucket_of(place: Place) -> Bucket:
    """Return the log directory of a place in a bucket."""
    return cast("BucketPlace", place).session.bucket


def manifest_of(place: Place, partition: TopicPartition) -> Manifest | None:
    """Return the version of a log that a place in a bucket shows. Effects and errors: as
    `Session.manifest`.
    """
    return cast("BucketPlace", place).session.manifest(partition.directory_name)


def in_bucket(scheme: str, rest: str) -> BucketPlace:
    """Return the log directory of a URL, ``SCHEME:`` and the rest.

    Raises:
        PolicyError: it is not a URL of a bucket.
        MissingExtra: the extra `bucket` is not installed.
    """
    return Session(Bucket.of(f"{scheme}:{rest}")).place
