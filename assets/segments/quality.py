"""The gate before the swap: every check on the staged output of every log of a state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg

from logwright.assets.lib.evaluations import evaluations_of
from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.assets.lib.verdict import CHECKS, LOG_PROFILE
from logwright.assets.segments.in_bucket import refused, values_of
from logwright.assets.segments.judgement import Judgement, judge
from logwright.assets.segments.values import value_verdicts
from logwright.config.policies import Policies
from logwright.place.model import Place
from logwright.sweep.executor import Executor
from logwright.sweep.model import SweepState, local_part
from logwright.sweep.stages import examine_all


def examine_and_judge(
    state: SweepState[Place],
    policies: Policies,
    executor: Executor,
    *,
    storage: Path,
    run_name: str,
) -> tuple[SweepState[Place], Judgement]:
    """Read the staged output back and judge it; that of a log in a bucket was read where it was
    swept. Effects: those of `examine_all`, `value_verdicts` and `judge`.
    """
    examined, values = value_verdicts(examine_all(local_part(state), executor), policies, executor)
    state = state.with_works(examined.works)
    values |= values_of(state)
    judgement = judge(state, policies, values, storage=storage, run_name=run_name)
    return state, replace(judgement, failures={**refused(state), **judgement.failures})


def check_evaluations(
    state: SweepState[Place], judgement: Judgement
) -> Iterable[dg.AssetCheckEvaluation]:
    """Yield the evaluations of every check of a cleaning that was made; see `evaluations_of`.

    A failed check blocks (fails the step) only if no log is left: Dagster cannot block single
    partitions.
    """
    docs: dict[str, Any] = {}
    if judgement.data_docs is not None:
        docs["data docs"] = dg.MetadataValue.path(str(judgement.data_docs))
    yield from evaluations_of(
        SEGMENT_SET,
        CHECKS,
        judgement.verdicts,
        unstaged=[work.key for work in state.works if work.failure is None and work.staged is None],
        blocking=not state.going_on,
        more={LOG_PROFILE: docs},
    )
