"""A run that failed is executed again from the failed step, by another process: the logs that were
swapped stay as they are, the others are swapped then.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.lib.partitions import LOGS_NAME, SEGMENT_SET
from logwright.format.names import TopicPartition
from logwright.locks import lock_partition
from logwright.pipelines.definitions import defs
from logwright.pipelines.segments.sweep import sweep_run_config
from logwright.resources import states
from logwright.resources.clock import NOW_VARIABLE
from logwright.resources.log_dirs import LOG_DIRS_VARIABLE
from logwright.resources.policies import POLICIES_VARIABLE
from logwright.resources.states import DIRECTORY
from tests.e2e.harness import MARKS, QUIET, Platform, make_platform, staged_files, tree

pytestmark = MARKS

LOGS = {"orders-0": "basic-none", "orders-1": "basic-zstd", "users-0": "tombstones-1-first"}
RANGE = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
STEPS = ["roll", "dedupe", "quality", "swap_sweep"]


def sweep_job() -> dg.JobDefinition:
    return defs.resolve_job_def("sweep")


def asset_job() -> dg.JobDefinition:
    job = dg.define_asset_job("segments", selection=[SEGMENT_SET])
    return dg.Definitions.merge(defs, dg.Definitions(jobs=[job])).resolve_job_def("segments")


@pytest.fixture
def platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Platform:
    """As a code location finds it: by the environment."""
    made = make_platform(tmp_path, LOGS)
    monkeypatch.setenv(LOG_DIRS_VARIABLE, str(made.log_dir))
    monkeypatch.setenv(POLICIES_VARIABLE, str(made.policies))
    monkeypatch.setenv(NOW_VARIABLE, str(made.now_ms))
    return made


def execute_again(
    platform: Platform, job: Callable[[], dg.JobDefinition], run_id: str, steps: list[str] | None
) -> dg.JobExecutionResult:
    """As the page does it, with the run's tags; as far as states in memory go, in a new process.
    Steps: None for those that failed.
    """
    options = (
        dg.ReexecutionOptions.from_failure(run_id, platform.instance)
        if steps is None
        else dg.ReexecutionOptions(parent_run_id=run_id, step_selection=steps)
    )
    run = platform.instance.get_run_by_id(run_id)
    assert run is not None
    return dg.execute_job(
        dg.reconstructable(job),
        instance=platform.instance,
        reexecution_options=options,
        tags={name: value for name, value in run.tags.items() if name in RANGE},
    )


@pytest.mark.rotates(6)
@pytest.mark.parametrize("first", [None, "dedupe", "quality"])
def test_a_sweep_is_executed_again(platform: Platform, first: str | None) -> None:
    """A lock stopped one log, two were swapped; the run is executed again from the failed step, or
    from another.
    """
    before = tree(platform.partition("orders-1"))
    with lock_partition(platform.log_dir, TopicPartition("orders", 1)):
        failed = dg.execute_job(
            dg.reconstructable(sweep_job),
            instance=platform.instance,
            run_config=sweep_run_config([]) | QUIET,
        )
    assert not failed.success
    assert {"orders-0", "users-0"} == platform.materialized()
    assert before == tree(platform.partition("orders-1"))
    swapped = {key: tree(platform.partition(key)) for key in ("orders-0", "users-0")}

    steps = None if first is None else [f"{first}*"]
    again = execute_again(platform, sweep_job, failed.run_id, steps)

    assert again.success
    assert STEPS[STEPS.index(first or "swap_sweep") :] == started(again)
    assert LOGS.keys() == platform.materialized()
    assert before != tree(platform.partition("orders-1"))
    assert swapped == {key: tree(platform.partition(key)) for key in swapped}
    assert [] == staged_files(platform.log_dir)


@pytest.mark.rotates(3)
def test_a_range_of_the_asset_is_executed_again(platform: Platform) -> None:
    """The same for a backfill's run."""
    first, *_, last = LOGS
    platform.instance.add_dynamic_partitions(LOGS_NAME, list(LOGS))
    with lock_partition(platform.log_dir, TopicPartition("orders", 1)):
        failed = dg.execute_job(
            dg.reconstructable(asset_job),
            instance=platform.instance,
            tags=dict(zip(RANGE, (first, last), strict=True)),
        )
    assert not failed.success
    assert {"orders-0", "users-0"} == platform.materialized()

    again = execute_again(platform, asset_job, failed.run_id, None)

    assert again.success
    assert ["kafka_logs__segment_set.swap"] == started(again)
    assert LOGS.keys() == platform.materialized()
    assert [] == staged_files(platform.log_dir)


def started(run: dg.JobExecutionResult) -> list[str]:
    """The steps that started, in their order."""
    return [
        str(event.step_key)
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.STEP_START
    ]


@pytest.mark.rotates(3)
def test_a_run_has_one_state_file_and_old_ones_go(
    platform: Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest are kept, whatever else is in the directory."""
    monkeypatch.setattr(states, "KEPT_RUNS", 2)
    directory = Path(platform.instance.storage_directory()) / DIRECTORY
    directory.mkdir(parents=True)
    for number in range(3):
        (directory / f"old-{number}.json").write_text("{}")
        os.utime(directory / f"old-{number}.json", (number, number))
    done = platform.sweep([])
    assert done.success
    assert {"old-2.json", f"{done.run_id}.json"} == {path.name for path in directory.iterdir()}


@pytest.mark.rotates(3)
def test_an_unwritable_state_does_not_fail_the_run(platform: Platform) -> None:
    """The run cannot be executed again from a step, which its log says; the logs are swept."""
    storage = Path(platform.instance.storage_directory())
    storage.mkdir(exist_ok=True)
    (storage / DIRECTORY).write_text("not a directory")
    assert platform.sweep([]).success
    assert LOGS.keys() == platform.materialized()


@pytest.mark.rotates(10)
@pytest.mark.parametrize("content", [None, "", "[]", '{"version": 0}', '{"version": 1}'])
def test_without_its_state_all_steps_must_be_executed(
    platform: Platform, content: str | None
) -> None:
    """The file is gone, or of another form: the error says so."""
    whole = dg.execute_job(
        dg.reconstructable(sweep_job),
        instance=platform.instance,
        run_config=sweep_run_config([]) | QUIET,
    )
    for path in (Path(platform.instance.storage_directory()) / DIRECTORY).iterdir():
        path.unlink() if content is None else path.write_text(content)
    again = execute_again(platform, sweep_job, whole.run_id, ["swap_sweep"])
    assert not again.success
    (failure,) = [event for event in again.all_events if event.is_step_failure]
    assert "Execute all steps of the run again" in str(failure.step_failure_data.error)
