"""Whatever happens to logs, policies and runs: what the platform does and says is right."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import MARKS
from tests.platform_sequences.driver import Figures, Operation, after, run, run_many
from tests.platform_sequences.world import HOUR_MS, MINUTE_MS, SECOND_MS

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.crash,
    *(mark for mark in MARKS if mark.name == "filterwarnings"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]

IN_EVERY_RUN = 2
NIGHTLY = 300
MOST = 10_000
"""Seeds of a run are below this multiple of its number."""

SOON = SECOND_MS
LATER = 16 * MINUTE_MS

SEED = 8
"""Of three logs, two of which are due from the start, and one when its lag is exceeded."""
KNOWN: dict[str, tuple[Operation, ...]] = {
    "a log is not requested while a run has it": (
        after(SOON, "due tick"),
        after(LATER, "due tick"),
    ),
    "a log becomes due while nothing changes": (
        after(SOON, "due tick"),
        after(SOON, "run"),
        after(SOON, "grow"),
        after(SOON, "due tick"),
        after(25 * HOUR_MS, "due tick"),
    ),
    "a paused log is not requested": (
        *(after(SOON, "pause", variant) for variant in range(4)),
        after(SOON, "due tick"),
        after(LATER, "pauses tick"),
    ),
    "a log that is as it was waits": (
        after(SOON, "due tick"),
        after(SOON, "withdraw"),
        after(SOON, "due tick"),
        after(LATER, "due tick"),
    ),
    "a directory is recovered by one run": (
        after(SOON, "crash"),
        after(SOON, "due tick"),
        after(LATER, "due tick"),
        after(SOON, "run"),
        after(SOON, "inventory"),
    ),
    "a log that is gone does not stop the others": (
        after(SOON, "due tick"),
        after(SOON, "disappear"),
        after(SOON, "run"),
    ),
    "a log that fails is in quarantine": (
        *(after(SOON, "corrupt", variant) for variant in range(3)),
        after(SOON, "due tick"),
        after(SOON, "run"),
        after(SOON, "due tick"),
        after(LATER, "due tick"),
        after(SOON, "run"),
    ),
}
"""By what they show: histories without chance."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Without the messages of what fails on purpose."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("name", KNOWN)
def test_known_histories(tmp_path: Path, name: str) -> None:
    """Each shows a rule that the random histories seldom come to."""
    figures = Figures()
    assert run(SEED, KNOWN[name], tmp_path / "work", figures, settles=False) is None
    assert len(KNOWN[name]) == figures.acts.total()


def test_platform_sequences(tmp_path: Path, seed: int) -> None:
    """Some random histories: in the end each log is in order, and nothing is lost."""
    first = seed * MOST
    figures = run_many(range(first + 1, first + 1 + IN_EVERY_RUN), tmp_path)
    assert [] == figures.differences
    assert IN_EVERY_RUN == figures.histories


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_many_platform_sequences(tmp_path: Path, seed: int) -> None:
    """The same, many more, with the profiles of Great Expectations in some."""
    first = (seed + 1) * MOST
    figures = run_many(range(first, first + NIGHTLY), tmp_path)
    assert [] == figures.differences
    ended = {"sweep ends SUCCESS", "sweep ends FAILURE", "sweep kill STARTED", "purge ends SUCCESS"}
    assert ended <= figures.runs.keys()
