"""``floor``: what Spark itself takes for the rows of a data source in Python, by one that reads
nothing and yields the same batch again and again, to ``noop``; as a stream for ``streams``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)

from benchmarks.compare import Figure
from benchmarks.table import seconds, table

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql import types as T  # noqa: N812 -- Spark's own convention

TASKS: Final = 8
BATCH_BYTES: Final = 8 * 1024 * 1024
BATCH_ROWS: Final = 64 * 1024
"""Bounds of a batch, as of `kafka-log`."""
_KEY_BYTES: Final = 16


class Floor(DataSource):
    """The format ``floor``; options: ``valueBytes``, ``rows``; of a stream ``batch``, a file of
    Arrow's with one record batch, ``rows`` and ``tasks``.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "floor"

    def schema(self) -> str:
        """Return the columns of `kafka-log`."""
        return (
            "key binary, value binary, topic string, partition int, offset long,"
            " timestamp timestamp, timestampType int"
        )

    def reader(self, schema: T.StructType) -> DataSourceReader:  # noqa: ARG002 -- Spark's signature
        """Return a reader of that many rows."""
        return FloorReader(int(self.options["valueBytes"]), int(self.options["rows"]))

    def streamReader(self, schema: T.StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 -- as above
        """Return a stream of that many rows."""
        rows, tasks = int(self.options["rows"]), int(self.options["tasks"])
        return FloorStream(self.options["batch"], rows, tasks)


class FloorReader(DataSourceReader):
    """Yields one batch until there are enough rows."""

    def __init__(self, value_bytes: int, rows: int) -> None:
        self._value_bytes = value_bytes
        self._rows = rows

    def partitions(self) -> Sequence[InputPartition]:
        """Return tasks of the same size."""
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 -- as above
        """Yield the rows of one task."""
        import pyarrow as pa  # noqa: PLC0415 -- in the worker

        rows = min(BATCH_ROWS, BATCH_BYTES // (self._value_bytes + _KEY_BYTES))
        columns = {
            "key": pa.array([b"k" * _KEY_BYTES] * rows, pa.binary()),
            "value": pa.array([b"v" * self._value_bytes] * rows, pa.binary()),
            "topic": pa.array(["t"] * rows),
            "partition": pa.array([0] * rows, pa.int32()),
            "offset": pa.array(range(rows), pa.int64()),
            "timestamp": pa.array([0] * rows, pa.timestamp("us", tz="UTC")),
            "timestampType": pa.array([0] * rows, pa.int32()),
        }
        batch, left = pa.record_batch(columns), self._rows // TASKS
        while left > 0:
            yield batch.slice(0, min(left, rows))
            left -= rows


class FloorStream(DataSourceStreamReader):
    """Yields the batch of a file until there are enough rows."""

    def __init__(self, batch: str, rows: int, tasks: int) -> None:
        self._batch = batch
        self._rows = rows
        self._tasks = tasks

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 -- Spark's name
        """Return that nothing was read."""
        return {"rows": 0}

    def latestOffset(self) -> dict[str, int]:  # noqa: N802 -- as above
        """Return that all is there."""
        return {"rows": self._rows}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return how many rows each task has."""
        rows = end["rows"] - start["rows"]
        bounds = [rows * number // self._tasks for number in range(self._tasks + 1)]
        return [InputPartition(after - before) for before, after in pairwise(bounds)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        import pyarrow as pa  # noqa: PLC0415 -- in the worker

        with pa.OSFile(self._batch) as file:
            batch = pa.ipc.open_file(file).get_batch(0)
        left = partition.value
        while left > 0:
            yield batch.slice(0, min(left, batch.num_rows))
            left -= batch.num_rows


def floors(spark: SparkSession, sizes: Sequence[tuple[int, int]], *, rounds: int) -> str:
    """Return a table of wall seconds, after one round to warm up.

    Args:
        sizes: (bytes of a value, rows) of each line.
    """
    spark.dataSource.register(Floor)
    lines = []
    for value_bytes, rows in sizes:
        options = {"valueBytes": str(value_bytes), "rows": str(rows)}
        taken = []
        for _ in range(rounds + 1):
            start = time.perf_counter()
            frame = spark.read.format("floor").options(**options).load()
            frame.write.format("noop").mode("overwrite").save()
            taken.append(time.perf_counter() - start)
        lines.append([f"{rows:,} rows of {value_bytes} B", seconds(Figure.of(taken[1:]))])
    return table(("a source that reads nothing, to noop", "wall s"), lines)
