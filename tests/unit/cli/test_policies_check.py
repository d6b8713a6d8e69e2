"""`policies check`: what is wrong with the policies, before anything uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from logwright.cli.main import main

VALID = (
    "version: 1\ndefaults: {log.dirs: /data}\ntopics: [{name: t, segment.ms: 5}, {pattern: a.*}]\n"
)
BROKEN = "version: 1\nsweep: {max_log: 1}\nchecks: none\n"

UNUSED = "no effect: the section log_dirs lists the log directories"


def check(*words: str | Path, variable: Path | None = None) -> Result:
    environment = {"LOGWRIGHT_POLICIES": None if variable is None else str(variable)}
    runner = CliRunner(env=environment)
    return runner.invoke(main, ["policies", "check", *map(str, words)], catch_exceptions=False)


@pytest.fixture
def policies(tmp_path: Path) -> Path:
    """Two valid files."""
    (tmp_path / "a.yml").write_text(VALID)
    (tmp_path / "b.yaml").write_text("version: 1\ntopics: [{name: u}]\n")
    return tmp_path


def test_valid(policies: Path) -> None:
    """One line with the numbers, after the warnings."""
    result = check(policies)
    assert (0, "") == (result.exit_code, result.stderr)
    assert [
        f"{policies}/a.yml:2:12: defaults.log.dirs: {UNUSED} (warning)",
        f"{policies}: 2 files, 3 topics entries, no problems, 1 warning.",
    ] == result.stdout.splitlines()


def test_broken(policies: Path) -> None:
    """A line each on stdout, the numbers on stderr, and the status of invalid settings."""
    (policies / "c.yml").write_text(BROKEN)
    (policies / "d.yml").write_text("version: 1\nlog_dirs: [\n")
    result = check(policies)
    assert 2 == result.exit_code
    assert [
        f"{policies}/c.yml:2:9: sweep.max_log: unknown key (got '1'); did you mean 'max_logs'?",
        f"{policies}/c.yml:3:9: checks: must be 'quick' or 'thorough' (got 'none')",
        f"{policies}/d.yml:2:11: '[' is not closed",
    ] == result.stdout.splitlines()[:3]
    assert f"{policies}: 4 files, 3 topics entries, 3 problems, 1 warning.\n" == result.stderr


def test_json(policies: Path) -> None:
    """An object for each problem and warning, then the numbers."""
    (policies / "c.yml").write_text(BROKEN)
    result = check(policies, "--output", "json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert (2, "") == (result.exit_code, result.stderr)
    assert ["error", "error", "warning"] == [line.get("level") for line in lines[:-1]]
    assert lines[0] == {
        "level": "error",
        "file": str(policies / "c.yml"),
        "line": 2,
        "column": 9,
        "setting": "sweep.max_log",
        "rule": "unknown key",
        "got": "'1'",
        "nearest": "max_logs",
    }
    assert lines[-1] == {
        "directory": str(policies),
        "files": 3,
        "topics": 3,
        "problems": 2,
        "warnings": 1,
    }


def test_the_directory_of_dagster(policies: Path) -> None:
    """Without DIR it is LOGWRIGHT_POLICIES, else the examples of the package, and that is said."""
    assert f"{policies}: 2 files" in check(variable=policies).stdout
    result = check()
    assert 0 == result.exit_code
    assert "examples" in result.stderr
    assert result.stdout.endswith("5 files, 9 topics entries, no problems, no warnings.\n")


@pytest.mark.parametrize("form", ["text", "json"])
def test_no_policies(tmp_path: Path, form: str) -> None:
    """A directory without policies, or none at all, is an error."""
    for directory, problem in ((tmp_path, "no policies"), (tmp_path / "gone", "not a directory")):
        result = check(directory, "--output", form)
        assert 2 == result.exit_code
        assert problem in result.stderr
        assert ("PolicyError" in result.stdout) == (form == "json")


def test_other_commands_say_the_same(policies: Path, tmp_path: Path) -> None:
    """A command that is given broken policies refuses with the lines of the check."""
    (policies / "c.yml").write_text(BROKEN)
    words = ["plan", str(tmp_path), "--policies", str(policies)]
    result = CliRunner().invoke(main, words, catch_exceptions=False)
    assert 2 == result.exit_code
    lines = check(policies).stdout.splitlines()[:2]
    assert ["Error: " + lines[0], lines[1]] == result.stderr.splitlines()
