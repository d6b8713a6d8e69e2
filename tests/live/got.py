"""What a consumer got: rows in the order of their offsets, to which more come at the end.

The latest state up to an offset is asked for again and again, for thousands of readings: it is kept
after every few thousand rows, so that only what follows the last of these is looked at.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from tests.live.rows import KEY, NONE, OFFSET, VALUE, Rows, within

STEP_ROWS = 4096
"""A state is kept after each such number of rows."""
_FIRST_ROWS = 1024


class Got:
    """Rows that grow; one thread may add some while another one looks."""

    def __init__(self, rows: Rows | None = None, *, step_rows: int = STEP_ROWS) -> None:
        self._buffer = np.empty((_FIRST_ROWS, 4), dtype=np.int64)
        self._count = 0
        self._lock = threading.Lock()
        self._step_rows = step_rows
        self._states: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)]
        if rows is not None:
            self.extend(rows)

    def extend(self, rows: Rows) -> None:
        """Add rows with larger offsets."""
        with self._lock:
            count = self._count + len(rows)
            if count > len(self._buffer):  # who looks at the old one keeps it
                larger = np.empty((2 * count, 4), dtype=np.int64)
                larger[: self._count] = self._buffer[: self._count]
                self._buffer = larger
            self._buffer[self._count : count] = rows
            self._count = count

    @property
    def rows(self) -> Rows:
        """All rows until now; not a copy."""
        with self._lock:
            return self._buffer[: self._count]

    def within(self, start: int, end: int) -> Rows:
        """The rows with offsets in [start, end)."""
        return within(self.rows, start, end)

    def newest(self, start: int, end: int) -> Rows:
        """The last row of each key with an offset in [start, end), ascending by key, if it has a
        value.
        """
        rows = self.rows
        first, stop = np.searchsorted(rows[:, OFFSET], (start, end)).tolist()
        last = self._last(rows, stop)
        kept = rows[last[last >= first]]
        valued: Rows = kept[kept[:, VALUE] != NONE]
        return valued

    def _last(self, rows: Rows, stop: int) -> NDArray[np.int64]:
        """The number of the last row of each key below a row; NONE without one."""
        steps = stop // self._step_rows
        while len(self._states) <= steps:
            at = (len(self._states) - 1) * self._step_rows
            self._states.append(_moved(self._states[-1], rows, at, at + self._step_rows))
        return _moved(self._states[steps], rows, steps * self._step_rows, stop)


def _moved(last: NDArray[np.int64], rows: Rows, start: int, stop: int) -> NDArray[np.int64]:
    """The state after rows [start, stop)."""
    keys = rows[start:stop, KEY]
    is_keyed = keys != NONE
    keys, numbers = keys[is_keyed], np.arange(start, stop)[is_keyed]
    most = int(keys.max(initial=-1)) + 1
    moved = np.full(max(most, len(last)), NONE, dtype=np.int64)
    moved[: len(last)] = last
    moved[keys] = numbers  # of equal keys the last one stays
    return moved
