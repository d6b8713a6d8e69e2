"""What became of each request: is everything gone, and if not, will it be in time? Pure.

| found | deadline | state |
|---|---|---|
| nothing, and everything could be read | | gone |
| nothing, but something could not be read | | not proved |
| something | has passed | missed |
| something, and all is gone by the deadline | is to come | in time |
| something that stays longer, or forever | is to come | will be late |
| something, and all goes at some time | none | in time |
| something that stays forever | none | remains |

A deadline has passed from its own ms on. A tombstone holds the key, so it counts as what it is: a
record of the person's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from logwright.erasure.certificate.model import State


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a request.

    Attributes:
        found: number of records.
        gone_by_ms: when the last of them is gone; None: nothing was found, or never.
    """

    state: State
    found: int
    gone_by_ms: int | None


def verdict(
    gone_by_ms: Sequence[int | None], deadline_ms: int | None, *, now_ms: int, all_read: bool
) -> Verdict:
    """Return what became of a request.

    Args:
        gone_by_ms: of each record that was found, when it is gone; None: never.
        deadline_ms: None: there is none.
        now_ms: the clock.
        all_read: whether every file could be searched.
    """
    dated = [one for one in gone_by_ms if one is not None]
    found = len(gone_by_ms)
    last_ms = max(dated, default=None) if len(dated) == found else None
    return Verdict(
        state=_state(found, last_ms, deadline_ms, now_ms=now_ms, all_read=all_read),
        found=found,
        gone_by_ms=last_ms,
    )


def _state(
    found: int, last_ms: int | None, deadline_ms: int | None, *, now_ms: int, all_read: bool
) -> State:
    if not found:
        return "gone" if all_read else "not proved"
    if deadline_ms is None:
        return "remains" if last_ms is None else "in time"
    if now_ms >= deadline_ms:
        return "missed"
    return "will be late" if last_ms is None or last_ms > deadline_ms else "in time"


def next_deadline_ms(deadlines: Iterable[tuple[State, int | None]], now_ms: int) -> int | None:
    """Return the first deadline to come of requests that are not gone, None: there is none."""
    coming = [
        deadline
        for state, deadline in deadlines
        if state != "gone" and deadline is not None and deadline > now_ms
    ]
    return min(coming, default=None)
