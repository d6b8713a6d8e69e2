"""``df.write.format("kafka-log")``: append a frame's rows to logs, through our ingest.

1. The driver's side checks options, columns and the log directory before there is a task.
2. Each task writes its rows, sorted by partition, to a file of its own in the log directory's root,
   ``.logwright-write-*``: on the file system that the append needs room on, and where every worker
   can write. A broker ignores such files. Nothing else changes.
3. When all tasks have succeeded, one process appends the rows as `logwright ingest` does: all is
   staged before the first log changes, so a row that a broker would refuse leaves all logs as they
   were.
4. The files are removed at the end, also after a failure. Files of attempts that Spark did not
   count are among them: rows come from the files that Spark commits. Those of a driver that died
   are removed by a later write, after a week.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import types as T  # noqa: N812 -- Spark's own convention
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from logwright.config.policies import Policies
from logwright.config.resolved import Sources, settings_of
from logwright.config.sources import keep_given, read_sources
from logwright.errors import PolicyError, StalePlan
from logwright.format.codec import CODEC_NAMES
from logwright.format.names import TopicPartition
from logwright.ingest.commit import prepare_log_dir, stage_append
from logwright.ingest.ledger import Run, read_ledger, record_run
from logwright.ingest.model import AppendOptions, AppendPlan, StagedAppend
from logwright.ingest.partitioner import UNKNOWN
from logwright.ingest.schema import SCHEMA
from logwright.locks import broker_kept_out
from logwright.log.files import names_in
from logwright.log.load import list_partitions
from logwright.spark.append import (
    Target,
    append_rows,
    first_slots,
    no_such_partition,
    partition_counts,
    place_rows,
    slots_of,
)
from logwright.spark.kafka_log_options import WriteOptions, write_options
from logwright.units import TimestampMs

PREFIX: Final = ".logwright-write-"
SORTED_BYTES: Final = 32 * 1024 * 1024
"""Bytes of rows that a task sorts at a time."""
ABANDONED_SECONDS: Final = 7 * 24 * 3600
"""A write does not take that long: its files are those of a driver that died."""

_BYTES: Final = (T.BinaryType, T.StringType)
_COLUMNS: Final[Mapping[str, tuple[type[T.DataType], ...]]] = {
    "key": _BYTES,
    "value": _BYTES,
    "topic": (T.StringType,),
    "partition": (T.IntegerType, T.ShortType, T.ByteType),
    "timestamp": (T.TimestampType, T.LongType),
}
"""The columns of Spark's Kafka sink, and ``timestamp``; with their types, but for headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spooled(WriterCommitMessage):
    """What one task has written.

    Attributes:
        name: of its file in the log directory's root, empty if it has no rows.
        runs: partition → numbers of the file's record batches with its rows, in order.
    """

    name: str
    runs: Mapping[TopicPartition, Sequence[int]]


