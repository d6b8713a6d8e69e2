"""Dagster leaves what is paused or in quarantine alone in a bucket, too, and says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.fleet.inventory import fleet_inventory
from logwright.bucket.manifest import STATES
from logwright.bucket.store import Bucket
from logwright.format.names import TopicPartition
from logwright.pipelines.retention.purge import purge, purge_due
from logwright.pipelines.retention.retain import retention
from logwright.pipelines.segments.pauses import pauses
from logwright.pipelines.segments.sensors import due_logs
from logwright.place.named import place_of
from logwright.state.model import Pause
from logwright.state.store import change_state, read_state
from logwright.units import TimestampMs
from tests.bucket.servers import NAME, environment, served
from tests.bucket_maintenance.copies import made_old, probed, put, version
from tests.e2e.faults import bit_flipped
from tests.e2e.harness import MARKS, POLICY, Platform, make_platform
from tests.e2e.test_holds import HOUR_MS, LIMIT_MS, observations, output_metadata
from tests.e2e.test_logs_in_a_bucket import HereOnly, run, tick

pytestmark = MARKS

PAUSED, BROKEN, WELL = "orders-0", "orders-1", "orders-2"
LOGS = {PAUSED: "basic-none", BROKEN: "basic-none", WELL: "basic-none"}


def in_bucket(root: Path, bucket: Bucket, agreement: bytes | None = None) -> Platform:
    """Three logs in a bucket, of which one is broken, and a log directory without any."""
    policy = POLICY + f"sweep:\n  flag_after_ms: {LIMIT_MS}\n"
    made = make_platform(root, LOGS, policy)
    bit_flipped(min(made.partition(BROKEN).glob("*.log")))
    put(made.log_dir, bucket, agreement)
    for key in LOGS:
        made.partition(key).rename(root / f"away-{key}")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (made.log_dir / name).write_text("0\n0\n")
    return replace(made, more=(f"archive={bucket.url}",))


@pytest.fixture(scope="session", name="agreement")
def _agreement(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return probed(tmp_path_factory.mktemp("probed"))


@pytest.fixture(name="bucket")
def _bucket(tmp_path: Path) -> Bucket:
    return Bucket.of(f"file://{tmp_path}/bucket")


@pytest.fixture(name="platform")
def _platform(
    tmp_path: Path, bucket: Bucket, agreement: bytes, monkeypatch: pytest.MonkeyPatch
) -> Platform:
    monkeypatch.setattr("logwright.assets.segments.segment_set.SparkExecutor", HereOnly)
    return in_bucket(tmp_path, bucket, agreement)


def partition(key: str) -> TopicPartition:
    """Of a key."""
    parsed = TopicPartition.parse(key)
    assert parsed is not None
    return parsed


def pause(bucket: Bucket, key: str, platform: Platform, *, hours: int) -> None:
    """Pause a log for some hours."""
    wanted = Pause(
        owner="ops",
        reason="a disk is replaced",
        since_ms=TimestampMs(platform.now_ms),
        expires_at_ms=TimestampMs(platform.now_ms + hours * HOUR_MS),
    )
    change_state(place_of(bucket.url), partition(key), lambda now: now.with_pause(wanted))


def versions(bucket: Bucket) -> list[int]:
    """Of each log."""
    return [version(bucket, partition(key)).version for key in LOGS]


def leaves_alone(platform: Platform, bucket: Bucket) -> None:
    """One log is paused, one fails, one is cleaned; then the first two are skipped and shown."""
    pause(bucket, PAUSED, platform, hours=2)
    first = tick(due_logs, platform)
    (wanted,) = first.run_requests
    logs = wanted.run_config["ops"]["plan_sweep"]["config"]["logs"]
    assert {BROKEN, WELL} == set(logs)
    assert not platform.sweep(logs).success
    assert {WELL} == platform.materialized()
    assert [0, 0, 1] == versions(bucket)
    held = read_state(place_of(bucket.url))[partition(BROKEN)].quarantine
    assert held is not None
    assert ("CorruptBatch", 1) == (held.cause, held.failures)
    assert held.file is not None

    again = platform.sweep([])
    assert again.success
    assert 1 == output_metadata(again, "swap_sweep")["uncleanable-partitions-count"]
    seen = observations(again)
    assert seen[PAUSED]["why"].startswith("paused by ops until ")
    assert seen[BROKEN]["why"].startswith("quarantined since ")
    skipped = tick(due_logs, platform)
    assert not skipped.run_requests
    assert f"{PAUSED}: paused by ops until " in str(skipped.skip_message)
    assert f"{BROKEN}: quarantined since " in str(skipped.skip_message)
    assert [0, 0, 1] == versions(bucket)

    shown = dg.materialize(
        [fleet_inventory], instance=platform.instance, resources=platform.resources()
    )
    rows = {row["log"]: row for row in shown.output_for_node("kafka_logs__fleet_inventory")}
    assert rows[PAUSED]["paused"].startswith("paused by ops")
    assert rows[BROKEN]["quarantined"].startswith("quarantined since")
    assert ("", "") == (rows[WELL]["paused"], rows[WELL]["quarantined"])


@pytest.mark.rotates(4)
def test_a_sweep_leaves_alone_and_quarantines(platform: Platform, bucket: Bucket) -> None:
    """After its retry time the broken log is asked for again, and fails with a longer delay."""
    leaves_alone(platform, bucket)
    later = platform.at(platform.now_ms + 15 * 60_000)
    assert not later.sweep([BROKEN]).success
    held = read_state(place_of(bucket.url))[partition(BROKEN)].quarantine
    assert held is not None
    assert (2, later.now_ms + 30 * 60_000) == (held.failures, held.retry_at_ms)


@pytest.mark.rotates(4)
def test_on_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By S3's protocol."""
    monkeypatch.setattr("logwright.assets.segments.segment_set.SparkExecutor", HereOnly)
    with served() as port:
        for name, value in environment(port).items():
            monkeypatch.setenv(name, value)
        bucket = Bucket.of(f"s3://{NAME}/{tmp_path.name}")
        leaves_alone(in_bucket(tmp_path, bucket), bucket)


