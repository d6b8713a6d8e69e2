"""What runs by day, and what a change makes run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import schedule
from tests.costs import FileCost, Record
from tests.schedule import ROOT, is_night, runs_by_day, scope_of, touched

NAME = "tests/unit/test_something.py::test_each"


@pytest.mark.parametrize("every", [2, 3, 8])
def test_each_case_has_its_turn_once(every: int) -> None:
    """Seeds that follow each other choose each case of a test once."""
    for number in range(2 * every):
        assert [1] * 5 == [
            sum(runs_by_day(NAME, number, every, first + seed) for seed in range(every))
            for first in range(5)
        ]


def test_a_seed_chooses_a_share_of_the_cases() -> None:
    """The n-th part, wherever it begins."""
    for seed in range(10):
        assert 5 == sum(runs_by_day(NAME, number, 8, seed) for number in range(40))


def test_two_tests_begin_elsewhere() -> None:
    """Tests with as many cases do not all run the same numbers."""
    first = {
        next(number for number in range(8) if runs_by_day(f"{NAME}_{letter}", number, 8, seed=1))
        for letter in "abcdefghij"
    }
    assert len(first) > 3


@pytest.mark.parametrize(
    ("expression", "night"),
    [
        ("nightly", True),
        ("not alone and (nightly)", True),
        ("not nightly", False),
        ("not alone and (not nightly)", False),
        ("not (nightly or oracle)", False),
        ("oracle and e2e and not nightly", False),
        ("", False),
    ],
)
def test_night(expression: str, *, night: bool) -> None:
    """An expression that leaves the night's tests out is one of the day."""
    assert night == is_night(expression)


def test_a_change_touches_what_a_file_imports() -> None:
    """A module, one of a package, or the test itself; nothing else."""
    test = Path(__file__).with_name("test_durable.py")
    assert touched(test, frozenset({Path("logwright/durable.py")}))
    assert touched(test, frozenset({test.relative_to(ROOT)}))
    assert not touched(test, frozenset({Path("logwright/errors_of_others.py"), Path("README.md")}))
    assert not touched(test, frozenset())


def test_a_change_is_known_from_a_revision() -> None:
    """Against itself a commit has no change but what is not committed; no revision, no change."""
    uncommitted = schedule.changed_files("HEAD")
    assert uncommitted <= schedule.changed_files("HEAD~5")
    assert all((ROOT / path).exists() or path.suffix for path in uncommitted)


def test_a_file_is_split_at_night_only() -> None:
    """By day a file goes to one worker; at night the cases of one that rotates spread."""
    rotating = "tests/unit/records/test_cases.py"
    assert rotating == scope_of(f"{rotating}::test_a[1]", night=False)
    assert f"{rotating}::test_a[1]" == scope_of(f"{rotating}::test_a[1]", night=True)
    plain = "tests/unit/test_durable.py"
    assert plain == scope_of(f"{plain}::test_a[1]", night=True)


def test_a_record_of_several_days_knows_each_file() -> None:
    """A file that did not run keeps what it cost; one that is gone is forgotten; one that runs on
    one of three days costs a third each day.
    """
    before = Record(
        {
            "tests/e2e/test_a.py": FileCost(tests=2, seconds=9.0, cpu_seconds=6.0, every=3),
            "tests/e2e/test_gone.py": FileCost(tests=1, cpu_seconds=5.0),
        }
    )
    today = Record(
        {
            "tests/e2e/test_a.py": FileCost(),
            "tests/e2e/test_b.py": FileCost(tests=4, seconds=2.0, cpu_seconds=1.0),
        }
    )
    known = before.with_newer(today)
    assert known.files == {
        "tests/e2e/test_a.py": before.files["tests/e2e/test_a.py"],
        "tests/e2e/test_b.py": today.files["tests/e2e/test_b.py"],
    }
    folder = known.folders()["tests/e2e"]
    assert (6, 5.0, 3.0) == (folder.tests, folder.seconds, folder.cpu_seconds)
