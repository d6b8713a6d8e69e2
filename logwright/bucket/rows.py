"""What a plan needs to know of the segments of a manifest, as one array; and whether it is known.

A log of a bucket can have millions of segments: to look at each file costs more than all else of a
plan. So what `logwright.log.load` finds out file by file is found out here for all segments at
once, by the same rules, from the ends of files that the manifest has. Where one rule is broken, or
an end is not there, nothing is said about any segment: who looks at the files says what is wrong.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from logwright.format.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, MAGIC
from logwright.format.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from logwright.units import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from logwright.bucket.stored import FileColumns, SegmentColumns

SEGMENT: Final = np.dtype(
    [
        ("base_offset", "i8"),
        ("log_bytes", "i4"),
        ("index_bytes", "i4"),
        ("timeindex_bytes", "i4"),
        ("txnindex_bytes", "i4"),
        ("modified_ns", "i8"),
        ("largest_timestamp_ms", "i8"),
        ("first_batch_max_timestamp_ms", "i8"),
    ]
)
"""One segment, with the fields of `logwright.log.model.Segment`; `NO_FILE` and `NO_BATCH` stand for
their None.
"""
NO_FILE: Final = -1
NO_BATCH: Final = -INT64_MAX - 1

_NS_PER_MS: Final = 1_000_000
_MOST_NAMED: Final = 9_000_000_000_000_000_000
"""Above it, the names of files are looked at one by one."""
_FIRST_BATCH: Final = np.dtype(
    {
        "names": ["offset", "length", "magic", "delta", "max_timestamp"],
        "formats": [">i8", ">i4", "i1", ">i4", ">i8"],
        "offsets": [0, 8, 16, 23, 35],
        "itemsize": HEADER_BYTES,
    }
)
_LAST_TIMES: Final = np.dtype(
    [("before", ">i8"), ("at", ">i4"), ("timestamp", ">i8"), ("offset", ">i4")]
)


def rows_of(columns: SegmentColumns) -> NDArray[np.void] | None:
    """Return the segments of a manifest as `SEGMENT`[n], read-only; None if one of them has to be
    looked at by its files.
    """
    rows = np.empty(len(columns.base_offset), dtype=SEGMENT)
    rows["base_offset"] = columns.base_offset
    rows["modified_ns"] = columns.modified_ns
    rows["log_bytes"] = columns.log.bytes
    rows["index_bytes"] = columns.index.bytes
    rows["timeindex_bytes"] = columns.timeindex.bytes
    rows["txnindex_bytes"] = NO_FILE
    rows["txnindex_bytes"][columns.with_txnindex] = columns.txnindex.bytes
    firsts = _first_timestamps(rows, columns.log)
    largest = _largest_timestamps(rows, columns.timeindex)
    if (
        firsts is None
        or largest is None
        or rows["base_offset"][-1] >= _MOST_NAMED
        or np.any(rows["index_bytes"] % OFFSET_ENTRY_BYTES)
    ):
        return None
    rows["first_batch_max_timestamp_ms"] = firsts
    rows["largest_timestamp_ms"] = largest
    rows.flags.writeable = False
    return rows


def _first_timestamps(rows: NDArray[np.void], logs: FileColumns) -> NDArray[np.int64] | None:
    """Return the maxTimestamp of each segment's first batch, by the rules of
    `logwright.log.tail.first_batch_max_timestamp`; None if one is broken.
    """
    heads = _padded([head[:HEADER_BYTES] for head in logs.head], HEADER_BYTES)
    batches = heads.view(_FIRST_BATCH).ravel()
    full = rows["log_bytes"] > 0
    length, delta = batches["length"].astype(np.int64), batches["delta"].astype(np.int64)
    offset, base = batches["offset"].astype(np.int64), rows["base_offset"]
    whole = (length >= HEADER_BYTES - LOG_OVERHEAD_BYTES) & (
        length + LOG_OVERHEAD_BYTES <= rows["log_bytes"]
    )
    begins = (offset >= base) & (offset - base <= INT32_MAX)
    ends = (delta >= 0) & (np.where(begins, offset - base, 0) + delta <= INT32_MAX)
    timestamps = batches["max_timestamp"].astype(np.int64)
    is_known = np.array([len(head) >= HEADER_BYTES for head in logs.head], dtype=np.bool_)
    is_known &= timestamps > NO_BATCH
    if not np.all(~full | (is_known & whole & (batches["magic"] == MAGIC) & begins & ends)):
        return None
    return np.where(full, timestamps, NO_BATCH)


def _largest_timestamps(rows: NDArray[np.void], indexes: FileColumns) -> NDArray[np.int64] | None:
    """Return the timestamp of each time index's last entry, or the file's time, by the rules of
    `logwright.log.load`; None if one is broken.
    """
    tails = _padded([tail[-_LAST_TIMES.itemsize :] for tail in indexes.tail], _LAST_TIMES.itemsize)
    entries = tails.view(_LAST_TIMES).ravel()
    size, base = rows["timeindex_bytes"], rows["base_offset"]
    full, several = size > 0, size >= _LAST_TIMES.itemsize
    offset = entries["offset"].astype(np.int64)
    ascends = (entries["before"] < entries["timestamp"]) & (entries["at"] <= entries["offset"])
    room = np.append(base[1:] - base[:-1], INT32_MAX + 1)
    known = np.array([len(tail) for tail in indexes.tail], dtype=np.int64)
    is_right = (ascends | ~several) & (offset >= 0) & (offset < room)
    is_known = known >= np.minimum(size, _LAST_TIMES.itemsize)
    if np.any(size % TIME_ENTRY_BYTES) or not np.all(~full | (is_known & is_right)):
        return None
    timestamps = np.where(full, entries["timestamp"].astype(np.int64), -1)
    return np.where(timestamps >= 0, timestamps, rows["modified_ns"] // _NS_PER_MS)


def _padded(pieces: Sequence[bytes], size: int) -> NDArray[np.uint8]:
    """Return pieces of at most `size` bytes as uint8[n, size], each at the end of its row."""
    joined = b"".join([piece.rjust(size, b"\0") for piece in pieces])
    return np.frombuffer(joined, dtype=np.uint8).reshape(len(pieces), size)
