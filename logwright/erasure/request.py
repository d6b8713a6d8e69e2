"""Erasure requests: a key, the topics that it must be gone from, and the deadline.

Requests come from other systems. So a pattern of topics is matched by RE2, in time that is linear
in the topic's name; what cannot be matched so, such as a reference back, is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import re2

from logwright.config.values import is_topic_name

REGEX: Final = "regex:"
"""Before the pattern of topics."""
ALL_TOPICS: Final = "regex:.*"
LONGEST_TOPICS: Final = 1000
"""In characters."""
_MOST_COMPILED: Final = 1024
_MOST_PATTERN_BYTES: Final = 1 << 20
"""Memory of one compiled pattern."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. The key itself is not in it.

    Attributes:
        id: its name in the operator's system; unique.
        topics: a topic, or a pattern for whole topic names with the prefix ``regex:``.
        hmac: HMAC-SHA-256 of the key (`logwright.erasure.secret`), 32 bytes.
        filter: the filter of the key, uint32; None if only the HMAC was given.
        received_at_ms, deadline_ms: ms since the epoch.
    """

    id: str
    topics: str
    hmac: bytes
    filter: int | None
    received_at_ms: int
    deadline_ms: int

    def applies_to(self, topic: str) -> bool:
        """Return whether the key must be gone from a topic."""
        return applies_to(self.topics, topic)


def topics_problem(topics: str) -> str | None:
    """Return what is wrong with a request's `topics`, None if they are the legal name of a topic,
    or a pattern that can be matched in linear time. Nothing of the text is in it.
    """
    if len(topics) > LONGEST_TOPICS:
        return f"is longer than {LONGEST_TOPICS} characters"
    if not topics.startswith(REGEX):
        return None if is_topic_name(topics) else f"is neither a topic nor has the prefix {REGEX}"
    if topics == REGEX:
        return "has an empty pattern"
    try:
        _matcher(topics.removeprefix(REGEX))
    except (re2.error, UnicodeEncodeError):
        return "is not a regular expression of RE2, which are those that match in linear time"
    return None


def applies_to(topics: str, topic: str) -> bool:
    """Return whether a request's `topics`, which have no problem, name a topic, or match its whole
    name.
    """
    if topics.startswith(REGEX):
        return _matcher(topics.removeprefix(REGEX))(topic) is not None
    return topics == topic


@lru_cache(maxsize=_MOST_COMPILED)
def _matcher(pattern: str) -> Callable[[str], object]:
    """Return what matches a whole name: a match, or None."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_PATTERN_BYTES
    matcher: Callable[[str], object] = re2.compile(pattern, options).fullmatch
    return matcher
