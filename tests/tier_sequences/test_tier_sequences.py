"""Random sequences on a log with a tier, as `python -m tests.tier_sequences` plays more of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tier_sequences.__main__ import play
from tests.tier_sequences.steps import STEPS

KNOWN = (3, 19, 87, 53_224_000)
"""Seeds of sequences that show known faults (`tests.mutation.tiers`)."""
RANDOM = 5
MORE = 300


def test_both_are_one_log(tmp_path: Path, seed: int) -> None:
    """After each step rows, latest state, search and certificate are as the model says."""
    first = 1_000 * seed
    played = play({*KNOWN, *range(first, first + RANDOM)}, tmp_path)
    assert {} == played.wrong
    assert {"with events", "without", "refused: rows"} <= played.done.keys()


@pytest.mark.nightly
def test_both_are_one_log_in_many_sequences(tmp_path: Path, seed: int) -> None:
    """The same; each step is done."""
    first = 1_000 * seed
    played = play(range(first, first + MORE), tmp_path)
    assert {} == played.wrong
    assert {step.__name__ for step in STEPS} <= played.done.keys()
