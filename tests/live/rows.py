"""Records as numbers, so that those of readers and those of consumers are compared at once.

A row is one record: ``int64[4]``, its offset, key, value and timestamp in milliseconds. Keys are
``k17``, so that their number is the key; a value's number is its CRC. What is not there is NONE.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
"""``int64[n, 4]``."""
Isolation = Literal["read_uncommitted", "read_committed"]
LEVELS: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")

OFFSET, KEY, VALUE, TIME = range(4)
NONE = -1


def key_of(number: int) -> bytes:
    """The key of this number."""
    return b"k%d" % number


def key_number(key: bytes | None) -> int:
    """The number of a key."""
    return NONE if key is None else int(key[1:])


def value_number(value: bytes | None) -> int:
    """The number of a value."""
    return NONE if value is None else zlib.crc32(value)


def row_of(offset: int, key: bytes | None, value: bytes | None, time_ms: int) -> tuple[int, ...]:
    """One record's row."""
    return (offset, key_number(key), value_number(value), time_ms)


def general(text: str) -> str:
    """The first line of a text without its numbers, directories and ids."""
    text = re.sub(r"/[^ :]*/", "", text.partition("\n")[0])
    return re.sub(r"[\w-]{22}", "ID", re.sub(r"\b[0-9]+", "N", text))[:140]


def rows_of(rows: Sequence[tuple[int, ...]]) -> Rows:
    """Rows from a list of them."""
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def within(rows: Rows, start: int, end: int) -> Rows:
    """Of ascending rows those with offsets in [start, end)."""
    first, last = np.searchsorted(rows[:, OFFSET], (start, end))
    return rows[first:last]


def newest(rows: Rows) -> Rows:
    """Of ascending rows the last of each key, ascending by key, if it has a value."""
    rows = rows[rows[:, KEY] != NONE]
    if not len(rows):
        return rows
    last = np.full(int(rows[:, KEY].max()) + 1, NONE)
    last[rows[:, KEY]] = np.arange(len(rows))  # of equal indices the last one stays
    kept = rows[last[last != NONE]]
    valued: Rows = kept[kept[:, VALUE] != NONE]
    return valued


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """What an unclean election cut off.

    Attributes:
        end: the offset from which on the log continues as another one.
        keys: ``int64[n]``, of the records that are lost.
    """

    end: int
    keys: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What an audit says: a replica shows a record whose key another one does not have.

    Attributes:
        kind: as the audit names it.
        offset: of the record.
        other: the other replica's record of the key; NONE: it has none.
    """

    kind: str
    offset: int
    other: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a reader made of one log.

    Attributes:
        reader: its name.
        log: the partition's directory name.
        topic_ids: of the topic before and after it was read: two if it was made again meanwhile.
        isolation: what the rows are to be compared with.
        is_state: whether the rows are the latest state, else all records.
        start, bound: the offsets that it claims to have read: [start, bound).
        rows: as the reader gave them; None: it gave only where the log starts and ends.
        began, ended: by the monotonic clock of the machine, in seconds.
        notes: what it says of how it read, with a number of each.
    """

    reader: str
    log: str
    topic_ids: tuple[str, ...]
    isolation: Isolation
    is_state: bool
    start: int
    bound: int
    rows: Rows | None
    began: float
    ended: float
    notes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Where records of some keys were found.

    Attributes:
        topic_ids, began, ended: as of a `Reading`.
        keys: that were searched for.
        hits: rows with offset and key alone, ascending.
        committed: those of them that consumers must have got.
        denied: keys of which it claims that nothing is left, or ever was.
        is_whole: whether all replicas of the log were searched.
    """

    reader: str
    log: str
    topic_ids: tuple[str, ...]
    keys: tuple[int, ...]
    hits: Rows
    committed: Rows
    began: float
    ended: float
    denied: tuple[int, ...] = ()
    is_whole: bool = True
    notes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of a command that has no rows.

    Attributes:
        wrong: what it must not have done, by kind.
        notes: what it says, with a number of each.
        extents: where it says that logs start and end, without rows.
        settings: what it says of the topic's settings; empty: nothing.
        topic_ids: as of a `Reading`; of `settings`.
        claims: of an audit, each fault that `wrong` counts.
    """

    reader: str
    log: str
    seconds: float
    wrong: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)
    extents: tuple[Reading, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    topic_ids: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A reader gave nothing.

    Attributes:
        cause: the error's class and first sentence, without its numbers.
        is_named: whether it says that the log is not there, or changes; else the reader failed.
    """

    reader: str
    log: str
    cause: str
    is_named: bool
