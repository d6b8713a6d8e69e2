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


SHORT = Plan(seconds=5.0, seed=1, names=("plain",), warm_seconds=3.0, checkpoint_ms=1000)


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


def test_a_simple_reader_is_right_of_a_stopped_broker(figures: Figures) -> None:
    """So what the consumers got, and the judge, are right."""
    reader = f"plain{AT_REST}"
    assert [] == [text for text in figures.shown if text.startswith(reader)]
    assert 10 == sum(n for place, n in figures.rounds.items() if place.startswith(reader))


@pytest.mark.nightly
def test_a_simple_reader_loses_keys(seed: int) -> None:
    """One that takes the watermark, then the names, then each file in turn: the judge finds what
    the cleaner took from it meanwhile.
    """
    with scratch_directory() as scratch:
        long = run(replace(SHORT, seed=seed, seconds=60.0), Path(scratch))
    assert 0 < wrong_of(long, "plain")[judge.LOST]
