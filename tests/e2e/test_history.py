"""The maintenance history of real runs, and the asset that shows it."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from logwright.assets.fleet.inventory import fleet_inventory
from logwright.assets.fleet.page import fleet_page
from logwright.assets.history import maintenance_history
from logwright.assets.segments.segment_set import segment_set
from logwright.format.batch import parse_batch, walk_batches
from logwright.format.record import read_records
from logwright.history.schema import COLUMNS
from logwright.history.store import read_history
from logwright.pipelines.retention.purge import purge
from logwright.pipelines.retention.retain import retention, retention_asset
from logwright.resources.history import HISTORY_VARIABLE, history_directory
from logwright.resources.metrics import METRICS_VARIABLE
from tests.e2e.harness import MARKS, Platform, make_platform
from tests.e2e.test_secrets import NOW_MS, SECRETS, forms, plant
from tests.fixtures import description

pytestmark = MARKS

RETENTION = """\
version: 1
high_watermark: end
defaults:
  cleanup.policy: delete
  retention.ms: -1
  retention.bytes: 12000
  segment.ms: 9000000000000
"""
BOTH = """\
version: 1
high_watermark: end
defaults:
  cleanup.policy: compact,delete
  retention.ms: -1
  retention.bytes: 100
  min.cleanable.dirty.ratio: 0
  segment.ms: 9000000000000
"""
HOUR_MS = 3_600_000


def history(platform: Platform) -> list[dict[str, Any]]:
    """All rows, the oldest first."""
    rows: list[dict[str, Any]] = read_history(
        history_directory(platform.instance.storage_directory())
    ).to_pylist()
    return rows


def run(platform: Platform, job: dg.JobDefinition) -> dg.ExecuteInProcessResult:
    return job.execute_in_process(
        instance=platform.instance, resources=platform.resources(), raise_on_error=False
    )


def show(platform: Platform) -> dict[str, Any]:
    """Materialize the asset and return its metadata."""
    done = dg.materialize(
        [maintenance_history],
        instance=platform.instance,
        resources=platform.resources(),
        raise_on_error=False,
    )
    assert done.success
    (event,) = done.asset_materializations_for_node("kafka_logs__maintenance_history")
    return {name: value.value for name, value in event.metadata.items()}


def waiting_horizons(partition: Path, now_ms: int) -> list[int]:
    """Delete horizons, ms, of the batches with records that are in the log's files."""
    waiting = []
    for path in partition.glob("*.log"):
        data = path.read_bytes()
        for span in walk_batches(data):
            batch = parse_batch(data, span.position)
            records = read_records(batch, data[span.position : span.position + span.bytes])
            horizon_ms = batch.delete_horizon_ms
            if horizon_ms is not None and records:
                waiting.append(horizon_ms)
    return [one for one in waiting if one > now_ms]


def log_bytes(platform: Platform, key: str) -> int:
    """Bytes of a log's segments."""
    return sum(path.stat().st_size for path in platform.partition(key).glob("*.log"))


