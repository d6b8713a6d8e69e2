"""Kernels that say of a key whether it may be another form of a requested one
(`logwright.erasure.forms`): most keys are not, and end here.

The filter of a reading is the low half of a keyed hash, of two kinds: of its bytes, and the sum of
the hashes of its words, which are the same in JSON with other spaces, quotes and order. Equal
readings of keys have a filter in common; the reverse is for the caller to decide.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from logwright.format.siphash import siphash64
from logwright.kernel import inline_kernel, kernel

_FRAME_BYTES: Final = 5
_WINDOW_BYTES: Final = 8
_STORE_WINDOW_BYTES: Final = 12
_SESSION_BYTES: Final = 16
_TIME_BYTE: Final = 8
"""The third byte of a window's time is below it, the first two are 0: see `forms.LATEST_TIME`."""
_MASK: Final = 0xFFFFFFFF
_BLANK: Final = 0x20
"""No white space, and no text, is below it or is it."""
_LAST, _LOW_BITS, _SHIFT, _MOST_SHIFT = 0x80, 0x7F, 7, 35
"""Of a varint of an int32."""
_OTHER, _SPACE, _COMMA, _COLON, _QUOTE, _OPENS, _CLOSES, _ESCAPE = range(8)
"""What a byte is in JSON."""
_KINDS: Final = np.zeros(256, dtype=np.uint8)
for _bytes, _kind in zip(
    (b" \t\r\n", b",", b":", b'"', b"{[", b"}]", b"\\"), range(_SPACE, _ESCAPE + 1), strict=True
):
    _KINDS[list(_bytes)] = _kind
_PAYLOAD: Final = np.frombuffer(b"payload", dtype=np.uint8).copy()
_OUTSIDE, _NAMED, _INSIDE, _BEHIND = range(4)
"""Where a reader of JSON is: before its field ``payload``, after its name, in its value, after it.
"""


@kernel
def reading_filters(data: Any, low: Any, high: Any) -> Any:
    """Return the two filters of a reading, uint8[n]."""
    words, _, _ = _words(data, np.int64(0), np.int64(len(data)), low, high)
    mask = np.uint64(_MASK)
    return siphash64(data, np.int64(0), np.int64(len(data)), low, high) & mask, words & mask


@kernel
def may_be_form(table: Any, data: Any, start: int, length: int, hash_: Any) -> Any:
    """Return whether the key data[start : start + length], whose hash is given, may be another form
    of a requested key. `table`: `logwright.erasure.match.MatchTable`.
    """
    if len(table.form_filters) == 0 or length <= 0:
        return False
    if _is_filter(table, hash_) or _of_key(table, data, start, length):
        return True
    if length <= _WINDOW_BYTES:
        return False
    end, matches = start + length, False
    if _is_time(data, end - _WINDOW_BYTES):
        matches = _of_base(table, data, start, length - _WINDOW_BYTES)
        if length > _SESSION_BYTES and _is_time(data, end - _SESSION_BYTES):
            matches = matches or _of_base(table, data, start, length - _SESSION_BYTES)
    if not matches and length > _STORE_WINDOW_BYTES and _is_time(data, end - _STORE_WINDOW_BYTES):
        matches = _of_base(table, data, start, length - _STORE_WINDOW_BYTES)
    return matches


@inline_kernel
def _is_time(data: Any, at: int) -> Any:
    return data[at] == 0 and data[at + 1] == 0 and data[at + 2] < _TIME_BYTE


@kernel
def _is_filter(table: Any, hash_: Any) -> Any:
    """Return whether a hash is that of a requested reading; true for few others."""
    bits, filters = table.bits, table.form_filters
    filter_ = hash_ & np.uint64(_MASK)
    at = filter_ & np.uint64(64 * len(bits) - 1)
    if (bits[at >> np.uint64(6)] >> (at & np.uint64(63))) & np.uint64(1) == np.uint64(0):
        return False
    first, last = np.int64(0), np.int64(len(filters))
    while first < last:
        middle = (first + last) >> 1
        if np.uint64(filters[middle]) < filter_:
            first = middle + 1
        else:
            last = middle
    return first < len(filters) and np.uint64(filters[first]) == filter_


