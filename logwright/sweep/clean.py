"""Build, examine, judge and commit as one stream."""

from __future__ import annotations

from collections import deque
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from logwright.errors import LogwrightError
from logwright.sweep.build import build_and_examine
from logwright.sweep.executor import call_builds
from logwright.sweep.model import SweepState
from logwright.sweep.order import plans_of
from logwright.sweep.stages import (
    Judge,
    brokers_kept_out,
    commit_each,
    discard,
    judged,
    plan_all,
    to_clean,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from logwright.log.committed import HighWatermark
    from logwright.sweep.executor import Executor
    from logwright.sweep.model import LogSettings, LogWork
    from logwright.units import TimestampMs


def clean_logs(
    state: SweepState, executor: Executor, judge: Judge = judged
) -> Generator[LogWork, None, None]:
    """Clean each log that its plan changes. What is built is committed while the next logs are
    built. Effects: changes the logs, under the locks; removes what is staged for logs that fail or
    are not reached.

    Args:
        state: the logs.
        executor: builds and examines.
        judge: decides about each log that was examined.

    Returns:
        each log as it ends: committed, or failed.
    """
    building = to_clean(state)
    keys = {work.key for work in building}
    only_rolled = [work for work in state.going_on if work.changes and work.key not in keys]
    yield from commit_each([only_rolled])
    refused: list[LogWork] = []
    failed: deque[LogWork] = deque()
    with brokers_kept_out(building, refused) as works:
        yield from refused
        open_works = {work.key: work for work in works}
        try:
            with closing(commit_each(_built(works, executor, failed, judge))) as committed:
                for work in committed:
                    while failed:
                        yield _ended(failed.popleft(), open_works)
                    yield _ended(work, open_works)
            while failed:
                yield _ended(failed.popleft(), open_works)
        finally:
            discard(open_works.values())


def _built(
    works: Sequence[LogWork], executor: Executor, failed: deque[LogWork], judge: Judge
) -> Iterator[list[LogWork]]:
    """Yield the logs that are built and pass all checks, as they become ready; the others are
    appended to `failed`.
    """
    by_plan = {one.plan_id: work for work, one in zip(works, plans_of(works), strict=True)}
    for outcomes in call_builds(executor, build_and_examine, plans_of(works)):
        ready: list[LogWork] = []
        for plan, result in outcomes:
            work = by_plan[plan.plan_id]
            if isinstance(result, LogwrightError):
                work = work.failed(result)
            else:
                work = judge(replace(work, staged=result[0], facts=result[1]))
            (ready if work.failure is None else failed).append(work)
        yield ready


def _ended(work: LogWork, open_works: dict[str, LogWork]) -> LogWork:
    """Return the work, which has ended. Effects: removes what is staged for a log that failed."""
    del open_works[work.key]
    if work.failure is not None:
        discard([work])
    return work


def plan_again(
    ended: Sequence[LogWork],
    settings: LogSettings,
    *,
    now_ms: TimestampMs,
    high_watermark: HighWatermark,
) -> SweepState:
    """Plan a further pass over the logs that were cleaned by the one before. Effects: reads.

    The ratio and the lag counted in the first pass. A further one only needs something that is
    cleanable.
    """
    cleaned = [work for work in ended if work.failure is None and work.staged is not None]
    blank = [replace(work, plan=None, staged=None, facts=None, result=None) for work in cleaned]
    state = SweepState(works=tuple(blank), now_ms=now_ms)
    if not cleaned:
        return state
    options = replace(plans_of(cleaned)[0].options, force=True)
    return plan_all(state, settings, options=options, high_watermark=high_watermark)
