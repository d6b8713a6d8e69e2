"""What is to be done next in a case, in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, assert_never

from logwright.times import instant

if TYPE_CHECKING:
    from logwright.erasure.case.model import CasePage
    from logwright.erasure.certificate.model import State

_ERASE: Final = "erase at once what remains, by the job erase or logwright erase --now-and-for-good"
_OTHER_FORMS: Final = (
    "ask for the key in all its forms: give it decoded (key_decoded, or --keys-format decoded), and"
    " copies of the topic by a pattern; then erase, and search again"
)
_NAMED: Final = 3


def next_step(
    state: State,
    *,
    gone_by_ms: int | None = None,
    deadline_ms: int | None = None,
    unsearched: int = 0,
    by_hand: Sequence[str] = (),
    certified: bool = False,
) -> str:
    """Return the sentence.

    Args:
        state: of the case.
        gone_by_ms: when the last record is gone, None: never, or nothing was found.
        deadline_ms: None: there is none.
        unsearched: number of places that could hold its records and were not searched.
        by_hand: places with records that an erasure leaves.
        certified: a certificate says this.
    """
    match state:
        case "gone" | "not found":
            step = _closed(state, certified=certified)
        case "in time":
            step = (
                f"wait{_until(gone_by_ms, deadline_ms)}, while maintenance runs; then search again"
            )
        case "missed" | "will be late" | "remains":
            step = _ERASE + _by_hand(by_hand)
            if unsearched:
                step += f"; and search what was not searched: {_places(unsearched)}, named below"
        case "gone as bytes":
            step = _OTHER_FORMS
        case "not proved":
            step = f"search what was not searched: {_places(unsearched)}, named below"
            if not unsearched:
                step = "correct the topics, or search the directories that have their logs"
        case _:
            assert_never(state)
    return f"{step[0].upper()}{step[1:]}."


def _closed(state: State, *, certified: bool) -> str:
    step = "close the case, and keep the certificate"
    if not certified:
        step = "make the certificate, by the job erase or logwright certificate"
    return (
        f"check that the key is the one that was meant; then {step}"
        if state == "not found"
        else step
    )


def _until(gone_by_ms: int | None, deadline_ms: int | None) -> str:
    if gone_by_ms is None:
        return ""
    if deadline_ms is None:
        return f" until {instant(gone_by_ms)}"
    return f" until {instant(gone_by_ms)}, before the deadline of {instant(deadline_ms)}"


def _by_hand(places: Sequence[str]) -> str:
    if not places:
        return "; then search again"
    named = ", ".join(places[:_NAMED]) + (" and others" if len(places) > _NAMED else "")
    return f"; remove by hand what that leaves: {named}; then search again"


def of_page(page: CasePage) -> str:
    """Return the next step of the worst case of a page."""
    worst = page.worst
    return next_step(
        worst.state,
        gone_by_ms=worst.gone_by_ms,
        deadline_ms=worst.deadline_ms,
        unsearched=len(page.unread),
        by_hand=sorted({left.name for left in page.left if left.stays}),
        certified=page.is_certified,
    )


def _places(count: int) -> str:
    return f"{count:,} place{'' if count == 1 else 's'}"
