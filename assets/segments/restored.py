"""A run that is executed again from a failed step does the work of the earlier steps again.

Only logs that are still due take part: those that the first run has swapped are in order now.
"""

from pathlib import Path
from typing import Final

import dagster as dg

from logwright.assets.segments.in_bucket import sweep_those_in_buckets
from logwright.assets.segments.quality import examine_and_judge
from logwright.compaction.model import CleaningOptions
from logwright.place.model import Place
from logwright.resources.states import LostState
from logwright.spark.sweep import SparkExecutor
from logwright.sweep.model import SweepState, local_part
from logwright.sweep.prepare import prepare
from logwright.sweep.stages import build_all, discard_failed, unstaged_on_error

NEEDED: Final = frozenset({"log_dirs", "policies", "clock", "spark"})
"""Resources of a step that calls `restored`."""
FIRST_RUN: Final = "dagster/root_run_id"
"""Dagster's tag of a run that executes another one again."""


def first_run(context: dg.OpExecutionContext) -> str:
    """Return the id of the run, of one that is executed again that of the first."""
    return context.run.tags.get(FIRST_RUN, context.run_id)


def restored(
    context: dg.OpExecutionContext, state: SweepState[Place], *, before: str
) -> SweepState[Place]:
    """Return the state, or make it again if another process had it.

    Args:
        context: of a step with the resources `NEEDED`.
        state: as the step gets it.
        before: the step that needs it: ``roll``, ``dedupe``, ``quality`` or ``swap``.

    Raises:
        LogwrightError: the policies cannot be read.
    """
    if not isinstance(state, LostState):
        return state
    context.log.info("another process had the state of this run: its earlier steps are done again")
    resources = context.resources
    state = prepare(
        SweepState(works=state.works, now_ms=resources.clock.now_ms()),
        resources.policies.settings(),
        CleaningOptions(force=state.force, like_kafka=state.like_kafka),
    )
    if before in ("roll", "dedupe"):
        return state
    executor = SparkExecutor(lambda: resources.spark.session)
    here = local_part(state)
    with unstaged_on_error(here):
        here = build_all(here, executor)
        discard_failed(here)
        state = sweep_those_in_buckets(
            state.with_works(here.works),
            resources.policies.load(),
            executor,
            run=first_run(context),
        )
        if before == "quality":
            return state
        storage = Path(context.instance.storage_directory())
        state, judgement = examine_and_judge(
            state, resources.policies.load(), executor, storage=storage, run_name=context.run_id
        )
    state = judgement.applied_to(state)
    discard_failed(local_part(state))
    return state
