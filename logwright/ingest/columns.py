"""Convert records from Arrow to the arrays of the kernels, without copying values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pyarrow as pa

_NO_BYTES: Final = np.frombuffer(b"", dtype=np.uint8)


class Columns(NamedTuple):
    """n records as arrays. A column of bytes is data, uint8[m], bounds, int64[n + 1], and null
    marks, bool[n].

    Attributes:
        headers_at: int64[n + 1], bounds of each record's rows in the header columns.
        timestamps: int64[n], ms since the epoch.
        offsets: int64[n], offsets in the partition, ascending.
    """

    keys: NDArray[np.uint8]
    keys_at: NDArray[np.int64]
    key_nulls: NDArray[np.bool_]
    values: NDArray[np.uint8]
    values_at: NDArray[np.int64]
    value_nulls: NDArray[np.bool_]
    headers_at: NDArray[np.int64]
    header_keys: NDArray[np.uint8]
    header_keys_at: NDArray[np.int64]
    header_values: NDArray[np.uint8]
    header_values_at: NDArray[np.int64]
    header_value_nulls: NDArray[np.bool_]
    timestamps: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self.timestamps)


def read_columns(records: pa.RecordBatch, *, now_ms: int, next_offset: int) -> Columns:
    """Return the arrays of a batch of records.

    Args:
        records: columns as `logwright.ingest.schema.SCHEMA`. A null timestamp becomes `now_ms`,
            null headers none.
        next_offset: offset of the first record, if there is no column ``offset``.
    """
    headers = records["headers"]
    pairs = headers.values
    timestamps = records["timestamp"].fill_null(now_ms)
    if "offset" in records.schema.names:
        offsets = _int64(records["offset"])
    else:
        offsets = np.arange(next_offset, next_offset + len(records), dtype=np.int64)
    keys, keys_at, key_nulls = byte_column(records["key"])
    values, values_at, value_nulls = byte_column(records["value"])
    header_keys, header_keys_at, _ = byte_column(pairs.field(0))
    header_values, header_values_at, header_value_nulls = byte_column(pairs.field(1))
    return Columns(
        keys=keys,
        keys_at=keys_at,
        key_nulls=key_nulls,
        values=values,
        values_at=values_at,
        value_nulls=value_nulls,
        headers_at=_bounds(headers.buffers()[1], headers),
        header_keys=header_keys,
        header_keys_at=header_keys_at,
        header_values=header_values,
        header_values_at=header_values_at,
        header_value_nulls=header_value_nulls,
        timestamps=_int64(timestamps),
        offsets=offsets,
    )


def _int64(column: pa.Array) -> NDArray[np.int64]:
    return np.ascontiguousarray(column.to_numpy(zero_copy_only=False), dtype=np.int64)


def byte_column(
    column: pa.Array,
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.bool_]]:
    """Return (data, bounds, nulls) of a binary column."""
    _, bounds, data = column.buffers()
    content = _NO_BYTES if data is None else np.frombuffer(data, dtype=np.uint8)
    nulls = column.is_null().to_numpy(zero_copy_only=False)
    return content, _bounds(bounds, column), nulls


def _bounds(buffer: pa.Buffer | None, column: pa.Array) -> NDArray[np.int64]:
    if buffer is None or buffer.size == 0:
        return np.zeros(len(column) + 1, dtype=np.int64)
    all_bounds = np.frombuffer(buffer, dtype=np.int32)
    return all_bounds[column.offset : column.offset + len(column) + 1].astype(np.int64)
