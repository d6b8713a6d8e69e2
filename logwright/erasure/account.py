"""What a search knows besides the records that it found: which topics there are, of which of them
an erasure is on record, and what was not searched. Pure.

On record is an erasure of a request's key in a topic if a log of the topic has the mark of one that
is done, and that mark has the key under the same secret (`logwright.state.erasure_mark`); or if an
earlier certificate lists records of the same key in the topic. That a log of the topic is in the
record of deleted logs (`logwright.log.record_files`) does not show that the key was in it: it is
named, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from logwright.erasure.find.result import SearchResult
from logwright.erasure.request import applies_to, is_copy_of
from logwright.erasure.secret import SHORT_BYTES
from logwright.state.erasure_mark import Erasure, add_erasures
from logwright.times import instant

_DELETED: Final = "a log was deleted, and whether this key was in it is not known"
_LISTED: Final = "records were there, by an earlier certificate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """How well was looked for a request.

    Attributes:
        topics: how many topics it names or matches.
        unsearched: how many places that could hold its records were not searched.
        erased: an erasure of its key is on record.
        record: the last erasure as a sentence; without one a deletion of a log of its topics; empty
            without either.
        other_secret: erasures are on record whose keys have HMACs with another secret: whether the
            request's is one of them is not known.
        others: HMACs, in hex, of other keys that are forms of its key.
        unformed: other forms of its key could not be looked for.
    """

    topics: int
    unsearched: int
    erased: bool
    record: str = ""
    other_secret: bool = False
    others: frozenset[str] = frozenset()
    unformed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deed:
    """Something on record that was done to a topic, or seen in it, and is of a request.

    Attributes:
        at_ms: when, None: not known.
        of_key: it shows that the key was there.
    """

    topic: str
    at_ms: int | None
    what: str
    of_key: bool = True

    @property
    def sentence(self) -> str:
        """All of it."""
        when = "" if self.at_ms is None else f" on {instant(self.at_ms)}"
        return f"{self.what}{when}, topic {self.topic or 'not known'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The account of a search.

    Attributes:
        topics: that exist, by logs, metadata or earlier certificates.
        deleted: topics of which the deletion of a log is on record.
        erased: topic → key, as `Secret.short` has it, → its last erasure from a log of it.
        secret: id of the secret of the requests' HMACs.
        unsearched: the topic of each place that was not searched; empty: any.
        earlier: HMAC in hex → topic, empty: not known, → when the last of the earlier certificates
            that list such records was made.
        others, unformed: see `logwright.erasure.find.result.SearchResult`.
    """

    topics: frozenset[str] = frozenset()
    deleted: frozenset[str] = frozenset()
    erased: Mapping[str, Mapping[str, Erasure]] = field(default_factory=dict)
    secret: str = ""
    unsearched: tuple[str, ...] = ()
    earlier: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    others: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    unformed: frozenset[str] = frozenset()
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
                erased=False,
                other_secret=any(
                    applies_to(topics, topic) and self._has_others(keys)
                    for topic, keys in self.erased.items()
                ),
            )
        look = self._known[topics]
        deeds = self.deeds(topics, hmac)
        return replace(
            look,
            erased=any(deed.of_key for deed in deeds),
            record=deeds[-1].sentence if deeds else "",
            others=self._others(hmac, lambda topic: _is_asked(topics, topic)),
            unformed=hmac in self.unformed,
        )

    def deeds(self, topics: str, hmac: str) -> tuple[Deed, ...]:
        """Return what is on record of a request: first what is not of its key, then by time.

        Args:
            topics, hmac: see `look`.
        """
        deeds = [
            deed for deed in self._of_key(hmac) if not deed.topic or applies_to(topics, deed.topic)
        ]
        deeds += [
            Deed(topic=topic, at_ms=None, what=_DELETED, of_key=False)
            for topic in sorted(self.deleted)
            if applies_to(topics, topic)
        ]
        return tuple(sorted(deeds, key=lambda deed: (deed.of_key, deed.at_ms or 0, deed.topic)))

    def of_topic(self, topic: str, hmac: str) -> Look:
        """Return how well was looked for the records of one topic and of this key."""
        return Look(
            topics=1,
            unsearched=sum(one in ("", topic) for one in self.unsearched),
            erased=any(deed.topic == topic for deed in self._of_key(hmac)),
            others=self._others(hmac, lambda other: other in ("", topic)),
            unformed=hmac in self.unformed,
        )

    def _others(self, hmac: str, is_asked: Callable[[str], bool]) -> frozenset[str]:
        """Return the other forms of a key in some topics."""
        some = self.others.get(hmac, {})
        return frozenset().union(*(keys for topic, keys in some.items() if is_asked(topic)))

    def _of_key(self, hmac: str) -> list[Deed]:
        """Return what is on record of a key, in all topics."""
        short = f"{self.secret}:{hmac[: 2 * SHORT_BYTES]}"
        return [
            Deed(topic=topic, at_ms=at_ms, what=f"erased {how}".rstrip())
            for topic, keys in self.erased.items()
            if short in keys
            for at_ms, how in (keys[short],)
        ] + [
            Deed(topic=topic, at_ms=at_ms, what=_LISTED)
            for topic, at_ms in self.earlier.get(hmac, {}).items()
        ]

    def _has_others(self, keys: Iterable[str]) -> bool:
        return any(not key.startswith(f"{self.secret}:") for key in keys)


def erased_of(
    directories: Iterable[Mapping[str, Mapping[str, Erasure]]],
) -> dict[str, dict[str, Erasure]]:
    """Return topic → key → its last erasure, of several directories."""
    together: dict[str, dict[str, Erasure]] = {}
    for erased in directories:
        for topic, keys in erased.items():
            add_erasures(together.setdefault(topic, {}), keys)
    return together


def others_of(
    results: Iterable[Mapping[str, Mapping[str, Iterable[str]]]],
) -> dict[str, dict[str, frozenset[str]]]:
    """Return the other forms of keys that several searches found, together."""
    together: dict[str, dict[str, frozenset[str]]] = {}
    for others in results:
        for hmac, topics in others.items():
            of_key = together.setdefault(hmac, {})
            for topic, some in topics.items():
                of_key[topic] = of_key.get(topic, frozenset()).union(some)
    return together


def account_of(
    results: Iterable[SearchResult],
    *,
    secret: str,
    topics: Iterable[str] = (),
    unsearched: Iterable[str] = (),
    others: Iterable[Mapping[str, Mapping[str, Iterable[str]]]] = (),
) -> Account:
    """Return the account of some directories.

    Args:
        secret: id of the secret of the requests' HMACs.
        topics: of the clusters' metadata.
        unsearched: the topic of each other place that was not searched, such as replicas elsewhere.
        others: other forms of keys that were found in other places, such as tables.
    """
    searched = list(results)
    places = (part.partition.topic for one in searched for part in one.unsearched)
    return Account(
        topics=frozenset(topics).union(*(one.topics for one in searched)),
        deleted=frozenset().union(*(one.deleted for one in searched)),
        erased=erased_of(one.erased for one in searched),
        secret=secret,
        unsearched=(*places, *unsearched),
        others=others_of([*(one.others for one in searched), *others]),
        unformed=frozenset().union(*(one.unformed for one in searched)),
    )


def _count(names: Iterable[str], topics: str) -> int:
    return sum(applies_to(topics, one) for one in names)


def _is_asked(topics: str, topic: str) -> bool:
    """Return whether other forms in a topic, empty if it is not known, count for a request."""
    return not topic or applies_to(topics, topic) or is_copy_of(topics, topic)
