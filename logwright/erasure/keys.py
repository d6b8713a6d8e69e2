"""Which request a key belongs to: any number of requests, known by their HMACs or in clear.

The keys of a ``--keys`` file are in clear, in memory only. For all others a filter decides first
(`logwright.erasure.match`), then the HMAC. A request without a filter, given as an HMAC only, costs
an HMAC for each distinct key that is compared.
"""

from __future__ import annotations

import hmac
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.config.policy_models import INTERNAL_TOPICS
from logwright.erasure.concerned import Concerned
from logwright.erasure.form_of import filters_of
from logwright.erasure.forms import given_reading, legible_readings, readings
from logwright.erasure.match import (
    CANDIDATES,
    UNKNOWN,
    MatchTable,
    make_table,
    match_keys,
    with_forms,
)
from logwright.erasure.request import ALL_TOPICS, Request, applies_to, is_copy_of
from logwright.erasure.secret import FILTER_MASK, Secret
from logwright.format.siphash import hash_keys, lane_buffers
from logwright.units import INT64_MAX


class Keys(NamedTuple):
    """Keys in a buffer. A length of -1 stands for null.

    Attributes:
        data: uint8[n], C-contiguous. starts, lengths: int64[k].
    """

    data: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, keys: Sequence[bytes]) -> Keys:
        """Return keys one after the other."""
        lengths = np.fromiter(map(len, keys), dtype=np.int64, count=len(keys))
        starts = np.zeros(len(keys), dtype=np.int64)
        np.cumsum(lengths[:-1], out=starts[1:])
        return cls(np.frombuffer(b"".join(keys), dtype=np.uint8), starts, lengths)


Reader = Callable[[Sequence[bytes]], Sequence[bytes | None]]
"""Returns the readings of decoded keys (`logwright.erasure.decoded`); None: one cannot be decoded.
"""
ReaderOf = Callable[[str], Reader | None]
"""Returns the reader of a topic's keys, None if its keys are not decoded."""


class Answers(NamedTuple):
    """What became of some keys.

    Attributes:
        requests: of each key, -1 for none.
        others: requests, and the HMAC in hex of a key that is another form of the request's.
        undecoded: HMACs in hex of keys that cannot be decoded and may be forms of a request's.
    """

    requests: list[int]
    others: set[tuple[int, str]]
    undecoded: set[str]


class Matched(NamedTuple):
    """What became of some keys of an erasure.

    Attributes:
        requests: the index of each key's request, int32[k]; -1 if it is not requested.
        undecoded: one cannot be decoded, and may be a form of a request's key.
    """

    requests: NDArray[np.int32]
    undecoded: bool


_ALL_FORMS: Final = b"all forms of "


def _no_reader(topic: str) -> Reader | None:
    del topic
    return None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _ClearKeys:
    """Keys in clear. Not in its `repr`.

    Attributes:
        data: uint8[n]. starts, lengths: int64[k], of each key.
    """

    data: NDArray[np.uint8] = field(repr=False)
    starts: NDArray[np.int64] = field(repr=False)
    lengths: NDArray[np.int64] = field(repr=False)

    def key(self, index: int) -> bytes:
        start = int(self.starts[index])
        return self.data[start : start + int(self.lengths[index])].tobytes()


