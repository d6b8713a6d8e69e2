"""Kernels that look a key up among any number of requested ones.

1. One bit for each of the filter's low bits: most keys are not requested, and end here.
2. A table of the filters' 32 bits gives the first entry with that filter.
3. The entries of that filter are compared: the bytes, if the requested key is known in clear. For a
   request that is only known by its HMAC the kernel returns a candidate, and the caller compares
   the HMACs.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.status import WRONG_CRC
from logwright.erasure.form_match import may_be_form
from logwright.format.batch import CONTROL
from logwright.format.crc import copy_span, load_u64, prefetch
from logwright.format.scan import has_right_crc
from logwright.format.siphash import siphash64
from logwright.format.walk import OK, TRAILING, read_record
from logwright.kernel import inline_kernel, kernel

NO_MATCH: Final = -1
CANDIDATES: Final = -2
"""This, and all below it: the entries from `CANDIDATES` - code on have the key's filter, and one is
known by its HMAC only."""
UNKNOWN: Final = -1
"""The length of a requested key that is only known by its HMAC."""

_BITS_EACH: Final = 32
_SMALLEST_BITS: Final = 1 << 12
_LARGEST_BITS: Final = 1 << 27
_LENGTH_BYTES: Final = 4
_SLACK: Final = 8
"""A length is read as a word."""
_SPREAD: Final = 0x9E3779B1
"""Knuth's multiplicative hash, 2^32 / golden ratio: the low bits of the filter chose the bit."""

SLOT: Final = np.dtype([("start", np.int64), ("filter", np.uint32), ("entry", np.int32)])
"""A slot of the table. `start`: of the key in `MatchTable.keys`; `entry`: its number + 1, 0 if the
slot is free. All that a comparison needs is in this slot and in the key's cache line."""


class MatchTable(NamedTuple):
    """The requested keys, as the kernels read them.

    Attributes:
        hash_key: uint64[2], of the filter.
        bits: uint64[m / 64], m a power of two.
        slots: SLOT[k], k a power of two; entries of one filter are in their order.
        filters: uint32[n], ascending.
        keys: uint8[...], each key after its length, int32; a length of `UNKNOWN`.
        form_filters: uint32[f], ascending: of the readings of requested keys, for which there are
            bits, too (`logwright.erasure.form_match`); empty: other forms are not looked for.
    """

    hash_key: NDArray[np.uint64]
    bits: NDArray[np.uint64]
    slots: NDArray[np.void]
    filters: NDArray[np.uint32]
    keys: NDArray[np.uint8]
    form_filters: NDArray[np.uint32]


NO_FORMS: Final = np.zeros(0, dtype=np.uint32)


