"""Erasure requests: a key, the topics that it must be gone from, and the deadline."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

REGEX: Final = "regex:"
"""Before the pattern of topics."""
ALL_TOPICS: Final = "regex:.*"


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


def applies_to(topics: str, topic: str) -> bool:
    """Return whether a request's `topics` name a topic, or match its whole name."""
    if topics.startswith(REGEX):
        return _compiled(topics.removeprefix(REGEX)).fullmatch(topic) is not None
    return topics == topic


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
