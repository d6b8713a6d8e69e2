"""A run over logs that were not stopped cleanly recovers them first, and says so."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from tests.e2e.harness import MARKS, POLICY, make_platform
from tests.shown import values

pytestmark = MARKS

SMALL_SEGMENTS = "topics:\n  - name: orders\n    internal.segment.bytes: 8192\n"


def planned_metadata(run: dg.ExecuteInProcessResult, step: str) -> dict[str, object]:
    """What a step put next to its output."""
    outputs = [event for event in run.all_events if event.is_successful_output]
    (event,) = [one for one in outputs if one.step_key is not None and one.step_key.endswith(step)]
    metadata = event.step_output_data.metadata
    return values(metadata)


@pytest.mark.rotates(4)
def test_an_unclean_log_is_recovered_and_cleaned(tmp_path: Path) -> None:
    """The torn tail is cut and kept; the plan's metadata names it; the log is compacted."""
    platform = make_platform(tmp_path, {"orders-0": "torn-tail"}, POLICY + SMALL_SEGMENTS)
    (platform.log_dir / ".kafka_cleanshutdown").unlink()
    run = platform.sweep(["orders-0"])
    assert run.success
    metadata = planned_metadata(run, "plan_sweep")
    assert 1 == metadata["recovered"]
    assert "the record batch is cut off" in str(metadata["recoveries"])
    assert (platform.log_dir / ".kafka_cleanshutdown").exists()
    assert {"orders-0"} == platform.materialized()
    assert list(platform.partition("orders-0").glob(".logwright/cut/*/manifest.json"))


def test_a_loss_is_not_accepted_by_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole segments after damage: the run fails with the way out, and the log is as it was."""
    monkeypatch.setattr("logwright.assets.lib.boundary.RETRY_AFTER_SECONDS", 0)
    platform = make_platform(tmp_path, {"orders-0": "bad-crc-sealed"}, POLICY + SMALL_SEGMENTS)
    (platform.log_dir / ".kafka_cleanshutdown").unlink()
    before = {path.name: path.read_bytes() for path in platform.partition("orders-0").glob("0*")}
    run = platform.sweep(["orders-0"])
    assert not run.success
    (failure,) = [event for event in run.all_events if event.is_step_failure]
    assert failure.step_key == "plan_sweep"
    assert "--accept-loss" in str(failure.step_failure_data.user_failure_data) + str(
        failure.event_specific_data
    )
    contents = {path.name: path.read_bytes() for path in platform.partition("orders-0").glob("0*")}
    assert before == contents
