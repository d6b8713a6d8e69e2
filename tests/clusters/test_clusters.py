"""Random histories of a cluster keep all that was acknowledged, whatever logwright does to the
directories of brokers that do not run.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters.driver import run_many, run_real

BY_DAY = 15
MOST = 100_000
"""Seeds of a run are below this multiple of its number."""
NIGHTLY_REAL = 30


def test_histories(seed: int) -> None:
    """By the model of Kafka's replication."""
    results = list(run_many(seed * MOST, BY_DAY))
    wrong = [f"seed {each.seed}: {each.difference}: {each.did}" for each in results]
    assert [] == [text for text, each in zip(wrong, results, strict=True) if each.difference]
    assert BY_DAY == len(results)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_many_histories(seed: int, pytestconfig: pytest.Config) -> None:
    """The same, many more."""
    count = pytestconfig.getoption("count")
    differences = [
        f"seed {each.seed}: {each.difference}"
        for each in run_many(seed * MOST, count)
        if each.difference
    ]
    assert [] == differences


@pytest.mark.e2e
@pytest.mark.oracle
@pytest.mark.nightly
@pytest.mark.parametrize("number", range(NIGHTLY_REAL))
def test_histories_of_real_brokers(tmp_path: Path, seed: int, number: int) -> None:
    """The same, with real brokers and real clients."""
    result = run_real(seed * MOST + number, tmp_path / "cluster")
    assert result.difference is None, f"{result.difference}: {result.did}"
