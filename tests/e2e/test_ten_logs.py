"""One log corrupt, one locked, one on a full disk, of ten: seven are cleaned, three are reported,
each with its cause.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.lib.partitions import LOGS, SEGMENT_SET
from logwright.format.names import TopicPartition
from logwright.locks import lock_partition
from logwright.pipelines.segments.sweep import sweep, sweep_run_config
from logwright.resources.catalogue import platform_resources
from logwright.resources.policies import PolicyDirectory
from tests.e2e.command import call
from tests.e2e.harness import MARKS, QUIET, Platform, make_platform, staged_files, tree
from tests.e2e.test_full_disk import CASE, Disk, disk
from tests.fixtures import clean_arguments

pytestmark = [*MARKS, pytest.mark.needs_rights("mounting")]

SOUND = [f"orders-{number}" for number in range(7)]
CORRUPT, LOCKED = "orders-7", "orders-8"
FULL = "t-0"
FIRST_SEGMENT = "00000000000000000000.log"
IN_A_RECORD = 80


@contextmanager
def ten_logs(tmp_path: Path) -> Iterator[tuple[Platform, Disk]]:
    """Nine logs in one directory, and one alone on a disk with two free pages."""
    platform = make_platform(tmp_path, dict.fromkeys([*SOUND, CORRUPT, LOCKED], CASE))
    segment = platform.partition(CORRUPT) / FIRST_SEGMENT
    content = bytearray(segment.read_bytes())
    content[IN_A_RECORD] ^= 1
    segment.write_bytes(content)
    with disk(tmp_path / "small", "size=1m") as full:
        full.fill(2)
        with lock_partition(platform.log_dir, TopicPartition("orders", 8)):
            yield platform, full


def log_alone(tmp_path: Path) -> Platform:
    """A platform with one log of the same content."""
    (tmp_path / "alone").mkdir()
    return make_platform(tmp_path / "alone", {"orders-0": CASE})


@pytest.mark.rotates(3)
def test_a_sweep_cleans_seven_and_reports_three(tmp_path: Path) -> None:
    """In one run over both directories. The three are as they were, and nothing stays staged."""
    with ten_logs(tmp_path) as (platform, full):
        before = {key: tree(platform.partition(key)) for key in (CORRUPT, LOCKED)}
        before[FULL] = tree(full.log_dir)
        resources = platform_resources(
            directories=[str(platform.log_dir), f"small={full.log_dir}"],
            policies=PolicyDirectory(directory=str(platform.policies)),
            clock=platform.resources()["clock"],
            spark=platform.spark,
        )
        run = sweep.execute_in_process(
            run_config=sweep_run_config([]) | QUIET,
            instance=platform.instance,
            resources=resources,
            raise_on_error=False,
        )
        assert not run.success
        assert before == {
            CORRUPT: tree(platform.partition(CORRUPT)),
            LOCKED: tree(platform.partition(LOCKED)),
            FULL: tree(full.log_dir),
        }
        assert [] == staged_files(platform.log_dir) + staged_files(full.log_dir)
    alone = log_alone(tmp_path)
    assert alone.sweep(["orders-0"]).success
    for key in SOUND:
        assert tree(alone.partition("orders-0")) == tree(platform.partition(key))
    assert set(SOUND) == platform.materialized()
    assert {CORRUPT: "CorruptBatch", LOCKED: "LogDirLocked", FULL: "DiskFull"} == {
        key: metadata["error"] for key, metadata in observed(run).items()
    }
    assert f"{CORRUPT}/{FIRST_SEGMENT}" in observed(run)[CORRUPT]["why"]
    assert "room" in observed(run)[FULL]["why"]
    statuses = platform.instance.get_status_by_partition(
        SEGMENT_SET, [*SOUND, CORRUPT, LOCKED, FULL], LOGS
    )
    assert statuses is not None
    assert {"MATERIALIZED": 7, "FAILED": 3} == {
        name: sum(one is not None and one.value == name for one in statuses.values())
        for name in ("MATERIALIZED", "FAILED")
    }


def observed(run: dg.ExecuteInProcessResult) -> dict[str, dict[str, Any]]:
    """Key → metadata of the observation of each log that failed."""
    return {
        str(event.partition): {
            name: value.value
            for name, value in event.asset_observation_data.asset_observation.metadata.items()
        }
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION
    }


@pytest.mark.rotates(2)
@pytest.mark.parametrize("engine", ["local", "spark"])
def test_the_command_cleans_seven_and_reports_three(tmp_path: Path, engine: str) -> None:
    """By either engine; a directory for each command."""
    with ten_logs(tmp_path) as (platform, full):
        before = {key: tree(platform.partition(key)) for key in (CORRUPT, LOCKED)}
        options = ("--engine", engine, "--output", "json")
        nine = call("clean", platform.log_dir, *clean_arguments(CASE), *options)
        other = full.clean()
        assert before == {key: tree(platform.partition(key)) for key in before}
    assert {CORRUPT: "CorruptBatch", LOCKED: "LogDirLocked"} == {
        Path(error["path"]).relative_to(platform.log_dir).parts[0]: error["error"]
        for error in nine.errors
    }
    assert ["DiskFull"] == [error["error"] for error in other.errors]
    assert 0 not in {nine.status, other.status}
    alone = log_alone(tmp_path)
    assert 0 == call("clean", alone.log_dir, *clean_arguments(CASE)).status
    for key in SOUND:
        assert tree(alone.partition("orders-0")) == tree(platform.partition(key))
