"""One bucket's file, rewritten: the old rows without the changed keys, then the new rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

GROUP_ROWS: Final = 131_072
GROUP_BYTES: Final = 32 << 20
"""A row group is written at this number of rows, or of bytes."""
READ_ROWS: Final = 16_384
COMPRESSION: Final = "zstd"


@dataclass(slots=True)
class RewriteCounts:
    """What a rewrite did.

    Attributes:
        rows: rows of the new files.
        deleted: old rows whose key has none any more.
    """

    rows: int = 0
    deleted: int = 0


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


def has_any(batches: Iterable[pa.RecordBatch], key: str, keys: pa.Array) -> bool:
    """Return whether one of these keys has a row."""
    return any(pc.any(pc.is_in(batch[key], value_set=keys)).as_py() for batch in batches)


def rewritten(
    old: Iterable[pa.RecordBatch],
    new: Iterable[pa.RecordBatch],
    *,
    key: str,
    fresh: pa.Array,
    dead: pa.Array,
    counts: RewriteCounts,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the new file.

    Args:
        old: rows of the old files.
        new: the new rows.
        key: name of the key's column.
        fresh: the keys of `new`, whose old rows are left out.
        dead: keys whose old rows are left out, and that have no new row.
        counts: is added to.
    """
    for batch in old:
        kept = _without(batch, key, dead)
        counts.deleted += len(batch) - len(kept)
        kept = _without(kept, key, fresh)
        counts.rows += len(kept)
        if len(kept):
            yield kept
    for batch in new:
        counts.rows += len(batch)
        yield batch


def _without(batch: pa.RecordBatch, key: str, keys: pa.Array) -> pa.RecordBatch:
    if not len(keys):
        return batch
    return batch.filter(pc.invert(pc.is_in(batch[key], value_set=keys)))
