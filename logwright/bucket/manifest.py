"""What one version of a partition's log consists of, as an object in a bucket.

::

    {"format": 1, "version": 3, "operation": "…", "state": {"topic": "t", "segments": [...]}, ...}
    <SHA-256 of the line above, in hexadecimal digits>

A manifest is never written again: the state of a partition is that of its newest one. It has all
that a reader needs to know before it reads records: names, sizes and times of the files, the
offsets, and the few bytes of a file that say where it begins and ends. It is untrusted input; what
is parsed is of the form below, its segments ascend, and no key leads out of the partition.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from logwright.errors import CorruptLogError, UnsupportedFormatError
from logwright.format import names
from logwright.format.names import TopicPartition, segment_file_name
from logwright.units import INT32_MAX, INT64_MAX

FORMAT: Final = 1
LARGEST_MANIFEST_BYTES: Final = 1 << 28
MOST_OPERATIONS: Final = 200
"""How many of the last operations a manifest names."""
MOST_EDGE_BYTES: Final = 256
"""The most bytes of a file's begin, or end, in a manifest."""
MANIFESTS: Final = "manifest/"
DATA: Final = "data/"

_LARGEST_FILE_BYTES: Final = INT32_MAX
_DIGEST: Final = re.compile(rb"[0-9a-f]{64}\n")
_DIGEST_BYTES: Final = 65
_VERSION: Final = re.compile(rf"{MANIFESTS}([0-9]{{20}})")
_REMEDY: Final = "Restore the object, or read an earlier version of the log."

