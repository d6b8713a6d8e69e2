"""``spark.read.format("kafka-log")``: the records of logs as rows, without a broker.

The data source API of Spark 4 in Python. What Spark does with it (docs/adr/0026 has the figures):

1. ``load()`` makes the `KafkaLog` in a Python process of the driver's machine and asks it for the
   schema. Options are checked there.
2. Each query makes a reader in another such process and asks it for its tasks. The reader is sent
   to all tasks; each gets its own ranges.
3. Tasks yield Arrow record batches; Spark makes rows of them in the JVM. Their size is not limited
   by ``spark.sql.execution.arrow.maxRecordsPerBatch``.

Little is imported here: Spark also imports this where it only looks for data sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 -- Spark's own convention
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)

from logwright.errors import PolicyError, StalePlan
from logwright.spark.kafka_log_rows import (
    SCHEMA,
    WITH_HEADERS,
    as_spark_has_it,
    refuse_schema,
    report_corrupt,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

    from logwright.records.model import RecordsRange
    from logwright.spark.kafka_log_options import Pruning, ReadOptions, Use
    from logwright.spark.kafka_log_plan import Work
    from logwright.spark.kafka_log_seen import Slice

NAME: Final = "kafka-log"


class KafkaLog(DataSource):
    """The format ``kafka-log``: reads logs, in batches or as a stream, and appends to them.
    Options: `ReadOptions` and `WriteOptions`.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> T.StructType:
        """Return the schema of a read.

        Raises:
            PolicyError: an option is unknown, malformed or contradicts another one.
        """
        return WITH_HEADERS if self._read_options().include_headers else SCHEMA

    def reader(self, schema: T.StructType) -> DataSourceReader:
        """Return a reader of these columns: those of a schema that the user gives are not read
        with the others.

        Raises:
            PolicyError: as `schema`; or the user's schema has another column, or another type.
        """
        options = self._read_options("batch")
        refuse_schema(schema)
        kind = FilteringReader if options.push_filters else KafkaLogReader
        return kind(options, schema)

    def streamReader(self, schema: T.StructType) -> DataSourceStreamReader:  # noqa: N802 -- Spark's name
        """Return a reader of a stream of these columns. It checks the options when Spark first uses
        it: an error of this method itself is hidden by one of Spark's own.
        """
        try:
            from logwright.spark.kafka_log_stream import StreamReader  # noqa: PLC0415 -- Spark 4.2
        except ModuleNotFoundError:
            return _NoStream()
        return StreamReader(self.options, schema)

    def writer(self, schema: T.StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 -- Spark's signature
        """Return a writer that appends rows to logs, see `logwright.spark.kafka_log_write`.

        Raises:
            PolicyError: an option or a column is refused, or the mode is not append.
        """
        from logwright.spark.kafka_log_write import make_writer  # noqa: PLC0415 -- kernels

        return make_writer(self.options, schema, overwrite=overwrite)

    def _read_options(self, use: Use | None = None) -> ReadOptions:
        from logwright.spark.kafka_log_options import read_options  # noqa: PLC0415 -- see the module

        return read_options(self.options, use)


class _NoStream(DataSourceStreamReader):
    """Refuses to read a stream: a source in Python cannot limit a micro-batch before Spark 4.2."""

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 -- Spark's name
        """Refuse it.

        Raises:
            PolicyError: always.
        """
        raise PolicyError(
            f"a stream of {NAME} needs Spark 4.2.",
            remedy=f'Use spark.read.format("{NAME}"); the option startingOffsets takes what is new'
            " since an earlier batch.",
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Spark requires it; there is no offset to read from."""
        raise AssertionError(partition)


class KafkaLogReader(DataSourceReader):
    """Plans a read, and reads what it planned. Pickled into each task before it plans."""

    def __init__(self, options: ReadOptions, schema: T.StructType) -> None:
        self._options = options
        self._schema = schema
        self._pruning: Pruning | None = None
        report = options.corrupt_report
        self._report = None if report is None else Path(report).absolute()

    def partitions(self) -> Sequence[InputPartition]:
        """Return the tasks; each has its ranges. Effects and errors: see `plan_read`."""
        from logwright.spark.kafka_log_options import Pruning  # noqa: PLC0415 -- see the module
        from logwright.spark.kafka_log_plan import plan_read  # noqa: PLC0415
        from logwright.spark.kafka_log_seen import by_offsets  # noqa: PLC0415

        pruning = self._pruning or Pruning()
        return [InputPartition(by_offsets(work)) for work in plan_read(self._options, pruning)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Return the rows of one task. Effects: reads segments, with brokers kept out; writes a
        report of what it skips, if there is a place for one.

        Raises:
            StalePlan: a segment changed since the read was planned: load again.
            LogwrightError: as `read_range` and `read_latest`.
        """
        from logwright.latest.model import LatestPlan  # noqa: PLC0415 -- see the module
        from logwright.latest.read import read_latest  # noqa: PLC0415

        columns = self._schema.fieldNames()
        # Spark makes one with None for no tasks.
        work: Work | tuple[Slice, ...] = partition.value or ()
        if isinstance(work, LatestPlan):
            tombstones = self._options.include_tombstones
            batches = read_latest(work, columns=columns, tombstones=tombstones)
        else:
            batches = self._read(work, columns)
        return _loaded_again(as_spark_has_it(batches, self._schema))

    def _read(
        self, work: Iterable[RecordsRange | Slice], columns: Sequence[str]
    ) -> Iterator[pa.RecordBatch]:
        from logwright.records.model import RecordsRange  # noqa: PLC0415 -- see the module
        from logwright.spark.kafka_log_seen import read_slices  # noqa: PLC0415

        for part in work:
            if isinstance(part, RecordsRange):
                yield from _read_range(part, columns, self._report)
            else:
                yield from read_slices([part], self._options, columns)


class FilteringReader(KafkaLogReader):
    """A reader that a query's filters limit. Spark needs
    ``spark.sql.python.filterPushdown.enabled``.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 -- Spark's name
        """Return the filters that Spark must evaluate."""
        from logwright.spark.kafka_log_filters import push_down  # noqa: PLC0415 -- Spark 4.1

        self._pruning, rest = push_down(filters, view=self._options.view)
        return rest


def _read_range(
    records_range: RecordsRange, columns: Sequence[str], corrupt_report: Path | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range. Effects: as `read_range` and `report_corrupt`."""
    from logwright.records.model import ReadCounts  # noqa: PLC0415 -- see the module
    from logwright.records.read import read_range  # noqa: PLC0415

    counts = ReadCounts()
    yield from read_range(records_range, columns=columns, counts=counts)
    report_corrupt(records_range, counts, corrupt_report)


def _loaded_again(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches; the remedy of an error is Spark's way to plan again."""
    try:
        yield from batches
    except StalePlan as error:
        error.remedy = "The log changed after the frame was planned. Load it again."
        raise
