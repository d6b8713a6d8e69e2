"""Whole runs on copies of logs that Kafka wrote: what changes on disk and what Dagster records."""

from __future__ import annotations

import base64
from collections import Counter
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from logwright.assets.fleet.inventory import fleet_inventory
from logwright.assets.lib.partitions import LOGS as LOGS_OF_ASSET
from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.assets.lib.verdict import CHECKS, VALUE_CONTRACT
from logwright.format.names import TopicPartition
from logwright.locks import lock_partition
from logwright.pipelines.retention.purge import purge
from logwright.sweep.commit import lag_metrics
from logwright.times import duration
from tests.e2e.faults import bit_flipped, faulty_asset, faulty_sweep, last_batch_lost
from tests.e2e.harness import (
    MARKS,
    POLICY,
    failed_checks,
    make_platform,
    staged_files,
    steps_run,
    tree,
)
from tests.fixtures import case_dir, dump_lines
from tests.shown import values
from tests.spark_session import Observed

pytestmark = MARKS

SMALL_SEGMENTS = "topics:\n  - name: orders\n    internal.segment.bytes: 8192\n"

SHORTEST_SECRET = 6
"""Shorter ones would be found by chance."""

LOGS = {"orders-0": "basic-none", "orders-1": "basic-zstd", "users-0": "tombstones-1-first"}


def live_files(directory: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if path.suffix in {".log", ".index", ".timeindex"}
    }


def test_run_of_one_log_leaves_what_kafka_leaves(tmp_path: Path) -> None:
    """Byte for byte: segments and indexes as Kafka's own cleaner made them of the same log."""
    platform = make_platform(tmp_path, {"orders-0": "basic-none"}, POLICY + SMALL_SEGMENTS)
    run = platform.materialize(["orders-0"])
    assert run.success
    assert ["plan", "roll", "dedupe", "quality", "swap"] == steps_run(run)
    assert set() == failed_checks(run, "orders-0")
    expected = live_files(case_dir("basic-none") / "after" / "t-0")
    assert expected == live_files(platform.partition("orders-0"))
    assert staged_files(platform.log_dir) == []


@pytest.mark.rotates(4)
def test_run_reports_figures(tmp_path: Path) -> None:
    """Before and after, and what was removed by cause."""
    platform = make_platform(tmp_path, {"orders-0": "basic-none"}, POLICY + SMALL_SEGMENTS)
    run = platform.materialize(["orders-0"])
    (event,) = run.asset_materializations_for_node("kafka_logs__segment_set.swap")
    metadata = values(event.metadata)
    assert ("cleaned", 482, 90) == (
        metadata["outcome"],
        metadata["records before"],
        metadata["records after"],
    )
    assert metadata["reduction"] == pytest.approx(
        1 - metadata["bytes after"] / metadata["bytes before"], abs=1e-4
    )
    assert "a later record has the same key | 392" in metadata["summary"]
    assert {
        "removed superseded": 392,
        "removed tombstones": 0,
        "removed null keys": 0,
        "removed aborted": 0,
        "removed markers": 0,
    } == {name: value for name, value in metadata.items() if name.startswith("removed")}
    assert "max-compaction-delay" not in metadata


@pytest.mark.rotates(4)
def test_run_reports_transactions_and_overdue_logs(tmp_path: Path) -> None:
    """Aborted data and late markers are causes of their own; KIP-354's metrics have its names."""
    logs = {"ledger-0": "txn-1-mixed", "ledger-1": "txn-3-late", "lagging-0": "lag-max-2-breached"}
    lag = "topics:\n  - {name: lagging, max.compaction.lag.ms: 21600000}\n"
    platform = make_platform(tmp_path, logs, POLICY + lag)
    run = platform.sweep(list(logs))
    assert run.success
    by_log: dict[str, dict[str, Any]] = {
        str(event.partition): values(event.metadata)
        for event in run.asset_materializations_for_node("swap_sweep")
        if event.asset_key == SEGMENT_SET
    }
    for metadata in by_log.values():
        removed = [value for name, value in metadata.items() if name.startswith("removed ")]
        assert 5 == len(removed)
        assert metadata["records before"] == metadata["records after"] + sum(removed)
    assert by_log["ledger-0"]["removed aborted"] > 0
    assert "data of an aborted transaction | " in by_log["ledger-0"]["summary"]
    assert by_log["ledger-1"]["removed markers"] > 0
    assert "max-compaction-delay" not in by_log["ledger-0"]
    assert 1 == by_log["lagging-0"]["num-logs-compacted-by-max-compaction-lag"]
    delay = by_log["lagging-0"]["max-compaction-delay"]
    (output,) = [
        event.step_output_data.metadata
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.STEP_OUTPUT and event.step_key == "swap_sweep"
    ]
    reported = values(output)
    logs_too_late, delay_ms = (reported[name] for name in lag_metrics([]))
    assert (1, delay) == (logs_too_late, duration(delay_ms))
    assert delay_ms > 0
    assert 3 == reported["logs changed"]


