"""Random sets of replicas: the audit finds nothing in healthy ones, and something in others."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.replica_sets import audits, main

IN_EVERY_RUN = 25
UNHEALTHY = 40
NIGHTLY = 500
_APART = 100_000


def test_healthy_replicas_have_no_findings(seed: int) -> None:
    """Cleaned at different times, by themselves or coordinated; lagging, with other log start
    offsets, segments and codecs.
    """
    first = seed * _APART
    done: Counter[str] = Counter()
    for number, made, audit in audits(range(first, first + IN_EVERY_RUN)):
        assert () == audit.findings, number
        done += made.done
    for what in ("cleaned", "lagging", "log start raised", "recompressed", "elections"):
        assert done[what] > 0
    assert done["tombstones removed"] + done["coordinated: tombstones removed"] > 0
    assert done["markers removed"] + done["coordinated: markers removed"] > 0


def test_uncoordinated_cleaning_of_absent_replicas_is_found(seed: int) -> None:
    """The same, but replicas are away for any time although each is cleaned by itself."""
    first = seed * _APART
    kinds: Counter[str] = Counter()
    for _, _, audit in audits(range(first, first + UNHEALTHY), healthy=False):
        kinds.update(audit.counts.keys())
    assert kinds["resurrected key"] > 0


@pytest.mark.nightly
@pytest.mark.timeout(5400)
def test_many_healthy_replica_sets(seed: int) -> None:
    """The same, many more."""
    assert 0 == main(["--count", str(NIGHTLY), "--seed", str(seed * _APART)])
