"""A sweep that is canceled while it builds, as the page does it: every log is whole, nothing stays
staged, and the run can be executed again from the step that was canceled.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.partitions import SEGMENT_SET
from tests.e2e.harness import MARKS, tree
from tests.e2e.test_reexecution import sweep_job
from tests.spark.killed_runs import (
    LOGS,
    cleaning,
    command,
    live,
    make,
    phase_of,
    said_in,
    undisturbed,
    wait_for,
)

pytestmark = [*MARKS, pytest.mark.crash]

WAIT_SECONDS = 120


def test_a_canceled_sweep_leaves_every_log_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster cancels a run by a note in its storage, then SIGINT. Executed again, it
    is as if undisturbed.
    """
    whole = make(tmp_path / "whole" / "kafka-logs")
    undisturbed("sweep", whole)
    log_dir = make(tmp_path / "canceled" / "kafka-logs")
    before = tree(log_dir)
    _, variables = command("sweep", log_dir)

    with cleaning("sweep", log_dir) as process:
        wait_for(process, lambda: phase_of(log_dir, {}) == "build")
        with dg.DagsterInstance.from_config(variables["DAGSTER_HOME"]) as instance:
            (run,) = instance.get_runs()
            instance.report_run_canceling(run)
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(WAIT_SECONDS) != 0, said_in(log_dir).read_text()[-4000:]

    assert before == tree(log_dir)
    assert [] == [path for path in log_dir.glob("*/.logwright/staging/**/*") if path.is_file()]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with dg.DagsterInstance.from_config(variables["DAGSTER_HOME"]) as instance:
        (run,) = instance.get_runs()
        assert dg.DagsterRunStatus.CANCELED is run.status
        again = dg.execute_job(
            dg.reconstructable(sweep_job),
            instance=instance,
            reexecution_options=dg.ReexecutionOptions.from_failure(run.run_id, instance),
        )
        assert again.success
        assert LOGS.keys() == instance.get_materialized_partitions(SEGMENT_SET)
    assert live(whole) == live(log_dir)
