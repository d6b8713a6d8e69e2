"""What `recover` marks as clean Kafka opens, and what it refuses has a remedy that works."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.property.damaged_roots import run

COUNT = 30
NIGHTLY_COUNT = 2_500


def outcomes(count: int, seed: int) -> Counter[str]:
    results = list(run(count, seed))
    assert [] == [one for one in results if one[1].startswith("WRONG")]
    return Counter(outcome for _, outcome in results)


@pytest.mark.oracle
def test_what_is_marked_clean_starts(seed: int) -> None:
    """Random damage to root files, topic ids, leader epochs, directories and logs."""
    counts = outcomes(COUNT, seed)
    assert counts["clean"] + counts["clean after remedies"] > COUNT // 4, counts


@pytest.mark.oracle
@pytest.mark.nightly
def test_what_is_marked_clean_starts_nightly(seed: int) -> None:
    """The long form."""
    counts = outcomes(NIGHTLY_COUNT, seed)
    assert counts["clean"] > NIGHTLY_COUNT // 4, counts
    assert counts["clean after remedies"] > NIGHTLY_COUNT // 10, counts
