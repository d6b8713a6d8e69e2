"""The kernel of the check, independent on purpose: it reads the records of both sides on its own.
It shares no code with the scan and the copy but the walk over a record.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.checks.kernels import blame, same_bytes, time_of
from logwright.format.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
)
from logwright.format.scan import read_int16, read_int64
from logwright.format.walk import read_record
from logwright.kernel import inline_kernel, kernel
from logwright.keys.offset_map import has_bit

_BEFORE_LENGTH, _AFTER_LENGTH = (0, 8), (12, 17)
_FIXED_START: Final = 21
"""Up to here a batch's header is not covered by its CRC."""
_LAST_OFFSET_DELTA, _PRODUCER = (23, 27), (43, 57)
_ATTRIBUTES, _BASE_TIMESTAMP, _MAX_TIMESTAMP = 21, 27, 35


@kernel
def match_heads(output: Any, left: Any, data: Any, right: Any, same: Any) -> None:
    """Set which output batches, whose CRCs are right, are their source's byte for byte: those with
    the same length and CRC, and whatever else the CRC does not cover.

    Args:
        output, data: uint8[], the two files. left, right: int64[n], positions in both.
        same: bool[n], is set.
    """
    for row in range(len(left)):
        same[row] = same_bytes(output, left[row], data, right[row], _FIXED_START)


@inline_kernel
def _same_span(left: Any, at: int, right: Any, other: int, span: Any) -> Any:
    return same_bytes(left, at + span[0], right, other + span[0], span[1] - span[0])


@inline_kernel
def _has_same_header(
    output: Any, rebuilt: Any, data: Any, source: Any, kept: int, largest: int
) -> Any:
    """Decide whether an output batch has the header of its source with `kept` records, the largest
    timestamp being `largest`, ms.
    """
    at, position = rebuilt.position, source.position
    attributes, was = (
        np.int64(read_int16(output, at + _ATTRIBUTES)),
        np.int64(read_int16(data, position + _ATTRIBUTES)),
    )
    if kept == 0:
        was &= ~np.int64(CODEC_MASK | DELETE_HORIZON)
    horizon = was & DELETE_HORIZON != 0
    max_timestamp = read_int64(data, position + _MAX_TIMESTAMP)
    if kept > 0 and was & LOG_APPEND_TIME == 0:
        max_timestamp = np.int64(largest)
    return (
        rebuilt.count == kept
        and (kept > 0 or rebuilt.size == HEADER_BYTES)
        and attributes == was
        and _same_span(output, at, data, position, _BEFORE_LENGTH)
        and _same_span(output, at, data, position, _AFTER_LENGTH)
        and _same_span(output, at, data, position, _LAST_OFFSET_DELTA)
        and _same_span(output, at, data, position, _PRODUCER)
        and read_int64(output, at + _MAX_TIMESTAMP) == max_timestamp
        and (
            not horizon
            or same_bytes(output, at + _BASE_TIMESTAMP, data, position + _BASE_TIMESTAMP, 8)
        )
    )


@kernel
def compare_rebuilt(staged: Any, original: Any, first: Any, erased: Any, verdict: Any) -> None:
    """Blame the output batches that are not their source without the erased records. One that
    cannot be read is the last.

    Args:
        staged, original: `Side`, pairs of one batch each, of equal base offsets.
        first: int64[n], where the bits of each source batch begin.
        erased: bitmap. verdict: on the other records.
    """
    for row in range(len(staged.batches)):
        rebuilt, source = staged.batches[row], original.batches[row]
        left = staged.scratch if rebuilt.attributes & CODEC_MASK != 0 else staged.data
        right = original.scratch if source.attributes & CODEC_MASK != 0 else original.data
        at, end = staged.spans[row, 0], staged.spans[row, 1]
        position, source_end = original.spans[row, 0], original.spans[row, 1]
        kept, largest = np.int64(0), np.int64(-1)
        for number in range(np.int64(source.count)):
            record = read_record(right, position, source_end)
            position, rest, delta = record.stop, record.rest, record.delta
            if position < 0:
                blame(verdict, source.base_offset)
                return
            if has_bit(erased, first[row] + number):
                continue
            kept += 1
            largest = max(largest, time_of(source, record.time_delta))
            if kept > rebuilt.count:
                blame(verdict, source.base_offset + delta)
                continue
            new = read_record(left, at, end)
            at = new.stop
            if at < 0:
                blame(verdict, source.base_offset)
                return
            length = position - rest
            if (
                new.delta != delta
                or time_of(rebuilt, new.time_delta) != time_of(source, record.time_delta)
                or at - new.rest != length
                or not same_bytes(left, new.rest, right, rest, length)
            ):
                blame(verdict, source.base_offset + delta)
        same_end = at == end or rebuilt.count == 0
        header = _has_same_header(staged.data, rebuilt, original.data, source, kept, largest)
        if not same_end or not header:
            blame(verdict, source.base_offset)
