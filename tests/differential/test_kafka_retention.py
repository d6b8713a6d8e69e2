"""What `logwright retain` deletes is what Kafka 4.3.0's retention deleted of the same log, by the
same clock.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from logwright.cli.main import main
from tests import fixtures
from tests.differential.random_retentions import compare_results

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
    for operation, result in zip(case["ops"], case["results"], strict=True):
        told = run(operation, str(log_dir), "t-0", *options(name, operation), "--output", "json")
        if operation == "retain":
            assert [] == compare_results(result, json.loads(told.stdout))
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
