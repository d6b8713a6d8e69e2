"""Many partitions in one Spark job: each whole in one task, no shuffle of records.

1. The driver packs the partitions into bins by size (`logwright.spark.packing`).
2. The work list travels as a small frame, one row for each partition: bin, number, pickled
   arguments. In a closure it would be sent with every task.
3. `repartitionById` makes each bin one task (`repartition` hashes the bin's number: bins collide,
   cores idle).
4. The task calls the engine, `logwright.maintain`, for one row after the other. The engine reads
   the live log and writes staged files; it returns a small value.
5. One row comes back for each partition: a value, or its error. One partition's error does not stop
   the others.

Nothing here changes a live log; that is `maintain.commit`, in one process, under the locks.
"""

from __future__ import annotations

import gc
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar, cast

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from logwright import maintain
from logwright.compaction.model import CleanPlan, OutputFacts, StagedCleaning
from logwright.errors import LogwrightError, invariant
from logwright.spark.packing import pack
from logwright.spark.session import spark_at_work

_Value = TypeVar("_Value")

_WORK: Final = pa.schema([("bin", pa.int32()), ("number", pa.int64()), ("arguments", pa.binary())])
_RESULT: Final = pa.schema([("number", pa.int64()), ("result", pa.binary())])
_RESULT_DDL: Final = "number long, result binary"


class WorkerFault(LogwrightError):
    """A fault of ours in a worker; it says where in the code, and no more: values might hold a
    record's key.
    """


def clean_partitions(
    plans: Sequence[CleanPlan],
    spark: SparkSession,
) -> Iterator[tuple[StagedCleaning, OutputFacts] | LogwrightError]:
    """Build and examine the output of each plan. Effects: staged files.

    Returns:
        in the order of the plans: what was staged and what was found out about it, or the error.
    """
    yield from _each(_build_and_examine, [(plan,) for plan in plans], _sizes(plans), spark)


def build_partitions(
    plans: Sequence[CleanPlan],
    spark: SparkSession,
) -> Iterator[StagedCleaning | LogwrightError]:
    """Build the output of each plan. Effects: staged files.

    Returns:
        in the order of the plans: what was staged, or the error.
    """
    yield from _each(maintain.build, [(plan,) for plan in plans], _sizes(plans), spark)


def examine_partitions(
    plans_and_staged: Sequence[tuple[CleanPlan, StagedCleaning]],
    spark: SparkSession,
) -> Iterator[OutputFacts | LogwrightError]:
    """Read staged files back, and their sources.

    Returns:
        in the order given: what was found out about each, or the error.
    """
    sizes = _sizes([plan for plan, _ in plans_and_staged])
    yield from _each(maintain.examine, plans_and_staged, sizes, spark)


def _build_and_examine(plan: CleanPlan) -> tuple[StagedCleaning, OutputFacts]:
    staged = maintain.build(plan)
    return staged, maintain.examine(plan, staged)


def _sizes(plans: Sequence[CleanPlan]) -> list[int]:
    return [plan.compaction.total_bytes for plan in plans]


def _each(
    function: Callable[..., _Value],
    arguments: Sequence[tuple[object, ...]],
    sizes: Sequence[int],
    spark: SparkSession,
) -> Iterator[_Value | LogwrightError]:
    """Call a module-level function once for each tuple of arguments, in one Spark job; results in
    their order.

    Raises:
        SparkDied: and so did the job.
    """
    if not arguments:
        return
    tasks = int(cast("str", spark.conf.get("spark.sql.shuffle.partitions")))
    bins = pack(sizes, tasks)
    work = pa.Table.from_pylist(
        [
            {"bin": number, "number": item, "arguments": pickle.dumps(arguments[item])}
            for number, items in enumerate(bins)
            for item in items
        ],
        schema=_WORK,
    )
    with spark_at_work(PySparkException):
        frame = spark.createDataFrame(work).repartitionById(len(bins), "bin")
        result = frame.mapInArrow(partial(_run_bin, function), _RESULT_DDL).toArrow()
    results = dict(zip(result["number"].to_pylist(), result["result"].to_pylist(), strict=True))
    invariant(
        results.keys() == set(range(len(arguments))),
        "a partition's row did not come back from Spark",
    )
    for number in range(len(arguments)):
        # Our own worker wrote it, over Spark's authenticated socket.
        yield pickle.loads(results[number])  # noqa: S301, TID251


def _run_bin(
    function: Callable[..., object],
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """In the worker: call `function` for each row of one bin."""
    for batch in batches:
        rows = []
        for number, pickled in zip(
            batch["number"].to_pylist(),
            batch["arguments"].to_pylist(),
            strict=True,
        ):
            rows.append(_run(function, number, pickled))
            _freeze_once()
        yield pa.RecordBatch.from_pylist(rows, schema=_RESULT)


def _run(function: Callable[..., object], number: int, pickled: bytes) -> dict[str, object]:
    arguments = pickle.loads(pickled)  # noqa: S301, TID251 - from our own driver
    result: object
    try:
        result = function(*arguments)
    except LogwrightError as error:
        result = error
    except Exception as fault:  # noqa: BLE001 - one log's must not stop the others; the driver reports it
        result = _worker_fault(fault)
    return {"number": number, "result": pickle.dumps(result)}


def _worker_fault(fault: Exception) -> WorkerFault:
    frames = traceback.extract_tb(fault.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else "?"
    return WorkerFault(
        f"{type(fault).__name__} at {place}",
        remedy="This is a fault of logwright: please report it.",
    )


_frozen = False


def _freeze_once() -> None:
    """Take what is loaded out of the garbage collector's sight, once, after the kernels ran for the
    first time.

    Spark's daemon calls `gc.collect()` after every task: 40 to 110 ms each with numba and pyarrow
    loaded.
    """
    global _frozen  # noqa: PLW0603 - once for each worker process
    if not _frozen:
        gc.collect()
        gc.freeze()
        _frozen = True
