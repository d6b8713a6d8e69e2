"""Rows while they are collected, and their record batches, which take the buffers over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from logwright.compaction.unpack import NOT_GIVEN
from logwright.format.names import TopicPartition
from logwright.records import schema as names
from logwright.records.fill import STATE, RowBuffers
from logwright.records.headers import headers_array
from logwright.records.schema import records_schema
from logwright.units import INT32_MAX

_LARGEST_BYTES: Final = INT32_MAX
"""Of a column of a batch: its offsets are int32."""


@dataclass(slots=True, kw_only=True)
class Rows:
    """Rows of one partition while they are collected.

    Attributes:
        columns: which are wanted, in this order.
        most_rows: of a record batch, above 0. most_bytes: of its keys, values and headers
            together, unless one record has more.
        state: STATE, of the kernel.
        buffers: its buffers.
    """

    partition: TopicPartition
    columns: Sequence[str]
    most_rows: int
    most_bytes: int
    schema: pa.Schema = field(init=False)
    state: np.void = field(init=False)
    buffers: RowBuffers = field(init=False)
    _needed: int = field(init=False, default=0)
    _constants: dict[str, pa.Array] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.schema = records_schema(self.columns)
        if self.most_rows < 1 or not 1 <= self.most_bytes <= _LARGEST_BYTES:
            message = f"a batch of {self.most_rows} rows and {self.most_bytes} bytes"
            raise ValueError(message)
        self.state = np.zeros(1, dtype=STATE)[0]
        self.state["given"] = NOT_GIVEN
        self._renew()

    def has(self, column: str) -> bool:
        """Return whether a column is wanted."""
        return column in self.columns

    def begin(self, row: int) -> None:
        """Go to a row of other batches."""
        self.state["row"], self.state["is_open"], self.state["given"] = row, 0, NOT_GIVEN

    def make_room(self) -> None:
        """Enlarge the buffers, which are empty, for a record that has no room in them."""
        self._needed = int(self.state["needed"])
        self._renew()

    def _renew(self) -> None:
        """Make new buffers: those before belong to a record batch."""
        rows = (self.most_rows + 7) // 8 * 8
        size = max(self.most_bytes, self._needed)
        key, value, headers = (self.has(one) for one in (names.KEY, names.VALUE, names.HEADERS))
        self.buffers = RowBuffers(
            rows=self.most_rows,
            key=np.empty(size * key, dtype=np.uint8),
            key_ends=_ends(rows * key),
            key_valid=np.zeros(rows // 8 * key, dtype=np.uint8),
            value=np.empty(size * value, dtype=np.uint8),
            value_ends=_ends(rows * value),
            value_valid=np.zeros(rows // 8 * value, dtype=np.uint8),
            headers=np.empty(size * headers, dtype=np.uint8),
            headers_ends=_ends(rows * headers),
            offsets=np.empty(rows * self.has(names.OFFSET), dtype=np.int64),
            timestamps=np.empty(rows * self.has(names.TIMESTAMP), dtype=np.int64),
            types=np.empty(rows * self.has(names.TIMESTAMP_TYPE), dtype=np.int32),
        )

    def take(self) -> pa.RecordBatch:
        """Return the rows, at least one, and continue with new buffers."""
        state, count = self.state, int(self.state["rows"])
        arrays = [self._array(column, count) for column in self.columns]
        if arrays:
            batch = pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        else:
            batch = pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))
        for name in ("rows", "key_bytes", "value_bytes", "headers_bytes"):
            state[name] = 0
        state["null_keys"] = state["null_values"] = 0
        self._needed = 0
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
            content = pa.py_buffer(fixed[column][:count])
            return pa.Array.from_buffers(kind, count, [None, content], null_count=0)
        if column == names.KEY:
            data, nulls = out.key[: int(state["key_bytes"])], int(state["null_keys"])
            return _binary(out.key_ends[: count + 1], out.key_valid, data, nulls)
        if column == names.VALUE:
            data, nulls = out.value[: int(state["value_bytes"])], int(state["null_values"])
            return _binary(out.value_ends[: count + 1], out.value_valid, data, nulls)
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


def _binary(
    ends: NDArray[np.int32], valid: NDArray[np.uint8], data: NDArray[np.uint8], nulls: int
) -> pa.Array:
    """Return an array of the bytes between the ends; `valid` counts only if there are nulls."""
    count = len(ends) - 1
    present = pa.py_buffer(valid[: (count + 7) // 8]) if nulls else None
    buffers = [present, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), count, buffers, null_count=nulls)
