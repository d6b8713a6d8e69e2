"""Parse and serialize a segment's three indexes (OffsetIndex, TimeIndex, TransactionIndex, 4.3.0).

::

    .index      int32 relative offset of a batch's last record, int32 position of the batch
    .timeindex  int64 timestamp, int32 relative offset
    .txnindex   int16 version 0, int64 producerId, firstOffset, lastOffset, lastStableOffset

The parsers ignore bytes after the last whole entry, as Kafka does; the `check_` functions refuse
them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from logwright.errors import CorruptIndex, UnsupportedFormatError, invariant
from logwright.units import INT32_MAX, Offset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12
TXN_ENTRY_BYTES: Final = 34

_OFFSET_ENTRY: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME_ENTRY: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_TXN_ENTRY: Final = struct.Struct(">hqqqq")
_TXN_VERSION: Final = 0
_REMEDY: Final = (
    "The log was not changed. `logwright recover` rebuilds the indexes, and so does a broker that"
    " finds a segment without its .index."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransaction:
    """One entry of a transaction index.

    Attributes:
        first_offset: first offset of the transaction, possibly in an earlier segment.
        last_offset: offset of the ABORT marker.
        last_stable_offset: the last stable offset after this transaction ended.
    """

    version: int
    producer_id: int
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


def parse_offset_index(content: bytes | memoryview, base_offset: int) -> NDArray[np.int64]:
    """Return int64[n, 2]: (absolute offset, position in bytes)."""
    return _columns(content, _OFFSET_ENTRY, ("offset", "position"), (base_offset, 0))


def serialize_offset_index(entries: NDArray[np.int64], base_offset: int) -> bytes:
    """Return the file's content, from int64[n, 2] (absolute offset, position)."""
    return _serialize(entries, _OFFSET_ENTRY, ("offset", "position"), (base_offset, 0))


def parse_time_index(content: bytes | memoryview, base_offset: int) -> NDArray[np.int64]:
    """Return int64[n, 2]: (timestamp in ms, absolute offset)."""
    return _columns(content, _TIME_ENTRY, ("timestamp", "offset"), (0, base_offset))


def serialize_time_index(entries: NDArray[np.int64], base_offset: int) -> bytes:
    """Return the file's content, from int64[n, 2] (timestamp, absolute offset)."""
    return _serialize(entries, _TIME_ENTRY, ("timestamp", "offset"), (0, base_offset))


def parse_txn_index(content: bytes | memoryview) -> tuple[AbortedTransaction, ...]:
    """Return all whole entries, of any version."""
    whole = len(content) - len(content) % TXN_ENTRY_BYTES
    return tuple(
        AbortedTransaction(
            version=version,
            producer_id=producer_id,
            first_offset=Offset(first),
            last_offset=Offset(last),
            last_stable_offset=Offset(stable),
        )
        for version, producer_id, first, last, stable in _TXN_ENTRY.iter_unpack(
            memoryview(content)[:whole]
        )
    )


def serialize_txn_index(entries: Iterable[AbortedTransaction]) -> bytes:
    """Return the file's content."""
    return b"".join(
        _TXN_ENTRY.pack(
            entry.version,
            entry.producer_id,
            entry.first_offset,
            entry.last_offset,
            entry.last_stable_offset,
        )
        for entry in entries
    )


