"""The readers of the product that give rows: what its commands, tables and the Spark source read
a log with.
"""

from __future__ import annotations

import pickle
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from logwright.batches.runtime import Runtime
from logwright.bucket.agreement import agree
from logwright.bucket.store import Bucket
from logwright.config.table import TopicTable
from logwright.config.topic import CleanerConfig
from logwright.errors import DataLoss, PolicyError, PreconditionError
from logwright.format.names import TopicPartition
from logwright.latest.plan import plan_latest
from logwright.latest.read import read_latest
from logwright.log.load import observe
from logwright.log.model import ReadableLog
from logwright.log.topic_id import read_topic_id
from logwright.place.files import open_partition_dir
from logwright.place.named import place_of
from logwright.reading import reading
from logwright.records.model import ReadRequest
from logwright.records.plan import plan_records, visible_offsets
from logwright.records.read import read_range
from logwright.running.place import as_it_runs
from logwright.spark.kafka_log import KafkaLog
from logwright.spark.kafka_log_offsets import Json, from_json
from logwright.spark.kafka_log_rows import SCHEMA
from logwright.spark.kafka_log_stream import StreamReader
from logwright.tables.logs import TopicLog
from logwright.tables.merge import MergeLimits
from logwright.tables.topic import LocatedTable, update_topic
from logwright.upload.upload import Upload
from tests.live.load import TOPICS
from tests.live.plain import topic_id
from tests.live.rows import Isolation, Reading, Rows, general, row_of, rows_of


class Refused(Exception):
    """A command refused a log by name."""


COLUMNS = ("offset", "key", "value", "timestamp")
_DELETED = frozenset(topic.log for topic in TOPICS if not topic.is_compacted)
Sent = TypeVar("Sent")


@dataclass(kw_only=True)
class Attempt:
    """A reading that is under way; `isolation` is what its rows are compared with."""

    reader: str
    log_dir: Path
    log: str
    isolation: Isolation
    before: str = ""
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.before = topic_id(self.log_dir, self.log)

    @property
    def partition(self) -> TopicPartition:
        """The log."""
        partition = TopicPartition.parse(self.log)
        assert partition is not None
        return partition

    def ended(self, rows: Rows | None, start: int, bound: int, *, is_state: bool) -> Reading:
        """What was read."""
        return Reading(
            reader=self.reader,
            log=self.log,
            topic_ids=tuple({self.before, topic_id(self.log_dir, self.log)}),
            isolation=self.isolation,
            is_state=is_state,
            start=start,
            bound=bound,
            rows=rows,
            began=self.began,
            ended=time.monotonic(),
        )


@contextmanager
def _observed(attempt: Attempt, *, exact: bool) -> Iterator[ReadableLog]:
    """The log as a command sees it. Effects: reads; with a broker that stopped, locks."""
    place = as_it_runs(attempt.log_dir, exact=exact)
    with reading(place):
        yield observe(place, attempt.partition, high_watermark="checkpoint")


def records(log_dir: Path, log: str, isolation: Isolation) -> Reading:
    """As ``dump --records`` and Spark's ``kafka-log`` do."""
    attempt = Attempt(reader="records", log_dir=log_dir, log=log, isolation=isolation)
    with _observed(attempt, exact=False) as observed:
        request = ReadRequest(isolation=isolation)
        parts = plan_records(observed, request)
        rows = arrow_rows(batch for part in parts for batch in read_range(part, columns=COLUMNS))
    start, bound = visible_offsets(observed, request)
    return attempt.ended(rows, start, bound, is_state=False)


def latest(log_dir: Path, log: str, _: Isolation) -> Reading:
    """As ``latest`` does."""
    attempt = Attempt(reader="latest", log_dir=log_dir, log=log, isolation="read_committed")
    with _observed(attempt, exact=True) as observed:
        plan = plan_latest(observed, cleaner=CleanerConfig())
        rows = arrow_rows(read_latest(plan, columns=COLUMNS, runtime=Runtime(threads=1)))
    return attempt.ended(rows, observed.log_start_offset, plan.end_offset, is_state=True)


