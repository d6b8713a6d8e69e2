"""Kernels that walk the batches of a file and note the records whose keys are requested.

1. Each batch is checked (length, magic, CRC), decompressed if necessary, and walked record by
   record. Of a record only what is before the end of the key is read, unless it is noted.
2. A batch is noted as a whole or not at all: where the buffers are full, the call returns before
   the batch, and the caller empties them and repeats it from there.
3. Patterns are searched in keys, values and headers by one automaton for all of them
   (`logwright.erasure.find.patterns`).

The loop is fused: by `logwright.batches.projection` the search took 7 to 9 % longer (u100, 10,000
keys), as it reads values and headers, too, of records that are not noted.

Lengths and counts are untrusted: no memory is allocated by them.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.status import HITS_FULL, OK, RECORDS, WRONG_CRC
from logwright.batches.unpack import is_packed, open_records
from logwright.erasure.find.patterns import search_span
from logwright.erasure.form_match import may_be_form
from logwright.erasure.match import (
    CANDIDATES,
    NO_MATCH,
    match_key,
    may_match,
    prefetch_bits,
)
from logwright.format.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_BYTES,
    LOG_APPEND_TIME,
)
from logwright.format.crc import copy_span
from logwright.format.scan import (
    BATCH,
    LENGTH,
    TORN,
    WHOLE,
    control_type,
    fill_batch,
    has_right_crc,
    next_batch,
)
from logwright.format.siphash import siphash64
from logwright.format.walk import read_head, read_record, read_varint
from logwright.kernel import inline_kernel, kernel

PATTERN: Final = 1 << 40
"""Codes from here on: a pattern's number, added to it."""
_MOST_BATCHES: Final = 1 << 30
_PACKED_WEIGHT: Final = 4
"""A packed byte takes 3 (lz4) to 10 (zstd) times as long as another."""
_LOW_ATTRIBUTES: Final = 22
_LAST_CONTROL_TYPE: Final = 6
"""KRAFT_VOTERS (ControlRecordType, Kafka 4.3.0)."""

NOTED: Final = np.dtype(
    [
        ("code", np.int64),
        ("offset", np.int64),
        ("timestamp", np.int64),
        ("row", np.int64),
        ("key_at", np.int64),
        ("key_length", np.int64),
        ("is_tombstone", np.bool_),
    ],
    align=True,
)
"""A record. `code`: of `logwright.erasure.match.match_key`, or `PATTERN` and more. `row`: its batch
among the noted ones. `key_at`, `key_length`: of the key among the noted keys; 0 and -1 if it is
known by the code, or is null."""


AHEAD: Final = 16
"""Records between the request for a cache line of the filter's bits and the look at it."""
_RING: Final = 2 * AHEAD
_CACHED_WORDS: Final = 16 * 1024
"""Words of bits that are in the CPU's cache anyway."""

READ: Final = np.dtype(
    [
        ("hash", np.uint64),
        ("time_delta", np.int64),
        ("delta", np.int64),
        ("key", np.int64),
        ("key_length", np.int64),
        ("start", np.int64),
        ("stop", np.int64),
    ]
)
"""A record that was read: the hash, position and length (or -1) of its key, and its span."""


class HitBuffers(NamedTuple):
    """The buffers for what is noted, and the memory of the walk.

    Attributes:
        batch: BATCH[1], the batch that is walked.
        batches: BATCH[n], those with noted records, and the control batches.
        noted: NOTED[m].
        keys: uint8[k], the keys that only HMACs can decide about, and of records with a pattern.
        used: int64[3], of batches, noted and keys.
        ahead: READ[2 x AHEAD], the records that were read last.
        scratch: uint8[s]. cells: of `native_codec.libraries`.
    """

    batch: NDArray[np.void]
    batches: NDArray[np.void]
    noted: NDArray[np.void]
    keys: NDArray[np.uint8]
    used: NDArray[np.int64]
    ahead: NDArray[np.void]
    scratch: NDArray[np.uint8]
    cells: NDArray[np.int64]