def test_sweep_and_purge(tmp_path: Path) -> None:
    """A row for each cleaned log with its figures, then one for its purge; the asset shows them."""
    logs = {"a-0": "basic-none", "b-0": "txn-1-mixed", "c-0": "tombstones-1-first"}
    platform = make_platform(tmp_path, logs)
    before = {key: log_bytes(platform, key) for key in ("a-0", "b-0", "c-0")}
    done = platform.sweep([])
    assert done.success
    rows = {row["log"]: row for row in history(platform) if row["operation"] == "clean"}
    assert before.keys() == rows.keys()
    for key, row in rows.items():
        assert done.run_id == row["run_id"]
        assert (before[key], log_bytes(platform, key)) == (row["bytes_before"], row["bytes_after"])
        assert "ratio" in row["why"]
        causes = ("superseded", "tombstones", "null_keys", "aborted", "markers")
        removed = sum(row[f"removed_{cause}"] for cause in causes)
        assert 0 < removed == row["records_before"] - row["records_after"]
        assert row["started_at"].timestamp() * 1000 == platform.now_ms
        assert timedelta() <= row["ended_at"] - row["started_at"] < timedelta(hours=1)
        assert 0 < row["wall_seconds"]
        assert 0 < row["cpu_seconds"] < 60
        horizons = waiting_horizons(platform.partition(key), platform.now_ms)
        horizon = row["delete_horizon"]
        assert min(horizons, default=None) == (horizon and horizon.timestamp() * 1000)
        assert (str(platform.log_dir), None) == (row["log_dir"], row["forecast_bytes"])
    assert rows["c-0"]["delete_horizon"] is not None
    later = platform.at(platform.now_ms + 100 * HOUR_MS)
    assert run(later, purge).success
    purged = [row for row in history(platform) if row["operation"] == "purge"]
    assert ["a-0", "b-0", "c-0"] == [row["log"] for row in purged]
    assert all(row["bytes_before"] > row["bytes_after"] == 0 for row in purged)
    page = show(later)
    assert len(history(platform)) == page["dagster/row_count"]
    assert 3 == page["clean"] == page["purge"]
    saved = sum(row["bytes_before"] - row["bytes_after"] for row in rows.values())
    assert saved == page["bytes reclaimed"]
    (spec,) = maintenance_history.specs
    schema = spec.metadata["dagster/column_schema"]
    assert [column.name for column in COLUMNS] == [column.name for column in schema.columns]


def test_a_new_instance_has_an_empty_history(tmp_path: Path) -> None:
    """Which can be shown."""
    assert 0 == show(make_platform(tmp_path, {"a-0": "basic-none"}))["dagster/row_count"]


@pytest.mark.rotates(4)
def test_a_run_that_does_nothing_writes_nothing(tmp_path: Path) -> None:
    """Neither a second sweep, nor a purge before its time."""
    platform = make_platform(tmp_path, {"a-0": "basic-none"})
    assert platform.sweep([]).success
    before = history(platform)
    assert platform.sweep([]).success
    assert run(platform, purge).success
    assert before == history(platform)


def test_asset_and_retention(tmp_path: Path) -> None:
    """The asset's own run is recorded too; of a retention the segments and offsets that went."""
    platform = make_platform(tmp_path, {"size-0": "delete-size"}, RETENTION)
    platform = platform.at(description("delete-size")["now"])
    done = run(platform, retention)
    assert done.success
    (row,) = history(platform)
    (kafkas,) = description("delete-size")["results"]
    assert ("retain", done.run_id) == (row["operation"], row["run_id"])
    assert kafkas["deletedSegments"] == row["segments_deleted"]
    assert kafkas["logStartOffset"] == row["offsets_deleted"]
    assert log_bytes(platform, "size-0") == row["bytes_after"]
    assert "segments by size: " in row["why"]


@pytest.mark.rotates(4)
def test_failed_log_has_no_row(tmp_path: Path) -> None:
    """The others have theirs, though the run failed; a recovery is a row."""
    platform = make_platform(tmp_path, {"a-0": "basic-none", "b-0": "basic-none"})
    segment = next(iter(sorted(platform.partition("b-0").glob("*.log"))))
    damaged = bytearray(segment.read_bytes())
    damaged[100] ^= 1
    segment.write_bytes(damaged)
    (platform.partition("a-0") / f"{0:020d}.index").unlink()
    assert not platform.sweep([]).success
    assert [("a-0", "clean"), ("a-0", "recover")] == sorted(
        (row["log"], row["operation"]) for row in history(platform)
    )


