"""The judge of readings finds each fault that is planted, and nothing where there is none."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf

import numpy as np
import pytest

from tests.live import judge
from tests.live.driver import AWAY_SECONDS, REACH_SECONDS, reach_until
from tests.live.erasing import stays
from tests.live.got import Got
from tests.live.rows import (
    KEY,
    LEVELS,
    NONE,
    OFFSET,
    TIME,
    VALUE,
    Claim,
    Cut,
    Findings,
    Isolation,
    Reading,
    Rows,
    newest,
    row_of,
    rows_of,
    within,
)

COMMITTED: Isolation = "read_committed"
GOT = rows_of(
    [
        row_of(3, b"k1", b"a", 30),
        row_of(4, b"k2", b"b", 40),
        row_of(6, b"k1", b"c", 60),
        row_of(7, b"k2", None, 70),
        row_of(8, b"k0", b"d", 80),
        row_of(9, b"k0", b"e", 90),
        row_of(12, b"k4", b"f", 95),
    ]
)
BOUND = 12
"""A consumer got one more."""
CLEANED = [6, 7, 9]
"""Offsets that a cleaner leaves: tombstones for a while."""


def rows_at(*offsets: int) -> Rows:
    return GOT[np.isin(GOT[:, OFFSET], offsets)]


def reading(rows: Rows, *, is_state: bool = False, isolation: Isolation = COMMITTED) -> Reading:
    return Reading(
        reader="r",
        log="t-0",
        topic_ids=("id",),
        isolation=isolation,
        is_state=is_state,
        start=3,
        bound=BOUND,
        rows=rows,
        began=0.0,
        ended=1.0,
    )


def judged(of: Reading, *, is_compacted: bool = True) -> Counter[str]:
    return judge.differences(of, Got(GOT), is_compacted=is_compacted)


@pytest.mark.parametrize("isolation", LEVELS)
@pytest.mark.parametrize("is_compacted", [False, True])
def test_all_records_are_right(isolation: Isolation, is_compacted: bool) -> None:
    """There is nothing to find in what a consumer got, compacted or not."""
    whole = reading(GOT[:-1], isolation=isolation)
    assert Counter() == judged(whole, is_compacted=is_compacted)


def test_a_cleaned_log_is_right() -> None:
    """Superseded records may be gone, and tombstones with what they delete."""
    assert Counter() == judged(reading(rows_at(*CLEANED)))
    assert Counter() == judged(reading(rows_at(6, 9)))


def test_a_state_is_right() -> None:
    """It has the last row of each key that has a value, in any order."""
    assert Counter() == judged(reading(rows_at(9, 6), is_state=True))
    assert Counter() == judged(reading(rows_at(6, 9)[::-1], is_state=True))


def test_what_a_state_is() -> None:
    """The newest row of each key by offset; no tombstone, no row without a key."""
    without_key = rows_of([row_of(10, None, b"x", 1)])
    assert rows_at(6, 9).tolist() == sorted(newest(np.vstack([GOT[:-1], without_key])).tolist())
    assert [] == newest(rows_of([])).tolist()


def test_a_row_that_a_cleaner_removed_before_the_consumers_came() -> None:
    """They had got everything below `known` when the reading began. From there on a row may have
    been there that they never got, and its key had that value then.
    """
    slow = Got(rows_at(3, 4, 6, 7, 12))
    whole, state = reading(GOT[:-1]), reading(rows_at(6, 9), is_state=True)
    for of, gone in ((whole, [8, 9]), (state, [9])):
        assert Counter() == judge.differences(of, slow, is_compacted=True, known=8)
        assert gone == judge.unseen(of, slow, 8)[:, OFFSET].tolist()
        wrong = judge.differences(of, slow, is_compacted=True, known=10)
        assert {judge.UNKNOWN, judge.RISEN} == wrong.keys()
        assert judge.differences(of, slow, is_compacted=False, known=8)[judge.UNKNOWN]
    beyond = reading(GOT)
    assert judge.BEYOND in judge.differences(beyond, Got(GOT[:-1]), is_compacted=True, known=8)
    old = reading(rows_at(3, 4), is_state=True)
    assert judge.OLD in judge.differences(old, slow, is_compacted=True, known=8)


@pytest.mark.parametrize("is_state", [False, True])
def test_a_lost_key(is_state: bool) -> None:
    """A key whose newest record is missing is lost."""
    assert Counter({judge.LOST: 1}) == judged(reading(rows_at(6), is_state=is_state))


def test_what_only_a_follower_still_has() -> None:
    """Its leader's cleaner removed it before the consumers came to it; what they got in time is
    known.
    """
    read = reading(rows_of([*GOT[:2].tolist(), row_of(5, b"k3", b"x", 50), *GOT[2:-1].tolist()]))
    unknown = Counter({judge.UNKNOWN: 1, judge.RISEN: 1})
    for slow, may_lag, wrong in ((6, True, Counter()), (5, True, unknown), (6, False, unknown)):
        result = judge.differences(read, Got(GOT), is_compacted=True, slow=slow, may_lag=may_lag)
        assert wrong == result


@pytest.mark.parametrize("may_lag", [False, True])
def test_a_replica_that_catches_up(may_lag: bool) -> None:
    """Of a key with a record beyond the bound it may have any; no latest state is excused."""
    got = Got(np.vstack([GOT, rows_of([row_of(13, b"k2", b"g", 99)])]))
    older = reading(rows_at(4, 6, 9))
    wrong = judge.differences(older, got, is_compacted=True, may_lag=may_lag)
    assert (Counter() if may_lag else Counter({judge.RISEN: 1})) == wrong
    state = reading(rows_at(4, 6, 9), is_state=True)
    assert judge.RISEN in judge.differences(state, got, is_compacted=True, may_lag=may_lag)
    other = reading(rows_at(3, 9))
    assert judge.OLD in judge.differences(other, got, is_compacted=True, may_lag=may_lag)


def test_a_slow_consumer_may_have_missed_a_tombstone() -> None:
    """What it had got until then is not there for sure; what it got since is."""
    for is_state in (False, True):
        without = reading(rows_at(6), is_state=is_state)
        assert Counter() == judge.differences(without, Got(GOT), is_compacted=True, slow=10)
        lost = judge.differences(without, Got(GOT), is_compacted=True, slow=9)
        assert Counter({judge.LOST: 1}) == lost
        old = reading(rows_at(6, 8), is_state=is_state)
        assert judge.OLD in judge.differences(old, Got(GOT), is_compacted=True, slow=10)
    assert Counter() == judge.missed(findings(7), Got(GOT), known=10, slow=10)
    assert Counter({judge.MISSED: 1}) == judge.missed(findings(7), Got(GOT), known=10, slow=9)


def test_a_key_of_which_an_election_cut_off_a_newer_record() -> None:
    """The leader of before may lack it; what was written since then it has, and no older value."""
    cuts = (Cut(end=9, keys=np.array([4])), Cut(end=9, keys=np.array([0, 1])))
    for is_state in (False, True):
        for offsets, wrong in (
            ((9,), Counter()),
            ((6,), Counter({judge.LOST: 1})),
            ((3, 9), Counter({judge.OLD: 1})),
        ):
            read = reading(rows_at(*offsets), is_state=is_state)
            assert wrong == judge.differences(read, Got(GOT), is_compacted=True, cuts=cuts)


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([Claim(kind=judge.RESURRECTED, offset=6, other=NONE)], True),
        ([Claim(kind=judge.RESURRECTED, offset=6, other=7)], False),
        ([Claim(kind="lost record", offset=6, other=NONE)], False),
        ([Claim(kind=judge.RESURRECTED, offset=8, other=NONE)], False),
        ([Claim(kind=judge.RESURRECTED, offset=5, other=NONE)], False),
        ([Claim(kind=judge.RESURRECTED, offset=offset, other=NONE) for offset in (6, 8)], False),
    ],
)
def test_what_an_audit_claims_after_an_election(claims: list[Claim], expected: bool) -> None:
    """A key that one replica lacks because of a record that was cut off; nothing else."""
    cuts = (Cut(end=7, keys=np.array([0, 1])),)
    assert judge.are_of_cuts(claims, Got(GOT), cuts) == expected


def test_a_key_with_a_newer_record() -> None:
    """Its record below the bound may be gone from a cleaned log, but not from a latest state."""
    newer = np.vstack([GOT, rows_of([row_of(13, b"k0", b"g", 96)])])
    without = reading(rows_at(6))
    assert Counter() == judge.differences(without, Got(newer), is_compacted=True)
    state = replace(without, is_state=True)
    assert Counter({judge.LOST: 1}) == judge.differences(state, Got(newer), is_compacted=True)
    old = reading(rows_at(6, 8))
    assert Counter({judge.OLD: 1}) == judge.differences(old, Got(newer), is_compacted=True)


@pytest.mark.parametrize("is_state", [False, True])
def test_a_risen_key(is_state: bool) -> None:
    """A record whose tombstone is missing is a deleted key that is there."""
    assert Counter({judge.RISEN: 1}) == judged(reading(rows_at(4, 6, 9), is_state=is_state))


@pytest.mark.parametrize("is_state", [False, True])
def test_an_old_value(is_state: bool) -> None:
    """A superseded record without the newer one is an old value."""
    assert Counter({judge.OLD: 1}) == judged(reading(rows_at(3, 9), is_state=is_state))


def test_a_tombstone_in_a_state() -> None:
    """A deleted key is not a row of a state."""
    assert Counter({judge.RISEN: 1}) == judged(reading(rows_at(6, 7, 9), is_state=True))


def test_a_row_beyond_the_bound() -> None:
    """Even one that a consumer got."""
    assert Counter({judge.BEYOND: 1, judge.RISEN: 1}) == judged(reading(GOT))


def test_a_row_that_no_consumer_got() -> None:
    """A record of an aborted transaction, or one from before the start."""
    aborted = rows_of([*GOT[:2].tolist(), row_of(5, b"k3", b"x", 50), *GOT[2:-1].tolist()])
    assert Counter({judge.UNKNOWN: 1}) == judged(reading(aborted), is_compacted=False)
    earlier = np.vstack([rows_of([row_of(2, b"k1", b"x", 50)]), GOT[:-1]])
    assert Counter({judge.UNKNOWN: 1}) == judged(reading(earlier), is_compacted=False)


@pytest.mark.parametrize("column", [VALUE, TIME])
def test_another_record(column: int) -> None:
    """A row with the right offset and another value or time is not what the consumer got."""
    changed = GOT[:-1].copy()
    changed[2, column] += 1
    assert Counter({judge.OTHER: 1}) == judged(reading(changed), is_compacted=False)


def test_a_hole() -> None:
    """A log that is not compacted has every row."""
    assert Counter({judge.HOLE: 1}) == judged(
        reading(np.delete(GOT[:-1], 2, axis=0)), is_compacted=False
    )


def findings(*offsets: int, denied: tuple[int, ...] = ()) -> Findings:
    hits = rows_at(*offsets).copy()
    hits[:, VALUE:] = NONE
    return Findings(
        reader="r",
        log="t-0",
        topic_ids=("id",),
        keys=(0, 1, 2),
        hits=hits,
        committed=hits,
        began=0.0,
        ended=1.0,
        denied=denied,
    )


def test_a_search() -> None:
    """The newest record of each key that has a value is found, and of no other key is asked."""
    assert Counter() == judge.missed(findings(6, 9), Got(GOT), known=10)
    assert Counter({judge.MISSED: 1}) == judge.missed(findings(7, 9), Got(GOT), known=10)
    assert Counter() == judge.missed(findings(7, 9), Got(GOT), known=6)


def test_a_key_that_is_denied() -> None:
    """Nothing may be said to be left only of a key without a record, or with a tombstone."""
    assert Counter() == judge.missed(findings(6, 9, denied=(2,)), Got(GOT), known=10)
    both = Counter({judge.MISSED: 1, judge.DENIED: 1})
    assert both == judge.missed(findings(9, denied=(1, 2)), Got(GOT), known=10)
    assert Counter() == judge.missed(findings(9, denied=(1, 2)), Got(GOT), known=6)
    assert Counter({judge.DENIED: 1}) == judge.invented(findings(6, 9, denied=(0, 2)), [])


def test_a_hit_that_is_no_record() -> None:
    """A hit has the offset and the key of a record that somebody got, as far as is known, in one of
    the log's histories.
    """
    got = Got(GOT)
    assert Counter() == judge.invented(findings(3, 4, 7), [(got, 10)])
    wrong = findings(3, 4, 7)
    wrong.hits[1, KEY] = 0
    assert Counter({judge.UNKNOWN: 1}) == judge.invented(wrong, [(got, 10)])
    assert Counter() == judge.invented(wrong, [(got, 4)])
    other = GOT.copy()
    other[1, KEY] = 0
    assert Counter() == judge.invented(wrong, [(got, 10), (Got(other), 10)])
    wrong.hits[2, OFFSET] = 1000
    assert Counter({judge.UNKNOWN: 2}) == judge.invented(wrong, [(got, 2000)])
    assert Counter({judge.UNKNOWN: 3}) == judge.invented(wrong, [(Got(), 2000)])


def test_a_hit_that_may_be_cut_off() -> None:
    """It need not be a record that somebody got, and its key is not without a hit."""
    some = findings(3, 4, 7)
    some.hits[1, KEY] = 0
    assert Counter() == judge.invented(replace(some, committed=some.hits[:1]), [(Got(GOT), 10)])
    assert Counter() == judge.missed(replace(findings(6, 9), committed=GOT[:0]), Got(GOT), known=10)


def test_where_a_log_starts_and_ends() -> None:
    """Without rows only the age of the bound is judged."""
    extent = replace(reading(GOT), rows=None)
    assert Counter() == judged(extent)
    assert Counter() == judge.age(extent, BOUND)
    assert Counter({judge.LATE: 1}) == judge.age(extent, BOUND + 1)


def test_rows_that_grow(seed: int) -> None:
    """What is kept of them is what they are: the rows of a range, and its latest state."""
    draw = np.random.default_rng(seed)
    count = 3000
    rows = np.empty((count, 4), dtype=np.int64)
    rows[:, OFFSET] = np.cumsum(draw.integers(1, 4, count))
    rows[:, KEY] = draw.integers(-1, 50, count)
    rows[:, VALUE] = draw.integers(-1, 3, count)
    rows[:, TIME] = 1
    got = Got(rows[:100], step_rows=64)
    for first in range(100, count, 290):
        got.extend(rows[first : first + 290])
        start, end = np.sort(draw.integers(0, int(rows[-1, OFFSET]), 2)).tolist()
        there = within(rows[: first + 290], start, end)
        assert there.tolist() == got.within(start, end).tolist()
        assert newest(there).tolist() == got.newest(start, end).tolist()


def test_the_order() -> None:
    """Rows twice, or not ascending."""
    twice = np.vstack([GOT[:3], GOT[2:-1]])
    assert Counter({judge.DISORDER: 1}) == judged(reading(twice), is_compacted=False)
    swapped = GOT[:-1][[1, 0, 2, 3, 4, 5]]
    assert Counter({judge.DISORDER: 1}) == judged(reading(swapped))


def test_uncommitted_records_of_a_compacted_log() -> None:
    """Which of them are left is the cleaner's business: no state is compared."""
    some = reading(rows_at(3, 9), isolation="read_uncommitted")
    assert Counter() == judged(some)
    aborted = replace(some, rows=rows_of([row_of(5, b"k3", b"x", 50)]))
    assert Counter({judge.UNKNOWN: 1}) == judged(aborted)


def test_nothing_read() -> None:
    """An empty reading of an empty range is right; of a range with records it is not."""
    nothing = rows_of([])
    assert Counter() == judged(replace(reading(nothing), bound=3))
    assert Counter({judge.LOST: 2}) == judged(reading(nothing))
    assert Counter({judge.HOLE: 6}) == judged(reading(nothing), is_compacted=False)
    assert NONE == row_of(1, None, None, 2)[1] == row_of(1, None, None, 2)[VALUE]


def test_consumers_have_the_same_time_after_an_outage() -> None:
    """A broker that never comes back is not waited for without end."""
    assert 10 + REACH_SECONDS == reach_until(10, up_since=5)
    assert 400 + REACH_SECONDS == reach_until(10, up_since=400)
    assert 10 + AWAY_SECONDS + REACH_SECONDS == reach_until(10, up_since=inf)


@pytest.mark.parametrize("committed", [True, False, None])
def test_what_is_not_committed_may_be_cut_off(committed: bool | None) -> None:
    """By another leader; one replica alone keeps it."""
    hit = {"committed": committed}
    assert stays(hit, is_alone=True)
    assert stays(hit, is_alone=False) == bool(committed)
