"""Append rows of any Spark source to offline logs; columns as for Spark's Kafka sink.

1. A first pass over Arrow batches assigns partitions, by murmur2 of the key.
2. One shuffle brings the rows of a partition into one task, sorted by file and position, which is
   the input's order, for any number of cores.
3. The task encodes batches, stages segments, and returns one row of statistics per partition.
4. The driver commits one partition after the other. If a task refuses a record, nothing is
   committed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, cast

import numpy as np
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 -- Spark's own convention
from pyspark.sql import types as T  # noqa: N812

from logwright.errors import LogwrightError, PolicyError, UnreadableFile
from logwright.format.names import TopicPartition
from logwright.ingest.appender import Appender
from logwright.ingest.commit import prepare_log_dir
from logwright.ingest.model import Appended, AppendPlan, StagedAppend
from logwright.ingest.schema import SCHEMA
from logwright.spark.append import (
    Target,
    append_rows,
    first_slots,
    no_such_partition,
    place_rows,
)
from logwright.spark.session import spark_at_work

COLUMNS: Final = ("key", "value", "headers", "topic", "partition", "timestamp")
"""The columns of a frame; only ``value`` is required."""

_ORDER: Final = ("_file", "_block", "_row")
_ROWS_DDL: Final = (
    "task int, slot int, key binary, value binary, "
    "headers array<struct<key:binary,value:binary>>, timestamp bigint, "
    "_file string, _block bigint, _row bigint"
)
_RESULT: Final = pa.schema([("slot", pa.int32()), ("result", pa.binary())])
_RESULT_DDL: Final = "slot int, result binary"
_HEADERS_DDL: Final = "array<struct<key:binary,value:binary>>"


def read_input(
    spark: SparkSession, paths: Sequence[str], file_format: str, options: Mapping[str, str]
) -> DataFrame:
    """Return a frame of files with their rows' order. Effects: Spark reads schemas.

    JSON: every value that is not text is taken as the text of its JSON. CSV has a header line.

    Raises:
        UnreadableFile: Spark cannot read them so.
    """
    given: dict[str, str] = {"mode": "FAILFAST"} if file_format in {"json", "csv"} else {}
    if file_format == "json":
        given |= {"primitivesAsString": "true"}
    if file_format == "csv":
        given |= {"header": "true"}
    try:
        frame = spark.read.format(file_format).options(**(given | dict(options))).load(list(paths))
        return frame.select(
            "*",
            F.col("_metadata.file_path").alias("_file"),
            F.col("_metadata.file_block_start").alias("_block"),
            F.monotonically_increasing_id().alias("_row"),
        )
    except PySparkException as error:
        raise _spark_error(error, paths[0]) from error


def ingest_frame(
    frame: DataFrame, target: Target, *, before_commit: Callable[[], None] | None = None
) -> list[Appended]:
    """Append a frame's rows. Effects: stages in tasks, then changes the logs, one after the other.

    `before_commit` is called when all is staged and nothing is changed yet.

    A frame that does not come from `read_input` has its rows in Spark's own order; to repeat an
    interrupted ingest of it, it must have the same rows in the same order again.

    Returns:
        what each partition got, also those that got it in an earlier run.

    Raises:
        RefusedRecord, PolicyError: a row is refused. Nothing was appended.
        LogwrightError: the errors of planning and committing. What was committed is recorded, and
        a run with the same id does the rest.
    """
    prepare_log_dir(target.log_dir)
    return append_rows(target, partial(_stage, frame, target), before_commit=before_commit)


def _stage(
    frame: DataFrame,
    target: Target,
    slots: Sequence[TopicPartition],
    plans: Sequence[AppendPlan | None],
) -> dict[int, StagedAppend]:
    """Stage all rows, in a Spark job."""
    try:
        with spark_at_work():
            return _staged_rows(frame, target.topic, slots, plans)
    except PySparkException as error:
        raise _spark_error(error, target.log_dir) from error


def _staged_rows(
    frame: DataFrame,
    topic: str | None,
    slots: Sequence[TopicPartition],
    plans: Sequence[AppendPlan | None],
) -> dict[int, StagedAppend]:
    """Run the Spark job; return the result of each slot that has rows."""
    first = first_slots(slots)
    tasks = int(cast("str", frame.sparkSession.conf.get("spark.sql.shuffle.partitions")))
    rows = _canonical(frame, topic)
    placed = rows.mapInArrow(partial(_assign, first, tasks), _ROWS_DDL)
    ordered = placed.repartitionById(tasks, "task").sortWithinPartitions("slot", *_ORDER)
    results = ordered.mapInArrow(partial(_stage_rows, tuple(plans)), _RESULT_DDL).toArrow()
    staged: dict[int, StagedAppend] = {}
    for slot, pickled in zip(
        results["slot"].to_pylist(), results["result"].to_pylist(), strict=True
    ):
        # logwright's worker wrote it, over Spark's authenticated socket.
        result = pickle.loads(pickled)  # noqa: S301, TID251
        if isinstance(result, LogwrightError):
            raise result
        staged[slot] = result
    return staged


def _canonical(frame: DataFrame, topic: str | None) -> DataFrame:
    """Return the columns with the types that the tasks read."""
    names = [name for name in frame.columns if name not in _ORDER]
    foreign = sorted(set(names) - set(COLUMNS))
    if foreign or "value" not in names:
        problem = f"unknown column {foreign[0]!r}" if foreign else "the column value is missing"
        raise PolicyError(
            f"the input's columns are {', '.join(names)}: {problem}.",
            remedy=f"Valid columns are {', '.join(COLUMNS)}; value is required.",
        )
    if topic is None and "topic" not in names:
        raise PolicyError("rows have no column topic, and no topic was given.", remedy="Give one.")
    kinds = {one.name: one.dataType for one in frame.schema.fields}
    nothing = F.lit(None)
    columns = [
        (F.lit(topic) if topic is not None else F.col("topic")).cast("string").alias("topic"),
        (F.col("partition") if "partition" in kinds else nothing).cast("int").alias("partition"),
        *(_binary(name, kinds.get(name)) for name in ("key", "value")),
        (F.col("headers") if "headers" in kinds else nothing).cast(_HEADERS_DDL).alias("headers"),
        _milliseconds(kinds.get("timestamp")).alias("timestamp"),
    ]
    if "_row" in frame.columns:
        columns += [F.col(name) for name in _ORDER]
    else:
        columns += [F.lit("").alias("_file"), F.lit(0).cast("bigint").alias("_block")]
        columns.append(F.monotonically_increasing_id().alias("_row"))
    return frame.select(*columns)


def _binary(name: str, kind: T.DataType | None) -> Column:
    """Return text as UTF-8, and a nested value as its JSON."""
    if kind is None:
        return F.lit(None).cast("binary").alias(name)
    if isinstance(kind, T.StructType | T.ArrayType | T.MapType):
        return F.to_json(name).cast("binary").alias(name)
    if isinstance(kind, T.BinaryType | T.StringType):
        return F.col(name).cast("binary").alias(name)
    return F.col(name).cast("string").cast("binary").alias(name)


def _milliseconds(kind: T.DataType | None) -> Column:
    """Return a time as milliseconds since the epoch; the value may be a time, a number or text."""
    if kind is None:
        return F.lit(None).cast("bigint")
    column = F.col("timestamp")
    if isinstance(kind, T.TimestampType):
        return F.unix_millis(column)
    if isinstance(kind, T.StringType):
        number = F.when(column.rlike("^-?[0-9]+$"), column.cast("bigint"))
        return number.otherwise(F.unix_millis(column.cast("timestamp")))
    if isinstance(kind, T.TimestampNTZType | T.DateType):
        return F.unix_millis(column.cast("timestamp"))
    return column.cast("bigint")


def _assign(
    first: Mapping[str, tuple[int, int]], tasks: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the slot and the task of each row. Runs in a worker."""
    for batch in batches:
        if not len(batch):
            continue
        slot = place_rows(first, batch)
        task = ((slot + 1) % tasks).astype(np.int32)
        names = ("key", "value", "headers", "timestamp", *_ORDER)
        yield pa.RecordBatch.from_arrays(
            [pa.array(task), pa.array(slot), *(batch[name] for name in names)],
            names=["task", "slot", *names],
        )


