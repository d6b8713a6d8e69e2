"""Record batch headers of a whole segment as one array (record format v2, DefaultRecordBatch of
Kafka 4.3.0).

1. `scan_segment` walks the headers by their lengths, one row a batch, and refuses what it does not
   understand: lengths outside the file, an unknown magic or codec, offsets that do not ascend.
2. `check_crcs` computes CRCs; kernels that read records call `has_right_crc` just before, so that
   the bytes come from memory once.

Nothing here looks into the records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.errors import CorruptBatch, LogwrightError, UnsupportedFormatError
from logwright.format.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
)
from logwright.format.codec import LARGEST_GROWTH, LIMIT_FACTOR, SMALLEST_LIMIT_BYTES
from logwright.format.crc import span_crc32c
from logwright.format.record import SMALLEST_RECORD_BYTES
from logwright.format.walk import read_record
from logwright.kernel import kernel
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
    ],
    align=True,
)
"""One batch: position and size in bytes, offsets, ms, records.

`control_type` is the type of a control batch's record, -1 of any other batch. `first_ordinal`
numbers its first record among all records of a cleaning. The smallest timestamp, the number of
tombstones, the digest and number of mapped keys, and the flags are a cleaning's: what is found out
about the batch as it goes.
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

_REFUSED = "The log was left untouched."
_PROBLEMS: Final[dict[int, tuple[type[LogwrightError], str, str]]] = {
    _TRUNCATED: (
        CorruptBatch,
        "the record batch is cut off: the file ends before it does.",
        f"{_REFUSED} Recover the log (a broker does so on start) or restore the segment.",
    ),
    _BAD_LENGTH: (
        CorruptBatch,
        "the record batch's length is impossible; where zeros fill the file, there is no batch.",
        f"{_REFUSED} Restore the segment, or let a broker recover the log.",
    ),
    _MAGIC: (
        UnsupportedFormatError,
        "the record batch's magic is not 2.",
        f"{_REFUSED} Magic 0 and 1 are written by brokers before 0.11; others are unknown.",
    ),
    _CODEC: (
        UnsupportedFormatError,
        "the record batch's codec is unknown.",
        f"{_REFUSED} Codecs 0 to 4 are handled: a newer broker wrote it, or it is damaged.",
    ),
    _BAD_COUNT: (
        CorruptBatch,
        "the record batch's record count and offset delta contradict each other.",
        f"{_REFUSED} Restore the segment.",
    ),
    _NO_ROOM: (
        CorruptBatch,
        "the record batch has too few bytes for its record count.",
        f"{_REFUSED} Restore the segment.",
    ),
    _OFFSET_ORDER: (
        CorruptBatch,
        "the record batch's offsets do not follow those before it.",
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


@kernel
def read_int16(data: Any, at: int) -> int:
    """Big-endian int16; the caller checks the bounds, here and below."""
    return np.int64(np.int16((np.uint16(data[at]) << np.uint16(8)) | np.uint16(data[at + 1])))


@kernel
def read_uint32(data: Any, at: int) -> int:
    """Big-endian uint32."""
    value = np.int64(0)
    for index in range(4):
        value = (value << np.int64(8)) | np.int64(data[at + index])
    return value


@kernel
def read_int32(data: Any, at: int) -> int:
    """Big-endian int32."""
    value = read_uint32(data, at)
    return value - np.int64(4294967296) if value > np.int64(2147483647) else value


@kernel
def read_int64(data: Any, at: int) -> int:
    """Big-endian int64."""
    value = np.int64(0)
    for index in range(8):
        value = (value << np.int64(8)) | np.int64(data[at + index])
    return value


@kernel
def _count_batches(data: Any) -> tuple[int, int, int]:
    """(batches, position, status) by a walk over the length fields."""
    position = np.int64(0)
    end = np.int64(len(data))
    batches = 0
    while position < end:
        if position + HEADER_BYTES > end:
            return batches, position, _TRUNCATED
        length = read_int32(data, position + 8)
        # A length of 0 is no old format: zeros that a power loss or a preallocation left.
        if length > 0 and data[position + 16] != 2:
            return batches, position, _MAGIC
        if length < HEADER_BYTES - LOG_OVERHEAD_BYTES:
            return batches, position, _BAD_LENGTH
        if position + LOG_OVERHEAD_BYTES + length > end:
            return batches, position, _TRUNCATED
        position += LOG_OVERHEAD_BYTES + length
        batches += 1
    return batches, position, _OK


@kernel
def _most_records(batch: Any) -> Any:
    """How many records a batch can hold at most: its bytes grow by no more than its codec can make
    them when they are decompressed, and not above the limit.
    """
    payload = (batch.size - HEADER_BYTES) * LARGEST_GROWTH[batch.attributes & CODEC_MASK]
    if batch.attributes & CODEC_MASK != 0:
        payload = min(payload, max(np.int64(SMALLEST_LIMIT_BYTES), LIMIT_FACTOR * batch.size))
    return payload // SMALLEST_RECORD_BYTES


@kernel
def _control_type(data: Any, batch: Any) -> int:
    """Type in the key of a control batch's first record (ControlRecordType.parse); -2 if
    malformed.
    """
    if batch.attributes & CODEC_MASK != 0:
        return np.int64(-2)
    end = batch.position + batch.size
    after, _, _, _, _, key, length, _ = read_record(data, batch.position + HEADER_BYTES, end)
    if after < 0 or length < _CONTROL_KEY_BYTES or read_int16(data, key) < 0:
        return np.int64(-2)
    kind = read_int16(data, key + 2)
    return kind if kind >= 0 else np.int64(_UNKNOWN_CONTROL)


@kernel
def _read_headers(
    data: Any, base_offset: int, end_offset: int, first_ordinal: int, batches: Any
) -> tuple[int, int]:
    """Fill `batches`; (position, status) of the first that is refused. An end offset below 0
    refuses none.
    """
    position, ordinal = np.int64(0), np.int64(first_ordinal)
    next_offset = np.int64(base_offset)
    for row in range(len(batches)):
        batch = batches[row]
        attributes = read_int16(data, position + 21)
        batch.position = position
        batch.size = LOG_OVERHEAD_BYTES + read_int32(data, position + 8)
        batch.base_offset = read_int64(data, position)
        batch.last_offset = batch.base_offset + read_int32(data, position + 23)
        batch.base_timestamp = read_int64(data, position + 27)
        batch.max_timestamp = read_int64(data, position + 35)
        batch.producer_id = read_int64(data, position + 43)
        batch.count = read_int32(data, position + 57)
        batch.attributes = attributes
        batch.producer_epoch = read_int16(data, position + 51)
        batch.control_type = -1
        batch.first_ordinal = ordinal
        ordinal += batch.count
        if end_offset < 0:
            position += batch.size
            continue
        if (attributes & CODEC_MASK) > 4:
            return position, _CODEC
        if attributes & CONTROL != 0 and batch.count > 0:
            batch.control_type = _control_type(data, batch)
            if batch.control_type < 0:
                return position, _CONTROL
        span = np.int64(read_int32(data, position + 23))
        if span < 0 or batch.count < 0 or batch.count > span + 1:
            return position, _BAD_COUNT
        if batch.count > _most_records(batch):
            return position, _NO_ROOM
        # Compared without a sum, which could overflow.
        if batch.base_offset < next_offset or batch.base_offset >= end_offset:
            return position, _OFFSET_ORDER
        if span >= end_offset - batch.base_offset:
            return position, _OFFSET_ORDER
        if batch.last_offset - base_offset > INT32_MAX:
            return position, _OFFSET_OVERFLOW
        next_offset = batch.last_offset + 1
        position += batch.size
    return position, _OK


@kernel
def has_right_crc(data: Any, batch: Any) -> Any:
    """Whether the CRC of a batch is right."""
    computed = span_crc32c(data, batch.position + 21, batch.position + batch.size)
    return np.int64(computed) == read_uint32(data, batch.position + 17)


@kernel
def _first_bad_crc(data: Any, batches: Any, first: int, last: int) -> int:
    """Row of the first batch in [first, last) whose CRC is wrong, -1 if there is none."""
    for row in range(first, last):
        if not has_right_crc(data, batches[row]):
            return row
    return -1


def _refuse(status: int, path: Path | str, position: int) -> LogwrightError:
    kind, problem, remedy = _PROBLEMS[status]
    return kind(problem, path=path, position=position, remedy=remedy)


def scan_segment(
    data: NDArray[np.uint8],
    path: Path | str,
    *,
    base_offset: int,
    end_offset: int,
    first_ordinal: int = 0,
) -> NDArray[np.void]:
    """The batches of one segment.

    Args:
        data: uint8[n], the whole ``.log``.
        path: for messages.
        base_offset: of the segment.
        end_offset: exclusive bound that every offset is below (the next segment's base offset).
        first_ordinal: number of the first record.

    Returns:
        BATCH[batches], ascending.

    Raises:
        CorruptBatch: a length, count or offset is wrong, or the last batch is cut off.
        UnsupportedFormatError: a magic, codec or producer feature that is not handled.
    """
    count, position, status = _count_batches(data)
    if status != _OK:
        raise _refuse(status, path, position)
    batches = np.zeros(count, dtype=BATCH)
    position, status = _read_headers(data, base_offset, end_offset, first_ordinal, batches)
    if status != _OK:
        raise _refuse(status, path, position)
    return batches


def scan_whatever(data: NDArray[np.uint8], path: Path | str) -> NDArray[np.void]:
    """The batches of a file as their headers state them, judged by nothing but their lengths.

    Raises:
        CorruptBatch: the batches cannot be told apart.
        UnsupportedFormatError: a magic other than 2.
    """
    count, position, status = _count_batches(data)
    if status != _OK:
        raise _refuse(status, path, position)
    batches = np.zeros(count, dtype=BATCH)
    _read_headers(data, 0, -1, 0, batches)
    return batches


def bad_crcs(data: NDArray[np.uint8], batches: NDArray[np.void]) -> list[int]:
    """Rows of all batches whose CRC is wrong."""
    rows: list[int] = []
    row = _first_bad_crc(data, batches, 0, len(batches))
    while row >= 0:
        rows.append(int(row))
        row = _first_bad_crc(data, batches, row + 1, len(batches))
    return rows


def check_crcs(
    data: NDArray[np.uint8], batches: NDArray[np.void], path: Path | str, *, first: int, last: int
) -> None:
    """Check the CRC of the batches [first, last).

    Raises:
        CorruptBatch: at the first that is wrong.
    """
    row = _first_bad_crc(data, batches, first, last)
    if row >= 0:
        raise CorruptBatch(
            f"the CRC of the record batch at offset {int(batches[row]['base_offset'])} is wrong.",
            path=path,
            position=int(batches[row]["position"]),
            remedy=f"{_REFUSED} Restore the segment, or let a broker recover the log.",
        )
