"""The step `roll` of Dagster's runs rolls the active segments that are due."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.history.store import read_history
from logwright.pipelines.segments.sweep import sweep
from logwright.resources.history import history_directory
from tests.e2e.faults import faulty_asset, faulty_sweep, last_batch_lost
from tests.e2e.harness import MARKS, POLICY, Platform, make_platform, steps_run, tree
from tests.shown import values

pytestmark = MARKS

LOGS = {"orders-0": "basic-none", "events-0": "basic-zstd", "young-0": "basic-lz4"}
TOPICS = """\
topics:
  - {name: orders, max.compaction.lag.ms: 1}
  - {name: events, cleanup.policy: delete, segment.ms: 1}
"""


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    """A compacted log past its lag, a log past segment.ms that is not compacted, a young one."""
    return make_platform(tmp_path, LOGS, POLICY + TOPICS)


def bases(platform: Platform, key: str) -> list[int]:
    """Base offsets of the segments, ascending."""
    return sorted(int(path.stem) for path in platform.partition(key).glob("*.log"))


def output_of(run: dg.ExecuteInProcessResult, step: str) -> dict[str, Any]:
    """The metadata of a step's output."""
    (metadata,) = [
        event.step_output_data.metadata
        for event in run.all_events
        if event.is_successful_output and str(event.step_key).endswith(step)
    ]
    return values(metadata)


def operations(platform: Platform) -> list[tuple[str, str]]:
    """Log and operation of each row of the history."""
    rows = read_history(history_directory(platform.instance.storage_directory())).to_pylist()
    return sorted((row["log"], row["operation"]) for row in rows)


def test_a_sweep_rolls_what_is_due_and_says_so(platform: Platform) -> None:
    """By max.compaction.lag.ms and segment.ms; the page of each log has what was done to it."""
    before = {key: bases(platform, key) for key in LOGS}
    run = platform.sweep(list(LOGS))
    assert run.success
    rolled = output_of(run, "roll")
    assert (3, 2) == (rolled["logs"], rolled["rolled"])
    for key in ("orders-0", "events-0"):
        assert f"| {key} | {max(bases(platform, key))} | time | its first batch is" in str(
            rolled["rolls"]
        )
        assert max(bases(platform, key)) > max(before[key])
    assert before["young-0"][-1] == bases(platform, "young-0")[-1]
    decided = output_of(run, "plan_sweep")
    assert (2, rolled["to clean"]) == (decided["to roll"], decided["to clean"])
    outcomes = {
        str(event.partition): event.metadata["outcome"].value
        for event in run.asset_materializations_for_node("swap_sweep")
        if event.asset_key == SEGMENT_SET
    }
    assert {
        "orders-0": "rolled and cleaned",
        "events-0": "rolled",
        "young-0": "cleaned",
    } == outcomes
    summaries = {
        str(event.partition): event.metadata["summary"].value
        for event in run.asset_materializations_for_node("swap_sweep")
        if "summary" in event.metadata  # a log that was only rolled has none
    }
    for key in ("orders-0", "young-0"):
        counts = f"| segments | {len(before[key])} | {len(bases(platform, key))} |"
        assert counts in str(summaries[key])
    swapped = output_of(run, "swap_sweep")
    assert (3, 2) == (swapped["logs changed"], swapped["logs rolled"])
    assert [
        ("events-0", "roll"),
        ("orders-0", "clean"),
        ("orders-0", "roll"),
        ("young-0", "clean"),
    ] == operations(platform)


@pytest.mark.rotates(3)
@pytest.mark.parametrize("whole", ["asset", "job"])
def test_a_roll_stays_when_the_output_is_refused(platform: Platform, whole: str) -> None:
    """The step has rolled before anything was built; no record is gone, and the run says both."""
    before, files = bases(platform, "orders-0"), tree(platform.partition("orders-0"))
    if whole == "asset":
        run = platform.materialize(["orders-0"], faulty_asset(last_batch_lost, "orders-0"))
    else:
        run = platform.sweep(["orders-0"], faulty_sweep(last_batch_lost, "orders-0"))
    assert not run.success
    assert "swap" not in "".join(steps_run(run))
    (new,) = set(bases(platform, "orders-0")) - set(before)
    assert new > max(before)
    logs = {name: digest for name, digest in files.items() if name.endswith(".log")}
    assert logs.items() <= tree(platform.partition("orders-0")).items()
    (observation,) = [
        event.asset_observation_data.asset_observation
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION
    ]
    assert str(observation.description).startswith("Rolled, and not cleaned: QualityError")
    assert [("orders-0", "roll")] == operations(platform)


def test_the_step_is_described_by_what_it_does() -> None:
    """In the graph of the job, as the UI shows it."""
    description = str(sweep.get_node_named("roll").definition.description)
    assert "segment.ms or max.compaction.lag.ms" in description
