"""The differences that healthy replicas of a partition do not have. Pure.

A healthy replica has had all records of its partition, from its log start offset to its end, and
has removed some of them by the rules of Kafka's cleaner (`logwright.cleaner_rules`). So:

1. Where two replicas have a record at an offset, it is the same one, of the same leader epoch, with
   the same producer (`diverged`). Only codec, batch and delete horizon may differ.
2. Data of a transaction keeps its marker. If another replica has a marker after the data and before
   this replica's own one, this replica lost it, unless it ends before (`lost_markers`). If the two
   markers are of different kinds, aborted data is shown as committed, or the reverse.
3. A transaction that is open holds back the last stable offset, and nobody cleans its data. If
   another replica has the marker, or has removed data and marker, it never ends here
   (`frozen_offsets`).
4. The latest record of a key that is shown is never removed, but for an expired tombstone. So if a
   key has a value here and another replica, which has passed that offset, does not have that
   record, it has seen a later one (`judge_keys`):

   - It has a tombstone, and this replica has passed that offset: this replica lost it, and the key
     is back. If it has a later value, the same is judged from its side.
   - It has none: the tombstone has expired there. This replica did not get it before, nor can it
     get it any more: the key is back, or will be. The same is seen if the value is data of an
     aborted transaction whose marker was lost.
   - It has an older record of the key: what is here superseded nothing there. Data of a transaction
     is aborted there and shown here; any other record is lost there.

Records at an offset that a replica has not reached, or has deleted by retention, prove nothing.
Neither do keys that were written from the first diverged offset on, nor records that a replica has
not received because its leader had a later one of the key already, which it has not reached. So
what a replica lacks counts only if no replica that has gone further lacks it too, or has a record
of the key that the replica has not reached (`_Keys.lacks`). The one that has gone further is judged
itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, permutations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.audit.model import (
    HIDDEN,
    NONE,
    NOWHERE,
    TOMBSTONE,
    TRANSACTED,
    Difference,
    Kind,
    Span,
    Transactions,
)
from logwright.format.scan import ABORT

_NO_KIND: Final = -1

Pair = tuple[int, int]
"""The numbers of two replicas."""
Sums = tuple[NDArray[np.int64], NDArray[np.uint64]]
"""Offsets, ascending, and sums of records."""


def diverged(streams: Sequence[Iterator[Sums]]) -> Iterator[tuple[int, Pair]]:
    """Yield the offsets at which two replicas have different records, ascending, and the two (1).

    Args:
        streams: of each replica the records in order, in parts of any size. They are read together,
            so that no more than a part of each is held.
    """
    parts: list[Sums | None] = [next(stream, None) for stream in streams]
    while sum(part is not None for part in parts) > 0:
        ends = [int(part[0][-1]) for part in parts if part is not None and len(part[0])]
        limit = min(ends, default=NONE)
        taken: list[tuple[int, Sums]] = []
        for number, part in enumerate(parts):
            if part is None:
                continue
            count = int(np.searchsorted(part[0], limit, side="right"))
            taken.append((number, (part[0][:count], part[1][:count])))
            rest = (part[0][count:], part[1][count:])
            parts[number] = rest if len(rest[0]) else next(streams[number], None)
        yield from _different(taken)


def _different(taken: Sequence[tuple[int, Sums]]) -> Iterator[tuple[int, Pair]]:
    offsets = np.concatenate([sums[0] for _, sums in taken])
    sums = np.concatenate([sums[1] for _, sums in taken])
    numbers = np.concatenate([np.full(len(part[0]), number) for number, part in taken])
    order = np.argsort(offsets, kind="stable")
    offsets, sums, numbers = offsets[order], sums[order], numbers[order]
    differs = (offsets[1:] == offsets[:-1]) & (sums[1:] != sums[:-1])
    for offset in np.unique(offsets[1:][differs]).tolist():
        first, end = np.searchsorted(offsets, (offset, offset + 1))
        for row, other in combinations(range(first, end), 2):
            if sums[row] != sums[other]:
                yield offset, (int(numbers[row]), int(numbers[other]))


class Ends(NamedTuple):
    """The first marker of its producer after each of some offsets: int64[n] offsets, `NOWHERE`
    without one, and int64[n] kinds.
    """

    offset: NDArray[np.int64]
    kind: NDArray[np.int64]


def next_markers(data: NDArray[np.int64], markers: NDArray[np.int64]) -> Ends:
    """Return the first marker of its producer after each row.

    Args:
        data: int64[n, 2], producer id and offset. markers: of `Transactions`.
    """
    producers = np.concatenate([data[:, 0], markers[:, 0]])
    offsets = np.concatenate([data[:, 1], markers[:, 1]])
    kinds = np.concatenate([np.full(len(data), _NO_KIND), markers[:, 2]])
    order = np.lexsort((kinds, offsets, producers))
    producers, offsets, kinds = producers[order], offsets[order], kinds[order]
    count = len(order)
    # The row of the next marker, whoever's it is; `count` stands for none.
    following = np.where(kinds == _NO_KIND, count, np.arange(count))
    following = np.minimum.accumulate(following[::-1])[::-1]
    producers, offsets = np.append(producers, NONE), np.append(offsets, NOWHERE)
    kinds = np.append(kinds, _NO_KIND)
    own = producers[following] == producers[:count]
    next_own = np.where(own, following, count)
    back = np.empty(count, dtype=np.int64)
    back[order] = next_own
    rows = back[: len(data)]
    return Ends(offsets[rows], kinds[rows])


def lost_markers(
    pair: Pair, first: Transactions, second: Transactions, spans: tuple[Span, Span]
) -> list[Difference]:
    """Return the markers that the first of two replicas has lost although it has data of their
    transaction (2). Spans: of both replicas.
    """
    data = first.data[first.data[:, 1] >= spans[0].start]
    own, theirs = next_markers(data, first.markers), next_markers(data, second.markers)
    lost = np.flatnonzero((theirs.offset < own.offset) & (theirs.offset < spans[0].end))
    differences: dict[tuple[int, int], Difference] = {}
    for row in lost.tolist():
        producer, offset = data[row].tolist()
        kind: Kind = "lost marker"
        if own.kind[row] != _NO_KIND and own.kind[row] != theirs.kind[row]:
            shown = theirs.kind[row] == ABORT
            kind = "aborted record shown" if shown else "committed record hidden"
        marker = int(theirs.offset[row])
        difference = Difference(kind, pair[0], offset, pair[1], marker, producer)
        differences.setdefault((producer, marker), difference)
    return list(differences.values())


def frozen_offsets(
    pair: Pair, first: Transactions, second: Transactions, spans: tuple[Span, Span], furthest: int
) -> list[Difference]:
    """Return the open transactions of the first of two replicas that never end there (3).

    Args:
        furthest: the largest end of all replicas. One that has not gone that far proves no removed
            marker: its leader may have removed the data, and have the marker above its end.
    """
    opened = first.open.copy()
    opened[:, 1] = np.maximum(opened[:, 1], spans[0].start)
    theirs = next_markers(opened, second.markers)
    known = np.concatenate([second.data, second.emptied])
    known = known[np.isin(known[:, 0], opened[:, 0])]
    there = {tuple(row) for row in known.tolist()}
    still_open = set(second.open[:, 0].tolist())
    differences = []
    for row, (producer, offset) in enumerate(opened.tolist()):
        marker = int(theirs.offset[row])
        if marker < spans[0].end:
            differences.append(
                Difference("frozen last stable offset", pair[0], offset, pair[1], marker, producer)
            )
            continue
        passed = spans[1].start <= offset < spans[1].end == furthest
        removed = (producer, offset) not in there and producer not in still_open
        if marker == NOWHERE and passed and removed:
            differences.append(
                Difference("frozen last stable offset", pair[0], offset, pair[1], NONE, producer)
            )
    return differences


class Latest(NamedTuple):
    """The latest shown record of each key in one replica.

    Attributes:
        offset: int64[keys], `NONE` without one.
        flags: uint8[keys].
    """

    offset: NDArray[np.int64]
    flags: NDArray[np.uint8]


def number_keys(rows: Sequence[NDArray[np.void]]) -> tuple[list[NDArray[np.int64]], int]:
    """Return the number of the key of each record, int64[n] for each replica, and how many keys
    there are. Keys differ if 128 bits of their hashes do.
    """
    hash1 = np.concatenate([each["hash1"] for each in rows])
    hash2 = np.concatenate([each["hash2"] for each in rows])
    order = np.lexsort((hash2, hash1))
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = (hash1[order][1:] != hash1[order][:-1]) | (hash2[order][1:] != hash2[order][:-1])
    numbers = np.empty(len(order), dtype=np.int64)
    numbers[order] = np.cumsum(begins) - 1
    lengths = np.cumsum([len(each) for each in rows])[:-1]
    return np.split(numbers, lengths), int(begins.sum())


def latest_of(rows: NDArray[np.void], numbers: NDArray[np.int64], keys: int) -> Latest:
    """Return the latest shown record of each key; rows: ROW[n], ascending by offset."""
    shown = (rows["flags"] & HIDDEN) == 0
    latest = Latest(np.full(keys, NONE, dtype=np.int64), np.zeros(keys, dtype=np.uint8))
    # Of several assignments to one element the last one counts.
    latest.offset[numbers[shown]] = rows["offset"][shown]
    latest.flags[numbers[shown]] = rows["flags"][shown]
    return latest


def judge_keys(
    rows: Sequence[NDArray[np.void]], spans: Sequence[Span], limits: Mapping[Pair, int]
) -> Iterator[Difference]:
    """Yield the keys whose state differs between replicas that have passed the same offsets (4).

    Args:
        rows: ROW[n] of each replica: all records of some keys, ascending by offset.
        spans: of the replicas.
        limits: the first diverged offset of two replicas, the smaller number first.
    """
    numbers, count = number_keys(rows)
    latest = [latest_of(*each, count) for each in zip(rows, numbers, strict=True)]
    keys = _Keys(rows, spans, latest)
    for first, second in permutations(range(len(rows)), 2):
        limit = limits.get((min(first, second), max(first, second)), NOWHERE)
        yield from _judge((first, second), keys, limit)


class _Keys(NamedTuple):
    """The records of some keys, ROW[n], the offsets and the latest records of each replica."""

    rows: Sequence[NDArray[np.void]]
    spans: Sequence[Span]
    latest: Sequence[Latest]

    def lacks(self, replica: int, keys: NDArray[np.int64], offsets: NDArray[np.int64]) -> list[int]:
        """Return which of these keys, with the offset of a record each, a replica lacks that record
        of, unless it does not reach it or had no need to get it.
        """
        missing = ~_has(self.rows[replica], offsets)
        end = self.spans[replica].end
        for number, span in enumerate(self.spans):
            if span.end > end:
                superseded = self.latest[number].offset[keys] >= end
                passed = (offsets >= span.start) & ~_has(self.rows[number], offsets)
                missing &= ~(superseded | passed)
        lacking: list[int] = keys[missing].tolist()
        return lacking


def _judge(pair: Pair, keys: _Keys, limit: int) -> Iterator[Difference]:
    """Yield the keys that have a value in the first of two replicas and not in the second, unless
    one of them does not reach the other's record.
    """
    first, second = pair
    here, there = keys.latest[first], keys.latest[second]
    differs = (here.offset != NONE) & ((here.flags & TOMBSTONE) == 0)
    differs &= here.offset >= keys.spans[second].start
    differs &= (here.offset < limit) & (there.offset < limit)
    deleted = (there.offset > here.offset) & ((there.flags & TOMBSTONE) != 0)
    later = np.flatnonzero(differs & deleted)
    for key in keys.lacks(first, later, there.offset[later]):
        yield Difference(
            "resurrected key", first, int(here.offset[key]), second, int(there.offset[key])
        )
    removed = np.flatnonzero(differs & (there.offset < here.offset))
    for key in keys.lacks(second, removed, here.offset[removed]):
        at, older = int(here.offset[key]), int(there.offset[key])
        if older == NONE:
            yield Difference("resurrected key", first, at, second)
        elif here.flags[key] & TRANSACTED:
            yield Difference("aborted record shown", first, at, second, older)
        else:
            yield Difference("lost record", second, at, first, at)


def _has(rows: NDArray[np.void], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which offsets a replica has a record at, shown or not."""
    known = rows["offset"]
    at = np.minimum(np.searchsorted(known, offsets), max(len(known) - 1, 0))
    if not len(known):
        return np.zeros(len(offsets), dtype=np.bool_)
    result: NDArray[np.bool_] = known[at] == offsets
    return result