def _stage_rows(
    plans: Sequence[AppendPlan | None], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Stage the rows, slot by slot; yield one result row for each slot. Runs in a worker."""
    appender: Appender | None = None
    current: int | None = None
    for slot, rows in _slots(batches):
        if slot != current:
            if current is not None and appender is not None:
                yield _result(current, _finish(appender))
            appender, current = None, slot
            plan = plans[slot] if slot >= 0 else None
            if slot < 0:
                yield _result(slot, no_such_partition())
            elif plan is not None:
                opened = _open(plan)
                appender = opened if isinstance(opened, Appender) else None
                if isinstance(opened, LogwrightError):
                    yield _result(slot, opened)
        if appender is not None:
            try:
                appender.add(rows)
            except LogwrightError as error:
                appender.discard()
                appender = None
                yield _result(slot, error)
    if current is not None and appender is not None:
        yield _result(current, _finish(appender))


def _slots(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the runs of rows of one slot."""
    for batch in batches:
        slots = batch["slot"].to_numpy(zero_copy_only=False)
        records = batch.select(SCHEMA.names)
        changes = np.flatnonzero(np.diff(slots)) + 1
        for begin, end in pairwise([0, *changes.tolist(), len(slots)]):
            if end > begin:
                yield int(slots[begin]), records.slice(begin, end - begin)


def _open(plan: AppendPlan) -> Appender | LogwrightError:
    try:
        return Appender(plan)
    except LogwrightError as error:
        return error


def _finish(appender: Appender) -> StagedAppend | LogwrightError:
    try:
        return appender.finish()
    except LogwrightError as error:
        appender.discard()
        return error


def _result(slot: int, result: StagedAppend | LogwrightError) -> pa.RecordBatch:
    row = {"slot": slot, "result": pickle.dumps(result)}
    return pa.RecordBatch.from_pylist([row], schema=_RESULT)


def _spark_error(error: PySparkException, path: Path | str) -> UnreadableFile:
    """Return the error by its class alone: its message may contain data of a row."""
    condition = error.getCondition() or type(error).__name__
    return UnreadableFile(
        f"Spark cannot read the input: {condition}.",
        path=path,
        remedy="Nothing was appended. Fix the input or the format's options.",
    )
