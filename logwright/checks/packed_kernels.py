"""The quick checks' kernel for compressed batches: what the output decompresses to is what the
rebuild was told to keep (`witness`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from logwright.checks import thorough_kernels as kernels
from logwright.checks.quick_kernels import (
    MAPPED,
    PACKED_CONTENT,
    headers_agree,
    note_kind,
    note_most,
    note_time,
    time_of,
)
from logwright.compaction.batch_receipt import content_of
from logwright.compaction.receipt import keeps_most
from logwright.format.batch import CODEC_MASK
from logwright.format.walk import OFFSET_DELTA, OK, TRAILING, read_record
from logwright.kernel import kernel


@kernel
def check_packed(
    staged_data: Any,
    scratch: Any,
    staged: Any,
    spans: Any,
    data: Any,
    batches: Any,
    rule: Any,
    verdict: Any,
    found: Any,
    facts: Any,
) -> Any:
    """Sum the records of rebuilt batches whose sources are compressed; (row, status) of the first
    that cannot be read.

    Args:
        staged, batches: BATCH[n] each, pairs of equal base offsets.
        spans: int64[n, 2], where the staged records lie in `scratch`.
        rule, verdict, found, facts: see `check_rebuilt`.
    """
    for row in range(len(staged)):
        one, other = staged[row], batches[row]
        codec = one.attributes & CODEC_MASK
        same_codec = one.count == 0 or codec == other.attributes & CODEC_MASK
        if not same_codec or not headers_agree(staged_data, one, data, other, rule[1]):
            kernels.blame(verdict, one.base_offset)
        source = scratch if codec != 0 else staged_data
        status = _sum_records(source, one, other, spans[row], rule[0], found, facts)
        if status != OK:
            return row, status
    return len(staged), np.int64(OK)


@kernel
def _sum_records(
    data: Any, one: Any, other: Any, span: Any, last_mapped: int, found: Any, facts: Any
) -> Any:
    position, end = span[0], span[1]
    told_by_map_pass = one.count == other.count and keeps_most(one.count, other, last_mapped)
    if told_by_map_pass:
        note_most(other, found)
    last_delta = np.int64(-1)
    for _ in range(one.count):
        position, _, time_delta, rest, delta, _, length, value_length = read_record(
            data, position, end
        )
        if position < 0:
            return position
        if delta <= last_delta:
            return np.int64(OFFSET_DELTA)
        last_delta = delta
        offset, timestamp = one.base_offset + delta, time_of(one, time_delta)
        note_time(facts, timestamp)
        found[PACKED_CONTENT] += content_of(data, rest, position, offset, timestamp)
        if told_by_map_pass:
            continue
        note_kind(facts, offset, length, value_length)
        if length >= 0 and offset <= last_mapped:
            found[MAPPED] += np.uint64(1)
    return np.int64(OK) if position == end or one.count == 0 else np.int64(TRAILING)
