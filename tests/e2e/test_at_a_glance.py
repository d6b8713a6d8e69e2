"""What Dagster's pages show without a click: what is maintained, by what, and what was checked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import dagster as dg
import pytest

from logwright.assets.lib.human import human_bytes
from logwright.assets.lib.partitions import (
    LOGS_NAME,
    PURGE_ASSET,
    RETENTION_ASSET,
    SEGMENT_SET,
)
from logwright.pipelines.component import LogwrightComponent
from logwright.pipelines.definitions import defs
from logwright.pipelines.retention.purge import purge
from logwright.pipelines.retention.retain import retention
from logwright.pipelines.segments.sensors import discover
from logwright.pipelines.segments.sweep import sweep
from logwright.resources.log_dirs import LOG_DIRS_VARIABLE
from logwright.resources.policies import POLICIES_VARIABLE
from tests.e2e.harness import MARKS, Platform, make_platform
from tests.e2e.test_partitions_of_retention import recorded
from tests.e2e.test_retention import LOGS, POLICY, run
from tests.tidy.trees import ROOT

pytestmark = [pytest.mark.e2e, *(mark for mark in MARKS if mark.name == "filterwarnings")]

LATER_MS: Final = 600_000_000
OBSERVATION: Final = dg.DagsterEventType.ASSET_OBSERVATION
RUN_SECONDS: Final = 600
"""Of one command on a busy machine; on two idle cores it takes 10 s."""
SELECTED: Final = ("--select", "kafka_logs/segment_set", "--partition", "compacted-0")


@pytest.fixture
def platform(tmp_path: Path) -> Platform:
    """Two logs with segments past their retention, and one with none; nothing is to be compacted.
    Discovery has not run.
    """
    platform = make_platform(
        tmp_path, LOGS, POLICY.replace("defaults:\n", "defaults:\n  min.cleanable.dirty.ratio: 1\n")
    )
    for key in LOGS:
        platform.instance.delete_dynamic_partition(LOGS_NAME, key)
    return platform


def outcomes(platform: Platform, job: dg.JobDefinition, asset: dg.AssetKey) -> dict[str, str]:
    """Of each partition that a run of the job materializes, its outcome."""
    done = run(platform, job)
    assert done.success
    return {key: shown["outcome"] for key, shown in recorded(done, asset).items()}


def test_jobs_materialize_what_they_maintain(platform: Platform) -> None:
    """Each log that a job looked at once, and then again when it is changed."""
    idle = dict.fromkeys(LOGS, "nothing was due")
    deleted = {"size-0": "segments deleted", "time-0": "segments deleted"}
    assert idle | deleted == outcomes(platform, retention, RETENTION_ASSET)
    assert {} == outcomes(platform, retention, RETENTION_ASSET)
    assert idle == outcomes(platform, purge, PURGE_ASSET)
    later = platform.at(platform.now_ms + LATER_MS)
    assert dict.fromkeys(deleted, "purged") == outcomes(later, purge, PURGE_ASSET)
    known = platform.instance
    for asset in (RETENTION_ASSET, PURGE_ASSET):
        assert set(LOGS) == known.get_materialized_partitions(asset)
    assert set(LOGS) == set(known.get_dynamic_partitions(LOGS_NAME))


def numbers_of_partitions(done: dg.ExecuteInProcessResult) -> list[tuple[str | None, str]]:
    """Partition and name of each number in the metadata of a partition's event."""
    numbers = dg.IntMetadataValue | dg.FloatMetadataValue
    return [
        (event.partition, name)
        for event in done.all_events
        if (event.is_step_materialization or event.event_type is OBSERVATION)
        and event.partition is not None
        for name, entry in metadata_of(event).items()
        if isinstance(entry, numbers)
    ]


def metadata_of(event: dg.DagsterEvent) -> Mapping[str, Any]:
    if event.event_type is OBSERVATION:
        return event.asset_observation_data.asset_observation.metadata
    return event.step_materialization_data.materialization.metadata


@pytest.mark.rotates(4)
def test_no_line_is_plotted_between_logs(platform: Platform) -> None:
    """Dagster plots the numbers of an asset's partitions, which are different logs."""
    swept = platform.sweep(["compacted-0"])
    retained = run(platform, retention)
    later = platform.at(platform.now_ms + LATER_MS)
    purged = run(later, purge)
    for done, asset in ((swept, SEGMENT_SET), (retained, RETENTION_ASSET), (purged, PURGE_ASSET)):
        assert recorded(done, asset)
        assert [] == numbers_of_partitions(done)


@pytest.mark.rotates(4)
def test_a_log_that_is_in_order_is_not_missing(platform: Platform) -> None:
    """A sweep that looked at a log without a materialization records that it is in order, once."""
    assert dict.fromkeys(LOGS, "nothing was due") == outcomes(platform, sweep, SEGMENT_SET)
    assert {} == outcomes(platform, sweep, SEGMENT_SET)


def test_a_failed_log_is_not_recorded(platform: Platform) -> None:
    """It was not maintained; the others are recorded."""
    (platform.partition("time-0") / "leader-epoch-checkpoint").write_text("no version\n")
    done = run(platform, retention)
    assert not done.success
    assert {"size-0", "compacted-0"} == recorded(done, RETENTION_ASSET).keys()