def hit_buffers(
    count: int, key_bytes: int, memory: tuple[NDArray[np.uint8], NDArray[np.int64]]
) -> HitBuffers:
    """Return buffers for this number of records and batches; `memory`: scratch and cells."""
    scratch, cells = memory
    return HitBuffers(
        batch=np.zeros(1, dtype=BATCH),
        batches=np.zeros(count, dtype=BATCH),
        noted=np.zeros(count, dtype=NOTED),
        keys=np.empty(key_bytes, dtype=np.uint8),
        used=np.zeros(3, dtype=np.int64),
        ahead=np.zeros(_RING, dtype=READ),
        scratch=scratch,
        cells=cells,
    )


@kernel
def walk_file(
    data: Any, span: Any, given: int, every: bool, table: Any, automaton: Any, buffers: Any
) -> Any:
    """Walk the batches of a span; return (position, status).

    Args:
        data: uint8[n], the file.
        span: (start, stop): batches that begin before `stop`, from the one at `start` on.
        given: bytes of the first batch's records that the scratch memory holds, -1 for none.
        every: note every record with a key, since HMACs decide alone.
        table: `MatchTable`. automaton: `Automaton`, with one state if there are no patterns.
        buffers: `HitBuffers`.
    """
    position, end = np.int64(span[0]), np.int64(len(data))
    stop = min(np.int64(span[1]), end)
    batch = buffers.batch[0]
    for number in range(_MOST_BATCHES):
        if position >= stop:
            return position, np.int64(OK)
        size, header = next_batch(data, position, end)
        if header != WHOLE:
            return position, header
        fill_batch(batch, data, position, size)
        if not has_right_crc(data, batch):
            return position, np.int64(WRONG_CRC)
        status = np.int64(OK)
        if batch.attributes & CONTROL != 0:
            status = _note_control(data, batch, buffers)
        elif batch.count > 0:
            loaded = np.int64(given) if number == 0 else np.int64(-1)
            status = _walk_batch(data, batch, loaded, every, table, automaton, buffers)
        elif size > HEADER_BYTES or batch.count < 0:
            status = np.int64(RECORDS)
        if status != OK:
            return position, status
        position += size
    return position, np.int64(HITS_FULL)


@kernel
def _note_control(data: Any, batch: Any, buffers: Any) -> Any:
    if batch.count <= 0:
        return np.int64(OK)
    batch.control_type = control_type(data, batch)
    if batch.control_type < 0 or batch.control_type > _LAST_CONTROL_TYPE:
        return np.int64(RECORDS)
    if buffers.used[0] == len(buffers.batches):
        return np.int64(HITS_FULL)
    buffers.batches[buffers.used[0]] = batch
    buffers.used[0] += 1
    return np.int64(OK)


@inline_kernel
def _walk_batch(
    data: Any, batch: Any, given: int, every: bool, table: Any, automaton: Any, buffers: Any
) -> Any:
    """Note what is requested of one batch; nothing unless the status is OK."""
    before, keys_before = buffers.used[1], buffers.used[2]
    if buffers.used[0] == len(buffers.batches):
        return np.int64(HITS_FULL)
    scratch, cells = buffers.scratch, buffers.cells
    start, end, status = open_records(data, batch, given, scratch, np.int64(0), cells)
    if status != OK:
        return status
    source = scratch if is_packed(batch) else data
    status = _walk_records(source, (start, end), batch, every, table, automaton, buffers)
    if status != OK:
        buffers.used[1], buffers.used[2] = before, keys_before
    elif buffers.used[1] > before:
        buffers.batches[buffers.used[0]] = batch
        buffers.used[0] += 1
    return status


@inline_kernel
def _walk_records(
    source: Any, span: Any, batch: Any, every: bool, table: Any, automaton: Any, buffers: Any
) -> Any:
    position, end = span
    ahead, count = buffers.ahead, np.int64(batch.count)
    lag = np.int64(AHEAD if len(table.bits) > _CACHED_WORDS else 0)
    for number in range(count + lag):
        if number < count:
            _, head = read_head(source, position, end)
            if head.stop < 0:
                return np.int64(RECORDS)
            row = ahead[number & (_RING - 1)]
            row.start, row.stop = position, head.stop
            position, key_length = head.stop, head.key_length
            row.time_delta, row.delta = head.time_delta, head.delta
            row.key, row.key_length = head.key, key_length
            if key_length >= 0:
                low, high = table.hash_key[0], table.hash_key[1]
                row.hash = siphash64(source, head.key, key_length, low, high)
                if lag > 0:
                    prefetch_bits(table, row.hash)
        if number >= lag:
            read = ahead[(number - lag) & (_RING - 1)]
            status = _decide(source, read, batch, every, table, automaton, buffers)
            if status != OK:
                return status
    return np.int64(OK if position == end else RECORDS)


