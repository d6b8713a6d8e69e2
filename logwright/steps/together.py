"""Execute the file steps of several plans in parallel: they wait for the disk together.

Plans of different partitions share nothing, and a journal commit of the file system makes durable
what all of them did so far. So each plan is executed up to its next fsyncs; when all have arrived
there, the fsyncs are made at the same time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.steps.interpreter import until_synced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Executor

    from logwright.steps.filesystem import FileSystem
    from logwright.steps.step import FileStep

    _Sync = Callable[[], None]


def execute_together(
    plans: Sequence[tuple[Iterable[FileStep], FileSystem]], pool: Executor | None, threads: int
) -> list[Exception | None]:
    """Execute the steps of each plan in their order. Effects: those of the steps.

    Args:
        plans: each with a file system of its own.
        pool: makes the fsyncs; None: they are made here.
        threads: of the pool.

    Returns:
        for each plan the error that ended it, as `logwright.steps.interpreter.execute` raises it;
        None if it is complete. An error of one does not stop the others.
    """
    ended: list[Exception | None] = [None] * len(plans)
    running = {number: until_synced(*plan) for number, plan in enumerate(plans)}
    while running:
        syncs: list[tuple[int, _Sync]] = []
        for number, plan in running.items():
            try:
                syncs.append((number, next(plan)))
            except StopIteration:
                pass
            except Exception as error:  # noqa: BLE001 -- returned to the caller
                ended[number] = error
        shares = [syncs[first::threads] for first in range(min(threads, len(syncs)))]
        for share in map(_sync, shares) if pool is None else pool.map(_sync, shares):
            for number, failure in share:
                ended[number] = failure
        running = {number: running[number] for number, _ in syncs if ended[number] is None}
    return ended


def _sync(share: Iterable[tuple[int, _Sync]]) -> list[tuple[int, Exception | None]]:
    return [(number, _error_of(sync)) for number, sync in share]


def _error_of(sync: _Sync) -> Exception | None:
    try:
        sync()
    except Exception as error:  # noqa: BLE001 -- returned to the caller
        return error
    return None