@kernel
def _of_base(table: Any, data: Any, start: int, length: int) -> Any:
    """Return whether a key without its window may be one."""
    low, high = table.hash_key[0], table.hash_key[1]
    hash_ = siphash64(data, start, length, low, high)
    return _is_filter(table, hash_) or _of_key(table, data, start, length)


@kernel
def _of_key(table: Any, data: Any, start: int, length: int) -> Any:
    """Return whether what a key holds may be one: a payload, or JSON."""
    first = data[start]
    if first == 0 and length > _FRAME_BYTES:
        return _of_payload(table, data, start + _FRAME_BYTES, length - _FRAME_BYTES)
    if first <= _BLANK or _KINDS[first] in (_QUOTE, _OPENS):
        return _of_json(table, data, start, start + length)
    return False


@kernel
def _of_payload(table: Any, data: Any, start: int, length: int) -> Any:
    low, high = table.hash_key[0], table.hash_key[1]
    if _is_filter(table, siphash64(data, start, length, low, high)):
        return True
    at, end = _after_varint(data, start, start + length), start + length
    if at > 0 and _is_filter(table, siphash64(data, at, end - at, low, high)):
        return True
    return _of_json(table, data, start, end)


@inline_kernel
def _after_varint(data: Any, start: int, end: int) -> Any:
    """Return where the text of a string of Avro begins that fills the payload; -1: none."""
    size, shift, at = np.int64(0), np.int64(0), np.int64(start)
    while at < end and shift < _MOST_SHIFT:
        byte = np.int64(data[at])
        size |= (byte & _LOW_BITS) << shift
        shift += _SHIFT
        at += 1
        if byte < _LAST:
            return at if size == 2 * (end - at) else np.int64(-1)
    return np.int64(-1)


@kernel
def _of_json(table: Any, data: Any, start: int, end: int) -> Any:
    at = np.int64(start)
    while at < end and _KINDS[data[at]] == _SPACE:
        at += 1
    if at == end:
        return False
    kind = _KINDS[data[at]]
    if kind not in (_QUOTE, _OPENS):
        return False
    words, payload, escaped = _words(data, at, end, table.hash_key[0], table.hash_key[1])
    return escaped or _is_filter(table, words) or _is_filter(table, payload)


@kernel
def _words(data: Any, start: int, end: int, low: Any, high: Any) -> Any:
    """Return the sum of the hashes of the words of JSON: of its strings, and what is between its
    punctuation; the sum of those of its field ``payload``; and whether a string has an escape,
    which ends the reading of it.
    """
    total, before, payload = np.uint64(0), np.uint64(0), np.uint64(0)
    name = siphash64(_PAYLOAD, np.int64(0), np.int64(len(_PAYLOAD)), low, high)
    depth, word, state, in_string = np.int64(0), np.int64(start), np.int64(_OUTSIDE), False
    for at in range(start, end):
        kind = _KINDS[data[at]]
        if kind == _ESCAPE and in_string:
            return total, payload, True
        if kind in (_OTHER, _ESCAPE) or (in_string and kind != _QUOTE):
            continue
        if in_string or at > word:
            hash_ = siphash64(data, word, at - word, low, high)
            total += hash_
            if in_string and depth == 1 and state == _OUTSIDE and hash_ == name:
                state = np.int64(_NAMED)
        word = np.int64(at + 1)
        in_string ^= kind == _QUOTE
        if depth == 1:
            before = total if state == _NAMED else before
            payload = total - before if state == _INSIDE else payload
            state = _state_after(kind, state)
        depth += np.int64(kind == _OPENS) - np.int64(kind == _CLOSES)
    if word < end and not in_string:
        total += siphash64(data, word, end - word, low, high)
    return total, payload, False


@inline_kernel
def _state_after(kind: int, state: int) -> Any:
    """Return where a reader of JSON is after a mark of the outermost object."""
    if kind == _COLON:
        return np.int64(_INSIDE if state == _NAMED else state)
    if kind in (_COMMA, _CLOSES):
        if state == _INSIDE:
            return np.int64(_BEHIND)
        return np.int64(_OUTSIDE if state == _NAMED else state)
    return np.int64(state)
