"""The objects of a log in a bucket: files, segments, producer snapshots; and segments as columns.

A manifest has its segments as columns, one list for each field: a log of ten thousand segments is
read in a fifth of the time that as many objects need, and a segment is made when it is looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Final, overload

from pydantic import AfterValidator, ConfigDict, Field, PlainSerializer

from logwright.format import names
from logwright.format.names import segment_file_name
from logwright.units import INT32_MAX, INT64_MAX

MOST_EDGE_BYTES: Final = 256
"""The most bytes of a file's begin, or end, in a manifest."""
DATA: Final = "data/"

_LARGEST_FILE_BYTES: Final = INT32_MAX

STRICT: Final = ConfigDict(
    extra="forbid", strict=True, ser_json_bytes="base64", val_json_bytes="base64"
)
OffsetField = Annotated[int, Field(ge=0, le=INT64_MAX)]
_Key = Annotated[str, Field(pattern=rf"^{DATA}[A-Za-z0-9][A-Za-z0-9_.-]{{0,199}}$")]
_Bytes = Annotated[int, Field(ge=0, le=_LARGEST_FILE_BYTES)]
_Crc32c = Annotated[int, Field(ge=0, le=0xFFFFFFFF)]
_Edge = Annotated[bytes, Field(max_length=MOST_EDGE_BYTES)]
_TimeMs = Annotated[int, Field(ge=-1, le=INT64_MAX)]
_TimeNs = Annotated[int, Field(ge=0, le=INT64_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """One object with the bytes of one file.

    Attributes:
        key: of the object, below the partition's directory.
        bytes: its size.
        crc32c: of all its bytes.
        head, tail: its first and last bytes, as far as they are kept here.
    """

    __pydantic_config__ = STRICT
    key: _Key
    bytes: _Bytes
    crc32c: _Crc32c
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

    base_offset: int
    next_offset: int
    max_timestamp_ms: int
    modified_ns: int
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

    __pydantic_config__ = STRICT
    offset: OffsetField
    modified_ns: _TimeNs
    file: StoredFile


@dataclass(frozen=True, slots=True, kw_only=True)
class FileColumns:
    """The files of one kind, of the segments that have one; see `StoredFile`."""

    __pydantic_config__ = STRICT
    key: list[_Key]
    bytes: list[_Bytes]
    crc32c: list[_Crc32c]
    head: list[_Edge]
    tail: list[_Edge]

    @classmethod
    def of(cls, files: Sequence[StoredFile]) -> FileColumns:
        """Return the columns of some files."""
        return cls(
            key=[each.key for each in files],
            bytes=[each.bytes for each in files],
            crc32c=[each.crc32c for each in files],
            head=[each.head for each in files],
            tail=[each.tail for each in files],
        )

    def file(self, number: int) -> StoredFile:
        """Return one of them."""
        return StoredFile(
            key=self.key[number],
            bytes=self.bytes[number],
            crc32c=self.crc32c[number],
            head=self.head[number],
            tail=self.tail[number],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentColumns:
    """Segments; see `StoredSegment`.

    Attributes:
        with_txnindex: the numbers of those that have a ``.txnindex``, ascending.
        txnindex: of those.
    """

    __pydantic_config__ = STRICT
    base_offset: list[OffsetField]
    next_offset: list[OffsetField]
    max_timestamp_ms: list[_TimeMs]
    modified_ns: list[_TimeNs]
    log: FileColumns
    index: FileColumns
    timeindex: FileColumns
    with_txnindex: list[OffsetField]
    txnindex: FileColumns

    @classmethod
    def of(cls, segments: Sequence[StoredSegment]) -> SegmentColumns:
        """Return the columns of some segments; those of a manifest are not made again."""
        if isinstance(segments, Segments):
            return segments.columns
        txnindexes = [(n, each.txnindex) for n, each in enumerate(segments) if each.txnindex]
        return cls(
            base_offset=[each.base_offset for each in segments],
            next_offset=[each.next_offset for each in segments],
            max_timestamp_ms=[each.max_timestamp_ms for each in segments],
            modified_ns=[each.modified_ns for each in segments],
            log=FileColumns.of([each.log for each in segments]),
            index=FileColumns.of([each.index for each in segments]),
            timeindex=FileColumns.of([each.timeindex for each in segments]),
            with_txnindex=[number for number, _ in txnindexes],
            txnindex=FileColumns.of([file for _, file in txnindexes]),
        )


class Segments(Sequence[StoredSegment]):
    """The segments of columns, each made when it is looked at.

    Attributes:
        columns: all of one length; see `SegmentColumns`.
    """

    __slots__ = ("_txnindex", "columns")

    def __init__(self, columns: SegmentColumns) -> None:
        """Raises ValueError: the columns do not fit each other."""
        count, marked = len(columns.base_offset), columns.with_txnindex
        of_all = (columns.log, columns.index, columns.timeindex)
        lengths = {len(each) for each in (columns.next_offset, columns.max_timestamp_ms)}
        lengths |= {len(columns.modified_ns)}.union(*map(_lengths, of_all))
        if count == 0 or lengths != {count}:
            problem = "the columns of the segments are not of one length"
            raise ValueError(problem)
        ascends = all(before < after for before, after in pairwise((-1, *marked, count)))
        if not ascends or _lengths(columns.txnindex) != {len(marked)}:
            problem = "the transaction indexes are not of these segments"
            raise ValueError(problem)
        self.columns = columns
        self._txnindex = {number: place for place, number in enumerate(marked)}

    def __len__(self) -> int:
        return len(self.columns.base_offset)

    @overload
    def __getitem__(self, number: int) -> StoredSegment: ...

    @overload
    def __getitem__(self, number: slice) -> tuple[StoredSegment, ...]: ...

    def __getitem__(self, number: int | slice) -> StoredSegment | tuple[StoredSegment, ...]:
        every = range(len(self))
        if isinstance(number, slice):
            return tuple(map(self._segment, every[number]))
        return self._segment(every[number])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Segments):
            return self.columns == other.columns
        return isinstance(other, tuple) and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"Segments(base_offset={self.columns.base_offset})"

    def _segment(self, number: int) -> StoredSegment:
        columns, place = self.columns, self._txnindex.get(number)
        return StoredSegment(
            base_offset=columns.base_offset[number],
            next_offset=columns.next_offset[number],
            max_timestamp_ms=columns.max_timestamp_ms[number],
            modified_ns=columns.modified_ns[number],
            log=columns.log.file(number),
            index=columns.index.file(number),
            timeindex=columns.timeindex.file(number),
            txnindex=None if place is None else columns.txnindex.file(place),
        )


def _lengths(files: FileColumns) -> set[int]:
    return {len(each) for each in (files.key, files.bytes, files.crc32c, files.head, files.tail)}


if TYPE_CHECKING:
    SegmentsField = Sequence[StoredSegment]
else:
    SegmentsField = Annotated[
        SegmentColumns,
        AfterValidator(Segments),
        PlainSerializer(SegmentColumns.of, return_type=SegmentColumns),
    ]
"""Segments, which a manifest has as columns."""
