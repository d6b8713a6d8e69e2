"""Call `build` or `examine` for one log after the other, in this process or in a Spark worker.

1. A small log is built and examined in a few ms, and its files are durable after as many ms of
   waiting for the disk. So the files of some small logs become durable together, while the next
   logs are built.
2. The files of a large log are written to the disk while it is built and examined.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from logwright.batches.runtime import Runtime
from logwright.errors import LogwrightError
from logwright.rewrite.staging import give_up
from logwright.rewrite.unsynced import Unsynced

if TYPE_CHECKING:
    from logwright.batches.runtime import Throttle
    from logwright.compaction.model import CleanPlan

Value = TypeVar("Value")

SMALL_LOG_BYTES: Final = 16 * 1024 * 1024
"""Logs up to this size wait for the disk longer than they compute."""
SMALL_LOGS_TOGETHER: Final = 16
"""Small logs whose files become durable together."""
SYNC_THREADS: Final = 4
"""Threads that wait for the disk, each for one log at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Calls of one function, for some small logs or for one that is not.

    Attributes:
        small: whether the logs are small.
        threads: threads for each log.
        arguments: of each call; the first one is the log's plan.
    """

    small: bool
    threads: int
    arguments: Sequence[tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Called:
    """A call that has ended. `files`: those of the log that are not durable yet."""

    plan: CleanPlan
    files: Unsynced
    result: Any


class WorkerFault(LogwrightError):
    """A bug in logwright. It names only the place in the code: values might hold a key."""


def together(sizes: Sequence[int], items: Iterable[int]) -> Iterator[list[int]]:
    """Split items into groups, in their order: each large log alone, adjacent small logs together.

    Args:
        sizes: bytes of each log.
        items: indexes into `sizes`.
    """
    some: list[int] = []
    for item in items:
        small = sizes[item] <= SMALL_LOG_BYTES
        if some and (not small or len(some) == SMALL_LOGS_TOGETHER):
            yield some
            some = []
        if small:
            some.append(item)
        else:
            yield [item]
    if some:
        yield some


def call_groups(
    function: Callable[..., Value], groups: Iterable[Group], throttle: Throttle
) -> Iterator[list[Value | LogwrightError]]:
    """Call the function for each log. Effects: those of the function.

    Args:
        function: takes the arguments of a call, and `runtime`.
        groups: in the order in which they are worked on.
        throttle: what all calls together may read and write.

    Returns:
        for each group in order: the result or the error of each call, once its files are durable.
        A group of small logs comes one group late: the next one is built while it becomes durable.
    """
    waiting: deque[list[Future[Value | LogwrightError]]] = deque()
    with ThreadPoolExecutor(SYNC_THREADS) as pool:
        for group in groups:
            if not group.small:
                while waiting:
                    yield _results(waiting)
            called = [_call(function, arguments, group, throttle) for arguments in group.arguments]
            if not group.small:
                yield [_durable(each) for each in called]
                continue
            for each in called:
                each.files.begin()
            waiting.append([pool.submit(_durable, each) for each in called])
            if len(waiting) > 1:
                yield _results(waiting)
        while waiting:
            yield _results(waiting)


def _results(waiting: deque[list[Future[Value]]]) -> list[Value]:
    return [future.result() for future in waiting.popleft()]


def _call(
    function: Callable[..., Value], arguments: tuple[Any, ...], group: Group, throttle: Throttle
) -> _Called:
    """Call the function for one log. Effects: those of the function."""
    files = Unsynced()
    sync = files.add if group.small else files.start
    runtime = Runtime(threads=group.threads, throttle=throttle, sync=sync)
    result: Value | LogwrightError
    try:
        result = function(*arguments, runtime=runtime)
    except LogwrightError as error:
        result = error
    except Exception as fault:  # noqa: BLE001 - one log's must not stop the others; it is reported
        result = _worker_fault(fault)
    return _Called(plan=arguments[0], files=files, result=result)


def _durable(called: _Called) -> Any:  # noqa: ANN401 -- what the function returns
    """Make a log's files durable; return its result, or the error that this ended with."""
    if isinstance(called.result, LogwrightError):
        called.files.release()
        return called.result
    try:
        called.files.finish()
    except OSError as error:
        return give_up(called.plan, error)
    return called.result


def _worker_fault(fault: Exception) -> WorkerFault:
    frames = traceback.extract_tb(fault.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else "?"
    return WorkerFault(
        f"{type(fault).__name__} at {place}",
        remedy="This is a bug in logwright: please report it.",
    )
