"""No fault gets past the checks: each has its own, and what is live stays as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from logwright.assets.lib.verdict import CHECKS
from tests.e2e.command import call
from tests.e2e.faults import (
    Fault,
    bit_flipped,
    faulty_asset,
    faulty_sweep,
    index_misplaced,
    key_removed,
    last_batch_lost,
    offsets_out_of_order,
    value_changed,
)
from tests.e2e.harness import (
    MARKS,
    POLICY,
    evaluations,
    failed_checks,
    make_platform,
    staged_files,
    steps_run,
    tree,
)

pytestmark = MARKS

FAULTS: dict[str, Fault] = {
    "offsets_ascending": offsets_out_of_order,
    "crc_valid": bit_flipped,
    "latest_value_per_key": last_batch_lost,
    "survivors_identical": value_changed,
    "index_entries_valid": index_misplaced,
    "segment_contract": key_removed,
    "log_profile": last_batch_lost,
    "value_contract": value_changed,
}

CONTRACT = """\
topics:
  - name: orders
    tests:
      - values: {format: string, columns: {value: {type: string, regex: '[ a-z0-9]*'}}}
"""


def test_every_check_has_a_fault() -> None:
    """A check without a fault that it catches would prove nothing."""
    assert CHECKS.keys() == FAULTS.keys()


@pytest.mark.rotates(4)
@pytest.mark.parametrize("check", FAULTS)
def test_fault_stops_the_run_before_the_swap(check: str, tmp_path: Path) -> None:
    """The check fails, `swap` never starts, the log is as it was and nothing stays staged."""
    platform = make_platform(tmp_path, {"orders-0": "basic-none"}, POLICY + CONTRACT)
    before = tree(platform.log_dir)

    run = platform.materialize(["orders-0"], faulty_asset(FAULTS[check], "orders-0"))

    assert not run.success
    assert check in failed_checks(run, "orders-0")
    assert steps_run(run) == ["plan", "roll", "dedupe", "spoil", "quality"]
    assert before == tree(platform.log_dir)
    assert staged_files(platform.log_dir) == []
    assert not run.asset_materializations_for_node("segment_set")


@pytest.mark.rotates(4)
def test_failure_names_the_check_its_count_and_the_first_offender(tmp_path: Path) -> None:
    """An operator reads what broke, how often and where, and no record's key or value."""
    platform = make_platform(tmp_path, {"orders-0": "basic-none"})
    run = platform.materialize(["orders-0"], faulty_asset(bit_flipped, "orders-0"))
    metadata: dict[str, Any] = dict(evaluations(run, "orders-0")["crc_valid"].metadata)
    assert 1 == metadata["violations"].value
    assert metadata["first offending offset"].value >= 0
    failure = run.failure_data_for_node("kafka_logs__segment_set.quality")
    assert failure is not None
    assert "crc_valid: 1 violation, the first at offset" in str(failure.error)


@pytest.mark.rotates(4)
def test_threshold_of_the_policy_stops_the_swap_alone(tmp_path: Path) -> None:
    """The output passes every check, and yet Great Expectations refuses what the policy forbids."""
    policy = POLICY + "expectations:\n  max_tombstone_share: 0.0\n"
    platform = make_platform(tmp_path, {"orders-0": "tombstones-1-first"}, policy)
    before = tree(platform.log_dir)
    run = platform.materialize(["orders-0"])
    assert not run.success
    assert {"log_profile"} == failed_checks(run, "orders-0")
    assert before == tree(platform.log_dir)


@pytest.mark.rotates(4)
def test_policy_can_make_the_profile_a_warning(tmp_path: Path) -> None:
    """Severity WARN: the check fails visibly, and the swap happens."""
    policy = (
        POLICY
        + "expectations:\n  max_tombstone_share: 0.0\n"
        + "topics:\n  - name: orders\n    severity: WARN\n"
    )
    platform = make_platform(tmp_path, {"orders-0": "tombstones-1-first"}, policy)
    run = platform.materialize(["orders-0"])
    assert run.success
    assert {"log_profile"} == failed_checks(run, "orders-0")


@pytest.mark.rotates(6)
@pytest.mark.parametrize("way", ["range", "sweep"])
def test_one_failing_log_does_not_stop_the_others(way: str, tmp_path: Path) -> None:
    """Two of three logs are swapped and recorded; the run fails and names the third."""
    logs = {"orders-0": "basic-none", "orders-1": "basic-lz4", "orders-2": "basic-none"}
    platform = make_platform(tmp_path, logs)
    before = {key: tree(platform.partition(key)) for key in logs}

    if way == "range":
        run = platform.materialize(list(logs), faulty_asset(last_batch_lost, "orders-1"))
    else:
        run = platform.sweep(list(logs), faulty_sweep(last_batch_lost, "orders-1"))

    assert not run.success
    after = {key: tree(platform.partition(key)) for key in logs}
    assert before["orders-1"] == after["orders-1"]
    assert before["orders-0"] != after["orders-0"]
    assert before["orders-2"] != after["orders-2"]
    assert {"orders-0", "orders-2"} == platform.materialized()
    assert "latest_value_per_key" in failed_checks(run, "orders-1")
    assert set() == failed_checks(run, "orders-2")
    assert staged_files(platform.log_dir) == []


SHARE = "expect_column_values_to_be_between(column=tombstone_share, max_value=0)"
RECORDS = "expect_column_values_to_be_between(column=records, min_value=1)"