class Tables:
    """A table for each log, kept up to date from reading to reading. Effects: files in a directory
    of its own.
    """

    def __init__(self, scratch: Path) -> None:
        self._root = scratch / "tables"

    def read(self, log_dir: Path, log: str, _: Isolation) -> Reading:
        """Update the log's table, and read all of it."""
        attempt = Attempt(reader="table", log_dir=log_dir, log=log, isolation="read_committed")
        path = self._root / attempt.log_dir.parent.name / log
        topic = attempt.partition.topic
        table = TopicTable.model_validate({"format": "parquet", "path": str(path)})
        limits = MergeLimits(small_bytes=0, files=3)
        located = LocatedTable(
            topic=topic, table=table, catalog={}, base=path.parent, limits=limits
        )
        with _observed(attempt, exact=True) as observed:
            with open_partition_dir(observed.log_dir, observed.partition) as directory:
                own = read_topic_id(directory)
            source = TopicLog(log=observed, topic_id=own, cleaner=CleanerConfig())
            update = update_topic(located, [source], now_ms=time.time_ns() // 1_000_000)
        for error in update.result.failures.values():
            raise error
        (result,) = update.result.partitions
        files = path.glob("partition=*/bucket=*/*.parquet")
        rows = arrow_rows(
            batch for file in files for batch in pq.ParquetFile(file).iter_batches(columns=COLUMNS)
        )
        reading = attempt.ended(rows, observed.log_start_offset, result.held, is_state=True)
        reading.notes[f"{result.step.kind}: {general(result.step.reason)}"] = 1
        return reading


class Uploads:
    """A bucket for each topic, to which its log is uploaded from reading to reading; of one whose
    retention deletes between two uploads, a new one each time. Effects: files in a directory of its
    own.
    """

    def __init__(self, scratch: Path) -> None:
        self._root = scratch / "buckets"

    def read(self, log_dir: Path, log: str, _: Isolation) -> Reading:
        """Upload the log, and read the latest state in the bucket.

        Raises:
            Refused: the log in the bucket does not continue in this one.
        """
        attempt = Attempt(reader="upload", log_dir=log_dir, log=log, isolation="read_committed")
        root = self._root / attempt.log_dir.parent.name / f"{log}.{attempt.before}"
        if log in _DELETED:
            shutil.rmtree(root / log, ignore_errors=True)
        bucket = Bucket.of(f"file://{root}")
        place = as_it_runs(log_dir, exact=True)
        with reading(place):
            try:
                Upload(
                    place=place,
                    partition=attempt.partition,
                    bucket=bucket,
                    limits=agree(bucket),
                    configs={},
                    now_ms=time.time_ns() // 1_000_000,
                ).run()
            except PreconditionError as error:
                if not error.problem.startswith("the log in the bucket"):
                    raise
                raise Refused(general(error.problem)) from error
        log_there = observe(place_of(bucket.url), attempt.partition, high_watermark="checkpoint")
        plan = plan_latest(log_there, cleaner=CleanerConfig())
        rows = arrow_rows(read_latest(plan, columns=COLUMNS, runtime=Runtime(threads=1)))
        return attempt.ended(rows, log_there.log_start_offset, plan.end_offset, is_state=True)


class Batches:
    """As ``spark.read.format("kafka-log")`` does, without Spark: plans in one object, reads in one
    task after the other.
    """

    def read(self, log_dir: Path, log: str, isolation: Isolation) -> Reading:
        """Read all records.

        Raises:
            Refused: there are none, or the log is not there.
        """
        attempt = Attempt(reader="source", log_dir=log_dir, log=log, isolation=isolation)
        reader = KafkaLog(_options(attempt)).reader(SCHEMA)
        try:
            tasks = [copied(task) for task in reader.partitions()]
        except PolicyError as error:
            raise _refused(error) from error
        parts = [part for task in tasks for part in task.value or ()]
        if not parts:
            raise Refused("there is nothing to read")
        rows = arrow_rows(batch for task in tasks for batch in copied(reader).read(task))
        start = min(part.start_offset for part in parts)
        bound = max(part.end_offset for part in parts)
        return attempt.ended(rows, start, bound, is_state=False)


class Streams:
    """As a query of ``readStream`` does, without Spark: of each log a micro-batch follows where the
    last one ended.
    """

    def __init__(self) -> None:
        self._queries: dict[tuple[object, ...], tuple[StreamReader, Json]] = {}

    def read(self, log_dir: Path, log: str, isolation: Isolation) -> Reading:
        """Read what came since the last time.

        Raises:
            Refused: there is nothing new, the log is not there, or it is not the one that it was:
                the query begins again.
        """
        attempt = Attempt(reader="stream", log_dir=log_dir, log=log, isolation=isolation)
        name = (log_dir, log, isolation)
        try:
            reader, start = self._queries.pop(name) if name in self._queries else _begun(attempt)
            end = reader.latestOffset(start, reader.getDefaultReadLimit())
            tasks = [copied(task) for task in reader.partitions(start, end)]
            rows = arrow_rows(batch for task in tasks for batch in copied(reader).read(task))
        except DataLoss as error:
            raise Refused(f"the query begins again: {general(error.problem)}") from error
        except PolicyError as error:
            raise _refused(error) from error
        self._queries[name] = (reader, end)
        if end == start:
            raise Refused("there is nothing new")
        first, last = (from_json(at)[attempt.partition].offset for at in (start, end))
        return attempt.ended(rows, first, last, is_state=False)


def _refused(error: PolicyError) -> Exception:
    """That the log is not there now; any other error of options is a fault."""
    named = "not in the log directory" in error.problem
    return Refused(general(error.problem)) if named else error


def _begun(attempt: Attempt) -> tuple[StreamReader, Json]:
    reader = StreamReader(_options(attempt), SCHEMA)
    return reader, reader.initialOffset()


def _options(attempt: Attempt) -> dict[str, str]:
    topic = attempt.partition.topic
    return {"path": str(attempt.log_dir), "subscribe": topic, "isolationLevel": attempt.isolation}


def copied(value: Sent) -> Sent:
    """What Spark sends to a task, as it comes there."""
    sent: Sent = pickle.loads(pickle.dumps(value))  # noqa: S301, TID251 -- as Spark does
    return sent


def arrow_rows(batches: Iterable[pa.RecordBatch]) -> Rows:
    rows: list[tuple[int, ...]] = []
    for batch in batches:
        offsets, keys, values = (batch.column(name).to_pylist() for name in COLUMNS[:3])
        times = batch.column("timestamp").cast("int64").to_pylist()
        for offset, key, value, time_us in zip(offsets, keys, values, times, strict=True):
            rows.append(row_of(offset, key, value, time_us // 1000))
    return rows_of(rows)
