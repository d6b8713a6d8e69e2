"""Every folder of tests is run by `tests/run`."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
NIGHTLY = "\npytestmark = [pytest.mark.nightly"
"""In a file whose tests only `make nightly` runs; it takes all folders."""


def folders_in(script: str) -> list[str]:
    """The folders that a call of `halves` in the last branch of the script names."""
    last = script.rpartition("\nelse\n")[2]
    return [word for words in re.findall(r'"((?:tests/\w+ ?)+)"', last) for word in words.split()]


def test_each_folder_with_tests_is_in_one_half() -> None:
    """A folder that no half names would never be run, and one in both would be run twice."""
    named = sorted(folders_in((TESTS / "run").read_text()))
    files = [one for one in TESTS.rglob("test_*.py") if one.parent != TESTS]
    daily = [one for one in files if NIGHTLY not in one.read_text()]
    present = {f"tests/{one.relative_to(TESTS).parts[0]}" for one in daily}
    assert named == sorted(present)


def test_a_folder_that_is_missing_is_found() -> None:
    """What is read of the script is what it says."""
    assert ["tests/a", "tests/b", "tests/c"] == folders_in(
        'if x; then\n    halves "tests/z"\nelse\n    halves "tests/a tests/b" "tests/c"\nfi\n'
    )