def before_space(content: bytes, entry_bytes: int) -> bytes:
    """Return the entries before the zeros at an index's end: what a broker has written.

    The broker allocates ``segment.index.bytes`` for the indexes of its active segment, and cuts off
    what is left at a roll and a clean stop (AbstractIndex.trimToValidSize, 4.4.0). One that was
    killed leaves it; its next start makes the index again.
    """
    used = len(content.rstrip(b"\0"))
    return content[: -(-used // entry_bytes) * entry_bytes]


def check_offset_index(
    content: bytes | memoryview, *, base_offset: int, log_bytes: int, path: object
) -> NDArray[np.int64]:
    """Parse an offset index and check every entry.

    Raises:
        CorruptIndex: odd length, an entry at position 0 or after the log's end, or entries that
            are not ascending (such as zero entries of an untrimmed index).
    """
    entries = parse_offset_index(content, base_offset)
    wrong = (entries[:, 0] < base_offset) | (entries[:, 1] <= 0) | (entries[:, 1] >= log_bytes)
    wrong[1:] |= (np.diff(entries, axis=0) <= 0).any(axis=1)
    _refuse(len(content), wrong, OFFSET_ENTRY_BYTES, path)
    return entries


def check_time_index(
    content: bytes | memoryview, *, base_offset: int, path: object
) -> NDArray[np.int64]:
    """Parse a time index and check every entry.

    Raises:
        CorruptIndex: odd length, an offset below the segment's, or entries that are not ascending.
    """
    entries = parse_time_index(content, base_offset)
    wrong = (entries[:, 0] < 0) | (entries[:, 1] < base_offset)
    wrong[1:] |= (np.diff(entries[:, 0]) <= 0) | (np.diff(entries[:, 1]) < 0)
    _refuse(len(content), wrong, TIME_ENTRY_BYTES, path)
    return entries


def check_txn_index(
    content: bytes | memoryview, *, base_offset: int, path: object
) -> tuple[AbortedTransaction, ...]:
    """Parse a transaction index and check every entry.

    Raises:
        CorruptIndex: odd length, an offset below the segment's, or entries that are not ascending.
        UnsupportedFormatError: an entry's version is not 0.
    """
    entries = parse_txn_index(content)
    wrong = np.zeros(len(entries), dtype=np.bool_)
    last = base_offset - 1
    for number, entry in enumerate(entries):
        if entry.version != _TXN_VERSION:
            raise UnsupportedFormatError(
                f"an entry has version {entry.version}.",
                path=path,
                position=number * TXN_ENTRY_BYTES,
                remedy="The log was not changed.",
            )
        wrong[number] = entry.last_offset <= last or entry.first_offset > entry.last_offset
        last = entry.last_offset
    _refuse(len(content), wrong, TXN_ENTRY_BYTES, path)
    return entries


def _refuse(size: int, wrong: NDArray[np.bool_], entry_bytes: int, path: object) -> None:
    if size % entry_bytes:
        raise CorruptIndex(
            f"the size of {size} bytes is not a multiple of the entry size of {entry_bytes} bytes.",
            path=path,
            position=size - size % entry_bytes,
            remedy=_REMEDY,
        )
    if wrong.any():
        number = int(wrong.argmax())
        raise CorruptIndex(
            f"entry {number} is out of order or points outside the segment.",
            path=path,
            position=number * entry_bytes,
            remedy=_REMEDY,
        )


def _columns(
    content: bytes | memoryview,
    entry: np.dtype[np.void],
    names: tuple[str, str],
    bases: tuple[int, int],
) -> NDArray[np.int64]:
    raw = np.frombuffer(content, dtype=entry, count=len(content) // entry.itemsize)
    entries = np.empty((len(raw), 2), dtype=np.int64)
    for column in range(2):
        entries[:, column] = raw[names[column]]
        entries[:, column] += bases[column]
    return entries


def _serialize(
    entries: NDArray[np.int64],
    entry: np.dtype[np.void],
    names: tuple[str, str],
    bases: tuple[int, int],
) -> bytes:
    raw = np.empty(len(entries), dtype=entry)
    for column in range(2):
        values = entries[:, column] - bases[column]
        if entry[names[column]].itemsize == 4 and len(values):  # noqa: PLR2004 - an int32
            fits = values.min() >= 0 and values.max() <= INT32_MAX
            invariant(bool(fits), "an index entry's offset and position fit in 31 bits")
        raw[names[column]] = values
    return raw.tobytes()
