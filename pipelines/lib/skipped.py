"""What a tick shows of the logs that it skips. Pure."""

from collections.abc import Mapping
from typing import Final

from logwright.errors import LogwrightError
from logwright.state.model import Hold

RETRY_AFTER_MS: Final = 15 * 60 * 1000
"""Waiting time of a log that has not changed since a sweep of it was requested."""
SHOWN_REASON: Final = 90
SHOWN_SKIPPED: Final = 40
"""Maximum length of a reason, and number of reasons, in a tick's message about skipped logs."""


def skip_message(skipped: Mapping[str, str]) -> str:
    """Return one line per skipped log, up to a limit, and the number of the others."""
    if not skipped:
        return "There are no logs in the log directories."
    lines = [f"{key}: {reason}." for key, reason in list(skipped.items())[:SHOWN_SKIPPED]]
    more = len(skipped) - len(lines)
    return "\n".join([*lines, *([f"And {more} more."] if more else [])])


def shortened(text: str) -> str:
    """Return a text as one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= SHOWN_REASON else f"{line[: SHOWN_REASON - 1]}…"


def hold_reason(hold: Hold | LogwrightError) -> str:
    """Return why a log is held, or that this is not known."""
    return hold.sentence if isinstance(hold, Hold) else f"refused: {hold}"
