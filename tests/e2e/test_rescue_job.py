"""The job `rescue` on a real file system that is full to the last byte, and the sensor on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.pipelines.retention.disk import disk_space
from logwright.pipelines.retention.rescue import FREE_DISK, RESCUE, rescue
from logwright.resources.catalogue import platform_resources
from logwright.resources.clock import Clock
from logwright.resources.policies import PolicyDirectory
from tests.e2e.harness import MARKS, QUIET, new_instance
from tests.e2e.test_full_disk import Disk
from tests.e2e.test_rescue_free import (
    SEGMENT_BYTES,
    SEGMENTS,
    bases,
    free_bytes,
    full,
)
from tests.log_builder import START_MS
from tests.running_dirs import running

pytestmark = [
    *MARKS,
    pytest.mark.crash,
    pytest.mark.needs_rights("mounting"),
]
__all__ = ["full"]

POLICY = """\
version: 1
high_watermark: end
defaults: {cleanup.policy: delete, retention.ms: %s}
"""
EXPIRED, KEPT = POLICY % 1000, POLICY % -1
DISK = "disk: {{min_free_bytes: {0}, min_free_share: 0, rescue: {1}}}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A full disk, with policies and an instance elsewhere."""

    disk: Disk
    instance: dg.DagsterInstance
    resources: dict[str, Any]

    def run(self, free: int, **config: object) -> dg.ExecuteInProcessResult:
        own = {"log_dirs": ["logs"], "free_bytes": free, **config}
        return rescue.execute_in_process(
            run_config={"ops": {FREE_DISK: {"config": own}}} | QUIET,
            instance=self.instance,
            resources=self.resources,
            raise_on_error=False,
        )

    def tick(self) -> dg.SensorExecutionData:
        with dg.build_sensor_context(instance=self.instance, resources=self.resources) as context:
            return disk_space.evaluate_tick(context)


@contextmanager
def world(tmp_path: Path, made: Disk, policy: str) -> Iterator[World]:
    directory = tmp_path / "policies"
    directory.mkdir()
    (directory / "p.yml").write_text(policy)
    with new_instance(tmp_path / "dagster") as instance:
        yield World(
            disk=made,
            instance=instance,
            resources=platform_resources(
                directories=[f"logs={made.log_dir}"],
                policies=PolicyDirectory(directory=str(directory)),
                clock=Clock(fixed_now_ms=START_MS + 86_400_000),
            ),
        )