@pytest.mark.parametrize("job", ["sweep", "retention", "purge", "discover"])
def test_no_log_directory_is_an_error_that_says_what_to_do(
    job: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A component as it is scaffolded has none."""
    for variable in (LOG_DIRS_VARIABLE, POLICIES_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    made = LogwrightComponent().definitions_in(tmp_path)
    with dg.DagsterInstance.ephemeral() as instance:
        done = made.get_job_def(job).execute_in_process(instance=instance, raise_on_error=False)
    assert not done.success
    (failed,) = (event for event in done.all_events if event.is_step_failure)
    description = failed.step_failure_data.user_failure_data.description
    assert "No log directories are configured. Name a broker's log.dirs, or the URL" in description
    assert "`log_dirs: {name: /path}` in the defs.yaml" in description


@pytest.mark.rotates(4)
@pytest.mark.parametrize("job", [sweep, retention, purge])
def test_nothing_checked_is_not_passed(platform: Platform, job: dg.JobDefinition) -> None:
    """Without a log no check has a result, and the run says that nothing was looked at."""
    for key in LOGS:
        shutil.rmtree(platform.partition(key))
    (platform.log_dir / "meta.properties").write_text("version=1\nbroker.id=1\n")
    done = run(platform, job)
    assert done.success
    evaluation = dg.DagsterEventType.ASSET_CHECK_EVALUATION
    assert [] == [event for event in done.all_events if event.event_type is evaluation]
    (line,) = said(platform, done)
    assert line.startswith(("There are no logs in", "0 of 0 logs were", "0 logs were looked"))


@pytest.mark.parametrize(
    ("asset", "sensors"),
    [(SEGMENT_SET, {"due_logs"}), (PURGE_ASSET, {"purge_due", "disk_space"})],
)
def test_an_asset_shows_the_sensors_that_act_on_it(asset: dg.AssetKey, sensors: set[str]) -> None:
    """Dagster shows a sensor as the automation of the assets of its target jobs."""
    repository = defs.get_repository_def()
    targeting = {
        sensor.name
        for sensor in repository.sensor_defs
        for target in sensor.targets
        if asset in repository.get_job(target.job_name).asset_layer.executable_asset_keys
    }
    assert sensors == targeting


def command(platform: Platform, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command of Dagster, as an operator runs it, in an instance of its own."""
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    shutil.copy(ROOT / "pipelines/dagster.yaml", home)
    variables = {"LOGWRIGHT_LOG_DIRS": platform.log_dir, "LOGWRIGHT_POLICIES": platform.policies}
    environment = os.environ | {"DAGSTER_HOME": str(home)}
    environment |= {name: str(path) for name, path in variables.items()}
    done = subprocess.run(
        [sys.executable, "-m", *("dagster", *words)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.nightly
def test_one_log_is_materialized_in_a_fresh_instance(platform: Platform, tmp_path: Path) -> None:
    """After the job `discover`, as the README says: its command knows the partition."""
    module = ("-m", "logwright.pipelines.definitions")
    commands = [
        ("job", "execute", *module, "-j", discover.name),
        ("asset", "materialize", *module, *SELECTED),
    ]
    readme = (ROOT / "README.md").read_text()
    for words in commands:
        assert " ".join(("dagster", *words)).replace("compacted-0", "orders-0") in readme
        command(platform, tmp_path, *words)


def said(platform: Platform, done: dg.ExecuteInProcessResult) -> list[str]:
    """The lines of a run's log that are not Dagster's events."""
    entries = platform.instance.all_logs(done.run_id)
    return [entry.user_message for entry in entries if not entry.is_dagster_event]


@pytest.mark.rotates(4)
def test_the_log_of_a_run_is_a_summary(platform: Platform) -> None:
    """One line: what was looked at and reclaimed."""
    (swept,) = said(platform, run(platform, sweep))
    assert swept == "3 logs: 3 in order. Reclaimed 0 B; 0 records were removed."
    retained = run(platform, retention)
    (line,) = said(platform, retained)
    plans = recorded(retained, RETENTION_ASSET).values()
    deleted = sum(shown["segments deleted"] for shown in plans)
    freed = human_bytes(sum(shown["bytes to be freed"] for shown in plans))
    assert line == (
        f"3 of 3 logs were looked at: {deleted} segments deleted, {freed} to be freed by a purge."
    )
    later = platform.at(platform.now_ms + LATER_MS)
    purged = run(later, purge)
    (line,) = said(later, purged)
    files = sum(shown.get("files purged", 0) for shown in recorded(purged, PURGE_ASSET).values())
    assert line.startswith(f"3 logs were looked at: {files} files purged, ")


@pytest.mark.nightly
def test_a_run_does_not_print_each_event(platform: Platform, tmp_path: Path) -> None:
    """An instance with the configuration that logwright ships prints no line below INFO."""
    module = ("-m", "logwright.pipelines.definitions")
    done = command(platform, tmp_path, "job", "execute", *module, "-j", "sweep")
    assert "DEBUG" not in done.stdout + done.stderr
