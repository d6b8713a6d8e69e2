"""Former values: what a row had where the source of its newest record left a value out. Pure.

A record may leave out values that it has not changed (`Decoded.unavailable`). The value is that of
the record before, of the same key, and may be left out there, too. So the records of a key are
folded, by offset: each value stays until a record has another one, or gives the key no row.

The row that a table has of a key is one of these records. What the cleaner leaves of a key's
records is always the last ones of them: as it removes a record, it removes those before. So a
record that is there follows the one before it that is there; but a row of the table follows only
if its record is still there, or if nothing was removed since.

A key that is written in several ways (`logwright.tables.identity`) is several keys for the cleaner.
Of each way it leaves the last records. So between two records of one way that follow each other
none was removed. Between two records of different ways one of the second way may have been, or of a
third one: there a value stays only if the log has all offsets between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from logwright.tables.columns import OFFSET

SAME: Final = "\0same"
ENDS: Final = "\0ends"
LEFT_OUT: Final = "\0left-out"
WAY: Final = "\0way"
GAPS: Final = "\0gaps"
"""Columns next to those of a table, none of whose names begins in this way."""

UNKNOWN_GAPS: Final = -1
"""In `GAPS`, of a row of the table, of which it is not known."""

Flags = NDArray[np.bool_]


_OWN: Final = frozenset({SAME, OFFSET, ENDS, LEFT_OUT, WAY, GAPS})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Filled:
    """Former values of some records.

    Attributes:
        columns: name → values, one of each record that was asked for; null if it is not known.
        unknown: of which records a value is not known.
    """

    columns: dict[str, pa.ChunkedArray]
    unknown: Flags


class Gaps:
    """Counts where the offsets of a log have gaps, from record to record."""

    def __init__(self) -> None:
        self._last = -1
        self._count = 0

    def before(self, offsets: NDArray[np.int64]) -> pa.Array:
        """Return how many gaps precede each of the next offsets."""
        steps = np.diff(offsets, prepend=self._last)
        counts = self._count + np.cumsum(steps != 1)
        if len(offsets):
            self._last, self._count = int(offsets[-1]), int(counts[-1])
        return pa.array(counts.astype(np.int64))


def history_schema(stored: pa.Schema, names: Sequence[str]) -> pa.Schema:
    """Return the columns of records whose values are folded: what their keys are compared by,
    offset, those that may be left out; whether the record gives its key no row; which values it
    left out, as `packed`; the key as it is in the log; how many gaps the log has before it.
    """
    own = (ENDS, pa.bool_()), (LEFT_OUT, pa.binary()), (WAY, pa.binary()), (GAPS, pa.int64())
    values = [stored.field(name) for name in (OFFSET, *names)]
    fields = [pa.field(name, kind) for name, kind in own]
    return pa.schema([pa.field(SAME, pa.binary()), *values, *fields])


def packed(masks: Flags) -> pa.Array:
    """Return masks, bool[n, columns], as binary."""
    if not masks.shape[1]:
        return pa.array([b""] * len(masks), pa.binary())
    bits = np.packbits(masks, axis=1)
    content, width = np.ascontiguousarray(bits).tobytes(), bits.shape[1]
    return pa.Array.from_buffers(pa.binary(width), len(masks), [None, pa.py_buffer(content)]).cast(
        pa.binary()
    )


def unpacked(column: pa.Array | pa.ChunkedArray, count: int) -> Flags:
    """Return the masks of `packed`, of this number of columns."""
    content = b"".join(column.to_pylist())
    bits = np.frombuffer(content, np.uint8).reshape(len(column), -1 if len(column) else 0)
    return np.unpackbits(bits, axis=1, count=count).astype(np.bool_)


def fill(history: pa.Table, wanted: NDArray[np.int64]) -> Filled:
    """Return the values of some records, with the former ones where they are left out.

    Args:
        history: all known records of their keys, of `history_schema`; rows of a table before the
            records of the log, if both have an offset.
        wanted: their offsets.
    """
    names = [name for name in history.schema.names if name not in _OWN]
    codes = _codes(history[SAME])
    offsets = history[OFFSET].to_numpy()
    order = np.lexsort((np.arange(len(history)), offsets, codes))
    history, codes, offsets = history.take(pa.array(order)), codes[order], offsets[order]
    left_out = unpacked(history[LEFT_OUT], len(names))
    ends = history[ENDS].to_numpy()
    first = _is_first(history, codes)
    places = np.arange(len(codes))
    at = np.zeros(0, np.int64)
    if len(codes):
        last_of_offset = np.ones(len(codes), np.bool_)
        last_of_offset[:-1] = offsets[1:] != offsets[:-1]
        by_offset = places[last_of_offset][np.argsort(offsets[last_of_offset])]
        at = by_offset[np.searchsorted(offsets[by_offset], wanted)]
    columns = {}
    unknown = np.zeros(len(wanted), np.bool_)
    for number, name in enumerate(names):
        has_value = ~left_out[:, number] & ~ends
        decides = has_value | ends | first
        since = np.maximum.accumulate(np.where(decides, places, 0))[at]
        known = has_value[since]
        columns[name] = history[name].take(pa.array(since, mask=~known))
        unknown |= ~known
    return Filled(columns=columns, unknown=unknown)


def _is_first(history: pa.Table, codes: NDArray[np.int64]) -> Flags:
    """Return which records, sorted, have none before them that is known to precede them."""
    ways, gaps = _codes(history[WAY]), history[GAPS].to_numpy()
    first = np.ones(len(codes), np.bool_)
    another_way = (ways[1:] != ways[:-1]) & (gaps[1:] != gaps[:-1])
    first[1:] = (codes[1:] != codes[:-1]) | another_way
    return first


def _codes(keys: pa.ChunkedArray) -> NDArray[np.int64]:
    """Return a number for each key."""
    encoded = pc.dictionary_encode(keys).combine_chunks()
    return np.asarray(encoded.indices.to_numpy(), dtype=np.int64)
