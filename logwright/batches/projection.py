"""The records of a window as rows of positions: what reads batches and is not a hot loop reads them
by this projection.

All rows are over one buffer. It is the file, or if a batch of the window is compressed, the memory
to which it was decompressed; batches that are not are copied after it. A window is bounded, so its
rows stay in the CPU's cache.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.source import Source, Window, open_window, require_batch
from logwright.format.batch import CODEC_MASK, HEADER_BYTES, LOG_APPEND_TIME
from logwright.format.record import SMALLEST_RECORD_BYTES
from logwright.format.walk import OK, TRAILING, read_record
from logwright.kernel import inline_kernel, kernel

RECORD: Final = np.dtype(
    [
        (name, np.int64)
        for name in (
            "row",
            "ordinal",
            "offset",
            "timestamp",
            "start",
            "rest",
            "key_at",
            "key_length",
            "value_at",
            "value_length",
            "headers_at",
            "stop",
        )
    ]
)
"""A record. `row`: of its batch. `ordinal`: see BATCH. `timestamp`: ms. `start`, `stop`: its span
in the buffer. `rest`: the position after its timestamp. `headers_at`: where their number is. A
length of -1 stands for null."""


class Records(NamedTuple):
    """The records of a window, in its order.

    Attributes:
        buffer: uint8[n]. batches: BATCH[k].
        rows: RECORD[m], of control batches, too.
    """

    buffer: NDArray[np.uint8]
    batches: NDArray[np.void]
    rows: NDArray[np.void]

    def only(self, chosen: NDArray[np.int64]) -> Records:
        """Return some of the records, by their numbers; the rows are copied."""
        # As plain integers: NumPy copies a structured row field by field.
        rows = self.rows.view(np.int64).reshape(-1, RECORD.itemsize // 8)
        return self._replace(rows=rows[chosen].view(RECORD).reshape(len(chosen)))

    @property
    def unordered(self) -> NDArray[np.int64]:
        """The batches whose offsets do not ascend from the base offset to the last, ascending."""
        owners, offsets = self.rows["row"], self.rows["offset"]
        wrong = offsets > self.batches["last_offset"][owners]
        wrong |= offsets < self.batches["base_offset"][owners]
        wrong[1:] |= (owners[1:] == owners[:-1]) & (offsets[1:] <= offsets[:-1])
        return np.unique(owners[wrong])

    def bytes_of(self, row: int, name: str) -> bytes | None:
        """Return the ``key`` or the ``value`` of a row, None for null."""
        start, length = (int(self.rows[row][f"{name}_{part}"]) for part in ("at", "length"))
        return None if length < 0 else self.buffer[start : start + length].tobytes()


def read_window(source: Source, rows: slice | NDArray[np.int64]) -> Records:
    """Decompress some batches if necessary, and return their records. CRCs are the caller's.

    Raises:
        CorruptBatch: a batch does not decompress, or its records are malformed.
    """
    return project(source, open_window(source, rows))


def project(source: Source, window: Window) -> Records:
    """Return the records of a window.

    Raises:
        CorruptBatch: the records of a batch are malformed.
    """
    buffer, spans, most = find_records(source, window)
    rows = np.empty(most, dtype=RECORD)
    count, row, status = fill_records(buffer, window.batches, spans, rows)
    require_batch(source, window.batches, row, status)
    return Records(buffer, window.batches, rows[:count])


def find_records(
    source: Source, window: Window
) -> tuple[NDArray[np.uint8], NDArray[np.int64], int]:
    """Return the buffer that holds the records of all batches of a window, their spans in it,
    int64[k, 2], and for how many records there is room: no more than there are bytes for, since a
    count may be wrong.
    """
    buffer, spans = _one_buffer(source, window)
    sizes = np.maximum(spans[:, 1] - spans[:, 0], 0)
    most = np.minimum(window.batches["count"], sizes // SMALLEST_RECORD_BYTES)
    return buffer, spans, int(np.maximum(most, 0).sum())


def _one_buffer(source: Source, window: Window) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the buffer that holds the records of all batches, and their spans in it."""
    batches, spans = window.batches, window.spans
    packed = ((batches["attributes"] & CODEC_MASK) != 0) & (batches["size"] > HEADER_BYTES)
    if not packed.any():
        return source.data, spans
    if packed.all():
        return window.scratch, spans
    end = int(spans[packed, 1].max())
    parts, spans = [window.scratch[:end]], spans.copy()
    for row in np.flatnonzero(~packed).tolist():
        parts.append(source.data[slice(*spans[row].tolist())])
        spans[row] = end, end + len(parts[-1])
        end += len(parts[-1])
    return np.concatenate(parts), spans


@inline_kernel
def fill_batch_records(
    source: Any, span: Any, batch: Any, number: int, rows: Any, first: int
) -> Any:
    """Fill the rows from `first` on with the records of a batch, which are in this span of the
    source; return (the row after them, status). Room is the caller's, for as many records as the
    header declares and the span has bytes for.

    Args:
        number: what the rows have as that of their batch.
    """
    position, end = span
    append_time = batch.attributes & LOG_APPEND_TIME != 0
    at = np.int64(first)
    for index in range(np.int64(batch.count)):
        record = read_record(source, position, end)
        if record.stop < 0:
            return at, np.int64(record.stop)
        row = rows[at]
        row.row, row.ordinal = number, batch.first_ordinal + index
        row.offset = batch.base_offset + record.delta
        row.timestamp = batch.base_timestamp + record.time_delta
        if append_time:
            row.timestamp = batch.max_timestamp
        row.start, row.rest, row.stop = position, record.rest, record.stop
        row.key_at, row.key_length = record.key, record.key_length
        row.value_at, row.value_length = record.value, record.value_length
        row.headers_at = record.headers
        position = record.stop
        at += 1
    return at, np.int64(TRAILING if batch.count > 0 and position != end else OK)


@kernel
def fill_records(buffer: Any, batches: Any, spans: Any, rows: Any) -> Any:
    """Fill rows with the records of batches; return (number of rows, row, status) of the first
    batch whose records are malformed; status `OK` if there is none.

    Args:
        buffer: uint8[n]. batches: BATCH[k]. spans: int64[k, 2], in the buffer. rows: RECORD[m].
    """
    at: Any = np.int64(0)
    for number in range(len(batches)):
        span = (spans[number, 0], spans[number, 1])
        at, status = fill_batch_records(buffer, span, batches[number], number, rows, at)
        if status != OK:
            return at, np.int64(number), status
    return at, np.int64(len(batches)), np.int64(OK)
