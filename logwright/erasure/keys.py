"""Which request a key belongs to: any number of requests, known by their HMACs or in clear.

The keys of a ``--keys`` file are in clear, in memory only. For all others a filter decides first
(`logwright.erasure.match`), then the HMAC. A request without a filter, given as an HMAC only, costs
an HMAC for each distinct key that is compared.
"""

from __future__ import annotations

import hmac
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.erasure.concerned import Concerned
from logwright.erasure.match import (
    CANDIDATES,
    UNKNOWN,
    MatchTable,
    make_table,
    match_keys,
)
from logwright.erasure.request import ALL_TOPICS, Request, applies_to
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
    """

    secret: Secret
    requests: tuple[Request, ...]
    topics: str
    deadline_ms: int
    _clear: _ClearKeys = field(repr=False)
    _chosen: NDArray[np.int64] = field(repr=False)
    _by_pattern: dict[frozenset[str], KeySet] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        secret: Secret,
        *,
        requests: Iterable[Request] = (),
        clear: Sequence[bytes] = (),
        topics: str = ALL_TOPICS,
        deadline_ms: int = INT64_MAX,
    ) -> KeySet:
        """Return the set of these requests and keys in clear."""
        stored = tuple(requests)
        lengths = np.fromiter(map(len, clear), dtype=np.int64, count=len(clear))
        starts = np.zeros(len(clear), dtype=np.int64)
        np.cumsum(lengths[:-1], out=starts[1:])
        data = np.frombuffer(b"".join(clear), dtype=np.uint8)
        return cls(
            secret=secret,
            requests=stored,
            topics=topics,
            deadline_ms=deadline_ms,
            _clear=_ClearKeys(data=data, starts=starts, lengths=lengths),
            _chosen=np.arange(len(stored) + len(clear), dtype=np.int64),
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

    def shorts(self, indexes: Iterable[int]) -> tuple[str, ...]:
        """Return the short HMACs of some requests, sorted; see `Secret.short`."""
        return tuple(sorted({self.secret.short(self.request(one).hmac) for one in indexes}))

    def asked(self) -> tuple[str, ...]:
        """Return the short HMACs of all requests that are in it, sorted."""
        return self.shorts(self._chosen.tolist())

    def for_topic(self, topic: str) -> KeySet:
        """Return the set with only the requests that apply to a topic; their indexes stay."""
        applying = frozenset(one for one in self.topics_asked if applies_to(one, topic))
        if applying not in self._by_pattern:
            stored = len(self.requests)
            chosen = [n for n, one in enumerate(self.requests) if one.topics in applying]
            lines = np.arange(stored, len(self) if self.topics in applying else stored)
            subset = np.concatenate([np.array(chosen, dtype=np.int64), lines.astype(np.int64)])
            self._by_pattern[applying] = replace(self, _chosen=subset, _by_pattern={})
        return self._by_pattern[applying]

    @cached_property
    def topics_asked(self) -> frozenset[str]:
        """What the requests give as topics."""
        clear = [self.topics] if len(self._clear.lengths) else []
        return frozenset([*(one.topics for one in self.requests), *clear])

    @property
    def is_empty(self) -> bool:
        """Whether no request is in it."""
        return not len(self._chosen)

    @cached_property
    def needs_hmacs(self) -> bool:
        """Whether the HMAC of every key must be computed: a request has no filter."""
        return bool(self._by_hmac)

    @cached_property
    def table(self) -> MatchTable:
        """The requests with a filter, for kernels. An entry's request: `request_of`."""
        return self._table_and_order[0]

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
        if code <= CANDIDATES or self.needs_hmacs:
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

    def match(self, keys: Keys) -> NDArray[np.int32]:
        """Return the index of each key's request, int32[k]; -1 if it is not requested."""
        codes = np.empty(len(keys.starts), dtype=np.int64)
        unsure = match_keys(self.table, keys.data, keys.starts, keys.lengths, codes)
        indices = np.full(len(codes), -1, dtype=np.int32)
        known = codes >= 0
        indices[known] = self._table_and_order[1][codes[known]]
        if unsure or self.needs_hmacs:
            rows = np.flatnonzero(
                (keys.lengths >= 0) & (codes < 0) & (self.needs_hmacs | (codes <= CANDIDATES))
            )
            answers: dict[bytes, int] = {}
            for row in rows.tolist():
                start = int(keys.starts[row])
                key = keys.data[start : start + int(keys.lengths[row])].tobytes()
                if key not in answers:
                    answers[key] = self.request_of(int(codes[row]), key)
                indices[row] = answers[key]
        return indices

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
        return make_table(filters[order], spans, self._clear.data, hash_key), indexes[order]
