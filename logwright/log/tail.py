"""Find where a segment begins and where its log ends, from its first header and its last few
batches.

Only the region after the active segment's last index entry is read, and every batch in it is
checked whole: lengths, magic, order of offsets, CRC. A tail that Kafka would silently skip
(after a clean stop it does not cut it, and appends after it) is refused.
"""

from __future__ import annotations

import struct
from typing import Final

from logwright.errors import CorruptBatch, CorruptIndex, UnsupportedFormatError
from logwright.format.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    NO_TIMESTAMP,
    crc_is_valid,
    parse_batch,
    unsupported_magic,
)
from logwright.format.legacy import SMALLEST_BYTES, is_whole
from logwright.place.model import Bytes
from logwright.units import INT32_MAX, INT64_MAX, Offset, TimestampMs

WINDOW_BYTES: Final = 1024 * 1024
"""Read in one piece; a larger batch is read separately."""

RECOVER: Final = (
    "The log was left untouched. `logwright recover` cuts the log before the first bad batch, as a"
    " broker does that starts without .kafka_cleanshutdown; or restore the segment."
)
_OFFSET: Final = struct.Struct(">q")
_LENGTH: Final = struct.Struct(">i")
_LENGTH_AT: Final = 8
_MAGIC_AT: Final = 16
_FIRST: Final = struct.Struct(">qi4xb6xi8xq18x")
_FIRST_LEGACY: Final = struct.Struct(">q8xbxq")
_SMALLEST: Final = (*SMALLEST_BYTES, HEADER_BYTES)
"""Bytes of the smallest batch, by its magic."""


def looked_at_bytes(header: bytes, log_bytes: int) -> int:
    """Return how many bytes of a segment's first batch `first_batch_max_timestamp` looks at: of one
    of an old format all, since only its CRC shows that its magic is not damaged.
    """
    if len(header) <= _MAGIC_AT or header[_MAGIC_AT] >= MAGIC:
        return len(header)
    (length,) = _LENGTH.unpack_from(header, _LENGTH_AT)
    return int(min(max(length + LOG_OVERHEAD_BYTES, len(header)), log_bytes))


def first_batch_max_timestamp(
    header: bytes, *, base_offset: int, log_bytes: int, path: str
) -> TimestampMs:
    """Return the maxTimestamp of a segment's first batch (LogSegment.loadFirstBatchTimestamp).

    Args:
        header: the first 61 bytes of the `.log`, or all of it; or `looked_at_bytes`.
        base_offset: the segment's.
        log_bytes: size of the `.log`, above 0.
        path: of the `.log`.

    Raises:
        CorruptBatch: the batch does not fit into the file or the segment.
        UnsupportedFormatError: its magic is above 2, or its offsets are too far from the segment's.
    """
    size = check_batch_start(header, 0, log_bytes, path)
    if header[_MAGIC_AT] < MAGIC:
        if not is_whole(memoryview(header)[:size]):
            raise _wrong_crc(0, path)
        # Of a wrapper only its last offset is known without its messages.
        offset, magic, timestamp = _FIRST_LEGACY.unpack_from(header)
        _check_offsets(offset, offset, base_offset, 0, path)
        return TimestampMs(timestamp if magic else NO_TIMESTAMP)
    offset, _, _, delta, timestamp = _FIRST.unpack_from(header)
    _check_offsets(offset, offset + delta, base_offset, 0, path)
    return TimestampMs(timestamp)


def check_batch_start(start: bytes | memoryview, position: int, left: int, path: str) -> int:
    """Return the size of the batch that begins with `start`, checked against the rest of the file.

    Args:
        start: the batch's first 61 bytes, or all that is left.
        position: of the batch in the file.
        left: bytes from there to the file's end.
        path: of the file.

    Raises:
        CorruptBatch: the batch is cut off, or its length impossible, as in a zero-filled tail.
        UnsupportedFormatError: its magic is above 2.
    """
    if len(start) >= LOG_OVERHEAD_BYTES:
        (length,) = _LENGTH.unpack_from(start, _LENGTH_AT)
        if len(start) > _MAGIC_AT and length > 0 and start[_MAGIC_AT] > MAGIC:
            error = unsupported_magic(start[_MAGIC_AT], position)
            raise UnsupportedFormatError(
                error.problem, path=path, position=position, remedy=error.remedy
            )
        magic = start[_MAGIC_AT] if len(start) > _MAGIC_AT else MAGIC
        if length < _SMALLEST[min(magic, MAGIC)] - LOG_OVERHEAD_BYTES:
            zeros = not any(start)
            problem = "zeros follow the last batch." if zeros else f"a batch's length is {length}."
            raise CorruptBatch(problem, path=path, position=position, remedy=RECOVER)
        if length + LOG_OVERHEAD_BYTES <= left:
            return int(length) + LOG_OVERHEAD_BYTES
    raise CorruptBatch(
        f"the record batch is truncated: {left} bytes of it are left.",
        path=path,
        position=position,
        remedy=RECOVER,
    )


