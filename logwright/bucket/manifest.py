"""What one version of a partition's log consists of, as an object in a bucket.

::

    {"format": 3, "version": 3, "operation": "…", "state": {"topic": "t", "segments": {...}}, ...}
    <SHA-256 of the line above, in hexadecimal digits>

A manifest is never written again: the state of a partition is that of its newest one. It has all
that a reader needs to know before it reads records: names, sizes and times of the files, the
offsets, and the few bytes of a file that say where it begins and ends. It is untrusted input; what
is parsed is of the form below, its segments ascend, and no key leads out of the partition.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Final, Literal

from pydantic import Field, TypeAdapter, ValidationError

from logwright.bucket.stored import (
    STRICT,
    FileColumns,
    OffsetField,
    SegmentColumns,
    Segments,
    SegmentsField,
    StoredFile,
    StoredSnapshot,
)
from logwright.errors import CorruptLogError, UnsupportedFormatError
from logwright.format import names
from logwright.format.names import (
    TopicPartition,
    parse_segment_file_name,
    segment_file_name,
)
from logwright.units import INT32_MAX

FORMAT: Final = 3
"""Format 2 had no `Erased`; it is read."""
LARGEST_MANIFEST_BYTES: Final = 1 << 28
MOST_OPERATIONS: Final = 200
"""How many of the last operations a manifest names."""
MANIFESTS: Final = "manifest/"
STATES: Final = "state/"
"""Prefix of the versions of a log directory's state (`logwright.bucket.states`)."""

_DIGEST: Final = re.compile(rb"[0-9a-f]{64}\n")
_DIGEST_BYTES: Final = 65
_VERSION: Final = re.compile(rf"(?:{MANIFESTS}|{STATES})([0-9]{{20}})")
_REMEDY: Final = "Restore the object, or read an earlier version of the log."

_Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$")]


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

    __pydantic_config__ = STRICT
    topic: Annotated[str, Field(pattern=r"^[a-zA-Z0-9._-]{1,249}$")]
    number: Annotated[int, Field(ge=0, le=INT32_MAX)]
    topic_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{22}$")] | None
    log_start_offset: OffsetField
    high_watermark: OffsetField
    log_end_offset: OffsetField
    cleaner_checkpoint: OffsetField | None
    leader_epochs: Annotated[bytes, Field(max_length=1 << 24)] | None
    configs: dict[
        Annotated[str, Field(pattern=r"^[a-z][a-z0-9.]{0,99}$")],
        Annotated[str, Field(max_length=100_000)],
    ]
    segments: SegmentsField
    snapshots: tuple[StoredSnapshot, ...] = ()

    @property
    def partition(self) -> TopicPartition:
        """Whose log it is."""
        return TopicPartition(self.topic, self.number)

    def keys(self) -> set[str]:
        """Return the keys of all objects."""
        columns = SegmentColumns.of(self.segments)
        files = (columns.log, columns.index, columns.timeindex, columns.txnindex)
        keys = {each.file.key for each in self.snapshots}
        return keys.union(*(each.key for each in files))

    def file(self, name: str) -> tuple[StoredFile, int] | None:
        """Return what `files` has of a name, without making all of it; None if it has nothing."""
        parsed = parse_segment_file_name(name)
        if parsed is None or segment_file_name(*parsed) != name:
            return None
        base, suffix = parsed
        if suffix == names.SNAPSHOT:
            of_name = (one for one in reversed(self.snapshots) if one.offset == base)
            return next(((each.file, each.modified_ns) for each in of_name), None)
        segments = self.segments
        bases = segments.columns.base_offset if isinstance(segments, Segments) else None
        if bases is None:
            return self.files.get(name)
        number = bisect_left(bases, base)
        if number == len(bases) or bases[number] != base:
            return None
        segment = segments[number]
        file = segment.files().get(name)
        return None if file is None else (file, segment.modified_ns)

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

    __pydantic_config__ = STRICT
    id: _Id
    version: OffsetField


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What was erased from a log, in this version and before.

    Attributes:
        number: of erasures; who writes a copy of what was seen before the last one is refused.
        below: keys, as `logwright.erasure.secret.Secret.short` has them → the offset below which
            the log has no record of them. A copy that may have some is refused, too.
    """

    __pydantic_config__ = STRICT
    number: OffsetField = 0
    below: dict[Annotated[str, Field(pattern=r"^[0-9a-f]{16}:[0-9a-f]{16}$")], OffsetField] = field(
        default_factory=dict
    )

    def after(self, erased: Mapping[str, int]) -> Erased:
        """Return what it is after one more erasure, of these keys below these offsets."""
        return Erased(number=self.number + 1, below=self.with_absent(erased).below)

    def with_absent(self, absent: Mapping[str, int]) -> Erased:
        """Return the same with what is known of a copy that became the log."""
        new = {key: max(offset, self.below.get(key, 0)) for key, offset in absent.items()}
        return Erased(number=self.number, below=self.below | new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One version of a partition's log.

    Attributes:
        version: counted from 0.
        operation, attempt: what made it. A job that is started again has the id of the first time,
            and another attempt.
        written_ms: by the writer's clock, ms since the epoch; nothing is decided by it.
        operations: the last ones, this one at the end.
        erased: from the log.
    """

    __pydantic_config__ = STRICT
    format: Literal[2, 3] = FORMAT
    version: OffsetField
    operation: _Id
    attempt: OffsetField
    written_ms: OffsetField
    state: LogState
    operations: tuple[Committed, ...]
    erased: Erased = field(default_factory=Erased)

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
    """Return the version of the key of a manifest or a state; None for any other key."""
    match = _VERSION.fullmatch(key)
    return None if match is None else int(match[1])


