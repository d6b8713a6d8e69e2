"""A certificate as a page for people: one static HTML file without scripts.

All texts are escaped. The page is not signed: it names the signed file and its SHA-256.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final, get_args

from jinja2 import Environment, StrictUndefined

from logwright.erasure.certificate.model import Asked, Certificate, PathName, State

SHOWN: Final = 1_000
"""Maximum rows of each table; the signed file has all."""

_TEMPLATE: Final = Path(__file__).with_name("page.html")
_WORDS: Final[dict[State, str]] = {
    "gone": "gone",
    "not proved": "not proved",
    "in time": "goes in time",
    "not found": "not found, and no erasure on record",
    "remains": "remains",
    "will be late": "will be late",
    "missed": "deadline missed",
}
_WORST_FIRST: Final[tuple[State, ...]] = get_args(State)
_GOOD: Final = frozenset(("gone", "in time", "not found"))


def certificate_html(certificate: Certificate, *, file_name: str, file_sha256: str) -> str:
    """Return the page. Effects: reads its template.

    Args:
        certificate: what is signed.
        file_name: of the signed file, without its directory.
        file_sha256: its digest in hex.
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    environment.filters |= {"number": "{:,}".format, "path": _path, "time": _time}
    counts = {state: certificate.count(state) for state in _WORST_FIRST}
    return environment.from_string(_TEMPLATE.read_text("utf-8")).render(
        certificate=certificate,
        file_name=file_name,
        file_sha256=file_sha256,
        good=counts["gone"] == len(certificate.requests) and not certificate.remains,
        counts=[f"{number:,} {_WORDS[state]}" for state, number in counts.items() if number],
        files=sum(directory.files for directory in certificate.directories),
        requests=sorted(certificate.requests, key=_order),
        words=_WORDS,
        good_states=_GOOD,
        shown=SHOWN,
    )


def _order(request: Asked) -> tuple[int, int]:
    return _WORST_FIRST.index(request.state), request.deadline_ms or 0


def _path(path: PathName) -> str:
    r"""Return a path's text; bytes that are not UTF-8 as ``\xNN``."""
    return path.text if not path.hex else bytes.fromhex(path.hex).decode(errors="backslashreplace")


def _time(time_ms: int | None) -> str:
    """Return a time, UTC; empty for None."""
    if time_ms is None:
        return ""
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, tz=UTC):%F %T}Z"
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
