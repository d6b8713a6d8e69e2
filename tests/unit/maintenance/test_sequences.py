"""Random sequences on a log in a bucket, with faults: see `tests.bucket_maintenance.sequence`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.bucket_maintenance.sequence import play_sequence

KNOWN = range(5)
"""Seeds that show a known fault (`tests.mutation.buckets`)."""
MORE = [range(first, first + 5) for first in range(5, 40, 5)]
NIGHTLY = [range(first, first + 250) for first in range(1_000, 3_000, 250)]


def played(seeds: range, root: Path, agreement: bytes) -> Counter[str]:
    """Play them, and return what was done."""
    done: Counter[str] = Counter()
    for seed in seeds:
        (root / str(seed)).mkdir()
        wrong, each = play_sequence(seed, root / str(seed), agreement)
        assert [] == wrong, seed
        done += each
    return done


def test_it_shows_the_log_from_before_or_after(tmp_path: Path, agreement: bytes) -> None:
    """Requests fail, processes end, an upload writes between; nothing is left in the end."""
    assert played(KNOWN, tmp_path, agreement).total() > len(KNOWN)


@pytest.mark.rotates(4)
@pytest.mark.parametrize("seeds", MORE, ids=str)
def test_more_do(seeds: range, tmp_path: Path, agreement: bytes) -> None:
    """The same with other seeds."""
    assert played(seeds, tmp_path, agreement).total() > len(seeds)


@pytest.mark.nightly
@pytest.mark.parametrize("seeds", NIGHTLY, ids=str)
def test_many_do(seeds: range, tmp_path: Path, agreement: bytes) -> None:
    """In each part every fault is met, and every command is done."""
    done = played(seeds, tmp_path, agreement)
    met = {"killed", "upload between", "purge between", "put, lost answer", "put, not done"}
    commands = {"roll", "clean", "split", "retain", "erase", "upload", "undo", "purge"}
    assert met | {f"{each}, done" for each in commands} <= done.keys()
