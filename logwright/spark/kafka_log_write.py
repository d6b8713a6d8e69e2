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

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 -- Spark's own convention
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from logwright.config.policies import Policies
from logwright.config.resolved import Sources, settings_of
from logwright.config.sources import keep_given, read_sources
from logwright.errors import PolicyError
from logwright.format.codec import CODEC_NAMES
from logwright.format.names import SPOOL, TopicPartition
from logwright.ingest.commit import prepare_log_dir, stage_append
from logwright.ingest.ledger import Run, read_ledger, record_run
from logwright.ingest.model import AppendOptions, AppendPlan, StagedAppend
from logwright.locks import lock_log_dir
from logwright.log.load import list_partitions
from logwright.place.files import names_in
from logwright.spark.append import (
    Target,
    append_rows,
    partition_counts,
    slots_of,
)
from logwright.spark.kafka_log_options import WriteOptions, write_options
from logwright.spark.kafka_log_spool import Spooled, spool_rows, spooled_rows
from logwright.units import TimestampMs

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
        replicas_of=sources.replicas_of,
    )
    return LogWriter(target, options.configs, run)


def refuse_columns(schema: T.StructType, options: WriteOptions) -> None:
    """Refuse columns that a record does not have.

    Raises:
        PolicyError: a column is unknown or has another type, or one is missing.
    """
    names = schema.fieldNames()
    for field in schema.fields:
        if not _fits(field):
            problem = "has this type" if field.name in {*_COLUMNS, "headers"} else "has this name"
            raise PolicyError(
                f"the column {field.name} {field.dataType.simpleString()}: no column of a record"
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
        self._prefix = f"{SPOOL}{uuid.uuid4().hex}-"

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
        with lock_log_dir(target.log_dir):
            runs = spool_rows(target.log_dir / name, target.topic, slots, iterator)
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
            staged[slot] = stage_append(plan, spooled_rows(log_dir, used, partition))
    return staged


def _remove_abandoned(log_dir: Path, *, now: float) -> None:
    """Remove the files of writes whose driver died. Effects: see there."""
    for name in names_in(log_dir):
        if name.startswith(SPOOL):
            with suppress(OSError):  # another write removes it
                path = log_dir / name
                if now - path.lstat().st_mtime > ABANDONED_SECONDS:
                    path.unlink()