@inline_kernel
def _decide(
    source: Any, read: Any, batch: Any, every: bool, table: Any, automaton: Any, buffers: Any
) -> Any:
    """Note one record if its key is requested, or if a pattern is in it."""
    code = np.int64(NO_MATCH)
    if read.key_length >= 0:
        if may_match(table, read.hash):
            code = match_key(table, read.hash, source, read.key, read.key_length)
        if code == NO_MATCH and (
            every or may_be_form(table, source, read.key, read.key_length, read.hash)
        ):
            code = np.int64(CANDIDATES) - len(table.filters)
    status = np.int64(OK)
    if code != NO_MATCH:
        status = _note(source, read, batch, code, buffers)
    if status == OK and code < 0 and len(automaton.next) > 256:
        status = _search_record(source, read, batch, automaton, buffers)
    return status


@kernel
def _note(source: Any, read: Any, batch: Any, code: int, buffers: Any) -> Any:
    """Note a record, and its key if the caller must compare it, or if it is not a requested one."""
    key, key_length, stop = read.key, read.key_length, read.stop
    value_length, value = read_varint(source, key + max(key_length, np.int64(0)), stop)
    if value < 0:
        return np.int64(RECORDS)
    used, keys_used = buffers.used[1], buffers.used[2]
    if used == len(buffers.noted):
        return np.int64(HITS_FULL)
    noted = buffers.noted[used]
    noted.key_at, noted.key_length = np.int64(0), np.int64(-1)
    if (code < 0 or code >= PATTERN) and key_length >= 0:
        if keys_used + key_length > len(buffers.keys):
            return np.int64(HITS_FULL)
        copy_span(buffers.keys, keys_used, source, key, key_length)
        noted.key_at, noted.key_length = keys_used, key_length
        buffers.used[2] = keys_used + key_length
    noted.code = code
    noted.offset = batch.base_offset + read.delta
    noted.timestamp = batch.base_timestamp + read.time_delta
    if batch.attributes & LOG_APPEND_TIME != 0:
        noted.timestamp = batch.max_timestamp
    noted.row = buffers.used[0]
    noted.is_tombstone = value_length < 0
    buffers.used[1] = used + 1
    return np.int64(OK)


@kernel
def _search_record(source: Any, read: Any, batch: Any, automaton: Any, buffers: Any) -> Any:
    """Search the patterns in the key, the value and each header of one record; note it once for the
    first that is found.
    """
    record, zero = read_record(source, read.start, read.stop), np.int64(0)
    if record.stop < 0:
        return np.int64(RECORDS)
    pattern = search_span(automaton, source, record.key, record.key + max(record.key_length, zero))
    if pattern < 0:
        end = record.value + max(record.value_length, zero)
        pattern = search_span(automaton, source, record.value, end)
    headers, at = read_varint(source, record.headers, record.stop)
    for _ in range(2 * headers):
        length, at = read_varint(source, at, record.stop)
        if pattern < 0:
            pattern = search_span(automaton, source, at, at + max(length, zero))
        at += max(length, zero)
    if pattern < 0:
        return np.int64(OK)
    return _note(source, read, batch, np.int64(PATTERN) + pattern, buffers)


@kernel
def next_part(data: Any, start: int, part_bytes: int) -> Any:
    """Return where the first batch begins `part_bytes` or more after one at `start`, of which a
    packed batch counts `_PACKED_WEIGHT` times; the end if none does, or if the length of one is
    wrong.
    """
    position, end, work = np.int64(start), np.int64(len(data)), np.int64(0)
    while work < part_bytes:
        size, status = next_batch(data, position, end)
        if status in (TORN, LENGTH):
            return end
        is_packed_batch = status == WHOLE and data[position + _LOW_ATTRIBUTES] & CODEC_MASK != 0
        work += size * (_PACKED_WEIGHT if is_packed_batch else 1)
        position += size
    return position


@kernel
def first_nonzero(data: Any, start: int) -> Any:
    """Return where the first byte is, from there on, that is not 0; the end if none is."""
    for position in range(start, len(data)):
        if data[position] != 0:
            return np.int64(position)
    return np.int64(len(data))