@dataclass(frozen=True, kw_only=True, eq=False)
class KeySet:
    """All requested keys. A request's index is its place among the stored requests, then the keys
    given in clear.

    Attributes:
        secret: under which the HMACs are.
        requests: those that are known by their HMACs.
        topics: of the keys given in clear: a topic, or a pattern with the prefix ``regex:``.
        deadline_ms: of the keys given in clear, ms since the epoch.
        decoded: the keys given in clear were given decoded.
    """

    secret: Secret
    requests: tuple[Request, ...]
    topics: str
    deadline_ms: int
    decoded: bool
    _clear: _ClearKeys = field(repr=False)
    _chosen: NDArray[np.int64] = field(repr=False)
    _copied: NDArray[np.int64] = field(repr=False)
    _reader_of: ReaderOf = field(default=_no_reader, repr=False)
    _topic: str = ""
    _by_pattern: dict[tuple[frozenset[str], frozenset[str], str], KeySet] = field(
        default_factory=dict, repr=False
    )

    @classmethod
    def of(
        cls,
        secret: Secret,
        *,
        requests: Iterable[Request] = (),
        clear: Sequence[bytes] = (),
        topics: str = ALL_TOPICS,
        deadline_ms: int = INT64_MAX,
        decoded: bool = False,
    ) -> KeySet:
        """Return the set of these requests and keys in clear."""
        stored = tuple(requests)
        if decoded:
            clear = [*map(given_reading, clear)]
        data, starts, lengths = Keys.of(clear)
        return cls(
            secret=secret,
            requests=stored,
            topics=topics,
            deadline_ms=deadline_ms,
            decoded=decoded,
            _clear=_ClearKeys(data=data, starts=starts, lengths=lengths),
            _chosen=np.arange(len(stored) + len(clear), dtype=np.int64),
            _copied=np.zeros(0, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.requests) + len(self._clear.lengths)

    def request(self, index: int) -> Request:
        """Return the request of an index; of a key in clear one named by its line."""
        if index < len(self.requests):
            return self.requests[index]
        line = index - len(self.requests)
        key = self._clear.key(line)
        return Request(
            id=f"line {line + 1}",
            topics=self.topics,
            hmac=self.secret.hmac(key),
            filter=self.secret.filter(key),
            received_at_ms=0,
            deadline_ms=self.deadline_ms,
            decoded=self.decoded,
            forms=self._forms(index),
        )

    def deadlines_ms(self, indexes: NDArray[np.int64], topic: str) -> NDArray[np.int64]:
        """Return of each request's key the first deadline of the stored requests for it, as far as
        they apply to a topic: int64[n], ms since the epoch; INT64_MAX without one, and for indexes
        that are of no stored request.
        """
        different, rows = np.unique(indexes, return_inverse=True)
        first = [
            min(
                (self.requests[each].deadline_ms for each in self._about(index, topic)),
                default=INT64_MAX,
            )
            for index in different.tolist()
        ]
        return np.array(first, dtype=np.int64)[rows]

    def _about(self, index: int, topic: str) -> Iterable[int]:
        """Return the stored requests for the key of an index that apply to a topic."""
        stored = 0 <= index < len(self.requests)
        return self._concerned.by(index, topic) if stored else ()

    @cached_property
    def _concerned(self) -> Concerned:
        return Concerned([(request.hmac, request.topics) for request in self.requests])

    def clear_key(self, index: int) -> bytes | None:
        """Return the key of an index, None if only its HMAC is known."""
        line = index - len(self.requests)
        return None if line < 0 else self._clear.key(line)

    def read_by(self, reader_of: ReaderOf) -> KeySet:
        """Return the set whose keys are also compared decoded, in topics that have a reader."""
        return replace(self, _reader_of=reader_of, _by_pattern={})

    @cached_property
    def _reader(self) -> Reader | None:
        """What decodes the topic's keys, if a request asks for all forms of its key."""
        if not self.asks_for_forms or self._topic in INTERNAL_TOPICS:
            return None
        return (self._reader_of(self._topic) if self._topic else None) or legible_readings

    def is_decoded(self, index: int) -> bool:
        """Return whether all forms of a key are asked for."""
        stored = index < len(self.requests)
        return self.requests[index].decoded if stored else self.decoded

    def _forms(self, index: int) -> tuple[bytes, ...]:
        """Return the HMACs of the readings of a request's key, none if they are not known."""
        if index < len(self.requests):
            return self.requests[index].forms
        return tuple(map(self.secret.hmac, self._readings(index - len(self.requests))))

    def _readings(self, line: int) -> Iterable[bytes]:
        """Return the readings of a key in clear."""
        key = self._clear.key(line)
        return (key,) if self.decoded else readings(key)

    @cached_property
    def unformed(self) -> frozenset[str]:
        """The HMACs, in hex, of requests whose keys' other forms cannot be looked for: only the
        HMAC is known.
        """
        return frozenset(one.hmac.hex() for one in self.requests if not one.forms)

    def look_up(self, codes: Sequence[int], keys: Sequence[bytes]) -> Answers:
        """Return which requests some keys are of, by their codes; the keys of requests that ask for
        all forms are looked up by their readings, too.

        Args:
            codes: as for `request_of`.
        """
        others: set[tuple[int, str]] = set()
        requests, undecoded = [], set[str]()
        refused = [False] * len(keys)
        forms = [readings(key) for key in keys]
        if self._reader is not None:
            decoded = self._reader(keys)
            refused = [reading is None for reading in decoded]
            forms = [
                some if reading is None else some | {reading}
                for some, reading in zip(forms, decoded, strict=True)
            ]
        for code, key, some, is_refused in zip(codes, keys, forms, refused, strict=True):
            request = self._decide(self.request_of(code, key), key, some, others)
            if request < 0 and is_refused:
                undecoded.add(self.secret.hmac(key).hex())
            requests.append(request)
        return Answers(requests, others, undecoded)

    def _decide(
        self, request: int, key: bytes, some: frozenset[bytes], others: set[tuple[int, str]]
    ) -> int:
        """Return the request of a key by its readings, if its bytes are of none; add those that it
        is another form for.
        """
        by_form, hmac_of = self._by_form, self.secret.hmac
        forms = {one for each in some for one in by_form.get(hmac_of(each), ())} - {request}
        if not forms:
            return request
        own = sorted(one for one in forms if self.is_decoded(one) and one in self._applying)
        if request < 0 and own:
            request = own[0]
            forms.difference_update(own)
        hmac_ = self.secret.hmac(key)
        others.update(
            (form, hmac_.hex())
            for form in forms
            if form not in self._applying or self.request(form).hmac != hmac_
        )
        return request

    @cached_property
    def asks_for_forms(self) -> bool:
        """Whether a request of this topic asks for all forms of its key."""
        return any(map(self.is_decoded, self._chosen.tolist()))

    @cached_property
    def _applying(self) -> frozenset[int]:
        return frozenset(self._chosen.tolist())

    def named_by(self, indexes: Iterable[int]) -> set[tuple[int, str]]:
        """Return the requests for another form of the keys of some requests, with these keys' HMACs
        in hex.
        """
        return {
            (other, self.request(index).hmac.hex())
            for index in indexes
            for other in self.alike(index)
        }

    def alike(self, index: int) -> tuple[int, ...]:
        """Return the other requests for another form of a request's key."""
        if index not in self._alike:
            own = self.request(index)
            some = {one for form in own.forms for one in self._by_form.get(form, ())}
            self._alike[index] = tuple(
                sorted(one for one in some if self.request(one).hmac != own.hmac)
            )
        return self._alike[index]

    @cached_property
    def _alike(self) -> dict[int, tuple[int, ...]]:
        return {}

    @cached_property
    def _by_form(self) -> dict[bytes, list[int]]:
        """HMAC of a reading → the requests of this topic, or of one that it is a copy of."""
        by_form: dict[bytes, list[int]] = {}
        for index in (*self._chosen.tolist(), *self._copied.tolist()):
            for form in self._forms(index):
                by_form.setdefault(form, []).append(index)
        return by_form

    def shorts(self, indexes: Iterable[int], *, forms: bool = True) -> tuple[str, ...]:
        """Return the short HMACs of some requests, sorted; see `Secret.short`. One that asks for
        all forms of its key has another one besides: who erased its bytes has not erased the forms.

        Args:
            forms: whether all forms of the keys were looked for.
        """
        known: set[str] = set()
        for index in indexes:
            hmac_ = self.request(index).hmac
            known.add(self.secret.short(hmac_))
            if forms and self.is_decoded(index):
                known.add(self.secret.short(self.secret.hmac(_ALL_FORMS + hmac_)))
        return tuple(sorted(known))

    def asked(self, *, forms: bool = True) -> tuple[str, ...]:
        """Return the short HMACs of all requests that are in it, as `shorts`."""
        return self.shorts(self._chosen.tolist(), forms=forms)

    def for_topic(self, topic: str) -> KeySet:
        """Return the set with only the requests that apply to a topic; their indexes stay."""
        applying = frozenset(one for one in self.topics_asked if applies_to(one, topic))
        copied = frozenset(one for one in self.topics_asked if is_copy_of(one, topic))
        is_own = self._reader_of(topic) is not None or topic in INTERNAL_TOPICS
        decoded = topic if is_own else ""
        if (applying, copied, decoded) not in self._by_pattern:
            self._by_pattern[applying, copied, decoded] = replace(
                self,
                _chosen=self._of(applying),
                _copied=self._of(copied),
                _by_pattern={},
                _topic=topic,
            )
        return self._by_pattern[applying, copied, decoded]

    def _of(self, topics: frozenset[str]) -> NDArray[np.int64]:
        """Return the indexes of the requests with some `topics`, ascending."""
        stored = len(self.requests)
        chosen = [n for n, one in enumerate(self.requests) if one.topics in topics]
        lines = np.arange(stored, len(self) if self.topics in topics else stored)
        return np.concatenate([np.array(chosen, dtype=np.int64), lines.astype(np.int64)])

    @cached_property
    def topics_asked(self) -> frozenset[str]:
        """What the requests give as topics."""
        clear = [self.topics] if len(self._clear.lengths) else []
        return frozenset([*(one.topics for one in self.requests), *clear])

    @property
    def is_empty(self) -> bool:
        """Whether no request is in it."""
        return not len(self._chosen)

    @property
    def is_searched(self) -> bool:
        """Whether a search looks for something: for a request in it, or for keys of one in a copy
        of its topic.
        """
        return bool(len(self._chosen) or len(self._copied))

    @cached_property
    def needs_hmacs(self) -> bool:
        """Whether every key must be looked at: a request has no filter, or keys are decoded."""
        return bool(self._by_hmac) or self._reader is not None

    @cached_property
    def table(self) -> MatchTable:
        """The requests with a filter, for kernels. An entry's request: `request_of`."""
        return self._table_and_order[0]

    @cached_property
    def search_table(self) -> MatchTable:
        """The table with the filters of the readings, too: what a search looks up."""
        return with_forms(
            self.table, self._filters((*self._chosen.tolist(), *self._copied.tolist()))
        )

    def requests_of(self, entries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the indexes of the requests of entries of the table."""
        return self._table_and_order[1][entries]

    def request_of(self, code: int, key: bytes) -> int:
        """Return the index of the request of a code of `logwright.erasure.match.match_key`, -1 if
        there is none.

        Args:
            key: the key that the code was found for. Read only if the HMACs decide.
        """
        table, order = self._table_and_order
        if code >= 0:
            return int(order[code])
        if code <= CANDIDATES or self._by_hmac:
            digest = self.secret.hmac(key)
            first = CANDIDATES - code if code <= CANDIDATES else len(order)
            if first < len(order):
                last = int(table.filters.searchsorted(table.filters[first], side="right"))
                for index in order[first:last].tolist():
                    if index < len(self.requests) and hmac.compare_digest(
                        digest, self.requests[index].hmac
                    ):
                        return int(index)
            return self._by_hmac.get(digest, -1)
        return -1

    def may_begin(self, beginnings: Sequence[bytes]) -> bool:
        """Return whether a requested key may begin with one of these texts; one that is only known
        by its HMAC may.
        """
        if not beginnings:
            return False
        stored = len(self.requests)
        chosen = self._chosen.tolist()
        if any(index < stored for index in chosen):
            return True
        keys = sorted(self._clear.key(index - stored) for index in chosen)
        places = (bisect_left(keys, one) for one in beginnings)
        return any(
            at < len(keys) and keys[at].startswith(beginning)
            for at, beginning in zip(places, beginnings, strict=True)
        )

    def all_in_clear(self) -> list[bytes] | None:
        """Return the keys of the set, None if only the HMAC of some key is known."""
        indexes = self._chosen.tolist()
        keys = [key for key in map(self.clear_key, indexes) if key is not None]
        return keys if len(keys) == len(indexes) else None

    def search(self, keys: Keys) -> tuple[NDArray[np.int32], Answers]:
        """Return the index of each key's request, as `match`, and what else a search of these keys
        has found.
        """
        indices, by_bytes, answers = self._matched(self.search_table, keys)
        answers.others.update(self.named_by(np.unique(indices[by_bytes]).tolist()))
        return indices, answers

    def match(self, keys: Keys) -> Matched:
        """Return the index of each key's request."""
        indices, _, answers = self._matched(self.table, keys)
        return Matched(indices, bool(answers.undecoded))

    def _matched(
        self, table: MatchTable, keys: Keys
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_], Answers]:
        """Return the request of each key, whether its bytes in clear say so, and what else was
        found of the others.
        """
        codes = np.empty(len(keys.starts), dtype=np.int64)
        unsure = match_keys(table, keys.data, keys.starts, keys.lengths, codes)
        indices = np.full(len(codes), -1, dtype=np.int32)
        known = codes >= 0
        indices[known] = self._table_and_order[1][codes[known]]
        if not (unsure or self.needs_hmacs):
            return indices, known, Answers([], set(), set())
        rows = np.flatnonzero(
            (keys.lengths >= 0) & (codes < 0) & (self.needs_hmacs | (codes <= CANDIDATES))
        ).tolist()
        distinct: dict[bytes, list[int]] = {}
        for row in rows:
            start = int(keys.starts[row])
            key = keys.data[start : start + int(keys.lengths[row])].tobytes()
            distinct.setdefault(key, []).append(row)
        answers = self.look_up([int(codes[some[0]]) for some in distinct.values()], [*distinct])
        for request, some in zip(answers.requests, distinct.values(), strict=True):
            indices[some] = request
        return indices, known, answers

    @cached_property
    def _by_hmac(self) -> dict[bytes, int]:
        """The requests without a filter."""
        by_hmac: dict[bytes, int] = {}
        for index in self._chosen.tolist():
            if index < len(self.requests) and self.requests[index].filter is None:
                by_hmac.setdefault(self.requests[index].hmac, index)
        return by_hmac

    @cached_property
    def _table_and_order(self) -> tuple[MatchTable, NDArray[np.int64]]:
        """The table, and the request of each of its entries, int64[n]."""
        stored, key = len(self.requests), self.secret.hash_key
        hash_key = np.array([key.low, key.high], dtype=np.uint64)
        lines = self._chosen[self._chosen >= stored] - stored
        known = [
            index
            for index in self._chosen[self._chosen < stored].tolist()
            if self.requests[index].filter is not None
        ]
        halves = (
            self._clear.starts[lines].astype(np.uint64),
            self._clear.lengths[lines].astype(np.uint64),
        )
        hash_keys(self._clear.data, halves, 0, len(lines), hash_key, lane_buffers())
        filters = np.concatenate(
            [
                np.array([self.requests[index].filter for index in known], dtype=np.uint32),
                (halves[0] & np.uint64(FILTER_MASK)).astype(np.uint32),
            ]
        )
        indexes = np.concatenate([np.array(known, dtype=np.int64), lines + stored])
        unknown = np.full(len(known), UNKNOWN, dtype=np.int64)
        starts = np.concatenate([unknown, self._clear.starts[lines]])
        lengths = np.concatenate([unknown, self._clear.lengths[lines]])
        order = np.argsort(filters, kind="stable")
        spans = (starts[order], lengths[order])
        table = make_table(filters[order], spans, self._clear.data, hash_key)
        own = [*filter(self.is_decoded, self._chosen.tolist())]
        return with_forms(table, self._filters(own)) if own else table, indexes[order]

    def _filters(self, indexes: Iterable[int]) -> NDArray[np.uint32]:
        """Return the filters of some requests' readings, ascending."""
        stored, filters, some = len(self.requests), set[int](), list[bytes]()
        for index in indexes:
            if index < stored:
                filters.update(self.requests[index].form_filters)
            else:
                some += self._readings(index - stored)
        known = np.array(sorted(filters), dtype=np.uint32)
        return np.union1d(known, filters_of(some, self.secret)).astype(np.uint32)
