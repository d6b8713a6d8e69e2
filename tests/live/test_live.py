"""What is read of a log directory that a real broker has open is what real consumers get."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.differential.random_logs import scratch_directory
from tests.live import judge
from tests.live.driver import AT_REST, Figures, Plan, run

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]


NAMES = (
    *("records", "latest", "table", "upload", "inspect"),
    *("verify", "source", "config", "certificate"),
)
SHORT = Plan(seconds=5.0, seed=1, names=NAMES, warm_seconds=2.0, checkpoint_ms=500)


@pytest.fixture(scope="module")
def figures(seed: int) -> Figures:
    """A short run with all readers."""
    plan = replace(SHORT, seed=seed)
    with scratch_directory() as scratch:
        return run(plan, Path(scratch))


def wrong_of(figures: Figures, reader: str) -> Counter[str]:
    """What a reader's differences are, by kind."""
    kinds: Counter[str] = Counter()
    for place, count in figures.wrong.items():
        if place.startswith(f"{reader} "):
            kinds[place.partition(": ")[2]] += count
    return kinds


def test_readers_get_what_consumers_get(figures: Figures) -> None:
    """Whatever cleaner, retention and operator do meanwhile, and after the broker stopped."""
    assert [] == figures.shown
    assert Counter() == figures.wrong
    names = {place.rpartition(" ")[0] for place in figures.rounds}
    assert {*NAMES, *(f"{name}{AT_REST}" for name in NAMES)} == names
    assert 0 < figures.changes["records deleted"]


@pytest.mark.nightly
def test_a_simple_reader_loses_keys(seed: int) -> None:
    """One that takes the watermark, then the names, then each file in turn: the judge finds what
    the cleaner took from it meanwhile.
    """
    with scratch_directory() as scratch:
        long = run(replace(SHORT, seed=seed, seconds=60.0, names=("plain",)), Path(scratch))
    assert 0 < wrong_of(long, "plain")[judge.LOST]