def erased_in(manifest: Manifest | None) -> Erased:
    """Return what was erased from a log, nothing of one that has no version."""
    return Erased() if manifest is None else manifest.erased


def following(
    base: Manifest | None,
    state: LogState,
    *,
    operation: str,
    attempt: int,
    written_ms: int,
    erased: Erased | None = None,
) -> Manifest:
    """Return the manifest of a new state after `base`, None if there is none yet; `erased`: None if
    it is as before.
    """
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
        erased=erased_in(base) if erased is None else erased,
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
                remedy="Read it by the version of logwright that wrote it, or a newer one.",
            ) from None
        raise _corrupt(f"the manifest is malformed at {where!r}: {wrong['msg']}.", path) from None
    problem = _contradiction(manifest)
    if problem is not None:
        raise _corrupt(f"the manifest contradicts itself: {problem}.", path)
    return manifest


def _contradiction(manifest: Manifest) -> str | None:
    """Return what cannot be true of a log, in words."""
    state, columns = manifest.state, SegmentColumns.of(manifest.state.segments)
    problem, end = _disorder(columns), columns.next_offset[-1]
    if problem is not None:
        return problem
    if not state.log_start_offset <= state.high_watermark <= state.log_end_offset:
        return "its offsets do not ascend"
    if end != state.log_end_offset:
        return f"its segments end at offset {end}, not at {state.log_end_offset}"
    if not manifest.operations or manifest.operations[-1] != Committed(
        id=manifest.operation, version=manifest.version
    ):
        return "its operation is not the last one"
    files = (columns.log, columns.index, columns.timeindex, columns.txnindex)
    if not all(map(_edges_fit, (*files, FileColumns.of([each.file for each in state.snapshots])))):
        return "the ends of a file are longer than it"
    return None


def _disorder(columns: SegmentColumns) -> str | None:
    before = end = -1
    for base_offset, next_offset in zip(columns.base_offset, columns.next_offset, strict=True):
        if base_offset == before:
            return f"two segments have the base offset {base_offset}"
        if not end <= base_offset <= next_offset:
            return f"the segment at offset {base_offset} does not follow the one before"
        before, end = base_offset, next_offset
    return None


def _edges_fit(files: FileColumns) -> bool:
    return all(
        max(len(head), len(tail)) <= size
        for size, head, tail in zip(files.bytes, files.head, files.tail, strict=True)
    )


def _corrupt(problem: str, path: object) -> CorruptLogError:
    return CorruptLogError(problem, path=path, remedy=_REMEDY)
