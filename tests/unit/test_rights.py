"""What becomes of a test that needs a right which the machine lacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rights import DEMAND

REPOSITORY = Path(__file__).parents[2]
TEST = "tests/e2e/test_full_disk.py::test_retention_needs_no_room"


def without_programs(directory: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A run of one test where nothing can be mounted, since no program is found that does it."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", TEST],
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY), "PATH": str(directory)} | more,
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_is_not_run_and_the_end_of_the_run_says_so(tmp_path: Path) -> None:
    """By its name, with the number of such tests and the right that is missing."""
    done = without_programs(tmp_path)
    assert pytest.ExitCode.OK == done.returncode
    ending = done.stdout[done.stdout.index("tests not run for want of a right") :]
    assert "1 need mounting: mount a tmpfs" in ending
    assert f"  {TEST}\n" in ending
    assert "1 skipped in" in ending


def test_it_fails_where_the_rights_are_demanded(tmp_path: Path) -> None:
    """So that a machine which should have all of them runs all tests."""
    done = without_programs(tmp_path, **{DEMAND: "1"})
    assert pytest.ExitCode.TESTS_FAILED == done.returncode
    assert "mounting is missing" in done.stdout
