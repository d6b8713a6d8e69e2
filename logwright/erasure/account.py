"""What a search knows besides the records that it found: which topics there are, of which of them
an erasure is on record, and what was not searched. Pure.

On record is an erasure if a log of the topic has the mark of one that is done, or if a log of the
topic is in the record of deleted logs (`logwright.erasure.find.places`), or if an earlier
certificate lists records of the same key in the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from logwright.erasure.find.result import Found
from logwright.erasure.request import applies_to


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How well was looked for a request.

    Attributes:
        topics: how many topics it names or matches.
        unsearched: how many places that could hold its records were not searched.
        erased: an erasure or a deletion that could be of it is on record.
    """

    topics: int
    unsearched: int
    erased: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account of a search.

    Attributes:
        topics: that exist, by logs, metadata or earlier certificates.
        erased: topics of which an erasure or a deletion is on record.
        unsearched: the topic of each place that was not searched; empty: any.
        earlier: key, as requests name it → topics of the records that earlier certificates list;
            empty: not known.
    """

    topics: frozenset[str] = frozenset()
    erased: frozenset[str] = frozenset()
    unsearched: tuple[str, ...] = ()
    earlier: Mapping[bytes | str, frozenset[str]] = field(default_factory=dict)
    _known: dict[str, Look] = field(default_factory=dict, repr=False, compare=False)

    def look(self, topics: str, hmac: bytes | str | None = None) -> Look:
        """Return how well was looked for a request.

        Args:
            topics: of the request. hmac: of its key, in the form of `earlier`.
        """
        if topics not in self._known:
            self._known[topics] = Look(
                topics=_count(self.topics, topics),
                unsearched=sum(not one for one in self.unsearched)
                + _count((one for one in self.unsearched if one), topics),
                erased=bool(_count(self.erased, topics)),
            )
        look = self._known[topics]
        before = self.earlier.get(hmac, frozenset()) if hmac is not None else frozenset()
        listed = any(not topic or applies_to(topics, topic) for topic in before)
        return Look(topics=look.topics, unsearched=look.unsearched, erased=look.erased or listed)

    def of_topic(self, topic: str) -> Look:
        """Return how well was looked for the records of one topic."""
        return Look(
            topics=1,
            unsearched=sum(one in ("", topic) for one in self.unsearched),
            erased=topic in self.erased,
        )


def account_of(
    found: Iterable[Found], *, topics: Iterable[str] = (), replicas: Iterable[str] = ()
) -> Account:
    """Return the account of some directories.

    Args:
        topics: of the clusters' metadata. replicas: a topic for each replica that is elsewhere.
    """
    all_found = list(found)
    places = (part.partition.topic for one in all_found for part in one.unsearched)
    return Account(
        topics=frozenset(topics).union(*(one.topics for one in all_found)),
        erased=frozenset().union(*(one.erased for one in all_found)),
        unsearched=(*places, *replicas),
    )


def _count(names: Iterable[str], topics: str) -> int:
    return sum(applies_to(topics, one) for one in names)