_Offset = Annotated[int, Field(ge=0, le=INT64_MAX)]
_Key = Annotated[str, Field(pattern=rf"^{DATA}[A-Za-z0-9][A-Za-z0-9_.-]{{0,199}}$")]
_Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")]
_Edge = Annotated[bytes, Field(max_length=MOST_EDGE_BYTES)]
_STRICT: Final = ConfigDict(
    extra="forbid", strict=True, ser_json_bytes="base64", val_json_bytes="base64"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One object with the bytes of one file.

    Attributes:
        key: of the object, below the partition's directory.
        bytes: its size.
        crc32c: of all its bytes.
        head, tail: its first and last bytes, as far as they are kept here.
    """

    __pydantic_config__ = _STRICT
    key: _Key
    bytes: Annotated[int, Field(ge=0, le=_LARGEST_FILE_BYTES)]
    crc32c: Annotated[int, Field(ge=0, le=0xFFFFFFFF)]
    head: _Edge = b""
    tail: _Edge = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSegment:
    """One segment, with the files that it has.

    Attributes:
        base_offset, next_offset: its first offset, and that of the next segment, or the log's end.
        max_timestamp_ms: by the last entry of its time index; without one `modified_ns`, in ms.
        modified_ns: of the ``.log``, ns since the epoch.
    """

    __pydantic_config__ = _STRICT
    base_offset: _Offset
    next_offset: _Offset
    max_timestamp_ms: Annotated[int, Field(ge=-1, le=INT64_MAX)]
    modified_ns: Annotated[int, Field(ge=0, le=INT64_MAX)]
    log: StoredFile
    index: StoredFile
    timeindex: StoredFile
    txnindex: StoredFile | None = None

    def files(self) -> dict[str, StoredFile]:
        """Return its files by name."""
        named = {
            names.LOG: self.log,
            names.INDEX: self.index,
            names.TIMEINDEX: self.timeindex,
            names.TXNINDEX: self.txnindex,
        }
        return {
            segment_file_name(self.base_offset, suffix): file
            for suffix, file in named.items()
            if file is not None
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSnapshot:
    """A producer snapshot at an offset."""

    __pydantic_config__ = _STRICT
    offset: _Offset
    modified_ns: Annotated[int, Field(ge=0, le=INT64_MAX)]
    file: StoredFile


@dataclass(frozen=True, kw_only=True)
class LogState:
    """A partition's log.

    Attributes:
        topic_id: url-safe base64 without padding; None if unknown.
        log_start_offset, high_watermark, log_end_offset: see `PartitionLog`.
        cleaner_checkpoint: first dirty offset, None without an entry.
        leader_epochs: the content of the checkpoint, None if there is none.
        configs: settings of the topic under Kafka's names, as far as they are known.
        segments: ascending, at least one, each begins where the one before ends or later.
    """

    __pydantic_config__ = _STRICT
    topic: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
    number: Annotated[int, Field(ge=0, le=INT32_MAX)]
    topic_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{22}$")] | None
    log_start_offset: _Offset
    high_watermark: _Offset
    log_end_offset: _Offset
    cleaner_checkpoint: _Offset | None
    leader_epochs: Annotated[bytes, Field(max_length=1 << 24)] | None
    configs: dict[
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9.]{0,99}$")],
        Annotated[str, Field(max_length=100_000)],
    ]
    segments: Annotated[tuple[StoredSegment, ...], Field(min_length=1)]
    snapshots: tuple[StoredSnapshot, ...] = ()

    @property
    def partition(self) -> TopicPartition:
        """Whose log it is."""
        return TopicPartition(self.topic, self.number)

    def keys(self) -> set[str]:
        """Return the keys of all objects."""
        every = [file for segment in self.segments for file in segment.files().values()]
        return {file.key for file in (*every, *(each.file for each in self.snapshots))}

    @cached_property
    def files(self) -> dict[str, tuple[StoredFile, int]]:
        """File name → the file and its modification time, ns since the epoch."""
        named = {
            name: (file, segment.modified_ns)
            for segment in self.segments
            for name, file in segment.files().items()
        }
        for each in self.snapshots:
            named[segment_file_name(each.offset, names.SNAPSHOT)] = (each.file, each.modified_ns)
        return named


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """An operation that is in, and the version that it made."""

    __pydantic_config__ = _STRICT
    id: _Id
    version: _Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of a partition's log.

    Attributes:
        version: counted from 0.
        operation, attempt: what made it. A job that is started again has the id of the first time,
            and another attempt.
        written_ms: by the writer's clock, ms since the epoch; nothing is decided by it.
        operations: the last ones, this one at the end.
    """

    __pydantic_config__ = _STRICT
    format: Literal[1] = FORMAT
    version: _Offset
    operation: _Id
    attempt: _Offset
    written_ms: _Offset
    state: LogState
    operations: tuple[Committed, ...]

    @property
    def parent(self) -> int:
        """The version that it changed; -1 for the first."""
        return self.version - 1

    def version_of(self, operation: str) -> int | None:
        """Return the version that an operation made; None if it is not among the last ones."""
        return next((each.version for each in self.operations if each.id == operation), None)


_ADAPTER: Final = TypeAdapter(Manifest)


def manifest_key(version: int) -> str:
    """Return the key of a version, below the partition's directory."""
    return f"{MANIFESTS}{version:020d}"


def version_of(key: str) -> int | None:
    """Return the version of a manifest's key; None for any other key."""
    match = _VERSION.fullmatch(key)
    return None if match is None else int(match[1])


def following(
    base: Manifest | None, state: LogState, *, operation: str, attempt: int, written_ms: int
) -> Manifest:
    """Return the manifest of a new state after `base`, None if there is none yet."""
    version = 0 if base is None else base.version + 1
    before = () if base is None else base.operations
    own = Committed(id=operation, version=version)
    return Manifest(
        version=version,
        operation=operation,
        attempt=attempt,
        written_ms=written_ms,
        state=state,
        operations=(*before, own)[-MOST_OPERATIONS:],
    )


def serialize_manifest(manifest: Manifest) -> bytes:
    """Return the object's content."""
    body = _ADAPTER.dump_json(manifest) + b"\n"
    return body + hashlib.sha256(body).hexdigest().encode() + b"\n"


def parse_manifest(content: bytes, path: object) -> Manifest:
    """Parse a manifest; `path` is for messages.

    Raises:
        CorruptLogError: it is not whole, or not of the form above.
        UnsupportedFormatError: it is of another version of the format.
    """
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    whole = _DIGEST.fullmatch(digest) and hashlib.sha256(body).hexdigest().encode() == digest[:-1]
    if not whole:
        raise _corrupt("the manifest's checksum does not match.", path)
    try:
        manifest = _ADAPTER.validate_json(body)
    except ValidationError as error:
        wrong = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, wrong["loc"]))
        if where == "format":
            raise UnsupportedFormatError(
                f"the manifest's format is not {FORMAT}.",
                path=path,
                remedy="Read it by a newer version of logwright.",
            ) from None
        raise _corrupt(f"the manifest is malformed at {where!r}: {wrong['msg']}.", path) from None
    problem = _contradiction(manifest)
    if problem is not None:
        raise _corrupt(f"the manifest contradicts itself: {problem}.", path)
    return manifest


def _contradiction(manifest: Manifest) -> str | None:
    """Return what cannot be true of a log, in words."""
    state = manifest.state
    end = -1
    for segment in state.segments:
        if not end <= segment.base_offset <= segment.next_offset:
            return f"the segment at offset {segment.base_offset} does not follow the one before"
        end = segment.next_offset
    if not state.log_start_offset <= state.high_watermark <= state.log_end_offset:
        return "its offsets do not ascend"
    if end != state.log_end_offset:
        return f"its segments end at offset {end}, not at {state.log_end_offset}"
    if len({segment.base_offset for segment in state.segments}) < len(state.segments):
        return "two segments have one base offset"
    if not manifest.operations or manifest.operations[-1] != Committed(
        id=manifest.operation, version=manifest.version
    ):
        return "its operation is not the last one"
    wrong = next((name for name, (file, _) in state.files.items() if not _edges_fit(file)), None)
    return None if wrong is None else f"the ends of {wrong} are longer than it"


def _edges_fit(file: StoredFile) -> bool:
    return max(len(file.head), len(file.tail)) <= file.bytes


def _corrupt(problem: str, path: object) -> CorruptLogError:
    return CorruptLogError(problem, path=path, remedy=_REMEDY)