@pytest.mark.rotates(4)
def test_segment_set_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Into the directory that the environment names."""
    monkeypatch.setenv(HISTORY_VARIABLE, str(tmp_path / "elsewhere"))
    platform = make_platform(tmp_path, {"a-0": "basic-none"})
    done = platform.materialize(["a-0"])
    assert done.success
    (row,) = read_history(tmp_path / "elsewhere").to_pylist()
    assert ("clean", done.run_id) == (row["operation"], row["run_id"])


@pytest.mark.rotates(4)
def test_a_run_of_several_assets_keeps_the_rows_of_each(tmp_path: Path) -> None:
    """Compaction of one log and retention in one run: each step's rows have a file of their own."""
    platform = make_platform(tmp_path, {"a-0": "basic-none"}, BOTH)
    done = dg.materialize(
        [segment_set, retention_asset],
        instance=platform.instance,
        resources=platform.resources(),
        partition_key="a-0",
    )
    assert done.success
    rows = history(platform)
    assert ["clean", "retain"] == sorted(row["operation"] for row in rows)
    assert {done.run_id} == {row["run_id"] for row in rows}


@pytest.mark.rotates(4)
def test_unwritable_history_does_not_fail_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logs are changed already; the run's log has the error."""
    (tmp_path / "file").touch()
    monkeypatch.setenv(HISTORY_VARIABLE, str(tmp_path / "file"))
    platform = make_platform(tmp_path, {"a-0": "basic-none"})
    assert platform.sweep([]).success
    assert {"a-0"} == platform.materialized()


@pytest.mark.rotates(4)
def test_page_metrics_and_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a sweep the inventory writes the metrics and has the directories' space; the page has
    the logs and what was saved.
    """
    monkeypatch.setenv(METRICS_VARIABLE, str(tmp_path / "logwright.prom"))
    platform = make_platform(tmp_path, {"a-0": "basic-none"})
    assert platform.sweep([]).success
    done = dg.materialize(
        [fleet_inventory, maintenance_history, fleet_page],
        instance=platform.instance,
        resources=platform.resources(),
        raise_on_error=False,
    )
    assert done.success
    (shown,) = done.asset_materializations_for_node("kafka_logs__fleet_page")
    page = Path(str(shown.metadata["page"].value))
    assert platform.home in page.parents
    assert "a-0" in page.read_text()
    (listed,) = done.asset_materializations_for_node("kafka_logs__fleet_inventory")
    waiting = sum(path.stat().st_size for path in platform.partition("a-0").glob("*.deleted"))
    assert waiting == listed.metadata["bytes that wait for a purge"].value > 0
    (space,) = listed.metadata["log directories"].records
    assert str(platform.log_dir) == space.data["log_dir"]
    assert 0 < space.data["free_bytes"] <= space.data["total_bytes"]
    text = (tmp_path / "logwright.prom").read_text()
    families = {family.name for family in text_string_to_metric_families(text)}
    assert {"kafka_log_log_size", "kafka_log_logcleaner_cleaner_recopy_percent"} <= families


@pytest.mark.rotates(4)
def test_no_key_and_no_value(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In any file of the history, in the page, in the metrics; of a log of secrets, swept and
    purged.
    """
    monkeypatch.setenv(METRICS_VARIABLE, str(tmp_path / "logwright.prom"))
    platform = make_platform(tmp_path, {"a-0": "basic-none"}).at(NOW_MS)
    shutil.rmtree(platform.log_dir)
    plant(platform.log_dir)
    assert platform.sweep(["t-0"]).success
    later = platform.at(NOW_MS + 100 * HOUR_MS)
    assert run(later, purge).success
    done = dg.materialize(
        [fleet_inventory, maintenance_history, fleet_page],
        instance=later.instance,
        resources=later.resources(),
    )
    assert done.success
    rows = history(platform)
    assert {"clean", "purge"} <= {row["operation"] for row in rows}
    root = Path(platform.instance.storage_directory())
    written = [root / "fleet_page/index.html", tmp_path / "logwright.prom"]
    texts = "\n".join([str(rows), *(path.read_text() for path in written)])
    assert "t-0" in texts
    assert [] == [form for secret in SECRETS for form in forms(secret) if form in texts]
