"""Whether a reading is what real consumers got up to the same offset. No effects.

What a consumer of the same isolation level got in [start, bound) decides:

- every row that was read was got, with the same key, value and timestamp; none is at or beyond the
  bound, none twice;
- where nothing is compacted, every row that was got was read;
- a compacted log has the same latest state, but for keys that have a newer record beyond the bound:
  because of it the cleaner may have removed theirs. Which aborted or superseded records are left is
  the cleaner's business, so with read_uncommitted nothing more is known;
- of a replica that catches up the same keys may have older records: its leader's cleaner removed
  newer ones before it fetched them; and what is from before the consumers were last slow its
  leader's cleaner may have removed before they came to it;
- a latest state has exactly the rows of the consumer's latest state, whatever is beyond;
- of a compacted log a row counts for nothing, and its key neither, if the consumer had not come so
  far when the reading began and did not get it: the cleaner may have removed it in between;
- a key that is not there is not lost if its record is from before the consumers were last slow:
  a slow consumer misses tombstones;
- nor is it lost if an unclean election cut off a newer record of it: the cleaner of the one that
  led before had removed the older one by then. The replicas differ until the key is written again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from logwright.units import INT64_MAX
from tests.live.got import Got
from tests.live.rows import KEY, NONE, OFFSET, VALUE, Claim, Cut, Findings, Reading, Rows, newest

BEYOND = "a row at or beyond the bound"
DISORDER = "rows not ascending"
UNKNOWN = "a row that no consumer got"
OTHER = "another key, value or time than the consumer got"
HOLE = "a row is missing in a log that is not compacted"
LOST = "a key is lost"
RISEN = "a deleted key is there"
OLD = "an old value"
OF_STATES = (LOST, RISEN, OLD)
MISSED = "a record that is there was not found"
DENIED = "nothing is said to be left of a key that has a record"
RESURRECTED = "resurrected key"
"""What an audit says of a key that one replica has and another one does not."""
LATE = "a bound of long ago"
"""What the consumers had got long before the reading began is beyond it."""


def differences(
    reading: Reading,
    got: Got,
    *,
    is_compacted: bool,
    known: int = INT64_MAX,
    slow: int = 0,
    may_lag: bool = False,
    cuts: Sequence[Cut] = (),
) -> Counter[str]:
    """Count what is wrong with the rows of a reading, by kind.

    Args:
        got: what consumers of its isolation level got: everything below the bound, and what was
            there beyond it when the log was read.
        known: they had got everything below this offset when the reading began.
        slow: tombstones of what is below this offset they may have missed.
        may_lag: the log has other replicas.
        cuts: what elections cut off of the log.
    """
    rows = reading.rows
    if rows is None:
        return Counter()
    start, bound = reading.start, reading.bound
    inside, right = got.within(start, bound), got.newest(start, bound)
    if is_compacted:
        passed = unseen(reading, got, known, slow if may_lag else 0)
        rows = rows[~np.isin(rows[:, OFFSET], passed[:, OFFSET])]
        wrong = _known(rows, reading, inside)
        rows, right = (_without(each, passed) for each in (rows, right))
        may_lack = (right[:, OFFSET] < slow) | _is_cut(right, cuts)
        right = right[~may_lack | np.isin(right[:, KEY], rows[:, KEY])]
    else:
        wrong = _known(rows, reading, inside)
    if reading.is_state:
        return +(wrong + _compared_states(rows, right))
    if not is_compacted:
        wrong[HOLE] += len(np.setdiff1d(inside[:, OFFSET], rows[:, OFFSET]))
    elif reading.isolation == "read_committed":
        ascending = rows[np.argsort(rows[:, OFFSET], kind="stable")]
        later, read = got.within(bound, INT64_MAX), newest(ascending)
        if may_lag:
            read, right = (_without(each, later) for each in (read, right))
        wrong += _compared_states(read, right, later)
    return +wrong


def lacking(reading: Reading, got: Got) -> list[int]:
    """Return the offsets of the last rows of keys, with or without a value, that a latest state
    does not come to.
    """
    assert reading.rows is not None
    rows = got.within(reading.start, reading.bound)
    rows = rows[rows[:, KEY] != NONE][::-1]
    _, firsts = np.unique(rows[:, KEY], return_index=True)
    last = rows[firsts]
    is_shown = np.isin(last[:, OFFSET], reading.rows[:, OFFSET])
    is_gone = (last[:, VALUE] == NONE) & ~np.isin(last[:, KEY], reading.rows[:, KEY])
    return sorted(last[~is_shown & ~is_gone, OFFSET].tolist())


def unseen(reading: Reading, got: Got, known: int, late: int = 0) -> Rows:
    """Return the rows of a reading that the consumers did not get, and that a cleaner may have
    removed before they came to them.

    Args:
        got, known: see `differences`.
        late: what is below this offset a leader's cleaner may have removed before they came to it,
            and its follower not yet.
    """
    assert reading.rows is not None
    offsets = reading.rows[:, OFFSET]
    is_late = (offsets >= known) | (offsets < late)
    is_inside = is_late & (offsets >= reading.start) & (offsets < reading.bound)
    own = got.within(reading.start, reading.bound)[:, OFFSET]
    return reading.rows[is_inside & ~np.isin(offsets, own)]


def _is_cut(rows: Rows, cuts: Sequence[Cut]) -> NDArray[np.bool_]:
    """Which rows had newer ones of their keys that an election cut off."""
    is_cut = np.zeros(len(rows), dtype=np.bool_)
    for cut in cuts:
        is_cut |= (rows[:, OFFSET] < cut.end) & np.isin(rows[:, KEY], cut.keys)
    return is_cut


def are_of_cuts(claims: Sequence[Claim], got: Got, cuts: Sequence[Cut]) -> bool:
    """Whether all that an audit claims is what elections leave: one replica has a key that another
    one does not have any more, because of a newer record that was cut off.

    Args:
        got: what consumers of all records got.
        cuts: see `differences`.
    """
    offsets = [claim.offset for claim in claims]
    rows = got.rows[np.isin(got.rows[:, OFFSET], offsets)]
    are_lacking = all(claim.kind == RESURRECTED and claim.other == NONE for claim in claims)
    return are_lacking and len(rows) == len(set(offsets)) and bool(_is_cut(rows, cuts).all())


def _without(rows: Rows, others: Rows) -> Rows:
    """Rows without those of the keys that others have."""
    return rows[~np.isin(rows[:, KEY], others[:, KEY])]


def missed(findings: Findings, got: Got, *, known: int, slow: int = 0) -> Counter[str]:
    """Count keys whose newest record was not found, or that are said to have none, although it was
    there and has no newer one.

    Args:
        got: what consumers of committed records got.
        known: they had got everything below this offset when the search began.
        slow: see `differences`.
    """
    last = got.newest(slow, INT64_MAX)
    there = last[np.isin(last[:, KEY], findings.keys) & (last[:, OFFSET] < known)]
    return +Counter(
        {
            MISSED: len(np.setdiff1d(there[:, OFFSET], findings.hits[:, OFFSET])),
            DENIED: int(np.isin(there[:, KEY], findings.denied).sum()),
        }
    )


def invented(findings: Findings, all_got: Sequence[tuple[Got, int]]) -> Counter[str]:
    """Count hits that are not records with their keys, and keys that have hits and are said to have
    none.

    Args:
        all_got: what consumers of all records got of each history that the log has had, and up to
            which offset it is known.
    """
    hits = findings.committed
    wrong = np.ones(len(hits), dtype=np.bool_)
    for got, known in all_got:
        wrong &= _is_invented(hits, got.rows, known)
    denied = len(np.intersect1d(findings.hits[:, KEY], findings.denied))
    return +Counter({UNKNOWN: int(wrong.sum()) if all_got else 0, DENIED: denied})


def _is_invented(hits: Rows, got: Rows, known: int) -> NDArray[np.bool_]:
    """Which hits are known to be no records of one history."""
    below = hits[:, OFFSET] < known
    if not len(got):
        return below
    places = np.minimum(np.searchsorted(got[:, OFFSET], hits[:, OFFSET]), len(got) - 1)
    is_right: NDArray[np.bool_] = (got[places][:, : KEY + 1] == hits[:, : KEY + 1]).all(axis=1)
    return below & ~is_right


def age(reading: Reading, reached: int) -> Counter[str]:
    """Blame a bound below what the consumers had `reached` long before the reading began."""
    return Counter({LATE: 1} if reading.bound < reached else {})


def _known(rows: Rows, reading: Reading, got: Rows) -> Counter[str]:
    """What is wrong with single rows."""
    wrong: Counter[str] = Counter()
    offsets = rows[:, OFFSET]
    wrong[BEYOND] = int((offsets >= reading.bound).sum())
    if not reading.is_state:
        wrong[DISORDER] = int((np.diff(offsets) <= 0).sum())
    inside = rows[(offsets >= reading.start) & (offsets < reading.bound)]
    places = np.searchsorted(got[:, OFFSET], inside[:, OFFSET])
    is_there = places < len(got)
    is_there[is_there] = got[places[is_there], OFFSET] == inside[is_there, OFFSET]
    wrong[UNKNOWN] = int((~is_there).sum() + (offsets < reading.start).sum())
    wrong[OTHER] = int((got[places[is_there]] != inside[is_there]).any(axis=1).sum())
    return wrong


def _compared_states(read: Rows, right: Rows, later: Rows | None = None) -> Counter[str]:
    """What is wrong with a state; `later`: records because of which a key may be missing."""
    if later is not None:
        is_excused = np.isin(right[:, KEY], later[:, KEY]) & ~np.isin(right[:, KEY], read[:, KEY])
        right = right[~is_excused]
    wrong: Counter[str] = Counter()
    keys = np.union1d(read[:, KEY], right[:, KEY])
    if not len(keys):
        return wrong
    mine, theirs = (np.full(int(keys.max()) + 1, -1) for _ in range(2))
    mine[read[:, KEY]] = read[:, OFFSET]
    theirs[right[:, KEY]] = right[:, OFFSET]
    wrong[LOST] = int(((mine < 0) & (theirs >= 0)).sum())
    wrong[RISEN] = int(((mine >= 0) & (theirs < 0)).sum())
    wrong[OLD] = int(((mine >= 0) & (theirs >= 0) & (mine != theirs)).sum())
    return wrong