def observed(run: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """The metadata of the observation that the run made."""
    (event,) = (
        event
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION
    )
    metadata = event.asset_observation_data.asset_observation.metadata
    return {
        name: [record.data for record in value.records]
        if isinstance(value, dg.TableMetadataValue)
        else value.value
        for name, value in metadata.items()
    }


def test_retention_frees_what_was_asked_and_no_more(full: Disk, tmp_path: Path) -> None:
    """The run shows the plan, and what each step freed."""
    size = 4 * SEGMENT_BYTES
    with world(tmp_path, full, EXPIRED) as made:
        run = made.run(size)
    assert run.success
    assert size == free_bytes(full)
    assert list(range(40, 121, 10)) == bases(full)
    shown = observed(run)
    assert (0, size, size) == (
        shown["free bytes before"],
        shown["free bytes"],
        shown["bytes asked for"],
    )
    assert 0 == shown["bytes needed at the worst moment"]
    assert [("retention", "yes", SEGMENTS * SEGMENT_BYTES)] == [
        (row["step"], row["needed"], row["bytes at most"]) for row in shown["plan"]
    ]
    assert [("retention", size)] == [(row["step"], row["bytes freed"]) for row in shown["done"]]


def test_a_dry_run_only_shows(full: Disk, tmp_path: Path) -> None:
    with world(tmp_path, full, EXPIRED) as made:
        run = made.run(4096, dry_run=True)
    assert run.success
    assert SEGMENTS + 1 == len(bases(full))
    shown = observed(run)
    assert 1 == len(shown["plan"])
    assert [] == shown["done"]


def test_a_tighter_retention_only_by_name(full: Disk, tmp_path: Path) -> None:
    """Nothing is due: the run fails and all is there, until the topic is named. A topic or a stray
    log that there is not is refused, with those that there are.
    """
    with world(tmp_path, full, KEPT) as made:
        run = made.run(8192)
        assert not run.success
        assert "nothing that is left may go" in str(run.all_events)
        assert SEGMENTS + 1 == len(bases(full))
        assert [] == observed(run)["plan"]
        other = made.run(8192, tighter_retention=[{"topic": "other", "retention_bytes": 1}])
        assert "there is no topic other. There are: t." in str(other.all_events)
        stray = made.run(8192, strays=["t-0"])
        assert "there is no stray log t-0. There are none." in str(stray.all_events)
        empty = made.run(8192, tighter_retention=[{"topic": "t"}])
        assert not empty.success
        assert made.run(8192, tighter_retention=[{"topic": "t", "retention_bytes": 1}]).success
    assert list(range(10, 121, 10)) == bases(full)


def test_a_broker_that_runs_is_left_alone(
    full: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(tmp_path, full, EXPIRED + DISK.format(2**40, "true")) as made:
        full.free()  # the stand-in for a broker writes checkpoints
        with running(full.log_dir, {"t-0": 121}):
            run = made.run(1 << 19)
            seen = made.tick()
            monkeypatch.setattr("logwright.pipelines.retention.disk.MOST_LOGS", 0)
            assert [] == made.tick().run_requests
        assert not run.success
        assert "LogDirLocked" in str(run.all_events)
        assert SEGMENTS + 1 == len(bases(full))
        assert [] == seen.run_requests
        assert "what a rescue frees is not known: a broker runs on it." in str(seen.skip_message)


def test_a_directory_without_a_clean_shutdown_is_recovered_first(
    full: Disk, tmp_path: Path
) -> None:
    """As a broker leaves it that died of the full disk."""
    full.fill(60)
    (full.log_dir / ".kafka_cleanshutdown").unlink()
    with world(tmp_path, full, EXPIRED) as made:
        run = made.run(70 * 4096)
    assert run.success
    assert 70 * 4096 <= free_bytes(full)
    assert (full.log_dir / ".kafka_cleanshutdown").exists()
    assert 120 == bases(full)[-1]


def test_the_sensor_says_what_a_run_would_free(full: Disk, tmp_path: Path) -> None:
    """It requests none unless the policies ask for it; then one, which makes it no longer low."""
    with world(tmp_path, full, EXPIRED + DISK.format(8192, "false")) as made:
        data = made.tick()
        assert [] == data.run_requests
        assert "a rescue frees 96.0 KiB at most (retention 96.0 KiB)" in str(data.skip_message)
        assert '"log_dirs": ["logs"], "free_bytes": 8192' in str(data.skip_message)
        (tmp_path / "policies" / "p.yml").write_text(EXPIRED + DISK.format(8192, "true"))
        (request,) = made.tick().run_requests
        assert RESCUE == request.job_name
        assert [request.run_key] == [one.run_key for one in made.tick().run_requests]
        done = rescue.execute_in_process(
            run_config=request.run_config, instance=made.instance, resources=made.resources
        )
        assert done.success
        assert list(range(10, 121, 10)) == bases(full)
        assert [] == made.tick().run_requests


def test_a_tick_does_not_look_at_too_many_logs(
    full: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It requests the run all the same, which has the time."""
    monkeypatch.setattr("logwright.pipelines.retention.disk.MOST_LOGS", 0)
    with world(tmp_path, full, KEPT + DISK.format(8192, "false")) as made:
        data = made.tick()
        assert [] == data.run_requests
        assert "the fleet page has it. To launch the job rescue: " in str(data.skip_message)
        (tmp_path / "policies" / "p.yml").write_text(KEPT + DISK.format(8192, "true"))
        assert 1 == len(made.tick().run_requests)


def test_the_sensor_requests_nothing_that_frees_nothing(full: Disk, tmp_path: Path) -> None:
    with world(tmp_path, full, KEPT + DISK.format(8192, "true")) as made:
        data = made.tick()
    assert [] == data.run_requests
    assert "a rescue frees nothing" in str(data.skip_message)
