"""Many logs in one Spark job: each whole in one task, no shuffle of records.

1. The driver packs the logs into bins by size (`logwright.spark.packing`).
2. The work list travels as an RDD with a partition for each bin. In a closure it would be sent with
   every task. No SQL is needed, whose first query costs Spark some seconds.
3. A Connect server has no RDDs: there the list is a small frame, and `repartitionById` makes each
   bin one task (`repartition` hashes the bin's number: bins collide, cores idle).
4. The task calls the engine for one log after the other (`logwright.sweep.calls`). The engine reads
   the live log and writes staged files; it returns a small value.
5. One value comes back for each log, or its error. An error of one log does not stop the others.
6. A log that is most of the work is done by several threads of its task.
7. ``log.cleaner.io.max.bytes.per.second`` is for the whole sweep: each task that can run at the
   same time has an equal share of it.

Nothing here changes a live log; `logwright.sweep.commit` does, in one process, under the locks.
"""

from __future__ import annotations

import gc
import pickle
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cache, partial
from itertools import chain
from math import inf
from threading import Thread
from typing import TYPE_CHECKING, Final, TypeVar, cast

from pyspark import SparkContext
from pyspark.errors import PySparkException

from logwright.batches.runtime import Throttle
from logwright.compaction.model import CleanPlan, ReadablePlan
from logwright.errors import LogwrightError, invariant
from logwright.spark.packing import pack, share_cores
from logwright.spark.session import TASKS_PER_CORE, cluster_context, local_context, spark_at_work
from logwright.sweep.calls import SMALL_LOG_BYTES, Group, call_groups, together
from logwright.sweep.executor import lowest_rate
from logwright.units import INT32_MAX

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from logwright.sweep.executor import Results

_Value = TypeVar("_Value")
Arguments = tuple[object, ...]

