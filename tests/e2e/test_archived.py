"""The assets `archived/<topic>`: a run writes what is new, and its checks say what is missing."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.archive.archived import ARCHIVED, CURRENT, WHOLE, archive_key
from logwright.bucket.store import Bucket
from logwright.format.names import TopicPartition
from logwright.pipelines.platform import platform_definitions
from tests.bucket_maintenance.copies import differences, version
from tests.e2e.harness import MARKS, Platform, make_platform
from tests.log_builder import START_MS, LogBuilder
from tests.running_dirs import recording, running, two_segments

pytestmark = MARKS

KEY = archive_key("t")
T1 = TopicPartition("t", 1)
POLICY = """\
version: 1
high_watermark: end
topics:
  - name: t
    owner: data@example.org
    cleanup.policy: delete
    archive: {{to: "{to}", late_after_ms: 60000}}
"""


@pytest.fixture(name="bucket")
def _bucket(tmp_path: Path) -> Bucket:
    return Bucket.of(f"file://{tmp_path}/bucket")


@pytest.fixture(name="platform")
def _platform(tmp_path: Path, bucket: Bucket) -> Platform:
    """Two partitions of the topic t, and a log of another one."""
    policy = POLICY.format(to=bucket.url)
    logs = {"t-0": "basic-none", "t-1": "basic-lz4", "other-0": "basic-none"}
    return make_platform(tmp_path, logs, policy)


def logs_in(bucket: Bucket) -> list[str]:
    """Partitions that it has."""
    return sorted(name for name in bucket.directories() if TopicPartition.parse(name))


def run(platform: Platform, *checks: str) -> dg.ExecuteInProcessResult:
    """Archive, or only check."""
    definitions = platform_definitions(platform.resources())
    if not checks:
        job = definitions.resolve_job_def(ARCHIVED)
    else:
        chosen = dg.AssetSelection.checks(*(dg.AssetCheckKey(KEY, name) for name in checks))
        selected = dg.define_asset_job("checked", chosen)
        merged = dg.Definitions.merge(definitions, dg.Definitions(jobs=[selected]))
        job = merged.resolve_job_def("checked")
    return job.execute_in_process(instance=platform.instance, raise_on_error=False)


def results(done: dg.ExecuteInProcessResult) -> dict[str, bool]:
    """What the checks of a run say."""
    return {
        event.asset_check_evaluation_data.check_name: event.asset_check_evaluation_data.passed
        for event in done.all_events
        if event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
    }


def metadata(done: dg.ExecuteInProcessResult) -> dict[str, Any]:
    """What a run says of the asset."""
    (event,) = done.asset_materializations_for_node(KEY.to_python_identifier())
    return {name: value.value for name, value in event.metadata.items()}


def lag(done: dg.ExecuteInProcessResult) -> int:
    """The offsets that the check says are missing."""
    (event,) = [
        each
        for each in done.all_events
        if each.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
    ]
    value = event.asset_check_evaluation_data.metadata["lag offsets"].value
    assert isinstance(value, int)
    return value


def made_again(platform: Platform) -> None:
    """A shorter log takes the place of t-0."""
    shutil.rmtree(platform.partition("t-0"))
    log = LogBuilder(platform.log_dir)
    log.segment(0).batch(0, [("k", "v")])
    log.write()


@pytest.mark.rotates(4)
def test_a_run_writes_what_is_new(platform: Platform, bucket: Bucket, tmp_path: Path) -> None:
    """Byte for byte, each partition of the topic and no other; the next run sends nothing."""
    done = run(platform)
    assert done.success
    assert {CURRENT: True} == results(done)
    assert ["t-0", "t-1"] == logs_in(bucket)
    shown = metadata(done)
    assert 0 == shown["lag offsets"]
    assert shown["bytes sent"] > 0
    assert bucket.url == shown["to"]
    partitions = [record.data["log"] for record in shown["partitions"].records]
    assert ["t-0", "t-1"] == partitions
    assert [] == differences(platform.log_dir, bucket, tmp_path / "scratch")
    again = run(platform)
    assert 0 == metadata(again)["bytes sent"]
    assert 0 == version(bucket).version


def test_the_archive_is_no_source(platform: Platform, bucket: Bucket) -> None:
    """It can be among the log directories, which it then is maintained by."""
    assert run(platform).success
    both = replace(platform, more=(f"archive={bucket.url}",))
    assert {f"archive:{key}" for key in ("t-0", "t-1")} < both.resources()[
        "log_dirs"
    ].listing().logs.keys()
    again = run(both)
    assert again.success
    assert 0 == metadata(again)["bytes sent"]


@pytest.mark.rotates(4)
def test_the_checks_say_what_is_missing(platform: Platform, bucket: Bucket, tmp_path: Path) -> None:
    """Before the first run all is missing, and nothing that was checked has not passed; later a
    record that is not archived, and an object that is gone.
    """
    assert {CURRENT: False, WHOLE: False} == results(run(platform, CURRENT, WHOLE))
    assert [] == logs_in(bucket)
    assert run(platform).success
    assert {CURRENT: True, WHOLE: True} == results(run(platform, CURRENT, WHOLE))
    log = LogBuilder(platform.log_dir, "t-2")
    log.segment(0).batch(0, [("k", "v")])
    log.write()
    assert {CURRENT: False} == results(run(platform, CURRENT))
    assert {CURRENT: True} == results(run(platform.at(START_MS)))
    log.segment(1).batch(1, [("k", "w")])
    shutil.rmtree(platform.partition("t-2"))
    log.write()
    assert {CURRENT: True} == results(run(platform.at(START_MS + 30_000), CURRENT))
    assert {CURRENT: False} == results(run(platform.at(START_MS + 90_000), CURRENT))
    (segment, *_) = version(bucket).state.segments
    os.unlink(tmp_path / "bucket" / "t-0" / segment.log.key)  # noqa: PTH108
    assert {WHOLE: False} == results(run(platform, WHOLE))


@pytest.mark.rotates(4)
def test_a_log_that_cannot_follow_is_named(platform: Platform, bucket: Bucket) -> None:
    """Another topic under the same name: it fails, the other partition is archived."""
    assert run(platform).success
    made_again(platform)
    failed = run(platform)
    assert not failed.success
    assert {CURRENT: False} == results(run(platform.at(START_MS), CURRENT)), "it is of another log"
    (event,) = [each for each in failed.all_events if each.is_step_failure]
    assert "t-0" in str(event.step_failure_data.user_failure_data)
    assert "t-1" not in str(event.step_failure_data.user_failure_data)
    assert (0, 0) == (version(bucket).version, version(bucket, T1).version)


@pytest.mark.rotates(4)
def test_next_to_a_running_broker(platform: Platform, bucket: Bucket) -> None:
    """Up to the high watermarks, and again when they have risen; the log directory is only read.
    The lag is what is committed and not archived.
    """
    shutil.rmtree(platform.partition("t-0"))
    two_segments(platform.log_dir)
    committed = {"t-0": 15, "t-1": 0, "other-0": 0}
    with running(platform.log_dir, committed), recording(platform.log_dir, committed):
        done = run(platform)
        assert done.success
        assert {CURRENT: True} == results(done)
        assert [15, 0] == [
            each.state.log_end_offset for each in (version(bucket), version(bucket, T1))
        ]
        rows = [record.data for record in metadata(done)["partitions"].records]
        assert [15, 0] == [row["committed up to"] for row in rows]
    committed["t-0"] = 18
    late = platform.at(START_MS + 90_000)
    with running(platform.log_dir, committed), recording(platform.log_dir, committed):
        checked = run(late, CURRENT)
        assert ({CURRENT: False}, 3) == (results(checked), lag(checked))
        assert {CURRENT: True} == results(run(late))
    assert 18 == version(bucket).state.log_end_offset
