"""Cases as a page for people: one static HTML file without scripts, to be read by keyboard too.

All texts are escaped. The page is not signed: if there is a certificate, it names the signed file
and its SHA-256.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args

from jinja2 import Environment, StrictUndefined, Template

from logwright.erasure.case.make import shown_path
from logwright.erasure.case.model import urgency
from logwright.erasure.case.next_step import of_page
from logwright.erasure.certificate.model import NO_ISSUER, NOT_SEEN, State
from logwright.erasure.request import ALL_TOPICS, REGEX
from logwright.times import instant

if TYPE_CHECKING:
    from logwright.erasure.case.model import Case, CasePage

SHOWN: Final = 1_000
"""Maximum rows of each table; a signed file has all."""
SHOWN_UNREAD: Final = 20
"""Maximum rows of what was not searched that are not folded."""

_TEMPLATE: Final = Path(__file__).with_name("page.html")
_WORDS: Final[dict[State, str]] = {
    "gone": "gone from its topics",
    "not proved": "not proved",
    "gone as bytes": "gone as these bytes",
    "in time": "goes in time",
    "not found": "never found",
    "remains": "remains",
    "will be late": "will be late",
    "missed": "deadline missed",
}
_GOOD: Final[frozenset[State]] = frozenset(("gone", "not found"))
_CLASS: Final[dict[State, str]] = {
    **dict.fromkeys(("missed", "will be late", "remains", "not proved", "gone as bytes"), "bad"),
    **dict.fromkeys(_GOOD, "good"),
    "in time": "",
}


def case_html(page: CasePage) -> str:
    """Return the page. Effects: reads its template."""
    states = [case.state for case in page.cases]
    counts = {state: states.count(state) for state in get_args(State)}
    only = page.cases[0] if len(page.cases) == 1 else None
    good = _GOOD.issuperset(states) and not page.left and not page.unread and not page.patterns
    return _template().render(
        page=page,
        cases=sorted(page.cases, key=urgency),
        only=only,
        good=good,
        status=_sentence(only)
        if only
        else ", ".join(_counted(state, number) for state, number in counts.items() if number),
        next_step=of_page(page),
        by_directory=[
            [left for left in page.left if left.directory == number]
            for number in range(len(page.directories))
        ],
        words=_WORDS,
        classes=_CLASS,
        not_seen=page.signed.certificate.not_seen if page.signed else NOT_SEEN,
        no_issuer=NO_ISSUER,
        shown=SHOWN,
        shown_unread=SHOWN_UNREAD,
    )


@cache
def _template() -> Template:
    """Return the template. Effects: reads it."""
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"number": "{:,}".format, "path": shown_path, "time": _time}
    return environment.from_string(_TEMPLATE.read_text("utf-8"))


def _sentence(case: Case) -> str:
    """Return what became of a case, in a sentence."""
    records = f"{case.found:,} record{'' if case.found == 1 else 's'}"
    match case.state:
        case "gone":
            text = f"Gone from {_topics(case.topics)}: {case.why}; nothing of it was found"
        case "not found":
            text = case.why[0].upper() + case.why[1:]
        case "gone as bytes":
            left = f"{records} left, which go in time" if case.found else "nothing of these is left"
            text = f"Gone as these bytes, and not proved of the person: {left}; {case.why}"
        case "not proved":
            what = f"{records} found" if case.found else "nothing was found where was searched"
            text = f"Not proved: {what}; {case.why}"
        case "in time":
            text = f"Goes in time: {records} left, the last until {_time(case.gone_by_ms)}"
        case _:
            until = f"all gone by {_time(case.gone_by_ms)}"
            if case.gone_by_ms is None:
                until = "without a date by which all are gone"
            text = f"{_WORDS[case.state].capitalize()}: {records} left, {until}"
    return f"{text}."


def _topics(topics: str) -> str:
    """Return the name of a request's topics in a sentence."""
    if not topics.startswith(REGEX):
        return f"topic {topics}"
    if topics == ALL_TOPICS:
        return "all topics that were searched"
    return f"the topics that match {topics.removeprefix(REGEX)}"


def _counted(state: State, number: int) -> str:
    """Return how many requests are in a state."""
    if state == "gone" and number > 1:
        return f"{number:,} gone from their topics"
    return f"{number:,} {_WORDS[state]}"


def _time(time_ms: int | None) -> str:
    """Return a time, UTC; empty for None."""
    return "" if time_ms is None else instant(time_ms)
