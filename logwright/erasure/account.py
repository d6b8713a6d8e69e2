"""What a search knows besides the records that it found: which topics there are, of which of them
an erasure is on record, and what was not searched. Pure.

On record is an erasure of a request's key in a topic if a log of the topic has the mark of one that
is done, and that mark has the key under the same secret (`logwright.erasure.mark`); if a log of the
topic is in the record of deleted logs (`logwright.log.record_files`); or if an earlier
certificate lists records of the same key in the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from logwright.erasure.find.result import SearchResult
from logwright.erasure.request import applies_to
from logwright.erasure.secret import SHORT_BYTES


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
        deleted: topics of which the deletion of a log is on record.
        erased: topic → keys that were erased from its logs, as `Secret.short` has them.
        secret: id of the secret of the requests' HMACs.
        unsearched: the topic of each place that was not searched; empty: any.
        earlier: HMAC in hex → topics of the records that earlier certificates list; empty: not
            known.
    """

    topics: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    erased: Mapping[str, frozenset[str]] = field(default_factory=dict)
    secret: str = ""
    unsearched: tuple[str, ...] = ()
    earlier: Mapping[str, frozenset[str]] = field(default_factory=dict)
    _known: dict[str, Look] = field(default_factory=dict, repr=False, compare=False)

    def look(self, topics: str, hmac: str) -> Look:
        """Return how well was looked for a request.

        Args:
            topics: of the request. hmac: of its key, in hex.
        """
        if topics not in self._known:
            self._known[topics] = Look(
                topics=_count(self.topics, topics),
                unsearched=sum(not one for one in self.unsearched)
                + _count((one for one in self.unsearched if one), topics),
                erased=bool(_count(self.deleted, topics)),
            )
        look = self._known[topics]
        on_record = look.erased or any(
            not topic or applies_to(topics, topic) for topic in self._erased_from(hmac)
        )
        return replace(look, erased=on_record)

    def of_topic(self, topic: str, hmac: str) -> Look:
        """Return how well was looked for the records of one topic and of this key."""
        return Look(
            topics=1,
            unsearched=sum(one in ("", topic) for one in self.unsearched),
            erased=topic in self.deleted or topic in self._erased_from(hmac),
        )

    def _erased_from(self, hmac: str) -> Iterator[str]:
        """Yield the topics from which this key was erased, or has gone; empty: not known which."""
        short = f"{self.secret}:{hmac[: 2 * SHORT_BYTES]}"
        yield from (topic for topic, keys in self.erased.items() if short in keys)
        yield from self.earlier.get(hmac, ())


def erased_of(directories: Iterable[Mapping[str, Iterable[str]]]) -> dict[str, frozenset[str]]:
    """Return topic → keys that were erased, of several directories."""
    together: dict[str, set[str]] = {}
    for erased in directories:
        for topic, keys in erased.items():
            together.setdefault(topic, set()).update(keys)
    return {topic: frozenset(keys) for topic, keys in together.items()}


def account_of(
    results: Iterable[SearchResult],
    *,
    secret: str,
    topics: Iterable[str] = (),
    unsearched: Iterable[str] = (),
) -> Account:
    """Return the account of some directories.

    Args:
        secret: id of the secret of the requests' HMACs.
        topics: of the clusters' metadata.
        unsearched: the topic of each other place that was not searched, such as replicas elsewhere.
    """
    searched = list(results)
    places = (part.partition.topic for one in searched for part in one.unsearched)
    return Account(
        topics=frozenset(topics).union(*(one.topics for one in searched)),
        deleted=frozenset().union(*(one.deleted for one in searched)),
        erased=erased_of(one.erased for one in searched),
        secret=secret,
        unsearched=(*places, *unsearched),
    )


def _count(names: Iterable[str], topics: str) -> int:
    return sum(applies_to(topics, one) for one in names)