_RESULTS_DDL: Final = "results binary"
CANCEL_SECONDS: Final = 30
"""How long an interrupted process waits until the tasks of its job have ended."""
CANCEL_POLL_SECONDS: Final = 0.1
KILL_SECONDS: Final = 3
"""Spark waits 2 s (``spark.python.task.killTimeout``) before it kills the worker of a task."""
_LOCAL: Final = re.compile(r"local\[([0-9]+)(?:,[0-9]+)?\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """Calls of the engine's function one after the other: for some small logs, or one that is not.

    Attributes:
        arguments: of each call, pickled together: plans have much in common.
    """

    bin: int
    small: bool
    threads: int
    numbers: list[int]
    arguments: bytes


class SparkExecutor:
    """Calls a stage of a sweep as Spark tasks; see `logwright.sweep.executor.Executor`."""

    def __init__(self, session: Callable[[], SparkSession | SparkContext]) -> None:
        """Make an executor. `session`: is asked for a session only if there is something to do."""
        self._session = session

    def call_each(
        self, function: Callable[..., _Value], arguments: Sequence[Arguments]
    ) -> Results[_Value]:
        """Call the function for each, in Spark's workers; see `Executor`. Effects: those of the
        function.
        """
        plans = [cast("CleanPlan", each[0]) for each in arguments]
        yield from self.call_planned(function, arguments, plans)

    def call_planned(
        self,
        function: Callable[..., _Value],
        arguments: Sequence[Arguments],
        plans: Sequence[ReadablePlan],
    ) -> Results[_Value]:
        """Call the function for each log. Effects and returns: as `call_each`.

        Args:
            plans: of the logs; their sizes and limits decide how the calls are spread.
        """
        if arguments:
            yield list(_each_log(function, arguments, plans, self._session()))

    def call_sized(
        self,
        function: Callable[..., _Value],
        arguments: Sequence[Arguments],
        sizes: Sequence[int],
        *,
        bytes_per_second: float,
    ) -> Iterator[_Value | LogwrightError]:
        """Call a function that works on a part of a log; see
        `logwright.maintenance.split.run.Caller`. Effects: those of the function, in Spark's
        workers.
        """
        yield from _each(
            function, arguments, sizes, self._session(), bytes_per_second=bytes_per_second
        )


@contextmanager
def executor_of(master: str | None, say_start: Callable[[], None]) -> Iterator[SparkExecutor]:
    """Open an executor whose session starts when it is first needed. Effects: the session ends on
    leaving.

    Args:
        master: of a cluster; None: this machine.
        say_start: is called before that.
    """
    with ExitStack() as stack:

        @cache
        def session() -> SparkContext:
            say_start()
            return stack.enter_context(
                local_context() if master is None else cluster_context(master)
            )

        yield SparkExecutor(session)


def _context(spark: SparkSession | SparkContext) -> SparkContext | None:
    """Return a session's context; None for a Spark Connect session."""
    if isinstance(spark, SparkContext):
        return spark
    return cast("SparkContext | None", getattr(spark, "sparkContext", None))


def _cores(spark: SparkSession | SparkContext) -> tuple[int, int]:
    """Return (cores for tasks, the most that one task may have). On one machine a task may have
    all; on a cluster ``spark.task.cpus`` of them.
    """
    context = _context(spark)
    # What a session holds is asked of its context: its own answer needs all of SQL.
    settings = cast("SparkSession", spark).conf if context is None else context.getConf()
    tasks = int(cast("str", settings.get("spark.sql.shuffle.partitions", None)))
    cores = max(tasks // TASKS_PER_CORE, 1)
    master = settings.get("spark.master", "") or ""
    if not master.startswith("local"):
        if context is not None:
            cores = max(cores, context.defaultParallelism)  # those that it has by now
        return cores, int(settings.get("spark.task.cpus", "1") or 1)
    given = _LOCAL.fullmatch(master)
    cores = int(given[1]) if given else cores
    return cores, cores


@contextmanager
def _canceled_on_exit(context: SparkContext) -> Iterator[None]:
    """Cancel the job when this process is interrupted, and wait until its tasks have ended: what
    they stage would be written after the caller has removed it.
    """
    try:
        yield
    except (Exception, GeneratorExit):
        raise
    except BaseException:
        # This thread's connection to the JVM still waits for the job's result.
        thread = Thread(target=_cancel, args=(context,))
        thread.start()
        thread.join()
        raise


def _cancel(context: SparkContext) -> None:
    """Effects: cancels all jobs; Spark kills the Python workers of tasks that do not end."""
    context.cancelAllJobs()
    tracker = context.statusTracker()
    deadline = time.monotonic() + CANCEL_SECONDS
    while time.monotonic() < deadline:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if not any(stage is not None and stage.numActiveTasks for stage in stages):
            break
        time.sleep(CANCEL_POLL_SECONDS)
    time.sleep(KILL_SECONDS)


def _each_log(
    function: Callable[..., _Value],
    arguments: Sequence[Arguments],
    plans: Sequence[ReadablePlan],
    spark: SparkSession | SparkContext,
) -> Iterator[_Value | LogwrightError]:
    """Call the function for each plan, for ``log.cleaner.threads`` logs at once; see `_each`."""
    sizes = [plan.compaction.total_bytes for plan in plans]
    rate = lowest_rate(plans)
    threads = [plan.cleaner.threads for plan in plans if plan.cleaner.threads is not None]
    most = max(min(threads, default=INT32_MAX), 1)
    yield from _each(function, arguments, sizes, spark, bytes_per_second=rate, at_once=most)


def _each(
    function: Callable[..., _Value],
    arguments: Sequence[Arguments],
    sizes: Sequence[int],
    spark: SparkSession | SparkContext,
    *,
    bytes_per_second: float = inf,
    at_once: int = INT32_MAX,
) -> Iterator[_Value | LogwrightError]:
    """Call a module-level function once for each tuple of arguments, in one Spark job; results in
    their order.

    Args:
        bytes_per_second: that all of them together may read and write.
        at_once: maximum number of calls that run at the same time.

    Raises:
        SparkDied: and so did the job.
    """
    if not arguments:
        return
    cores, most_threads = _cores(spark)
    bins = pack(sizes, min(TASKS_PER_CORE * cores, at_once))
    rate = bytes_per_second / min(len(bins), cores)
    threads = [min(each, most_threads) for each in share_cores(sizes, cores)]
    calls = [
        [
            _Calls(
                bin=number,
                small=sizes[some[0]] <= SMALL_LOG_BYTES,
                threads=threads[some[0]],
                numbers=some,
                arguments=pickle.dumps([arguments[item] for item in some]),
            )
            for some in together(sizes, items)
        ]
        for number, items in enumerate(bins)
    ]
    run = partial(_run_bin, function, rate)
    context = _context(spark)
    with spark_at_work(PySparkException):
        if context is None:
            results = _by_frame(cast("SparkSession", spark), run, calls)
        else:
            with _canceled_on_exit(context):
                results = context.parallelize(calls, len(calls)).flatMap(run).collect()
    # logwright's worker wrote them, over Spark's authenticated socket.
    by_number = dict(chain.from_iterable(map(pickle.loads, results)))  # noqa: TID251
    invariant(
        by_number.keys() == set(range(len(arguments))),
        "a partition's result did not come back from Spark",
    )
    for number in range(len(arguments)):
        yield by_number.pop(number)


_Run = Callable[[Sequence[_Calls]], list[bytes]]


def _by_frame(spark: SparkSession, run: _Run, calls: Sequence[Sequence[_Calls]]) -> list[bytes]:
    """Return the results, by a job of SQL."""
    import pyarrow as pa  # noqa: PLC0415 -- a local session needs none of it

    rows = [asdict(call) for some in calls for call in some]
    types = (pa.int32(), pa.bool_(), pa.int32(), pa.list_(pa.int64()), pa.binary())
    names = [field.name for field in fields(_Calls)]
    table = pa.Table.from_pylist(rows, schema=pa.schema(list(zip(names, types, strict=True))))
    frame = spark.createDataFrame(table).repartitionById(len(calls), "bin")
    results: list[bytes] = (
        frame.mapInArrow(partial(_run_batches, run), _RESULTS_DDL).toArrow()["results"].to_pylist()
    )
    return results


def _run_batches(run: _Run, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the results of `run` for the bins of a frame's task. Runs in a worker."""
    import pyarrow as pa  # noqa: PLC0415

    for batch in batches:
        results = run([_Calls(**row) for row in batch.to_pylist()])
        yield pa.RecordBatch.from_arrays([pa.array(results)], ["results"])


def _run_bin(
    function: Callable[..., object], bytes_per_second: float, calls: Sequence[_Calls]
) -> list[bytes]:
    """Call `function` for each log of one bin; return the results of each group pickled together:
    they have as much in common as plans. Runs in a worker.
    """
    groups = (
        # From logwright's driver.
        Group(small=each.small, threads=each.threads, arguments=pickle.loads(each.arguments))  # noqa: S301, TID251
        for each in calls
    )
    results = []
    for each, outcomes in zip(
        calls, call_groups(function, groups, Throttle(bytes_per_second)), strict=True
    ):
        results.append(pickle.dumps(list(zip(each.numbers, outcomes, strict=True))))
        _freeze_once()
    return results


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