def make_table(
    filters: NDArray[np.uint32],
    spans: tuple[NDArray[np.int64], NDArray[np.int64]],
    keys: NDArray[np.uint8],
    hash_key: NDArray[np.uint64],
) -> MatchTable:
    """Return the table of these entries.

    Args:
        filters: uint32[n], ascending. spans: starts and lengths in `keys`, int64[n].
    """
    wanted = min(max(_BITS_EACH * len(filters), _SMALLEST_BITS), _LARGEST_BITS)
    sizes = _LENGTH_BYTES + np.maximum(spans[1], 0)
    table = MatchTable(
        hash_key=hash_key,
        bits=np.zeros((1 << (wanted - 1).bit_length()) // 64, dtype=np.uint64),
        slots=np.zeros(1 << max(2 * len(filters), 8).bit_length(), dtype=SLOT),
        filters=filters,
        keys=np.empty(int(sizes.sum()) + _SLACK, dtype=np.uint8),
        form_filters=NO_FORMS,
    )
    _fill(table, keys, np.cumsum(sizes) - sizes, spans)
    return table


def with_forms(table: MatchTable, form_filters: NDArray[np.uint32]) -> MatchTable:
    """Return the table with the filters of readings, ascending; their bits are set, too."""
    filters = np.concatenate([table.filters, form_filters])
    wanted = min(max(_BITS_EACH * len(filters), _SMALLEST_BITS), _LARGEST_BITS)
    bits = np.zeros((1 << (wanted - 1).bit_length()) // 64, dtype=np.uint64)
    places = filters.astype(np.uint64) & np.uint64(64 * len(bits) - 1)
    np.bitwise_or.at(bits, places >> np.uint64(6), np.uint64(1) << (places & np.uint64(63)))
    return table._replace(bits=bits, form_filters=form_filters)


@kernel
def _fill(table: Any, keys: Any, places: Any, spans: Any) -> None:
    bits, slots, filters = table.bits, table.slots, table.filters
    starts, lengths = spans
    for entry in range(len(filters)):
        filter_ = np.uint64(filters[entry])
        at = filter_ & np.uint64(64 * len(bits) - 1)
        bits[at >> np.uint64(6)] |= np.uint64(1) << (at & np.uint64(63))
        number = _home(slots, filter_)
        while slots[number].entry != 0:
            number = (number + 1) & (len(slots) - 1)
        slot = slots[number]
        slot.start, slot.filter, slot.entry = places[entry], filters[entry], entry + 1
        for shift in range(_LENGTH_BYTES):
            byte = (np.int64(lengths[entry]) >> np.int64(8 * shift)) & np.int64(0xFF)
            table.keys[places[entry] + shift] = np.uint8(byte)
        if lengths[entry] > 0:
            place = places[entry] + _LENGTH_BYTES
            copy_span(table.keys, place, keys, starts[entry], lengths[entry])


@inline_kernel
def _home(slots: Any, filter_: Any) -> Any:
    spread = (filter_ * np.uint64(_SPREAD)) & np.uint64(0xFFFFFFFF)
    return np.int64(spread >> np.uint64(4)) & (len(slots) - 1)


@inline_kernel
def _length_at(keys: Any, start: int) -> Any:
    """Return the length of a key, int64."""
    word = load_u64(keys, start) & np.uint64(0xFFFFFFFF)
    length = np.int64(word)
    return length - np.int64(1 << 32) if length >= np.int64(1 << 31) else length


@inline_kernel
def prefetch_bits(table: Any, hash_: Any) -> None:
    """Ask for the cache line that `may_match` reads."""
    bits = table.bits
    at = hash_ & np.uint64(64 * len(bits) - 1)
    prefetch(bits, np.int64(at >> np.uint64(6)))


@inline_kernel
def may_match(table: Any, hash_: Any) -> Any:
    """Return whether a key with this hash, uint64, may be requested; true for few others."""
    bits = table.bits
    at = hash_ & np.uint64(64 * len(bits) - 1)
    return (bits[at >> np.uint64(6)] >> (at & np.uint64(63))) & np.uint64(1) != np.uint64(0)


@kernel
def match_key(table: Any, hash_: Any, data: Any, start: int, length: int) -> Any:
    """Return the entry of the key data[start : start + length], `NO_MATCH`, or a code for
    candidates.
    """
    slots, keys = table.slots, table.keys
    filter_ = np.uint32(hash_ & np.uint64(0xFFFFFFFF))
    number = _home(slots, np.uint64(filter_))
    code = np.int64(NO_MATCH)
    while slots[number].entry != 0:
        slot = slots[number]
        if slot.filter == filter_:
            known = _length_at(keys, slot.start)
            if known == UNKNOWN:
                if code == NO_MATCH:
                    code = np.int64(CANDIDATES) - (np.int64(slot.entry) - 1)
            elif known == length:
                at, same = np.int64(0), np.int64(slot.start) + _LENGTH_BYTES
                while at < length and data[start + at] == keys[same + at]:
                    at += 1
                if at == length:
                    return np.int64(slot.entry) - 1
        number = (number + 1) & (len(slots) - 1)
    return code


@kernel
def match_keys(table: Any, data: Any, starts: Any, lengths: Any, out: Any) -> Any:
    """Look up keys; a length below 0 stands for null. Bounds are the caller's.

    Args:
        starts, lengths: int64[n]. out: int64[n], what `match_key` returns.

    Returns:
        how many have candidates.
    """
    low, high = table.hash_key[0], table.hash_key[1]
    unsure = np.int64(0)
    for index in range(len(starts)):
        out[index] = NO_MATCH
        if lengths[index] < 0:
            continue
        hash_ = siphash64(data, starts[index], lengths[index], low, high)
        if may_match(table, hash_):
            out[index] = match_key(table, hash_, data, starts[index], lengths[index])
        if out[index] == NO_MATCH and may_be_form(
            table, data, starts[index], lengths[index], hash_
        ):
            out[index] = np.int64(CANDIDATES) - len(table.filters)
        unsure += out[index] <= CANDIDATES
    return unsure


class NoteRule(NamedTuple):
    """Which keys of batches are noted.

    Attributes:
        table: those that may match by its bits. every: all of them, since HMACs decide alone.
        check_crc: first the CRC of each batch, which must be in the buffer at its position.
    """

    table: MatchTable
    every: bool
    check_crc: bool


@kernel
def note_keys(buffer: Any, batches: Any, spans: Any, rule: Any, noted: Any) -> Any:
    """Note the keys of batches; return (how many, row, status) of the first batch that is corrupt;
    status `OK` if there is none.

    The loop is fused: CRCs, then all keys, then their hashes took 0.43 s instead of 0.26 for a GB
    of records of 100 bytes, 0.27 instead of 0.14 for records of 1 KB (1,000 keys).

    Args:
        buffer: uint8[n]. batches: BATCH[k]. spans: int64[k, 2], in the buffer. rule: `NoteRule`.
        noted: int64[4, m]: numbers of the records, rows of their batches, starts and lengths of the
            keys. There is room for all records.
    """
    table = rule.table
    low, high = table.hash_key[0], table.hash_key[1]
    at, number = np.int64(0), np.int64(0)
    for row in range(len(batches)):
        batch = batches[row]
        if rule.check_crc and not has_right_crc(buffer, batch):
            return at, np.int64(row), np.int64(WRONG_CRC)
        position, end = spans[row, 0], spans[row, 1]
        has_keys = batch.attributes & CONTROL == 0
        for _ in range(np.int64(batch.count)):
            record = read_record(buffer, position, end)
            if record.stop < 0:
                return at, np.int64(row), np.int64(record.stop)
            if has_keys and record.key_length >= 0:
                key, length = record.key, record.key_length
                hash_ = siphash64(buffer, key, length, low, high)
                if (
                    rule.every
                    or may_match(table, hash_)
                    or may_be_form(table, buffer, key, length, hash_)
                ):
                    noted[0, at], noted[1, at] = number, row
                    noted[2, at], noted[3, at] = record.key, record.key_length
                    at += 1
            position = record.stop
            number += 1
        if batch.count > 0 and position != end:
            return at, np.int64(row), np.int64(TRAILING)
    return at, np.int64(len(batches)), np.int64(OK)
