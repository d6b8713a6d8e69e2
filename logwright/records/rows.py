"""Rows while they are collected, in buffers that a kernel fills (`logwright.records.read`), and
their record batches, which take the buffers over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from logwright.batches.unpack import NOT_GIVEN
from logwright.format.names import TopicPartition
from logwright.records import schema as names
from logwright.records.headers import headers_array
from logwright.records.schema import records_schema
from logwright.units import INT32_MAX

STATE: Final = np.dtype(
    [
        (name, "<i8")
        for name in (
            "row",
            "is_open",
            "index",
            "position",
            "end",
            "last_delta",
            "given",
            "rows",
            "key_bytes",
            "value_bytes",
            "headers_bytes",
            "null_keys",
            "null_values",
            "needed",
            "batches",
            "bytes",
        )
    ]
)
"""Where reading is. `row`: of the batches; `is_open`: 1 while its records are read, of which
`index` are done, from `position` of `end` on, after the offset delta `last_delta`. `given`: bytes
of its records that the caller has put into the scratch memory. `rows` and the bytes of each column
that the buffers hold, and their nulls. `needed`: bytes of the record that has no room. `batches`
that were read, and their `bytes`."""

_LARGEST_BYTES: Final = INT32_MAX
"""Of a column of a batch: its offsets are int32."""
_BYTES: Final = ("key_bytes", "value_bytes", "headers_bytes")
_SMALLEST: Final = {"rows": 1024} | dict.fromkeys(_BYTES, 64 * 1024)
"""Room that is always made, within the limits."""
_GROWTH: Final = 4
"""By how much batches often grow when they are decompressed."""


class RowBuffers(NamedTuple):
    """Buffers for rows; those of columns that are not wanted are empty.

    Attributes:
        rows: how many rows they have room for, a multiple of 8.
        key, value, headers: uint8[n], the bytes; of headers as they are in the record, with their
            count.
        key_ends, value_ends, headers_ends: int32[rows + 1], where each begins and ends.
        key_valid, value_valid: uint8[rows / 8], bitmap of those that are not null; zeros.
        offsets, timestamps: int64[rows], the latter in µs. types: int32[rows].
    """

    rows: int
    key: NDArray[np.uint8]
    key_ends: NDArray[np.int32]
    key_valid: NDArray[np.uint8]
    value: NDArray[np.uint8]
    value_ends: NDArray[np.int32]
    value_valid: NDArray[np.uint8]
    headers: NDArray[np.uint8]
    headers_ends: NDArray[np.int32]
    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    types: NDArray[np.int32]


@dataclass(slots=True, kw_only=True)
class Rows:
    """Rows of one partition while they are collected.

    Attributes:
        columns: which are wanted, in this order.
        most_rows: of a record batch, above 0. most_bytes: of its keys, values and headers
            together, unless one record has more.
        log_bytes: about how many bytes of segments are read: few need little room.
        state: STATE, of the kernel.
        buffers: its buffers.
    """

    partition: TopicPartition
    columns: Sequence[str]
    most_rows: int
    most_bytes: int
    log_bytes: int = _LARGEST_BYTES
    schema: pa.Schema = field(init=False)
    state: np.void = field(init=False)
    buffers: RowBuffers = field(init=False)
    _room: dict[str, int] = field(init=False, default_factory=dict)
    _constants: dict[str, pa.Array] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.schema = records_schema(self.columns)
        if self.most_rows < 1 or not 1 <= self.most_bytes <= _LARGEST_BYTES:
            message = f"a batch of {self.most_rows} rows and {self.most_bytes} bytes"
            raise ValueError(message)
        self.state = np.zeros(1, dtype=STATE)[0]
        self.state["given"] = NOT_GIVEN
        self._set_room(dict.fromkeys(_BYTES, _GROWTH * self.log_bytes) | {"rows": self.log_bytes})
        self._renew()

    def has(self, column: str) -> bool:
        """Return whether a column is wanted."""
        return column in self.columns

    def begin(self, row: int) -> None:
        """Go to a row of other batches."""
        self.state["row"], self.state["is_open"], self.state["given"] = row, 0, NOT_GIVEN

    def make_room(self) -> None:
        """Enlarge the buffers, which are empty, for a record that has no room in them."""
        for name in _BYTES:
            self._room[name] = max(self._room[name], int(self.state["needed"]))
        self._renew()

    def _renew(self) -> None:
        """Make new buffers: those before belong to a record batch."""
        room, has = self._room, self.has
        rows = (room["rows"] + 7) // 8 * 8
        key, value, headers = has(names.KEY), has(names.VALUE), has(names.HEADERS)
        self.buffers = RowBuffers(
            rows=room["rows"],
            key=np.empty(room["key_bytes"] * key, dtype=np.uint8),
            key_ends=_ends(rows * key),
            key_valid=np.zeros(rows // 8 * key, dtype=np.uint8),
            value=np.empty(room["value_bytes"] * value, dtype=np.uint8),
            value_ends=_ends(rows * value),
            value_valid=np.zeros(rows // 8 * value, dtype=np.uint8),
            headers=np.empty(room["headers_bytes"] * headers, dtype=np.uint8),
            headers_ends=_ends(rows * headers),
            offsets=np.empty(rows * has(names.OFFSET), dtype=np.int64),
            timestamps=np.empty(rows * has(names.TIMESTAMP), dtype=np.int64),
            types=np.empty(rows * has(names.TIMESTAMP_TYPE), dtype=np.int32),
        )

    def _adapt(self) -> None:
        """Make the next buffers about as large as these rows needed: a record batch that is kept
        keeps whole buffers.
        """
        names_of = ("rows", *_BYTES)
        self._set_room({name: int(self.state[name]) * 5 // 4 for name in names_of})
        for name in (*names_of, "null_keys", "null_values"):
            self.state[name] = 0

    def _set_room(self, usual: dict[str, int]) -> None:
        """Set how much room the next buffers have: what is usual, within the limits."""
        most = dict.fromkeys(_BYTES, self.most_bytes) | {"rows": self.most_rows}
        self._room = {
            name: min(max(usual[name], _SMALLEST[name]), limit) for name, limit in most.items()
        }

    def take(self) -> pa.RecordBatch:
        """Return the rows, at least one, and continue with new buffers."""
        count = int(self.state["rows"])
        arrays = [self._array(column, count) for column in self.columns]
        if arrays:
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        else:
            batch = pa.RecordBatch.from_struct_array(
                pa.Array.from_buffers(pa.struct([]), count, [None])
            )
        self._adapt()
        self._renew()
        return batch

    def _array(self, column: str, count: int) -> pa.Array:
        out, state, kind = self.buffers, self.state, self.schema.field(column).type
        fixed: dict[str, NDArray[Any]] = {
            names.OFFSET: out.offsets,
            names.TIMESTAMP: out.timestamps,
            names.TIMESTAMP_TYPE: out.types,
        }
        if column in fixed:
            content = _trimmed(fixed[column], count)
            return pa.Array.from_buffers(kind, count, [None, content], null_count=0)
        if column == names.KEY:
            data, nulls = _trimmed(out.key, state["key_bytes"]), int(state["null_keys"])
            return _binary(_trimmed(out.key_ends, count + 1), out.key_valid, data, nulls)
        if column == names.VALUE:
            data, nulls = _trimmed(out.value, state["value_bytes"]), int(state["null_values"])
            return _binary(_trimmed(out.value_ends, count + 1), out.value_valid, data, nulls)
        if column == names.HEADERS:
            data = out.headers[: int(state["headers_bytes"])]
            return headers_array(data, out.headers_ends[: count + 1])
        return self._constant(column, count)

    def _constant(self, column: str, count: int) -> pa.Array:
        """Return the same topic or partition for all rows; made once."""
        known = self._constants.get(column)
        if known is None or len(known) < count:
            value = getattr(self.partition, column)
            scalar = pa.scalar(value, self.schema.field(column).type)
            known = self._constants[column] = pa.repeat(scalar, count)
        return known.slice(0, count)


def _ends(rows: int) -> NDArray[np.int32]:
    ends = np.empty(rows + 1 if rows else 0, dtype=np.int32)
    ends[:1] = 0
    return ends


def _trimmed(values: NDArray[Any], count: int) -> pa.Buffer:
    """Return a buffer of the first elements; a copy if most of its memory would be unused."""
    used = values[: int(count)]
    return pa.py_buffer(used if 2 * len(used) >= len(values) else used.copy())


def _binary(ends: pa.Buffer, valid: NDArray[np.uint8], data: pa.Buffer, nulls: int) -> pa.Array:
    """Return an array of the bytes between the ends; `valid` counts only if there are nulls."""
    count = ends.size // 4 - 1
    present = pa.py_buffer(valid[: (count + 7) // 8].copy()) if nulls else None
    return pa.Array.from_buffers(pa.binary(), count, [present, ends, data], null_count=nulls)