@pytest.mark.rotates(4)
def test_no_record_is_told_of_anywhere(tmp_path: Path) -> None:
    """No key and no value in any file of the instance, also when checks fail."""
    platform = make_platform(tmp_path, LOGS)
    assert not platform.materialize(["orders-0"], faulty_asset(bit_flipped, "orders-0")).success
    assert platform.sweep(list(LOGS)).success
    secrets = {
        base64.b64decode(record[field])
        for case in LOGS.values()
        for batch in dump_lines(case, "before")
        for record in batch.get("records", [])
        for field in ("key", "value")
        if record.get(field)
    }
    assert len(secrets) > 100
    reported = {path: path.read_bytes() for path in platform.home.rglob("*") if path.is_file()}
    assert reported
    leaks = {
        str(path)
        for path, content in reported.items()
        for secret in secrets
        if len(secret) >= SHORTEST_SECRET and secret in content
    }
    assert leaks == set()


@pytest.mark.rotates(2)
@pytest.mark.parametrize("way", ["range", "sweep"])
def test_many_logs_are_one_spark_job_for_each_step(
    way: str, tmp_path: Path, observed: Observed
) -> None:
    """Every log is swapped and recorded with its partition, and is a task of its own."""
    platform = make_platform(tmp_path, LOGS)
    jobs_before = len(observed.tasks())
    run = platform.materialize(list(LOGS)) if way == "range" else platform.sweep(list(LOGS))
    assert run.success
    assert LOGS.keys() == platform.materialized()
    for key in LOGS:
        assert set() == failed_checks(run, key)
    built = [
        event.step_output_data.metadata["logs built"].value
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.STEP_OUTPUT
        and str(event.step_key).endswith("dedupe")
    ]
    assert [len(LOGS)] == built
    build, examine, *_profile = observed.tasks()[jobs_before:]
    assert (len(LOGS), len(LOGS)) == (build, examine)


@pytest.mark.rotates(4)
def test_log_in_order_is_left_alone(tmp_path: Path) -> None:
    """A second sweep at the same clock finds nothing due, changes no byte and says so."""
    platform = make_platform(tmp_path, {"orders-0": "basic-none"})
    assert platform.sweep(["orders-0"]).success
    before = tree(platform.log_dir)
    run = platform.sweep(["orders-0"])
    assert run.success
    assert before == tree(platform.log_dir)
    observed = [
        event
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION
    ]
    assert ["orders-0"] == [event.partition for event in observed]
    assert not run.asset_materializations_for_node("swap_sweep")


@pytest.mark.rotates(4)
def test_sweep_without_a_list_takes_all_logs(tmp_path: Path) -> None:
    """`dagster job execute -j sweep` needs no configuration."""
    platform = make_platform(tmp_path, LOGS)
    assert platform.sweep([]).success
    assert LOGS.keys() == platform.materialized()


@pytest.mark.rotates(4)
def test_locked_log_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    """Another process works on one of the logs when the sweep wants to swap."""
    platform = make_platform(tmp_path, LOGS)
    before = tree(platform.partition("orders-1"))
    with lock_partition(platform.log_dir, TopicPartition("orders", 1)):
        run = platform.sweep(list(LOGS))
    assert not run.success
    assert {"orders-0", "users-0"} == platform.materialized()
    assert before == tree(platform.partition("orders-1"))
    assert staged_files(platform.log_dir) == []
    failure = run.failure_data_for_node("swap_sweep")
    assert failure is not None
    assert "orders-1" in str(failure.error)
    assert "LogDirLocked" in str(failure.error)


def test_unknown_log_is_an_error_without_retry(tmp_path: Path) -> None:
    """A key that no directory holds: the operator's mistake, said at once."""
    platform = make_platform(tmp_path, {"orders-0": "basic-none"})
    run = platform.sweep(["payments-0"])
    assert not run.success
    failure = run.failure_data_for_node("plan_sweep")
    assert failure is not None
    assert "'payments-0' is not in any log directory" in str(failure.error)
    assert ["plan_sweep"] == steps_run(run)


def test_wrong_policy_is_an_error_with_its_place(tmp_path: Path) -> None:
    """File, line and column come through to Dagster."""
    platform = make_platform(tmp_path, {"orders-0": "basic-none"}, "version: 1\ntopicz: []\n")
    run = platform.sweep(["orders-0"])
    failure = run.failure_data_for_node("plan_sweep")
    assert failure is not None
    assert "policies.yml:2:1" in str(failure.error)


