"""Erasure requests: a key, the topics that it must be gone from, and the deadline.

Requests come from other systems. So a pattern of topics is matched by RE2, in time that is linear
in the topic's name; what cannot be matched so, such as a reference back, is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from logwright.config.patterns import NOT_LINEAR, is_pattern, matches
from logwright.config.values import is_topic_name

REGEX: Final = "regex:"
"""Before the pattern of topics."""
ALL_TOPICS: Final = "regex:.*"
LONGEST_TOPICS: Final = 1000
"""In characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request. The key itself is not in it.

    Attributes:
        id: its name in the operator's system; unique.
        topics: a topic, or a pattern for whole topic names with the prefix ``regex:``.
        hmac: HMAC-SHA-256 of the key (`logwright.erasure.secret`), 32 bytes.
        filter: the filter of the key, uint32; None if only the HMAC was given.
        received_at_ms, deadline_ms: ms since the epoch.
        decoded: the key was given decoded: every key that is the same in another form is one of its
            own. Else such a key is only named.
        forms: HMACs of the key's readings (`logwright.erasure.forms`), without any: they are not
            known, since only the HMAC was given, or an earlier version has stored it.
        form_filters: of the readings, uint32.
    """

    id: str
    topics: str
    hmac: bytes
    filter: int | None
    received_at_ms: int
    deadline_ms: int
    decoded: bool = False
    forms: tuple[bytes, ...] = ()
    form_filters: tuple[int, ...] = ()

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
    return None if is_pattern(topics.removeprefix(REGEX)) else NOT_LINEAR


def is_copy_of(topics: str, topic: str) -> bool:
    """Return whether a topic is by its name a copy of the one that a request names: MirrorMaker's
    has the alias of its source and a dot before it (``DefaultReplicationPolicy``).
    """
    return not topics.startswith(REGEX) and topic.endswith(f".{topics}")


def applies_to(topics: str, topic: str) -> bool:
    """Return whether a request's `topics`, which have no problem, name a topic, or match its whole
    name.
    """
    if topics.startswith(REGEX):
        return matches(topics.removeprefix(REGEX), topic)
    return topics == topic
