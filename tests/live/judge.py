"""Whether a reading is what real consumers got up to the same offset. No effects.

What a consumer of the same isolation level got in [start, bound) decides:

- every row that was read was got, with the same key, value and timestamp; none is at or beyond the
  bound, none twice;
- where nothing is compacted, every row that was got was read;
- a compacted log has the same latest state. Which aborted or superseded records are left in it is
  the cleaner's business, so with read_uncommitted nothing more is known;
- a latest state has exactly the rows of the consumer's latest state.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tests.live.rows import KEY, OFFSET, Reading, Rows, newest, within

BEYOND = "a row at or beyond the bound"
DISORDER = "rows not ascending"
UNKNOWN = "a row that no consumer got"
OTHER = "another key, value or time than the consumer got"
HOLE = "a row is missing in a log that is not compacted"
LOST = "a key is lost"
RISEN = "a deleted key is there"
OLD = "an old value"
LATE = "a bound of long ago"
"""What the consumers had got long before the reading began is beyond it."""


def differences(reading: Reading, got: Rows, *, is_compacted: bool) -> Counter[str]:
    """Count what is wrong with a reading, by kind.

    Args:
        got: what consumers of its isolation level got, ascending; everything below the bound.
    """
    got = within(got, reading.start, reading.bound)
    if reading.is_state:
        return _known(reading, got) + _compared_states(reading.rows, newest(got))
    wrong = _known(reading, got)
    if not is_compacted:
        wrong[HOLE] += len(np.setdiff1d(got[:, OFFSET], reading.rows[:, OFFSET]))
    elif reading.isolation == "read_committed":
        rows = reading.rows[np.argsort(reading.rows[:, OFFSET], kind="stable")]
        wrong += _compared_states(newest(rows), newest(got))
    return +wrong


def age(reading: Reading, reached: int) -> Counter[str]:
    """Blame a bound below what the consumers had `reached` long before the reading began."""
    return Counter({LATE: 1} if reading.bound < reached else {})


def _known(reading: Reading, got: Rows) -> Counter[str]:
    """What is wrong with single rows."""
    wrong: Counter[str] = Counter()
    rows, offsets = reading.rows, reading.rows[:, OFFSET]
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


def _compared_states(read: Rows, right: Rows) -> Counter[str]:
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
