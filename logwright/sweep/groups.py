"""Call a function of the engine for many logs in one process: the same for ``--engine local`` and
in a Spark task.

1. A log that is large has several threads. Its staged files are written to the disk while the next
   ones are made.
2. A small log waits for the disk longer than it works. So small logs are built in groups, and the
   files of a group become durable together while the next group is built.
3. One log's error does not stop the others.

Nothing here changes a live log; that is the commit, in one process, under the locks.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, cast

from logwright import maintain
from logwright.compaction.model import CleanPlan
from logwright.compaction.runtime import Runtime, Throttle
from logwright.compaction.unsynced import Unsynced
from logwright.errors import LogwrightError

SMALL_LOG_BYTES: Final = 16 * 1024 * 1024
"""Logs up to this size wait for the disk more than they work."""
SMALL_LOGS_TOGETHER: Final = 16
SYNC_THREADS: Final = 4
"""Threads that wait for the disk, each for one log at a time."""

Arguments = tuple[object, ...]
Results = list[tuple[int, object]]
"""The number of each call, and what it returned or the error that it raised."""


class WorkerFault(LogwrightError):
    """A programming error while a log was cleaned. It names the place in the code, and nothing
    else: values might hold a record's key.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Calls of the engine's function: for one large log, or for some small ones.

    Attributes:
        numbers: of the calls.
        arguments: of each call; the first is its `CleanPlan`.
        small: their files become durable together.
        threads: per log.
    """

    numbers: Sequence[int]
    arguments: Sequence[Arguments]
    small: bool
    threads: int


def together(items: Sequence[int], sizes: Sequence[int]) -> Iterator[list[int]]:
    """Cut items into groups, in their order: each large log alone, of small ones that follow each
    other up to `SMALL_LOGS_TOGETHER`.
    """
    group: list[int] = []
    for item in items:
        large = sizes[item] > SMALL_LOG_BYTES
        if group and (large or len(group) == SMALL_LOGS_TOGETHER):
            yield group
            group = []
        if large:
            yield [item]
        else:
            group.append(item)
    if group:
        yield group


def run_groups(
    function: Callable[..., object], groups: Iterable[Group], throttle: Throttle
) -> Iterator[Results]:
    """Call `function` for each log, with the keyword argument `runtime`. Return the results of each
    group, in their order, when all staged files of the group are durable.

    Effects: as the function's; threads that wait for the disk.
    """
    waiting: deque[list[Future[tuple[int, object]]]] = deque()
    with ThreadPoolExecutor(SYNC_THREADS) as pool:
        for group in groups:
            waiting.append(_run_group(function, group, throttle, pool))
            while len(waiting) > group.small:
                yield [each.result() for each in waiting.popleft()]
        while waiting:
            yield [each.result() for each in waiting.popleft()]


def _run_group(
    function: Callable[..., object], group: Group, throttle: Throttle, pool: Executor
) -> list[Future[tuple[int, object]]]:
    done = []
    for number, arguments in zip(group.numbers, group.arguments, strict=True):
        files = Unsynced()
        sync = files.add if group.small else files.start
        runtime = Runtime(threads=group.threads, throttle=throttle, sync=sync)
        done.append((number, files, *_run(function, arguments, runtime)))
    for _, files, _, _ in done:
        files.begin()
    return [pool.submit(_sync, *each) for each in done]


def _run(
    function: Callable[..., object], arguments: Arguments, runtime: Runtime
) -> tuple[CleanPlan, object]:
    """Call it; (the plan that the call is about, the result or the error)."""
    result: object
    try:
        result = function(*arguments, runtime=runtime)
    except LogwrightError as error:
        result = error
    except Exception as fault:  # noqa: BLE001 - one log's must not stop the others; the caller reports it
        result = _worker_fault(fault)
    return cast("CleanPlan", arguments[0]), result


def _sync(number: int, files: Unsynced, plan: CleanPlan, result: object) -> tuple[int, object]:
    """Make the files of a log durable, unless it failed; its number and its result."""
    if isinstance(result, LogwrightError):
        files.release()
    else:
        try:
            files.finish()
        except OSError as error:
            result = maintain.give_up(plan, error)
    return number, result


def _worker_fault(fault: Exception) -> WorkerFault:
    frames = traceback.extract_tb(fault.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name}" if frames else "?"
    return WorkerFault(
        f"{type(fault).__name__} at {place}",
        remedy="This is a fault of logwright: please report it.",
    )