def log_end_offset(
    file: Bytes, path: str, *, base_offset: int, log_bytes: int, last_entry: tuple[int, int] | None
) -> Offset:
    """Return the offset after the last batch of a segment. Effects: reads the segment's tail.

    Args:
        file: the `.log`, open for reading.
        path: of the `.log`.
        base_offset: the segment's.
        log_bytes: size of the `.log`.
        last_entry: (absolute offset, position) of the last index entry; None to begin at 0.

    Raises:
        CorruptBatch: a batch of the tail is cut off, malformed, out of order or fails its CRC.
        CorruptIndex: the entry names an offset before the batch at its position, or after all.
        UnsupportedFormatError: a batch's magic is above 2.
    """
    indexed, begin = (None, 0) if last_entry is None else last_entry
    position = begin
    last_offset = base_offset - 1
    window = memoryview(b"")
    window_at = position
    while position < log_bytes:
        left = log_bytes - position
        start = position - window_at
        wanted = min(HEADER_BYTES, left)
        if len(window) - start < wanted:
            window, window_at, start = _window(file, position, wanted, left), position, 0
        size = check_batch_start(window[start : start + HEADER_BYTES], position, left, path)
        if len(window) - start < size:
            window, window_at, start = _window(file, position, size, left), position, 0
        first, last = _check_batch(window[start : start + size], position, path)
        is_legacy = window[start + _MAGIC_AT] < MAGIC
        # Of an old format the entry may name a message that no header has.
        is_before = indexed is not None and position == begin and indexed < first and not is_legacy
        if is_before and _reached_before(file, position, log_bytes, path) >= (indexed or 0):
            raise _misleading(path, indexed, f"which is before byte {position} of the .log")
        _check_offsets(first, last, last_offset + 1, position, path)
        if last - base_offset > INT32_MAX:
            raise _too_far(position, path)
        last_offset = last
        position += size
    if indexed is not None and indexed > last_offset:
        raise _misleading(path, indexed, f"the last batch ends at {last_offset}")
    return Offset(last_offset + 1)


def _reached_before(file: Bytes, end: int, log_bytes: int, path: str) -> int:
    """Return the last offset of the batch that ends at a position; the largest if none does.
    Effects: reads all headers before it.
    """
    position, last = 0, -1
    while position < end:
        header = file.span(position, min(HEADER_BYTES, log_bytes - position))
        size = check_batch_start(header, position, log_bytes - position, path)
        is_legacy = header[_MAGIC_AT] < MAGIC
        (offset,) = _OFFSET.unpack_from(header)
        last = offset if is_legacy else parse_batch(header).last_offset
        position += size
    return last if position == end else INT64_MAX


def _misleading(path: str, indexed: int | None, why: str) -> CorruptIndex:
    return CorruptIndex(
        f"the last index entry names offset {indexed}, {why}.",
        path=path.removesuffix(".log") + ".index",
        remedy="`logwright recover` rebuilds it.",
    )


def _window(file: Bytes, position: int, size: int, left: int) -> memoryview:
    """Return `size` bytes or a whole window, whichever is more, at most to the end of the file."""
    return memoryview(file.span(position, max(size, min(WINDOW_BYTES, left))))


def _check_batch(content: memoryview, position: int, path: str) -> tuple[int, int]:
    """Return first and last offset of a whole batch; of a wrapper the last one for both."""
    if len(content) < min(_SMALLEST):
        # The file has become shorter since its size was taken.
        raise CorruptBatch("the record batch is truncated.", path=path, position=position)
    if content[_MAGIC_AT] < MAGIC:
        right = is_whole(content)
        offsets = 2 * _OFFSET.unpack_from(content)
    else:
        batch = parse_batch(content)
        right = len(content) == batch.size_bytes and crc_is_valid(batch, content)
        offsets = batch.base_offset, batch.last_offset
    if not right:
        raise _wrong_crc(position, path)
    return offsets


def _wrong_crc(position: int, path: str) -> CorruptBatch:
    problem = "the record batch's CRC is wrong."
    return CorruptBatch(problem, path=path, position=position, remedy=RECOVER)


def _check_offsets(first: int, last: int, smallest: int, position: int, path: str) -> None:
    if first < smallest or last < first:
        raise CorruptBatch(
            f"the record batch has offsets {first} to {last}, expected {smallest} or above.",
            path=path,
            position=position,
            remedy=RECOVER,
        )
    if position == 0 and last - smallest > INT32_MAX:
        raise _too_far(position, path)


def _too_far(position: int, path: str) -> UnsupportedFormatError:
    return UnsupportedFormatError(
        "the record batch's offsets are too far from the segment's base offset.",
        path=path,
        position=position,
        remedy="`logwright recover` splits such a segment.",
    )
