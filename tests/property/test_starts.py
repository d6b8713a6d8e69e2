"""Where `doctor` says that a broker starts, Kafka does; where it says that it does not, neither."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.property.starts import run

COUNT = 40
NIGHTLY_COUNT = 5_000


def outcomes(count: int, seed: int) -> Counter[str]:
    results = list(run(count, seed))
    assert [] == [one for one in results if one[1].startswith("WRONG")]
    return Counter(outcome for _, outcome in results)


@pytest.mark.oracle
def test_it_says_what_kafka_does(seed: int) -> None:
    """Random damage to one or two log directories."""
    counts = outcomes(COUNT, seed)
    assert counts["starts"] + counts["does not"] > COUNT // 2, counts


@pytest.mark.oracle
@pytest.mark.nightly
def test_it_says_what_kafka_does_nightly(seed: int) -> None:
    """The long form."""
    counts = outcomes(NIGHTLY_COUNT, seed)
    assert counts["starts"] > NIGHTLY_COUNT // 8, counts
    assert counts["does not"] > NIGHTLY_COUNT // 8, counts
    assert counts["not known"] < NIGHTLY_COUNT // 4, counts
