"""What the sensor `due_logs` asks for: by the policies' high watermark, and in time for the next
window.
"""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from logwright.format.names import DELETED_LOGS
from logwright.pipelines.retention.disk import disk_space
from logwright.pipelines.retention.purge import purge_due
from logwright.pipelines.segments.pauses import pauses
from logwright.pipelines.segments.sensors import due_logs
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory
from tests.log_builder import START_MS, LogBuilder

pytestmark = pytest.mark.filterwarnings("ignore:::dagster.*")

HOUR_MS = 3_600_000
NOW_MS = START_MS + HOUR_MS
assert (START_MS // HOUR_MS) % 24 == 8

POLICY = """\
version: 1
defaults:
  cleanup.policy: compact
  min.cleanable.dirty.ratio: 0.5
  segment.ms: 9000000000000
"""


def tick(
    log_dir: Path,
    policy: str = POLICY,
    now_ms: int = NOW_MS,
    *,
    sensor: dg.SensorDefinition = due_logs,
    others: tuple[Path, ...] = (),
) -> dg.SensorExecutionData:
    """One evaluation, as the daemon makes it."""
    policies = log_dir.parent / "policies"
    policies.mkdir(exist_ok=True)
    (policies / "p.yml").write_text(policy)
    directory = PolicyDirectory(directory=str(policies))
    directories = [str(log_dir), *map(str, others)]
    resources = {
        "log_dirs": LogDirs(directories=directories, policies=directory),
        "policies": directory,
        "clock": Clock(fixed_now_ms=now_ms),
    }
    with (
        dg.DagsterInstance.ephemeral() as instance,
        dg.build_sensor_context(instance=instance, resources=resources) as context,
    ):
        return sensor.evaluate_tick(context)


def a_log(log_dir: Path, *, high_watermark: int | None) -> LogBuilder:
    """A closed segment of three records from 08:53:20 on, and the active one."""
    builder = LogBuilder(log_dir)
    builder.segment(0).batch(0, [("a", "1"), ("b", "1"), ("a", "2")])
    builder.segment(3).batch(3, [("b", "2")])
    return builder.write(high_watermark=high_watermark)


@pytest.mark.parametrize(
    ("section", "high_watermark", "requested"),
    [
        ("", 4, True),
        ("", 2, False),
        ("high_watermark: checkpoint\n", 2, False),
        ("high_watermark: end\n", 2, True),
    ],
)
def test_nothing_that_is_not_committed_makes_a_log_due(
    tmp_path: Path, section: str, high_watermark: int, *, requested: bool
) -> None:
    """The last record of the closed segment may still be replaced by another leader's: by default
    the checkpoint of the high watermark says so; `end` takes all of a stopped log for committed.
    """
    log = a_log(tmp_path / "logs", high_watermark=high_watermark)
    data = tick(log.log_dir, POLICY + section)
    assert requested is bool(data.run_requests)
    assert requested is ("dirty ratio 0.00 of 0.50" not in str(data.skip_message))


def test_a_sweep_before_the_window_closes_cleans_what_is_due_before_the_next(
    tmp_path: Path,
) -> None:
    """The lag is exceeded at 20:53:20, when no window is open: the request says how far ahead the
    sweep must look.
    """
    log = a_log(tmp_path / "logs", high_watermark=4)
    policy = POLICY.replace("ratio: 0.5", "ratio: 1.0")
    policy += f"  max.compaction.lag.ms: {12 * HOUR_MS}\n"
    now_ms = START_MS + 5 * 60_000
    data = tick(log.log_dir, policy + 'sweep: {windows: ["08:00-09:00"]}\n', now_ms)
    (request,) = data.run_requests
    config = request.run_config["ops"]["plan_sweep"]["config"]
    assert ["t-0"] == config["logs"]
    oldest_ms = START_MS + 2
    assert oldest_ms + 12 * HOUR_MS + 1 - now_ms + 1 == config["ahead_ms"]


@pytest.mark.parametrize(
    "sensor", [due_logs, purge_due, pauses, disk_space], ids=lambda one: one.name
)
def test_a_directory_that_was_not_looked_at_is_named(
    tmp_path: Path, sensor: dg.SensorDefinition
) -> None:
    """Its disk is not mounted: no sensor says that nothing is due, paused, retired or low there."""
    log = a_log(tmp_path / "logs", high_watermark=0)
    gone = tmp_path / "gone"
    whole = str(tick(log.log_dir, sensor=sensor).skip_message)
    assert "Not looked at" not in whole
    assert "gone" not in whole
    data = tick(log.log_dir, sensor=sensor, others=(gone,))
    assert str(gone) in str(data.skip_message)
    assert [] == data.run_requests


def test_a_directory_is_named_also_while_another_one_is_low(tmp_path: Path) -> None:
    """What is low is in the observation, and what was not looked at in the tick's message."""
    log = a_log(tmp_path / "logs", high_watermark=0)
    gone = tmp_path / "gone"
    policy = POLICY + "disk: {min_free_share: 1.0}\n"
    data = tick(log.log_dir, policy, sensor=disk_space, others=(gone,))
    assert 1 == len(data.asset_events)
    assert str(gone) in str(data.skip_message)
    assert "low now" in str(data.skip_message)
    assert "earlier" not in str(data.skip_message)


def test_deleted_logs_that_are_not_known_are_named(tmp_path: Path) -> None:
    """A ledger that cannot be read is a reason, and not a directory without retired files."""
    log = a_log(tmp_path / "logs", high_watermark=0)
    (log.log_dir / DELETED_LOGS).mkdir()
    data = tick(log.log_dir, sensor=purge_due)
    assert "No log has retired files." != str(data.skip_message)
    assert "logs: " in str(data.skip_message)
