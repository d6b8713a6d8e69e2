"""A run that is executed again from one of its steps: it gets logs that are only planned, and does
what the process before had done in memory.
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.segment_set import quality
from logwright.pipelines.sweep import plan_sweep, swap_sweep
from logwright.resources.states import SweepStates, request_of, write_request
from logwright.sweep.model import SweepState
from logwright.units import TimestampMs
from tests.e2e.harness import (
    MARKS,
    POLICY,
    evaluations,
    failed_checks,
    make_platform,
    staged_files,
    tree,
)

pytestmark = MARKS

LOGS = {"t-0": "basic-none", "t-1": "basic-none", "t-2": "tombstones-1-first"}
NO_TOMBSTONES = "expectations: {max_tombstone_share: 0.0}\n"


@dg.job(executor_def=dg.in_process_executor)
def from_quality() -> None:
    """What is left of a sweep that died in quality."""
    swap_sweep(quality(plan_sweep()).validated)


@dg.job(executor_def=dg.in_process_executor)
def from_swap() -> None:
    """What is left of a sweep that died in swap."""
    swap_sweep(plan_sweep())


@pytest.mark.parametrize("job", [from_quality, from_swap], ids=["quality", "swap"])
def test_what_is_only_planned_is_built_and_checked_before_it_is_swapped(
    job: dg.JobDefinition, tmp_path: Path
) -> None:
    """The logs of the run, and no others; with the evaluations of all checks."""
    platform = make_platform(tmp_path, LOGS)
    before = tree(platform.partition("t-1"))
    run = platform.sweep(["t-0", "t-2"], job)
    assert run.success
    for key in ("t-0", "t-2"):
        assert failed_checks(run, key) == set()
        assert list(platform.partition(key).glob("*.log.deleted"))
    assert platform.materialized() == {"t-0", "t-2"}
    assert tree(platform.partition("t-1")) == before
    assert not staged_files(platform.log_dir)


def test_a_log_that_fails_a_check_is_not_swapped_by_a_swap_that_is_executed_again(
    tmp_path: Path,
) -> None:
    """The gate holds there too; the others are swapped, and the run fails."""
    platform = make_platform(tmp_path, LOGS, POLICY + NO_TOMBSTONES)
    before = tree(platform.partition("t-2"))
    run = platform.sweep(["t-0", "t-2"], from_swap)
    assert not run.success
    assert failed_checks(run, "t-2") == {"log_profile"}
    assert evaluations(run, "t-0").keys() == evaluations(run, "t-2").keys()
    assert tree(platform.partition("t-2")) == before
    assert platform.materialized() == {"t-0"}
    assert not staged_files(platform.log_dir)


def test_another_process_plans_the_logs_of_a_run_again(tmp_path: Path) -> None:
    """By the run's file, with its options; a run without one is refused in words."""
    platform = make_platform(tmp_path, LOGS)
    swept = platform.sweep(["t-1", "t-2"])
    assert swept.success
    with dg.build_resources(platform.resources(), instance=platform.instance) as resources:
        states = resources.sweep_states
        assert isinstance(states, SweepStates)

        def load(run_id: str) -> SweepState:
            output = dg.build_output_context(step_key="roll", name="result", run_id=run_id)
            found = states.load_input(dg.build_input_context(upstream_output=output))
            assert isinstance(found, SweepState)
            return found

        state = load(swept.run_id)
        with pytest.raises(dg.Failure, match="gone cannot be resumed") as refused:
            load("gone")
    assert "Execute all steps again" in str(refused.value.description)
    assert [work.key for work in state.works] == ["t-1", "t-2"]
    assert not any(work.due for work in state.works)
    assert all(work.plan is not None for work in state.works)


def test_the_files_of_old_runs_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last thousand are kept."""
    monkeypatch.setattr("logwright.resources.states.KEPT", 2)
    state = SweepState(works=(), now_ms=TimestampMs(0))
    for name in ("a", "b", "c"):
        write_request(tmp_path / "states" / f"{name}.json", state)
    assert sorted(path.name for path in (tmp_path / "states").iterdir()) == ["b.json", "c.json"]
    assert request_of(state) == {"logs": [], "force": False, "like_kafka": False}
