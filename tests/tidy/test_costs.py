"""The tests of a day fit into its time: each folder has a budget, and keeps it."""

from __future__ import annotations

import pytest

from tests import costs
from tests.tidy.trees import ROOT

DAY_CPU_SECONDS = 1600
"""On two cores 15 minutes have 1,800; the rest is for lint, types and collecting the tests."""

FILE_SECONDS = 300
"""A file goes to one worker: a longer one would run on when all others have ended."""


def test_every_file_of_tests_has_been_measured() -> None:
    """A new file finds its time: after `make test`, `python -m tests.costs keep` records it."""
    files = {str(path.relative_to(ROOT)) for path in costs.TESTS.rglob("test_*.py")}
    assert files == costs.recorded().files.keys()


def test_every_folder_keeps_its_budget() -> None:
    """Who needs more says so in `tests/budgets.json`, and takes it from another folder."""
    spent = {name: cost.cpu_seconds for name, cost in costs.recorded().folders().items()}
    assert spent.keys() == costs.budgets().keys()
    assert {} == {
        name: (seconds, costs.budgets()[name])
        for name, seconds in spent.items()
        if seconds > costs.budgets()[name]
    }


def test_the_budgets_fit_into_a_day() -> None:
    """Their sum is what two cores have."""
    assert sum(costs.budgets().values()) <= DAY_CPU_SECONDS


def test_no_file_is_longer_than_others_can_wait() -> None:
    """What takes longer is several files, or runs a share by day."""
    files = costs.recorded().files
    assert {} == {file: cost.seconds for file, cost in files.items() if cost.seconds > FILE_SECONDS}


@pytest.mark.parametrize(
    ("file", "folder"),
    [
        ("tests/unit/cli/test_clean.py", "tests/unit/cli"),
        ("tests/unit/assets/lib/test_evaluations.py", "tests/unit/assets"),
        ("tests/unit/test_durable.py", "tests/unit"),
        ("tests/e2e/test_demo.py", "tests/e2e"),
    ],
)
def test_the_folder_of_a_file(file: str, folder: str) -> None:
    """That of a package in `tests/unit`, else the first below `tests`."""
    assert folder == costs.folder_of(file)
