"""What is read of a log directory that a real broker has open is what real consumers get."""

from __future__ import annotations

import random
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
BY_DAY = 3
"""Readers, by chance."""
SHORT = Plan(seconds=5.0, seed=1, names=NAMES, warm_seconds=2.0, checkpoint_ms=500)
SHORTER = replace(SHORT, seconds=2.0, warm_seconds=1.5, change_seconds=1.0, processes=1)


def wrong_of(figures: Figures, reader: str) -> Counter[str]:
    """What a reader's differences are, by kind."""
    kinds: Counter[str] = Counter()
    for place, count in figures.wrong.items():
        if place.startswith(f"{reader} "):
            kinds[place.partition(": ")[2]] += count
    return kinds


def require_right(plan: Plan) -> None:
    """Run it: each reader gets what consumers get, and after the broker stopped, too."""
    with scratch_directory() as scratch:
        figures = run(plan, Path(scratch))
    assert [] == figures.shown
    assert Counter() == figures.wrong
    names = {place.rpartition(" ")[0] for place in figures.rounds}
    assert {*plan.names, *(f"{name}{AT_REST}" for name in plan.names)} == names
    assert 0 < figures.changes["records deleted"]


def test_readers_get_what_consumers_get(seed: int) -> None:
    """Whatever cleaner, retention and operator do meanwhile, and after the broker stopped."""
    names = tuple(random.Random(f"{seed} readers").sample(NAMES, BY_DAY))
    require_right(replace(SHORTER, seed=seed, names=names))


@pytest.mark.nightly
def test_all_readers_get_what_consumers_get(seed: int) -> None:
    """The same for each of them at once, and longer."""
    require_right(replace(SHORT, seed=seed))


@pytest.mark.nightly
def test_a_simple_reader_loses_keys(seed: int) -> None:
    """One that takes the watermark, then the names, then each file in turn: the judge finds what
    the cleaner took from it meanwhile.
    """
    with scratch_directory() as scratch:
        long = run(replace(SHORT, seed=seed, seconds=60.0, names=("plain",)), Path(scratch))
    assert 0 < wrong_of(long, "plain")[judge.LOST]
