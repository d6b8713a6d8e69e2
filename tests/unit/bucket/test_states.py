"""No change of the state of a log directory in a bucket is lost, whatever fails."""

from __future__ import annotations

import random

import pytest

from logwright.bucket.states import (
    StoredState,
    change_stored,
    collect_stored,
    newest_stored,
    parse_stored,
    serialize_stored,
    state_key,
)
from logwright.errors import UnreadableFile
from tests.bucket.simulation import LIMITS, Store, answered
from tests.bucket.states import LEFT_OUT, run

RUNS = 300
SHOWN_BY = {
    "2: a create is settled": 0,
    "6: a deadline": 42,
    "7: the newest stays": 0,
    "an answer is of a version": 930,
}
"""Rule → a seed of a run that loses something without it."""
STATE = StoredState(version=3, operation="pause", content=b"one\ntwo\n")


def test_nothing_is_lost(seed: int) -> None:
    """Two writers and a collector, with a fault at any request."""
    faults = 0
    for each in range(seed, seed + RUNS):
        played = run(each)
        assert [] == played.wrong, each
        faults += played.store.faults.total()
    assert faults > 10 * RUNS


@pytest.mark.nightly
def test_nothing_is_lost_in_many_runs(seed: int) -> None:
    """The same, longer."""
    assert [] == [each for each in range(seed, seed + 10_000) if run(each).wrong]


@pytest.mark.parametrize("rule", LEFT_OUT)
def test_each_rule_is_needed(rule: str) -> None:
    """Without it the simulation finds a run that goes wrong; with it that run is right."""
    assert run(SHOWN_BY[rule], rule).wrong
    assert [] == run(SHOWN_BY[rule]).wrong


def test_it_is_read_as_it_was_written() -> None:
    """Whatever lines the content has."""
    assert STATE == parse_stored(serialize_stored(STATE), 3)


@pytest.mark.parametrize(
    ("content", "version", "problem"),
    [
        (b"", 3, "checksum does not match"),
        (serialize_stored(STATE)[:-2], 3, "checksum does not match"),
        (serialize_stored(STATE).replace(b"two", b"2wo"), 3, "checksum does not match"),
        (serialize_stored(STATE), 4, "says that it is version 3"),
    ],
)
def test_what_is_not_whole_is_refused_by_name(content: bytes, version: int, problem: str) -> None:
    """Cut, changed, or under another's name."""
    with pytest.raises(UnreadableFile, match=problem) as raised:
        parse_stored(content, version)
    assert state_key(version) == str(raised.value.path)


def test_a_broken_newest_version_is_not_passed_over() -> None:
    """Neither to read nor to change: the version before it says less."""
    store = Store(random.Random(0), rate=0)
    for word in (b"a\n", b"b\n"):
        answered(store, change_stored(lambda _, word=word: word, LIMITS, "x"))
    store.objects[state_key(1)] = b"{", store.now
    before = dict(store.objects)
    for requests in (newest_stored(), change_stored(lambda _: b"c\n", LIMITS, "y")):
        with pytest.raises(UnreadableFile, match="What is paused is not known"):
            answered(store, requests)
    assert before == store.objects


def test_a_removal_leaves_what_is_young_and_the_newest() -> None:
    """A version goes once it was replaced as long ago as the age."""
    store = Store(random.Random(0), rate=0)
    for number in range(4):
        answered(store, change_stored(lambda _: b"x\n", LIMITS, f"{number}"))
        store.now += LIMITS.age_ms // 2
    assert (0,) == answered(store, collect_stored(LIMITS, removes=False))
    assert 4 == len(store.objects)
    assert (0,) == answered(store, collect_stored(LIMITS, removes=True))
    store.now += LIMITS.age_ms * 100
    assert (1, 2) == answered(store, collect_stored(LIMITS, removes=True))
    assert [state_key(3)] == [*store.objects]
