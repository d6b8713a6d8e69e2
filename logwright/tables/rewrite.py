"""The rows of Parquet files: written in row groups, read, found by their keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

GROUP_ROWS: Final = 131_072
GROUP_BYTES: Final = 32 << 20
"""A row group is written at this number of rows, or of bytes."""
READ_ROWS: Final = 16_384
COMPRESSION: Final = "zstd"
NO_KEYS: Final = pa.array([], pa.binary())


class GroupWriter:
    """Writes batches as row groups of a bounded size.

    Args:
        file: open for writing; it stays open.
        schema: of the batches.
    """

    def __init__(self, file: IO[bytes] | Any, schema: pa.Schema) -> None:  # noqa: ANN401 - Arrow's files too
        self._schema = schema
        self._writer = pq.ParquetWriter(file, schema, compression=COMPRESSION)
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch. Effects: may write a row group."""
        if len(batch) == 0:
            return
        self._waiting.append(batch)
        self._rows += len(batch)
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the rest, and the footer."""
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
        self._waiting = []
        self._rows = self._bytes = 0


def read_batches(file: IO[bytes] | Any, columns: list[str]) -> Iterator[pa.RecordBatch]:  # noqa: ANN401 - Arrow's files too
    """Yield the batches of a Parquet file, with these columns in this order."""
    with pq.ParquetFile(file) as parquet:
        for batch in parquet.iter_batches(batch_size=READ_ROWS, columns=columns):
            yield batch.select(columns)


def without(
    batches: Iterable[pa.RecordBatch], deleted: NDArray[np.int64]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file that are not deleted.

    Args:
        batches: all rows of the file.
        deleted: positions of the deleted rows, ascending.
    """
    start = 0
    for batch in batches:
        end = start + len(batch)
        first, last = np.searchsorted(deleted, (start, end))
        if first == last:
            yield batch
        else:
            kept = np.ones(len(batch), dtype=np.bool_)
            kept[deleted[first:last] - start] = False
            yield batch.filter(pa.array(kept))
        start = end


def rows_of_keys(
    batches: Iterable[pa.RecordBatch], key: str, keys: pa.Array
) -> tuple[NDArray[np.int64], pa.Array]:
    """Return the positions of the rows that have one of these keys, ascending, and their keys."""
    positions: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
    their_keys = [NO_KEYS]
    start = 0
    for batch in batches:
        if len(keys):
            hit = pc.indices_nonzero(pc.is_in(batch[key], value_set=keys))
            positions.append(hit.to_numpy().astype(np.int64) + start)
            their_keys.append(batch[key].take(hit))
        start += len(batch)
    return np.concatenate(positions), pa.concat_arrays(their_keys)
