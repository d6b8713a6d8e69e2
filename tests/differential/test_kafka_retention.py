"""What `logwright retain` deletes is what Kafka 4.3.0's retention deleted of the same log, by the
same clock.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from logwright.cli.main import main
from tests import fixtures

CASES = [
    name
    for name in fixtures.CASES
    if "retain" in fixtures.description(name)["ops"]
    and "recover" not in fixtures.description(name)["ops"]
]


def run(*arguments: str) -> Result:
    """The command line, in this process."""
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert 0 == result.exit_code, result.output
    return result


def options(name: str, operation: str) -> list[str]:
    """What makes an operation do what Kafka did in this case."""
    if operation == "clean":
        return fixtures.clean_arguments(name)
    case = fixtures.description(name)
    clock = ["--now", str(case["now"]), "--high-watermark", case["highWatermark"]]
    return ["--like-kafka", "--yes", *clock, *fixtures.settings(name)]


def compare_results(said: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """The differences of what was decided, of each segment too."""
    found = [
        f"{name}: expected {value}, got {ours.get(name)}"
        for name, value in said.items()
        if name not in ("segmentsBefore", "deleted", "op") and value != ours.get(name)
    ]
    for wanted, got in zip(said["segmentsBefore"], ours["segmentsBefore"], strict=True):
        found += [f"{name}: {got}" for name, value in wanted.items() if value != got[name]]
    deleted = [(one["baseOffset"], one) for one in ours["segmentsBefore"] if one["deleted"]]
    reasons = {one["baseOffset"]: one["reason"] for one in said["deleted"]}
    assert reasons.keys() == dict(deleted).keys()
    return found + [
        f"reason of {base}: expected {reasons[base]!r}, got {kafkas_reason(one)!r}"
        for base, one in deleted
        if reasons[base] != kafkas_reason(one)
    ]


def kafkas_reason(segment: dict[str, Any]) -> str:
    """Kafka's audit line made of our cause and numbers: the facts are the same."""
    limit = segment["limit"]
    if segment["cause"] == "time":
        whose = "largest record timestamp in the segment"
        if not segment["timestampFromRecords"]:
            whose = "last modified time of the segment"
        return f"log retention time {limit}ms breach based on the {whose}"
    if segment["cause"] == "size":
        left = f"Log size after deletion will be {segment['value']}."
        return f"log retention size {limit} breach. {left}"
    return f"log start offset {limit} breach"


def test_there_are_cases() -> None:
    """Every kind of deletion is among them."""
    assert {"delete-records", "delete-size", "delete-time-all", "compact-delete-2"} <= set(CASES)
    assert 9 == len(CASES)


@pytest.mark.oracle
@pytest.mark.parametrize("name", CASES)
def test_the_outcome_is_kafkas(name: str, tmp_path: Path) -> None:
    """Segments, indexes, snapshots, epochs, checkpoints, and what is said of each segment."""
    case = fixtures.description(name)
    log_dir = fixtures.copy_before(name, tmp_path)
    for operation, said in zip(case["ops"], case["results"], strict=True):
        told = run(operation, str(log_dir), "t-0", *options(name, operation), "--output", "json")
        if operation == "retain":
            assert [] == compare_results(said, json.loads(told.stdout))
    later = str(case["now"] + 60_000)
    run("purge", str(log_dir), "t-0", *fixtures.settings(name), "--now", later, "--yes")
    assert [] == fixtures.compare_after(name, log_dir)
    left = [path.name for path in (log_dir / "t-0").iterdir()]
    assert [] == [each for each in left if each.endswith(".deleted") or each == ".logwright"]


@pytest.mark.parametrize("name", CASES)
def test_dry_run_says_the_same_and_changes_nothing(name: str, tmp_path: Path) -> None:
    """What the plan announces is what is done; before that every byte is as it was."""
    log_dir = fixtures.copy_before(name, tmp_path)
    before = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    arguments = (str(log_dir), "t-0", *options(name, "retain"), "--output", "json")
    planned = json.loads(run("retain", *arguments, "--dry-run").stdout)
    assert before == {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}
    done = json.loads(run("retain", *arguments).stdout)
    assert planned | {"retained": True} == done
    again = json.loads(run("retain", *arguments).stdout)
    assert (0, False) == (again["deletedSegments"], again["rolled"])
