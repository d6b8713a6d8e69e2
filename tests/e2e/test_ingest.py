"""Files land, the sensor asks, the asset appends them: each once, whatever goes wrong between."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from logwright.assets.ingest import INGESTED, ingested
from logwright.pipelines.ingest import landing
from logwright.pipelines.lib.skipped import RETRY_AFTER_MS
from tests.e2e.harness import MARKS, Platform, make_platform
from tests.ingested import read_batches

pytestmark = MARKS

POLICY = """
version: 1
high_watermark: end
defaults:
  cleanup.policy: compact
ingest:
  sources:
    - {{topic: orders, path: {landing}, partitions: 2, batch_size: 2000, compression: zstd}}
"""


def tick(platform: Platform, cursor: str | None = None) -> dg.SensorExecutionData:
    """One evaluation, as the daemon makes it."""
    with dg.build_sensor_context(
        instance=platform.instance, cursor=cursor, resources=platform.resources()
    ) as context:
        return landing.evaluate_tick(context)


def land(path: Path, keys: range, platform: Platform) -> None:
    rows = [{"key": f"k{n}", "value": {"n": n}, "timestamp": platform.now_ms} for n in keys]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def materialize(platform: Platform) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [ingested],
        instance=platform.instance,
        resources=platform.resources(),
        raise_on_error=False,
    )


def keys(log_dir: Path) -> list[bytes | None]:
    return [
        record.key
        for number in (0, 1)
        for batch in read_batches(log_dir, 500 if number == 0 else 0, f"orders-{number}")
        for record in batch.records
    ]


@pytest.mark.rotates(2)
def test_what_lands_is_appended_once(tmp_path: Path) -> None:
    """To a topic that is there, with a partition that is not; the metadata say where it went."""
    directory = tmp_path / "landing"
    directory.mkdir()
    platform = make_platform(tmp_path, {"orders-0": "basic-none"}, POLICY.format(landing=directory))
    assert not tick(platform).run_requests
    land(directory / "a.json", range(300), platform)
    ticked = tick(platform)
    assert 1 == len(ticked.run_requests)
    assert not tick(platform, ticked.cursor).run_requests
    later = platform.at(platform.now_ms + RETRY_AFTER_MS)
    assert ticked.run_requests[0].run_key != tick(later, ticked.cursor).run_requests[0].run_key

    assert materialize(platform).success
    event = platform.instance.get_latest_materialization_event(INGESTED)
    assert event is not None
    assert event.asset_materialization is not None
    metadata = event.asset_materialization.metadata
    assert (300, 1) == (metadata["records"].value, metadata["files"].value)
    rows = [dict(row.data) for row in metadata["partitions"].value.records]
    assert [("orders-0", 500), ("orders-1", 0)] == [
        (row["partition"], row["first offset"]) for row in rows
    ]
    assert sorted(keys(platform.log_dir)) == sorted(f"k{n}".encode() for n in range(300))
    assert not tick(platform).run_requests

    (directory / "empty.json").touch()
    assert materialize(platform).success
    land(directory / "b[1].json", range(300, 310), platform)
    assert 1 == len(tick(platform).run_requests)
    assert materialize(platform).success
    assert materialize(platform).success
    assert sorted(keys(platform.log_dir)) == sorted(f"k{n}".encode() for n in range(310))


@pytest.mark.rotates(4)
def test_a_refused_file_appends_nothing_and_is_asked_for_again(tmp_path: Path) -> None:
    """A compacted topic wants keys; when the file is fixed the run goes through."""
    directory = tmp_path / "landing"
    directory.mkdir()
    platform = make_platform(tmp_path, {"orders-0": "basic-none"}, POLICY.format(landing=directory))
    (directory / "a.json").write_text('{"value":"no key"}\n')
    failed = materialize(platform)
    assert not failed.success
    failure = str(failed.get_step_failure_events()[0].event_specific_data)
    assert "it has no key" in failure
    assert [] == keys(platform.log_dir)
    assert 1 == len(tick(platform).run_requests)
    land(directory / "a.json", range(20), platform)
    assert materialize(platform).success
    assert sorted(keys(platform.log_dir)) == sorted(f"k{n}".encode() for n in range(20))
