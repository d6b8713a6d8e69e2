"""Nothing is claimed of a world that a plain search of all its bytes does not know."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.differential.random_logs import scratch_directory
from tests.worlds import running
from tests.worlds.__main__ import main
from tests.worlds.driver import Figures, run_many

pytestmark = pytest.mark.e2e

FIXED = range(40)
PARTS = 8
"""Of the fixed seeds."""
RUNNING = (0, 2, 13, 18, 77, 137, 534)
"""Seeds; in the last three only a file that is about to be deleted has a key."""
RANDOM = 12
NIGHTLY = 5_000
APART = 100_000
"""Seeds of a run are below this multiple of its number."""


@pytest.fixture
def quiet() -> Iterator[None]:
    """Without the log messages of what is interrupted on purpose."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def said(figures: Figures) -> list[str]:
    return [f"--show {seed}: {one}" for seed, wrong in figures.wrong for one in wrong]


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_claims_about_fixed_worlds(quiet: None, part: int) -> None:
    """Certificates, countdowns, searches and erasures say neither more nor less than is known."""
    with scratch_directory() as scratch:
        figures = run_many(FIXED[part::PARTS], Path(scratch))
    assert [] == said(figures)
    assert len(FIXED) // PARTS == figures.worlds


def test_claims_about_worlds(quiet: None, seed: int) -> None:
    """The same of random ones."""
    with scratch_directory() as scratch:
        seeds = range((seed + 1) * APART, (seed + 1) * APART + RANDOM)
        figures = run_many(seeds, Path(scratch))
    assert [] == said(figures)
    assert len(seeds) == figures.worlds


def test_claims_while_a_broker_runs(quiet: None) -> None:
    """No search or certificate of a directory that a broker has open says more than is known."""
    with scratch_directory() as scratch:
        figures = running.run_many(RUNNING, Path(scratch))
    assert [] == said(figures)
    assert {"find 8", "find 9", "certificate 0"} <= figures.statuses.keys()


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_many_worlds_while_a_broker_runs(quiet: None, seed: int) -> None:
    """The same, many more."""
    with scratch_directory() as scratch:
        first = (seed + 1) * APART
        figures = running.run_many(range(first, first + NIGHTLY // 10), Path(scratch))
    assert [] == said(figures)


@pytest.mark.nightly
@pytest.mark.timeout(5400)
def test_many_worlds(seed: int) -> None:
    """The same, many more."""
    assert 0 == main(["--count", str(NIGHTLY), "--seed", str((seed + 1) * APART)])
