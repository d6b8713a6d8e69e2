"""Where the stages `build` and `examine` run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from logwright.batches.runtime import Runtime, Throttle, available_cores
from logwright.errors import LogwrightError
from logwright.live_plans import end_plan, hold_plan
from logwright.sweep.calls import SMALL_LOG_BYTES, Group, call_groups, together

if TYPE_CHECKING:
    from logwright.compaction.model import CleanPlan, ReadablePlan

Value = TypeVar("Value")
Results = Iterator[Sequence[Value | LogwrightError]]
"""Results in the order of the calls, as many at a time as become ready together."""


class Executor(Protocol):
    """Calls a stage of `logwright.sweep.build` for many logs, each for itself."""

    def call_each(
        self, function: Callable[..., Value], arguments: Sequence[tuple[Any, ...]]
    ) -> Results[Value]:
        """Call a function of a module once for each tuple of arguments, the first of which is the
        log's plan. Effects: those of the function.

        Returns:
            the result or the error of each call, once its files are durable.
        """


class LocalExecutor:
    """Calls in this process, in the order of the logs: large logs one after the other with all
    threads, small logs with one thread while the files of the logs before become durable.

    More threads for small logs would not help: half of the work on them is Python.
    """

    def __init__(
        self,
        *,
        threads: int | None = None,
        progress: Callable[[CleanPlan, str, int, int], None] | None = None,
    ) -> None:
        """Make an executor of this process.

        Args:
            threads: threads for one large log, or for a log that is the only one; None: one for
                each core.
            progress: called with the log's plan, the phase, bytes done and bytes in all.
        """
        self._threads = threads or available_cores()
        self._progress = progress

    def call_each(
        self, function: Callable[..., Value], arguments: Sequence[tuple[Any, ...]]
    ) -> Results[Value]:
        """Call the function for each; see `Executor`. Effects: those of the function; progress."""
        plans: list[CleanPlan] = [each[0] for each in arguments]
        sizes = [plan.compaction.total_bytes for plan in plans]
        alone = len(plans) == 1
        groups = (
            Group(
                small=(small := sizes[numbers[0]] <= SMALL_LOG_BYTES and not alone),
                threads=1 if small else self._threads,
                arguments=[arguments[number] for number in numbers],
            )
            for numbers in together(sizes, range(len(plans)))
        )
        yield from call_groups(self._shown(function), groups, Throttle(lowest_rate(plans)))

    def call_sized(
        self,
        function: Callable[..., Value],
        arguments: Sequence[tuple[Any, ...]],
        sizes: Sequence[int],
        *,
        bytes_per_second: float,
    ) -> Iterator[Value | LogwrightError]:
        """Call a function that works on a part of a log, for one part after the other; see
        `logwright.maintenance.split.run.Caller`. Effects: those of the function.
        """
        groups = (
            Group(small=False, threads=self._threads, arguments=[each])
            for each, _ in zip(arguments, sizes, strict=True)
        )
        for results in call_groups(function, groups, Throttle(bytes_per_second)):
            yield from results

    def _shown(self, function: Callable[..., Value]) -> Callable[..., Value]:
        """Return the function with its progress."""
        show = self._progress
        if show is None:
            return function

        def call(plan: CleanPlan, *rest: object, runtime: Runtime) -> Value:
            return function(plan, *rest, runtime=runtime, progress=partial(show, plan))

        return call


def call_builds(
    executor: Executor, function: Callable[..., Value], plans: Sequence[CleanPlan]
) -> Iterator[list[tuple[CleanPlan, Value | LogwrightError]]]:
    """Call a function that builds, for each plan. Effects: those of the function. The plans are
    alive in this process from now on; those that cannot be built are over.

    Returns:
        each plan with its result or error, as many at a time as become ready together.
    """
    going: list[CleanPlan] = []
    refused: list[tuple[CleanPlan, Value | LogwrightError]] = []
    for plan in plans:
        try:
            hold_plan(plan.log.log_dir, plan.plan_id)
        except LogwrightError as error:
            refused.append((plan, error.as_value()))
        else:
            going.append(plan)
    if refused:
        yield refused
    left = iter(going)
    for results in executor.call_each(function, [(plan,) for plan in going]):
        outcomes = [(next(left), result) for result in results]
        for plan, result in outcomes:
            if isinstance(result, LogwrightError):
                end_plan(plan.log.log_dir, plan.plan_id)
        yield outcomes


def lowest_rate(plans: Sequence[ReadablePlan]) -> float:
    """Return the bytes per second that cleanings of these logs together may read and write: the
    lowest ``log.cleaner.io.max.bytes.per.second``.
    """
    return min((plan.cleaner.io_max_bytes_per_second for plan in plans), default=inf)
