"""What a log holds, as its consumers see it: the model that sequences of operations are judged by.

A `Content` is a value. Each operation on a log is a function from one content to the next, written
from Kafka's rules (Cleaner.shouldRetainRecord, UnifiedLog, KIP-534), not from the engine.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Literal

Outcome = Literal["none", "committed", "aborted", "open"]


@dataclass(frozen=True, slots=True)
class Row:
    """One record.

    Attributes:
        outcome: of its transaction; `none` without one.
        horizon_ms: delete horizon of its batch, of a tombstone; None if it is not set.
    """

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    outcome: Outcome = "none"
    horizon_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """A log.

    Attributes:
        rows: ascending by offset, those below the log start offset included.
        start, end: log start offset and log end offset.
        producers: last sequence number by producer id.
        held: offsets of open transactions whose records were erased: they are open all the same.
    """

    rows: tuple[Row, ...] = ()
    start: int = 0
    end: int = 0
    producers: tuple[tuple[int, int], ...] = ()
    held: tuple[int, ...] = ()

    @property
    def stable(self) -> int:
        """The last stable offset: of the first record of an open transaction, else the end."""
        undecided = (row.offset for row in self.rows if row.outcome == "open")
        return min((*self.held, *undecided), default=self.end)

    def uncommitted(self) -> tuple[Row, ...]:
        """What a consumer with read_uncommitted gets."""
        return tuple(row for row in self.rows if row.offset >= self.start)

    def committed(self) -> tuple[Row, ...]:
        """What a consumer with read_committed gets."""
        stable = self.stable
        return tuple(
            row for row in self.uncommitted() if row.outcome != "aborted" and row.offset < stable
        )

    def below(self, offset: int) -> tuple[Row, ...]:
        """The rows below an offset."""
        return tuple(row for row in self.rows if row.offset < offset)

    def from_(self, offset: int) -> tuple[Row, ...]:
        """The rows from an offset on."""
        return tuple(row for row in self.rows if row.offset >= offset)


def appended(content: Content, rows: Iterable[Row]) -> Content:
    """With rows after the log's end."""
    more = tuple(rows)
    end = more[-1].offset + 1 if more else content.end
    return replace(content, rows=(*content.rows, *more), end=end)


def cleaned(
    content: Content,
    *,
    dirty: int,
    uncleanable: int,
    now_ms: int,
    delete_retention_ms: int,
    empty: bool,
    removable: int,
    expired: Collection[int] = (),
) -> Content:
    """What a cleaning of [dirty, uncleanable) leaves.

    `empty`: there is nothing between the two, and nothing is done. `removable`: another replica may
    need the tombstones from there on. `expired`: tombstones in batches of old formats, which have
    no delete horizon, that may go by the times of files.
    """
    if empty:
        return content
    latest: dict[bytes, int] = {}
    for row in content.rows:
        if dirty <= row.offset < uncleanable and row.key is not None and row.outcome != "aborted":
            latest[row.key] = row.offset
    kept = [
        row if row.offset >= uncleanable else _with_horizon(row, now_ms + delete_retention_ms)
        for row in content.rows
        if row.offset >= uncleanable or _survives(row, latest, now_ms, removable, expired)
    ]
    return replace(content, rows=tuple(kept))


def erased(content: Content, key: bytes) -> Content:
    """Without the records of a key; those below the log start offset too."""
    gone = [row for row in content.rows if row.key == key]
    return replace(
        content,
        rows=tuple(row for row in content.rows if row.key != key),
        held=(*content.held, *(row.offset for row in gone if row.outcome == "open")),
    )


def _survives(
    row: Row, latest: Mapping[bytes, int], now_ms: int, removable: int, expired: Collection[int]
) -> bool:
    if row.outcome == "aborted" or row.key is None or latest.get(row.key, -1) > row.offset:
        return False
    if row.value is not None or row.offset >= removable:
        return True
    if row.horizon_ms is None:
        return row.offset not in expired
    return now_ms < row.horizon_ms


def _with_horizon(row: Row, horizon_ms: int) -> Row:
    """A tombstone that a cleaning comes upon for the first time gets its delete horizon."""
    if row.value is not None or row.horizon_ms is not None:
        return row
    return replace(row, horizon_ms=horizon_ms)


def between(low: Content, high: Content, cuts: Iterable[int]) -> Iterator[Content]:
    """What an interruption leaves that goes through a log in ascending order: up to a cut `low`,
    from there on `high`.
    """
    for cut in cuts:
        held = (*(n for n in low.held if n < cut), *(n for n in high.held if n >= cut))
        yield replace(high, rows=(*low.below(cut), *high.from_(cut)), held=held)


def any_of(low: Content, high: Content, bases: Iterable[int]) -> Iterator[Content]:
    """What an interruption leaves that goes through the segments, which begin at these offsets, in
    any order: some are of `low`, the others of `high`.
    """
    pieces = list(pairwise((*bases, high.end)))
    for chosen in product((low, high), repeat=len(pieces)):
        parts = list(zip(chosen, pieces, strict=True))
        rows = [row for one, (a, b) in parts for row in one.rows if a <= row.offset < b]
        held = [offset for one, (a, b) in parts for offset in one.held if a <= offset < b]
        yield replace(high, rows=tuple(rows), held=tuple(held))


def retained(content: Content, start: int, lasts: Mapping[int, int]) -> Content:
    """Beginning at another log start offset. A producer of whose records none is left may be
    forgotten: a broker that loads a log removes the snapshots at or below its start
    (ProducerStateManager.truncateAndReload).

    `lasts`: by producer the last offset.
    """
    known = tuple(one for one in content.producers if lasts.get(one[0], -1) >= start)
    producers = content.producers if start == content.start else known
    return replace(content, start=start, rows=content.from_(start), producers=producers)


def brought_back(content: Content, before: Content, *, start: int | None) -> Content:
    """What an undo gives: as it was before, with what was appended since.

    `start`: the log start offset, of a retention; None: as it is.
    """
    rows = (*before.below(before.end), *content.from_(before.end))
    return replace(content, rows=rows, start=content.start if start is None else start)
