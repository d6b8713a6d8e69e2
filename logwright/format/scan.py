"""Step from one record batch to the next, and scan the headers of a segment into one array (record
format v2, DefaultRecordBatch, 4.3.0).

1. `next_batch` looks at the length and the magic only, as FileLogInputStream (4.3.0) does. Who
   reads strictly, as `scan_segment`, refuses what is not whole; who reads what is left after a
   crash (`valid`), or whatever there is (`erasure.find`), ends or continues there.
2. `scan_segment` walks the headers by their length fields, one row per batch, and refuses lengths
   outside the file, an unknown magic or codec, and offsets that are not ascending.
3. `check_crcs` computes CRCs; kernels that read records call `has_right_crc` just before, so that
   the bytes are loaded into the cache only once.

This module does not read records.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.errors import CorruptBatch, LogwrightError, UnsupportedFormatError
from logwright.format.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    SMALLEST_LEGACY_LENGTH,
)
from logwright.format.codec import LARGEST_GROWTH
from logwright.format.crc import prefetch, span_crc32c
from logwright.format.legacy import LEGACY, NOT_LEGACY, fill_legacy, is_legacy, is_legacy_magic
from logwright.format.limits import LIMIT_FACTOR, SMALLEST_LIMIT_BYTES
from logwright.format.record import SMALLEST_RECORD_BYTES
from logwright.format.walk import read_record
from logwright.kernel import inline_kernel, kernel
from logwright.units import INT32_MAX

BATCH: Final = np.dtype(
    [
        ("position", np.int64),
        ("size", np.int64),
        ("base_offset", np.int64),
        ("last_offset", np.int64),
        ("base_timestamp", np.int64),
        ("max_timestamp", np.int64),
        ("producer_id", np.int64),
        ("first_ordinal", np.int64),
        ("min_timestamp", np.int64),
        ("keys_digest", np.uint64),
        ("count", np.int32),
        ("mapped", np.int32),
        ("tombstones", np.int32),
        ("attributes", np.int16),
        ("producer_epoch", np.int16),
        ("control_type", np.int16),
        ("has_tombstone", np.bool_),
        ("unmapped", np.bool_),
        ("discard", np.bool_),
        ("keep_empty", np.bool_),
        ("empty_marker", np.bool_),
        ("legacy", np.uint8),
    ],
    align=True,
)
"""One batch: position and size in bytes, offsets, timestamps in ms, number of records.