@pytest.mark.rotates(4)
def test_inventory_lists_every_log(tmp_path: Path) -> None:
    """With its state and what makes it due: before a sweep, after it, when it must be recovered,
    and when it is refused.
    """
    platform = make_platform(tmp_path, LOGS)
    for event, states in (
        ("nothing", {"due": 3}),
        ("sweep", {"in order": 3}),
        ("leftover", {"due": 1, "in order": 2}),
        ("damage", {"refused": 3}),
    ):
        if event == "sweep":
            assert platform.sweep(list(LOGS)).success
        if event == "leftover":
            (platform.partition("orders-0") / f"{0:020d}.log.swap").write_bytes(b"")
        if event == "damage":
            (platform.log_dir / "cleaner-offset-checkpoint").write_text("no checkpoint")
        run = dg.materialize(
            [fleet_inventory], instance=platform.instance, resources=platform.resources()
        )
        rows = run.output_for_node("kafka_logs__fleet_inventory")
        assert LOGS.keys() == {row["log"] for row in rows}
        counted = Counter(row["state"] for row in rows)
        assert states == dict(counted)
        assert all(row["why"] for row in rows)
        (materialization,) = run.asset_materializations_for_node("kafka_logs__fleet_inventory")
        assert (counted["due"], counted["refused"]) == (
            materialization.metadata["due"].value,
            materialization.metadata["refused"].value,
        )


@pytest.mark.rotates(4)
def test_purge_waits_for_the_delay(tmp_path: Path) -> None:
    """`.deleted` files go when `file.delete.delay.ms` is over, and not before; the run says what
    it freed.
    """
    platform = make_platform(tmp_path, {"orders-0": "basic-none"})
    assert platform.sweep(["orders-0"]).success
    retired = sorted(platform.log_dir.rglob("*.deleted"))
    assert retired
    freed = sum(path.stat().st_size for path in retired)
    for later_ms, left in ((59_999, retired), (60_000, [])):
        resources = platform.at(platform.now_ms + later_ms).resources()
        run = purge.execute_in_process(instance=platform.instance, resources=resources)
        assert run.success
        assert left == sorted(platform.log_dir.rglob("*.deleted"))
        events = [
            event.asset_observation_data.asset_observation
            for event in run.all_events
            if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION
        ]
        assert ([] if left else [("orders-0", len(retired), freed)]) == [
            (
                event.partition,
                values(event.metadata)["files purged"],
                values(event.metadata)["bytes freed"],
            )
            for event in events
        ]


@pytest.mark.rotates(4)
def test_materializations_are_stored_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With Dagster's own setting; also the last ones, which do not fill a batch, and those before
    a log that fails.
    """
    monkeypatch.setenv("DAGSTER_EVENT_BATCH_SIZE", "2")
    platform = make_platform(tmp_path, LOGS)
    with lock_partition(platform.log_dir, TopicPartition("orders", 1)):
        assert not platform.sweep(list(LOGS)).success
    assert {"orders-0", "users-0"} == platform.materialized()
    assert platform.sweep(list(LOGS)).success
    assert LOGS.keys() == platform.materialized()


@pytest.mark.rotates(4)
def test_a_log_that_failed_is_seen_in_its_partition(tmp_path: Path) -> None:
    """Its check's evaluation and the reason have its partition; the others share evaluations, and
    each materialization shows what the checks found.
    """
    platform = make_platform(tmp_path, LOGS)
    run = platform.sweep(list(LOGS), faulty_sweep(last_batch_lost, "orders-1"))
    assert not run.success
    seen = [
        (event.partition, event.asset_observation_data.asset_observation.metadata)
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.ASSET_OBSERVATION
    ]
    ((partition, metadata),) = seen
    assert "orders-1" == partition
    statuses = platform.instance.get_status_by_partition(SEGMENT_SET, list(LOGS), LOGS_OF_ASSET)
    assert statuses is not None
    assert "FAILED" == statuses["orders-1"].value
    assert ("failed", "QualityError") == (metadata["outcome"].value, metadata["error"].value)
    evaluated = [
        event.asset_check_evaluation_data
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION
    ]
    evaluated = [each for each in evaluated if each.asset_key == SEGMENT_SET]  # and retention's
    together = [one for one in evaluated if one.partition is None]
    made = [one for one in CHECKS if one != VALUE_CONTRACT]  # no topic has one
    assert made == [one.check_name for one in together]
    assert {"orders-1"} == {one.partition for one in evaluated if one.partition}
    for evaluation in together:
        failed = [
            each
            for each in evaluated
            if each.partition and each.check_name == evaluation.check_name
        ]
        assert evaluation.passed != bool(failed)
        assert (len(LOGS), len(failed)) == (
            evaluation.metadata["logs checked"].value,
            evaluation.metadata["logs failed"].value,
        )
    materialized = [
        event.step_materialization_data.materialization
        for event in run.all_events
        if event.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION
        and event.asset_key == SEGMENT_SET
    ]
    for each in materialized:
        table = values(each.metadata)["checks"]
        assert len(made) == table.count("| passed |")
