"""What became of each request: is everything gone, and if not, will it be in time? Pure.

| found | not searched | its topics | deadline | state |
|---|---|---|---|---|
| something | | | has passed | missed |
| something | something | | | not proved |
| something, and all is gone by the deadline | nothing | | is to come | in time |
| something that stays longer, or forever | nothing | | is to come | will be late |
| something, and all goes at some time | nothing | | none | in time |
| something that stays forever | nothing | | none | remains |
| nothing | something | | | not proved |
| nothing | nothing | do not exist | | not proved |
| nothing, or all goes in time; see below | nothing | exist | | gone as bytes |
| nothing | nothing | have an erasure of the key on record | | gone |
| nothing | nothing | exist | | not found |

"Not searched" is what could hold records of the request; `logwright.erasure.account` has what is on
record. A deletion of a log of its topics is not an erasure of the key.

A request is *gone as bytes* whose key has other forms that were found, in its topics or a copy of
them, and that are not its own. So is one of which nothing was found and only the HMAC is known, so
that nobody can look for other forms.

A deadline has passed from its own ms on. A tombstone holds the key, so it counts as what it is: a
record of the person's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from logwright.erasure.account import Account, Look
from logwright.erasure.certificate.model import State

CLOSED: Final[frozenset[State]] = frozenset(("gone", "not found"))
"""States in which nothing is to be done."""
AS_BYTES: Final[State] = "gone as bytes"
"""Of these bytes nothing is left, or all goes in time; the person may have others."""
NEVER_SEEN: Final = "never found: nothing that was searched shows that this key was ever here"
UNFORMED: Final = "only the HMAC of its key is known, so other forms of it were not looked for"
_CLEAN: Final[frozenset[State]] = frozenset(("gone", "not found", "in time"))
"""States that are true of a person only if the key has no other form."""
_NOT_COMPARED: Final = "; erasures under another secret are on record, which cannot be compared"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a request.

    Attributes:
        found: number of records.
        gone_by_ms: when the last of them is gone; None: nothing was found, or never.
        why: what the state rests on, empty if on what was found.
    """

    state: State
    found: int
    gone_by_ms: int | None
    why: str = ""


def verdict(
    gone_by_ms: Sequence[int | None], deadline_ms: int | None, *, now_ms: int, look: Look
) -> Verdict:
    """Return what became of a request.

    Args:
        gone_by_ms: of each record that was found, when it is gone; None: never.
        deadline_ms: None: there is none.
        now_ms: the clock.
        look: how well was looked for it.
    """
    last_ms = last_gone_ms(gone_by_ms)
    if not gone_by_ms:
        state = _absent(look)
    else:
        state = _present(last_ms, deadline_ms, now_ms=now_ms, all_searched=not look.unsearched)
    if (look.others and state in _CLEAN) or (look.unformed and state in CLOSED):
        state = AS_BYTES
    return Verdict(state=state, found=len(gone_by_ms), gone_by_ms=last_ms, why=_why(state, look))


def verdict_of(
    topics: str,
    hmac: str,
    gone_by_ms: Sequence[int | None],
    deadline_ms: int | None,
    *,
    account: Account,
    now_ms: int,
) -> Verdict:
    """Return what became of a request, by the account of the search.

    Args:
        topics: of the request. hmac: of its key, in hex.
        gone_by_ms, deadline_ms, now_ms: see `verdict`.
    """
    return verdict(gone_by_ms, deadline_ms, now_ms=now_ms, look=account.look(topics, hmac))


def last_gone_ms(gone_by_ms: Sequence[int | None]) -> int | None:
    """Return when the last record is gone; None if one never is, or if there are none."""
    dated = [at_ms for at_ms in gone_by_ms if at_ms is not None]
    return max(dated, default=None) if len(dated) == len(gone_by_ms) else None


def _absent(look: Look) -> State:
    if look.unsearched or not look.topics:
        return "not proved"
    return "gone" if look.erased else "not found"


def _present(
    last_ms: int | None, deadline_ms: int | None, *, now_ms: int, all_searched: bool
) -> State:
    if deadline_ms is not None and now_ms >= deadline_ms:
        return "missed"
    if not all_searched:
        return "not proved"
    if deadline_ms is None:
        return "remains" if last_ms is None else "in time"
    return "will be late" if last_ms is None or last_ms > deadline_ms else "in time"


def _why(state: State, look: Look) -> str:
    """Return what a state rests on, where it is not what was found."""
    if look.others and state in (AS_BYTES, "not proved"):
        return _other_forms(look)
    if look.unsearched:
        places = "1 place" if look.unsearched == 1 else f"{look.unsearched} places"
        return f"{places} that could hold its records not searched"
    if state == "not proved":
        return "no log of its topics was found"
    if state == AS_BYTES:
        return f"{UNFORMED}{f'; {look.record}' if look.record else ''}"
    if state == "not found":
        deletion = f"; {look.record}" if look.record else ""
        return NEVER_SEEN + deletion + (_NOT_COMPARED if look.other_secret else "")
    return look.record if state == "gone" else ""


def _other_forms(look: Look) -> str:
    count = len(look.others)
    other = "another key is" if count == 1 else f"{count} other keys are"
    more = f"; {look.record}" if look.record else ""
    places = f"; {look.unsearched} places not searched" if look.unsearched else ""
    return f"{other} the same in another form, or in a copy of the topic{places}{more}"


def next_deadline_ms(deadlines: Iterable[tuple[State, int | None]], now_ms: int) -> int | None:
    """Return the first deadline to come of requests that are open, None: there is none."""
    coming = [
        deadline
        for state, deadline in deadlines
        if state not in CLOSED and deadline is not None and deadline > now_ms
    ]
    return min(coming, default=None)