def make_writer(given: Mapping[str, str], schema: T.StructType, *, overwrite: bool) -> LogWriter:
    """Return a writer. Effects: finishes or rolls back an interrupted append, makes an empty
    directory a log directory; removes files of writes whose driver died.

    Raises:
        PolicyError: an option, a column or the mode is refused.
        LogwrightError: as `prepare_log_dir` and `read_sources`: a broker runs, for example.
    """
    if overwrite:
        raise PolicyError(
            "the mode overwrite would delete records.",
            remedy='Records are appended: mode("append").',
        )
    options = write_options(given)
    refuse_columns(schema, options)
    log_dir = Path(options.path).absolute()
    prepare_log_dir(log_dir)
    _remove_abandoned(log_dir, now=time.time())
    run = None if options.ingest_id is None else _run(log_dir, options)
    sources = _sources(log_dir, options.configs)
    if options.topic is None:
        topics = sorted({one.topic for one in list_partitions(log_dir)})
    else:
        topics = [options.topic]
    wanted = options.partitions if run is None or run.partitions == 0 else run.partitions
    counts = partition_counts(log_dir, topics, wanted)
    topic_ids = {topic: sources.topic_id(topic) for topic in topics}
    target = Target(
        log_dir=log_dir,
        topic=options.topic,
        partitions=counts,
        settings={topic: settings_of(sources, topic)[0] for topic in topics},
        ingest_id=options.ingest_id or uuid.uuid4().hex,
        now_ms=TimestampMs(time.time_ns() // 1_000_000),
        options=AppendOptions(
            batch_bytes=options.batch_size, codec=CODEC_NAMES.index(options.compression)
        ),
        topic_ids={topic: one for topic, one in topic_ids.items() if one is not None},
    )
    return LogWriter(target, options.configs, run)


def refuse_columns(schema: T.StructType, options: WriteOptions) -> None:
    """Refuse columns that a record does not have.

    Raises:
        PolicyError: a column is unknown or has another type, or one is missing.
    """
    names = schema.fieldNames()
    for one in schema.fields:
        if not _fits(one):
            problem = "has this type" if one.name in {*_COLUMNS, "headers"} else "has this name"
            raise PolicyError(
                f"the column {one.name} {one.dataType.simpleString()}: no column of a record"
                f" {problem}.",
                remedy="Select some of key, value (binary or string), topic, partition (int),"
                " headers (array of struct of key and value), and timestamp (or long, in ms).",
            )
    if "value" not in names:
        raise PolicyError("the column value is missing.", remedy="It may be null.")
    if options.topic is None and "topic" not in names:
        raise PolicyError(
            "rows have no column topic, and no topic was given.", remedy="Give the option topic."
        )


def _fits(column: T.StructField) -> bool:
    kind = column.dataType
    if column.name == "headers" and isinstance(kind, T.ArrayType):
        pair = kind.elementType
        return (
            isinstance(pair, T.StructType)
            and pair.names == ["key", "value"]
            and all(isinstance(one.dataType, _BYTES) for one in pair.fields)
        )
    return isinstance(kind, _COLUMNS.get(column.name, ()))


def _run(log_dir: Path, options: WriteOptions) -> Run:
    """Return what the ledger has of a write with this id, or a new entry. Effects: reads it.

    Raises:
        PolicyError: the id is that of another topic.
    """
    id_, topic = options.ingest_id or "", options.topic or ""
    for run in read_ledger(log_dir):
        if run.id == id_:
            if run.topic != topic:
                raise PolicyError(f"the ingestId {id_} is of the topic {run.topic}.")
            return run
    return Run(id=id_, topic=topic, partitions=0, files=())


class LogWriter(DataSourceArrowWriter):
    """Writes a frame's rows to files, one for each task, and appends them all at the end."""

    def __init__(self, target: Target, configs: Mapping[str, str], run: Run | None) -> None:
        self._target = target
        self._configs = configs
        self._run = run
        self._prefix = f"{PREFIX}{uuid.uuid4().hex}-"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of one task to a file. Effects: makes the file; removes it after an error.

        Raises:
            RefusedRecord: a row's partition does not exist.
            LogDirLocked: a broker runs.
        """
        target = self._target
        name = f"{self._prefix}{uuid.uuid4().hex}.arrow"
        if self._run is not None and self._run.done:
            return Spooled(name="", runs={})
        slots = slots_of(target.partitions)
        with broker_kept_out(target.log_dir):
            runs = _spool(target.log_dir / name, target.topic, slots, iterator)
        return Spooled(name=name if runs else "", runs=runs)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Append the rows of all tasks, in their order. Effects: changes the logs; removes the
        files.

        Raises:
            RefusedRecord: a broker would refuse a row. Nothing was appended.
            LogwrightError: as `append_rows`.
        """
        spools = [one for one in messages if isinstance(one, Spooled) and one.name]
        try:
            if self._run is None or not self._run.done:
                self._append(spools)
        finally:
            self._remove_files()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 -- Spark's signature
        """Forget the rows. Effects: removes the files."""
        self._remove_files()

    def _append(self, spools: Sequence[Spooled]) -> None:
        target, run = self._target, self._run
        if target.topic is None:
            used = {one.topic for spool in spools for one in spool.runs}
            target = replace(
                target, partitions={one: target.partitions[one] for one in sorted(used)}
            )
        elif run is not None:
            run = replace(run, partitions=target.partitions[target.topic])
        prepare_log_dir(target.log_dir)
        append_rows(
            target,
            partial(_stage, target.log_dir, spools),
            before_commit=partial(_record, target, self._configs, run),
        )
        if run is not None:
            record_run(target.log_dir, replace(run, done=True))

    def _remove_files(self) -> None:
        for name in names_in(self._target.log_dir):
            if name.startswith(self._prefix):
                (self._target.log_dir / name).unlink(missing_ok=True)


def _record(target: Target, configs: Mapping[str, str], run: Run | None) -> None:
    """Record what is known before a log changes. Effects: writes the ledger and kept settings."""
    sources = _sources(target.log_dir, configs)
    for topic in target.partitions:
        keep_given(target.log_dir, sources, topic)
    if run is not None:
        record_run(target.log_dir, run)


def _sources(log_dir: Path, configs: Mapping[str, str]) -> Sources:
    return read_sources(log_dir, policies=Policies(), command_line=configs)


def _stage(
    log_dir: Path,
    spools: Sequence[Spooled],
    slots: Sequence[TopicPartition],
    plans: Sequence[AppendPlan | None],
) -> dict[int, StagedAppend]:
    """Stage the rows of all files, partition by partition, in this process."""
    staged = {}
    for slot, (partition, plan) in enumerate(zip(slots, plans, strict=True)):
        used = [spool for spool in spools if partition in spool.runs]
        if plan is not None and used:
            staged[slot] = stage_append(plan, _rows_of(log_dir, used, partition))
    return staged


def _rows_of(
    log_dir: Path, spools: Iterable[Spooled], partition: TopicPartition
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one partition. Effects: maps the files.

    Raises:
        StalePlan: a file is gone.
    """
    for spool in spools:
        path = log_dir / spool.name
        try:
            mapped = pa.memory_map(str(path))
        except OSError as error:
            raise StalePlan(
                "the rows of a task are gone.",
                path=path,
                remedy="Nothing was appended. Write again.",
            ) from error
        with mapped, pa.ipc.open_file(mapped) as file:
            for number in spool.runs[partition]:
                yield file.get_batch(number)


@dataclass(slots=True)
class _Sorter:
    """Sorts rows by partition while they are written to a file."""

    file: pa.RecordBatchFileWriter
    slots: Sequence[TopicPartition]
    runs: dict[TopicPartition, list[int]] = field(default_factory=dict)
    _waiting: list[tuple[NDArray[np.int32], pa.RecordBatch]] = field(default_factory=list)
    _bytes: int = 0
    _written: int = 0

    def add(self, slots: NDArray[np.int32], rows: pa.RecordBatch) -> None:
        """Take rows and their slots."""
        self._waiting.append((slots, rows))
        self._bytes += rows.nbytes
        if self._bytes >= SORTED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what waits; rows of a partition stay in their order."""
        if not self._waiting:
            return
        slots = np.concatenate([one for one, _ in self._waiting])
        order = np.argsort(slots, kind="stable")
        rows = pa.concat_batches([one for _, one in self._waiting]).take(pa.array(order))
        slots = slots[order]
        changes = (np.flatnonzero(np.diff(slots)) + 1).tolist()
        for begin, end in pairwise([0, *changes, len(slots)]):
            self.file.write_batch(rows.slice(begin, end - begin))
            self.runs.setdefault(self.slots[slots[begin]], []).append(self._written)
            self._written += 1
        self._waiting, self._bytes = [], 0


def _spool(
    path: Path,
    topic: str | None,
    slots: Sequence[TopicPartition],
    batches: Iterable[pa.RecordBatch],
) -> dict[TopicPartition, list[int]]:
    """Write rows to a file of Arrow's; return the numbers of its record batches by partition.
    Effects: makes the file, and removes it after an error.
    """
    first = first_slots(slots)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode=0o600)
    try:
        with os.fdopen(descriptor, "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as file:
            sorter = _Sorter(file, slots)
            for batch in batches:
                if len(batch):
                    rows = canonical(batch, topic)
                    placed = place_rows(first, rows)
                    if (placed == UNKNOWN).any():
                        raise no_such_partition()
                    sorter.add(placed, rows.select(SCHEMA.names))
            sorter.flush()
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return sorter.runs


def canonical(batch: pa.RecordBatch, topic: str | None) -> pa.RecordBatch:
    """Return the columns of `SCHEMA`, and topic and partition, of a frame's rows."""
    kinds = {
        **{one.name: one.type for one in SCHEMA},
        "topic": pa.string(),
        "partition": pa.int32(),
    }
    columns = {name: pa.nulls(len(batch), kind) for name, kind in kinds.items()}
    for name in batch.schema.names:
        given = batch[name]
        if name == "timestamp" and pa.types.is_timestamp(given.type):
            given = _milliseconds(given)
        columns[name] = given.cast(kinds[name])
    if topic is not None:
        columns["topic"] = pa.repeat(pa.scalar(topic), len(batch))
    return pa.RecordBatch.from_pydict(columns)


def _milliseconds(times: pa.Array) -> pa.Array:
    """Return times as whole ms since the epoch, rounded down."""
    micros = times.cast(pa.timestamp("us", tz=times.type.tz)).cast(pa.int64())
    whole = micros.fill_null(0).to_numpy(zero_copy_only=False) // 1000
    return pa.array(whole, mask=micros.is_null().to_numpy(zero_copy_only=False))


def _remove_abandoned(log_dir: Path, *, now: float) -> None:
    """Remove the files of writes whose driver died. Effects: see there."""
    for name in names_in(log_dir):
        if name.startswith(PREFIX):
            with suppress(OSError):  # another write removes it
                path = log_dir / name
                if now - path.lstat().st_mtime > ABANDONED_SECONDS:
                    path.unlink()
