"""Random sets of replicas: the audit finds nothing in healthy ones, and something in others."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.replica_sets import audits, main

IN_EVERY_RUN = 12
UNHEALTHY = 40
NIGHTLY, NIGHTLY_UNHEALTHY = 500, 200
_APART = 100_000


def healthy(seed: int, count: int) -> Counter[str]:
    """Audit this number of healthy sets; what was done with them."""
    first = seed * _APART
    done: Counter[str] = Counter()
    for number, made, audit in audits(range(first, first + count)):
        assert () == audit.findings, number
        done += made.done
    return done


def kinds_found(seed: int, count: int) -> Counter[str]:
    """In how many of unhealthy sets a kind of finding is."""
    first = seed * _APART
    kinds: Counter[str] = Counter()
    for _, _, audit in audits(range(first, first + count), healthy=False):
        kinds.update(audit.counts.keys())
    return kinds


def test_healthy_replicas_have_no_findings(seed: int) -> None:
    """Cleaned at different times, by themselves or coordinated; lagging, with other log start
    offsets, segments and codecs.
    """
    assert healthy(seed, IN_EVERY_RUN)["cleaned"] > 0


@pytest.mark.nightly
def test_healthy_replicas_of_each_kind(seed: int) -> None:
    """As many that all of this was done with some of them."""
    done = healthy(seed, UNHEALTHY)
    for what in ("cleaned", "lagging", "log start raised", "recompressed", "elections"):
        assert done[what] > 0
    assert done["tombstones removed"] + done["coordinated: tombstones removed"] > 0
    assert done["markers removed"] + done["coordinated: markers removed"] > 0


@pytest.mark.rotates(4)
def test_uncoordinated_cleaning_of_absent_replicas_is_found(seed: int) -> None:
    """The same, but replicas are away for any time although each is cleaned by itself."""
    assert kinds_found(seed, UNHEALTHY).total() > 0


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_keys_that_come_back_are_found(seed: int) -> None:
    """Of many such sets some have a key again that was deleted."""
    assert kinds_found(seed, NIGHTLY_UNHEALTHY)["resurrected key"] > 0


@pytest.mark.nightly
@pytest.mark.timeout(5400)
def test_many_healthy_replica_sets(seed: int) -> None:
    """The same, many more."""
    assert 0 == main(["--count", str(NIGHTLY), "--seed", str(seed * _APART)])