`control_type` is the type of a control batch's record, -1 for any other batch. `first_ordinal` is
the number of its first record among all records of a cleaning. A cleaning fills in the smallest
timestamp, the number of tombstones, the digest and number of mapped keys, and the flags. `legacy`:
`legacy.NOT_LEGACY`, or what the batch was before it was put in format v2.
"""


ABORT: Final = 0
COMMIT: Final = 1
_UNKNOWN_CONTROL: Final = 32767
_CONTROL_KEY_BYTES: Final = 4

_OK: Final = 0
_TRUNCATED: Final = 1
_BAD_LENGTH: Final = 2
_MAGIC: Final = 3
_CODEC: Final = 4
_BAD_COUNT: Final = 5
_OFFSET_ORDER: Final = 6
_OFFSET_OVERFLOW: Final = 7
_CONTROL: Final = 8
_NO_ROOM: Final = 9
_ROWS_FULL: Final = 10

_FEW_ROWS: Final = 64
_BATCHES_AHEAD: Final = 3

_REFUSED = "The log was not changed."
_PROBLEMS: Final[dict[int, tuple[type[LogwrightError], str, str]]] = {
    _TRUNCATED: (
        CorruptBatch,
        "the record batch is truncated: the file ends inside it.",
        f"{_REFUSED} Recover the log (a broker does so at start-up) or restore the segment.",
    ),
    _BAD_LENGTH: (
        CorruptBatch,
        "the record batch's length is invalid; the file may be filled with zeros from here on.",
        f"{_REFUSED} Restore the segment, or let a broker recover the log.",
    ),
    _MAGIC: (
        UnsupportedFormatError,
        "the record batch's magic is unknown, or of an old message format without its CRC.",
        f"{_REFUSED} Restore the segment.",
    ),
    _CODEC: (
        UnsupportedFormatError,
        "the record batch's codec is unknown.",
        f"{_REFUSED} Codecs 0 to 4 are supported: a newer broker wrote it, or it is corrupt.",
    ),
    _BAD_COUNT: (
        CorruptBatch,
        "the record batch's record count does not match its last offset delta.",
        f"{_REFUSED} Restore the segment.",
    ),
    _NO_ROOM: (
        CorruptBatch,
        "the record batch has too few bytes for its record count.",
        f"{_REFUSED} Restore the segment.",
    ),
    _OFFSET_ORDER: (
        CorruptBatch,
        "the record batch's offsets are not above those of the batch before it.",
        f"{_REFUSED} Restore the segment.",
    ),
    _OFFSET_OVERFLOW: (
        UnsupportedFormatError,
        "the record batch's offsets are too far from the segment's base offset.",
        f"{_REFUSED} `logwright recover` splits such a segment.",
    ),
    _CONTROL: (
        CorruptBatch,
        "the control batch is compressed, or its record's key is malformed.",
        f"{_REFUSED} Restore the segment.",
    ),
}

# The numbers differ from those of `logwright.batches.status`.
WHOLE: Final = 0
TORN: Final = 4
"""The data ends inside a batch: after 17 bytes or fewer, or before its size."""
LENGTH: Final = 5
"""The length is below that of any format."""
OTHER_MAGIC: Final = 6
SMALL: Final = 7
"""It has fewer bytes than its header, with a right magic."""

_MOST_OF_A_TORN_HEAD: Final = 17


@kernel
def read_int16(data: Any, at: int) -> int:
    """Read a big-endian int16; the caller checks the bounds, as for the functions below."""
    return np.int64(np.int16((np.uint16(data[at]) << np.uint16(8)) | np.uint16(data[at + 1])))


@kernel
def read_uint32(data: Any, at: int) -> int:
    """Read a big-endian uint32."""
    value = np.int64(0)
    for index in range(4):
        value = (value << np.int64(8)) | np.int64(data[at + index])
    return value


@kernel
def read_int32(data: Any, at: int) -> int:
    """Read a big-endian int32."""
    value = read_uint32(data, at)
    return value - np.int64(4294967296) if value > np.int64(2147483647) else value


@kernel
def read_int64(data: Any, at: int) -> int:
    """Read a big-endian int64."""
    value = np.int64(0)
    for index in range(8):
        value = (value << np.int64(8)) | np.int64(data[at + index])
    return value


@inline_kernel
def fill_batch(batch: Any, data: Any, position: int, size: int) -> None:
    """Note the header of the batch at a position in a row of BATCH; sums and flags stay."""
    batch.position = position
    batch.size = size
    batch.base_offset = read_int64(data, position)
    batch.last_offset = batch.base_offset + read_int32(data, position + 23)
    batch.base_timestamp = read_int64(data, position + 27)
    batch.max_timestamp = read_int64(data, position + 35)
    batch.producer_id = read_int64(data, position + 43)
    batch.count = read_int32(data, position + 57)
    batch.attributes = read_int16(data, position + 21)
    batch.producer_epoch = read_int16(data, position + 51)
    batch.control_type = -1


@inline_kernel
def next_batch(data: Any, position: int, end: int) -> Any:
    """Return (size, status) of the batch at a position before `end`; the size, as its length field
    has it, is 0 if that field is torn off.
    """
    if end - position <= _MOST_OF_A_TORN_HEAD:
        return np.int64(0), np.int64(TORN)
    length = np.int64(read_int32(data, position + 8))
    size = length + LOG_OVERHEAD_BYTES
    if length < SMALLEST_LEGACY_LENGTH:
        return size, np.int64(LENGTH)
    if size > end - position:
        return size, np.int64(TORN)
    if data[position + 16] != MAGIC:
        return size, np.int64(OTHER_MAGIC)
    return size, np.int64(SMALL if size < HEADER_BYTES else WHOLE)


@kernel
def _refused_header(data: Any, position: int, end: int, size: int) -> int:
    """Return why there is not a whole batch at a position: a magic other than 2 is named first."""
    is_whole = LOG_OVERHEAD_BYTES + SMALLEST_LEGACY_LENGTH <= size <= end - position
    if position + HEADER_BYTES > end and not (is_whole and is_legacy_magic(data, position)):
        return np.int64(_TRUNCATED)
    # A length of 0 is not an old format: a power loss or a preallocation left zeros.
    if size > LOG_OVERHEAD_BYTES and data[position + 16] != MAGIC:
        return np.int64(_MAGIC)
    return np.int64(_BAD_LENGTH if size < HEADER_BYTES else _TRUNCATED)


@kernel
def _most_records(batch: Any) -> Any:
    """Return the maximum number of records of a batch, from its size, its codec's maximum ratio and
    the decompression limit. One of an old format counts as one record.
    """
    if batch.legacy != NOT_LEGACY:
        return np.int64(1)
    payload = (batch.size - HEADER_BYTES) * LARGEST_GROWTH[batch.attributes & CODEC_MASK]
    if batch.attributes & CODEC_MASK != 0:
        payload = min(payload, max(np.int64(SMALLEST_LIMIT_BYTES), LIMIT_FACTOR * batch.size))
    return payload // SMALLEST_RECORD_BYTES


@kernel
def control_type(data: Any, batch: Any) -> int:
    """Return the type in the key of a control batch's first record (ControlRecordType.parse), -2 if
    malformed.
    """
    if batch.attributes & CODEC_MASK != 0:
        return np.int64(-2)
    end = batch.position + batch.size
    record = read_record(data, batch.position + HEADER_BYTES, end)
    too_short = record.stop < 0 or record.key_length < _CONTROL_KEY_BYTES
    if too_short or read_int16(data, record.key) < 0:
        return np.int64(-2)
    kind = read_int16(data, record.key + 2)
    return kind if kind >= 0 else np.int64(_UNKNOWN_CONTROL)


@kernel
def _read_headers(
    data: Any,
    bounds: Any,
    first_ordinal: int,
    batches: Any,
    row: int,
    position: int,
) -> tuple[int, int, int]:
    """Fill `batches` from a row and a position on. Return (row, position, status) of the first that
    is refused or has no room, or of the end.

    `bounds`: (base offset, end offset, below 0 for no bound; whether old formats are read).
    """
    base_offset, end_offset, reads_legacy = bounds
    end, ordinal = np.int64(len(data)), np.int64(first_ordinal)
    next_offset = np.int64(base_offset)
    if row > 0:
        ordinal = batches[row - 1].first_ordinal + batches[row - 1].count
        next_offset = batches[row - 1].last_offset + 1
    while position < end:
        if row == len(batches):
            return row, position, np.int64(_ROWS_FULL)
        size, status = next_batch(data, position, end)
        legacy = reads_legacy and status == OTHER_MAGIC and is_legacy_magic(data, position)
        if status != WHOLE and not (legacy and is_legacy(data, position, size)):
            return row, position, _refused_header(data, position, end, size)
        # Batches are much alike in size. Where the next ones begin is not known, but their pages
        # are: most of the time is spent to find these in memory.
        prefetch(data, position + _BATCHES_AHEAD * size)
        batch = batches[row]
        if legacy:
            fill_legacy(batch, data, position, size)
            batch.legacy = LEGACY
        else:
            fill_batch(batch, data, position, size)
        batch.first_ordinal = ordinal
        if end_offset >= 0:
            status = _check_header(data, batch, base_offset, next_offset, end_offset)
            if status != _OK:
                return row, position, status
        ordinal += batch.count
        next_offset = batch.last_offset + 1
        position += size
        row += 1
    return row, position, np.int64(_OK)


@kernel
def _check_header(
    data: Any, batch: Any, base_offset: int, next_offset: int, end_offset: int
) -> int:
    """Set the type of a control batch. Return why a header is refused, or `_OK`."""
    attributes = np.int64(batch.attributes)
    if (attributes & CODEC_MASK) >= len(LARGEST_GROWTH):
        return np.int64(_CODEC)
    if attributes & CONTROL != 0 and batch.count > 0:
        batch.control_type = control_type(data, batch)
        if batch.control_type < 0:
            return np.int64(_CONTROL)
    span = batch.last_offset - batch.base_offset
    if batch.legacy == NOT_LEGACY:
        span = np.int64(read_int32(data, batch.position + 23))
    if span < 0 or batch.count < 0 or batch.count > span + 1:
        return np.int64(_BAD_COUNT)
    if batch.count > _most_records(batch):
        return np.int64(_NO_ROOM)
    # No addition, which could overflow.
    if batch.base_offset < next_offset or batch.base_offset >= end_offset:
        return np.int64(_OFFSET_ORDER)
    if span >= end_offset - batch.base_offset:
        return np.int64(_OFFSET_ORDER)
    if batch.last_offset - base_offset > INT32_MAX:
        return np.int64(_OFFSET_OVERFLOW)
    return np.int64(_OK)


def _scan(
    data: NDArray[np.uint8],
    base_offset: int,
    end_offset: int,
    first_ordinal: int,
    *,
    legacy: bool = False,
) -> tuple[NDArray[np.void], int, int]:
    """Return BATCH[n], the batches before the first that is refused, its position, and why it is;
    at the end of the data that, and `_OK`.
    """
    batches = np.zeros(_FEW_ROWS, dtype=BATCH)
    row, position, status = 0, 0, _ROWS_FULL
    while status == _ROWS_FULL:
        if row:  # enough for the rest if its batches are as large as those before
            expected = row * len(data) // position + row
            batches = np.concatenate((batches, np.zeros(min(expected, 7 * row), dtype=BATCH)))
        row, position, status = _read_headers(
            data, (base_offset, end_offset, legacy), first_ordinal, batches, row, position
        )
    rows = batches[:row]
    return rows if 2 * row > len(batches) else rows.copy(), int(position), int(status)


@kernel
def has_right_crc(data: Any, batch: Any) -> Any:
    """Return whether the CRC of a batch is correct."""
    computed = span_crc32c(data, batch.position + 21, batch.position + batch.size)
    return np.int64(computed) == read_uint32(data, batch.position + 17)


@kernel
def _first_bad_crc(data: Any, batches: Any, first: int, last: int) -> int:
    """Return the row of the first batch in [first, last) with a wrong CRC, -1 if none."""
    for row in range(first, last):
        if not has_right_crc(data, batches[row]):
            return row
    return -1


def _refuse(status: int, path: object, position: int) -> LogwrightError:
    kind, problem, remedy = _PROBLEMS[status]
    return kind(problem, path=path, position=position, remedy=remedy)


def scan_segment(
    data: NDArray[np.uint8],
    path: object,
    *,
    base_offset: int,
    end_offset: int,
    first_ordinal: int = 0,
    headers_only: bool = False,
) -> NDArray[np.void]:
    """Return the batches of one segment.

    Args:
        data: uint8[n], the whole ``.log``.
        path: for messages.
        base_offset: base offset of the segment.
        end_offset: exclusive upper bound of all offsets (the next segment's base offset).
        first_ordinal: number of the first record.
        headers_only: the caller reads no records, so batches of old formats are taken, too, as
            `fill_legacy` notes them.

    Returns:
        BATCH[batches], ascending.

    Raises:
        CorruptBatch: a length, count or offset is wrong, or the last batch is truncated.
        UnsupportedFormatError: a magic, codec or producer feature that is not supported.
    """
    batches, position, status = _scan(
        data, base_offset, end_offset, first_ordinal, legacy=headers_only
    )
    if status != _OK:
        raise _refuse(status, path, position)
    return batches


def scan_piece(
    data: NDArray[np.uint8],
    path: object,
    *,
    span: tuple[int, int],
    next_offset: int,
    end_offset: int,
    piece_bytes: int,
    headers_only: bool = False,
) -> tuple[NDArray[np.void], int, LogwrightError | None]:
    """Return BATCH[n], the batches of the next part of a segment, at least one unless something is
    wrong; the position after them; and what is wrong with the batch there, None if it was not read.

    Args:
        data: uint8[n], the whole ``.log``. path: for messages.
        span: (position where a batch begins, position where the last one ends).
        next_offset: the smallest that the first batch may have.
        end_offset: exclusive upper bound of all offsets.
        piece_bytes: about how many bytes the batches have.
        headers_only: see `scan_segment`.
    """
    start, end = span
    while True:
        part = data[start : min(start + piece_bytes, end)]
        batches, reached, status = _scan(part, next_offset, end_offset, 0, legacy=headers_only)
        if len(batches) or status != _TRUNCATED or start + piece_bytes >= end:
            break
        piece_bytes *= 2
    if status == _TRUNCATED and start + len(part) < end:
        status = _OK  # the next piece has that batch
    problem = None if status == _OK else _refuse(status, path, start + reached)
    batches["position"] += start
    return batches, start + reached, problem


def scan_whatever(data: NDArray[np.uint8], path: object) -> NDArray[np.void]:
    """Return the batches of a file as in their headers; checks only their lengths.

    Raises:
        CorruptBatch: an invalid length.
        UnsupportedFormatError: a magic other than 2.
    """
    batches, position, status = _scan(data, 0, -1, 0)
    if status != _OK:
        raise _refuse(status, path, position)
    return batches


def bad_crcs(data: NDArray[np.uint8], batches: NDArray[np.void]) -> list[int]:
    """Return the rows of all batches with a wrong CRC."""
    rows: list[int] = []
    row = _first_bad_crc(data, batches, 0, len(batches))
    while row >= 0:
        rows.append(int(row))
        row = _first_bad_crc(data, batches, row + 1, len(batches))
    return rows


def check_crcs(
    data: NDArray[np.uint8], batches: NDArray[np.void], path: object, *, first: int, last: int
) -> None:
    """Check the CRC of the batches [first, last).

    Raises:
        CorruptBatch: for the first batch with a wrong CRC.
    """
    row = _first_bad_crc(data, batches, first, last)
    if row >= 0:
        raise CorruptBatch(
            f"the CRC of the record batch at offset {int(batches[row]['base_offset'])} is wrong.",
            path=path,
            position=int(batches[row]["position"]),
            remedy=f"{_REFUSED} Restore the segment from a copy, or from another replica.",
        )