def asked(severity: str) -> str:
    """A policy whose entry for orders has a test that fails and one that does not."""
    return POLICY + (
        "topics:\n"
        "  - pattern: ord.*\n"
        "    tests:\n"
        "      - expect_column_values_to_be_between:\n"
        f"          {{column: tombstone_share, max_value: 0, severity: {severity}}}\n"
        "      - expect_column_values_to_be_between: {column: records, min_value: 1}\n"
    )


@pytest.mark.rotates(6)
@pytest.mark.parametrize("severity", ["warn", "error"])
def test_a_test_of_a_topics_entry(severity: str, tmp_path: Path) -> None:
    """It is asked of the entry's topics only; its severity decides about the swap; the check shows
    it with what was observed, and links to the page of the run's own result.
    """
    logs = {"orders-0": "tombstones-1-first", "others-0": "tombstones-1-first"}
    platform = make_platform(tmp_path, logs, asked(severity))
    before = tree(platform.partition("orders-0"))

    run = platform.sweep(list(logs))

    assert (severity == "warn") == run.success
    assert (severity == "warn") == (before != tree(platform.partition("orders-0")))
    assert {"log_profile"} == failed_checks(run, "orders-0")
    assert set() == failed_checks(run, "others-0")
    evaluation = evaluations(run, "orders-0")["log_profile"]
    assert severity.upper() == evaluation.severity.value
    metadata: dict[str, Any] = dict(evaluation.metadata)
    assert SHARE == metadata["broken rules"].value
    assert metadata[SHARE].value.startswith("failed: observed 0.")
    assert metadata[RECORDS].value.startswith("passed: observed ")
    page = Path(metadata["data docs"].value)
    assert run.run_id in page.parts
    text = page.read_text()
    assert "asked of pattern ord.*" in text
    assert "orders-0" in text


@pytest.mark.rotates(4)
def test_a_broken_contract_of_values_names_offsets_and_no_value(tmp_path: Path) -> None:
    """The check says which rule broke, how often and at which offsets; the values stay in the log:
    they are in no event, error or file of the run.
    """
    policy = POLICY + CONTRACT.replace("[ a-z0-9]*", "[A-Z]*")
    platform = make_platform(tmp_path, {"orders-0": "basic-none"}, policy)
    before = tree(platform.log_dir)

    run = platform.sweep(["orders-0"])

    assert not run.success
    assert before == tree(platform.log_dir)
    assert {"value_contract"} == failed_checks(run, "orders-0")
    metadata: dict[str, Any] = dict(evaluations(run, "orders-0")["value_contract"].metadata)
    assert metadata["records checked"].value == metadata["records with a value"].value > 0
    assert metadata["violations"].value == metadata["records checked"].value
    first = metadata["first offending offset"].value
    said_of_rule = f"ERROR: records {metadata['violations'].value}, first offsets {first}, "
    assert metadata["value: regex"].value.startswith(said_of_rule)
    word = b"mossy"
    assert any(word in path.read_bytes() for path in platform.log_dir.rglob("*.log"))
    files = [path for path in platform.home.rglob("*") if path.is_file()]
    assert [] == [path for path in files if word in path.read_bytes()]
    assert word.decode() not in str(run.all_events)


@pytest.mark.rotates(4)
def test_a_failed_output_is_kept_until_it_expires_or_the_log_is_cleaned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only with the setting. `inspect` shows it, `purge` removes it when it is due, and so does the
    next cleaning that succeeds.
    """
    monkeypatch.setattr("logwright.steps.failed_output.LEAST_FREE_SHARE", 0.0)
    policy = POLICY + CONTRACT + "sweep: {keep_failed_output_ms: 3600000}\n"
    keys = ["orders-0", "orders-1"]
    platform = make_platform(tmp_path, dict.fromkeys(keys, "basic-none"), policy)
    before = tree(platform.log_dir)
    for key in keys:
        assert not platform.sweep([key], faulty_sweep(value_changed, key)).success
    assert before == tree(platform.log_dir)
    assert [] == staged_files(platform.log_dir)

    first, second = (platform.partition(key) / ".logwright/failed" for key in keys)
    assert all(list(one.glob("*/*.log")) for one in (first, second))
    (kept,) = first.iterdir()
    due_ms = platform.now_ms + 3_600_000
    assert kept.name.startswith(f"{due_ms}.")
    words = ("--config", "cleanup.policy=compact")
    looked = call("inspect", platform.log_dir, *words, "--output", "json", "orders-0")
    (failed,) = json.loads(looked.out)["failedOutputs"]
    assert (due_ms, kept.name.split(".")[1]) == (failed["dueAtMs"], failed["plan"])
    size = sum(file.stat().st_size for file in kept.iterdir())
    assert size == failed["bytes"]
    assert "failed output kept until" in call("inspect", platform.log_dir, *words).out

    cleaned = call(
        "clean", platform.log_dir, "orders-1", *words, "--force", "--yes", "--now", platform.now_ms
    )
    assert 0 == cleaned.status, cleaned.err
    assert not second.exists()
    for now_ms in (due_ms - 1, due_ms):
        assert first.exists()
        call("purge", platform.log_dir, *words, "--yes", "--now", now_ms)
    assert not first.exists()
    assert tree(platform.partition("orders-0")) == {
        name.removeprefix("orders-0/"): digest
        for name, digest in before.items()
        if name.startswith("orders-0/")
    }
