"""Random changes of a log directory and of a bucket, with copies both ways: see `both_sides`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.bucket_maintenance.both_sides import play

BY_DAY = 6
BY_NIGHT = 1_000


def played(seeds: range, root: Path, agreement: bytes) -> Counter[str]:
    """Play them, and return what was done."""
    done: Counter[str] = Counter()
    for seed in seeds:
        (root / str(seed)).mkdir()
        wrong, each = play(seed, root / str(seed), agreement)
        assert "" == wrong, seed
        done += each
    return done


def test_no_copy_brings_anything_back(tmp_path: Path, agreement: bytes, seed: int) -> None:
    """Nor loses anything; what is refused says why."""
    assert played(range(seed, seed + BY_DAY), tmp_path, agreement).total() > BY_DAY


@pytest.mark.nightly
def test_no_copy_brings_anything_back_in_many(tmp_path: Path, agreement: bytes, seed: int) -> None:
    """Each end of an upload and each command is met."""
    done = played(range(seed, seed + BY_NIGHT), tmp_path, agreement)
    met = {"upload 0", "upload killed", "download", "erase bucket, 9", "erase directory, 0"}
    assert met <= done.keys()
