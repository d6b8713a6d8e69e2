"""Rows of a partition, distributed to buckets with bounded memory.

The records of a log come by offset, the files of a table are by bucket. Rows wait in memory until
they are `BUFFER_BYTES`; then they go to one temporary file, bucket by bucket, from which each
bucket's parts are read again. The file is in a directory of the caller and has rows of the table:
its mode lets nobody else read it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import numpy as np
import pyarrow as pa

from logwright.tables.buckets import buckets_of

BUFFER_BYTES: Final = 64 << 20


class _Part(NamedTuple):
    """Batches of one bucket in the file, from `start` to `end`."""

    start: int
    end: int


class Spill:
    """Batches by bucket; the rows of a bucket come back in their order.

    Args:
        schema: of the batches.
        key: name of the column that the bucket is made of, binary without nulls.
        buckets: number of buckets.
        directory: where the temporary file is; it is made when it is needed.
    """

    def __init__(
        self,
        schema: pa.Schema,
        key: str,
        buckets: int,
        directory: Path,
        *,
        limit: int | None = None,
    ) -> None:
        self._schema = schema
        self._key = key
        self._buckets = buckets
        self._directory = directory
        self._limit = BUFFER_BYTES if limit is None else limit
        self._waiting: dict[int, list[pa.RecordBatch]] = {}
        self._bytes = 0
        self._parts: dict[int, list[_Part]] = {}
        self._file: int | None = None
        self._end = 0
        self.rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            os.close(self._file)

    @property
    def buckets(self) -> frozenset[int]:
        """The buckets that have rows."""
        return frozenset(self._parts) | frozenset(self._waiting)

    def add(self, batch: pa.RecordBatch, keys: pa.Array | None = None) -> None:
        """Take a batch. Effects: may write to the temporary file.

        Args:
            batch: rows.
            keys: what the bucket of each is made of; None: the column `key`.

        Raises:
            OSError: it cannot be written.
        """
        if len(batch) == 0:
            return
        self.rows += len(batch)
        self._bytes += batch.nbytes
        chosen = buckets_of(batch[self._key] if keys is None else keys, self._buckets)
        order = np.argsort(chosen, kind="stable")
        numbers, starts = np.unique(chosen[order], return_index=True)
        if len(numbers) > 1:
            batch = batch.take(pa.array(order))
        ends = [*starts[1:], len(batch)]
        for number, start, end in zip(numbers, starts, ends, strict=True):
            self._waiting.setdefault(int(number), []).append(batch.slice(start, end - start))
        if self._bytes >= self._limit:
            self._write()

    def read(self, bucket: int) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a bucket. Effects: reads the temporary file."""
        for part in self._parts.get(bucket, ()):
            assert self._file is not None  # noqa: S101 - a part is in the file
            content = os.pread(self._file, part.end - part.start, part.start)
            with pa.ipc.open_stream(content) as stream:
                yield from stream
        yield from self._waiting.get(bucket, ())

    def _write(self) -> None:
        """Write what waits, each bucket in one part."""
        if self._file is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._file, name = tempfile.mkstemp(prefix="spill-", dir=self._directory)
            Path(name).unlink()
        for bucket, batches in sorted(self._waiting.items()):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, self._schema) as stream:
                for batch in batches:
                    stream.write_batch(batch)
            content = memoryview(sink.getvalue())
            start = self._end
            while content:
                written = os.pwrite(self._file, content, self._end)
                self._end += written
                content = content[written:]
            self._parts.setdefault(bucket, []).append(_Part(start, self._end))
        self._waiting.clear()
        self._bytes = 0