def test_an_expired_pause_is_lifted_and_shown(platform: Platform, bucket: Bucket) -> None:
    """As one of a log directory is."""
    pause(bucket, PAUSED, platform, hours=2)
    first = tick(pauses, platform)
    assert not first.asset_events
    assert f"{PAUSED} is paused by ops" in str(first.skip_message)
    second = tick(pauses, platform.at(platform.now_ms + 2 * HOUR_MS), first.cursor)
    (event,) = second.asset_events
    assert PAUSED == event.partition
    assert {} == read_state(place_of(bucket.url))


def test_retention_and_purge_leave_it_alone(
    platform: Platform, bucket: Bucket, tmp_path: Path
) -> None:
    """A purge removes what is old of the others, and earlier states."""
    policies = platform.policies / "policies.yml"
    policies.write_text(
        "version: 1\nhigh_watermark: end\ndefaults: {cleanup.policy: delete,"
        " segment.ms: 9000000000000, retention.bytes: 0}\n"
    )
    for _ in range(2):
        pause(bucket, PAUSED, platform, hours=2)
    assert run(retention, platform).success
    assert [0, 1, 1] == versions(bucket)
    (tmp_path / "bucket" / PAUSED / "data" / "left.log").write_bytes(b"x")
    made_old(tmp_path / "bucket", days=8)
    (wanted,) = tick(purge_due, platform).run_requests
    assert PAUSED not in wanted.run_config["ops"]["purge_logs"]["config"]["logs"]
    assert run(purge, platform).success
    assert (tmp_path / "bucket" / PAUSED / "data" / "left.log").exists()
    assert 1 == len(bucket.listing(STATES))
    assert partition(PAUSED) in read_state(place_of(bucket.url))


def test_a_broken_state_fails_its_logs_by_name(
    platform: Platform, bucket: Bucket, tmp_path: Path
) -> None:
    """What is paused is not known: no log of the bucket is asked for or swept."""
    pause(bucket, PAUSED, platform, hours=2)
    (newest,) = (tmp_path / "bucket" / STATES).iterdir()
    newest.write_bytes(newest.read_bytes()[:-1])
    ticked = tick(due_logs, platform)
    assert not ticked.run_requests
    assert "its checksum does not match" in str(ticked.skip_message)
    done = platform.sweep([])
    assert not done.success
    assert [0, 0, 0] == versions(bucket)
