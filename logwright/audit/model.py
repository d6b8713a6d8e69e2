"""What an audit looks at and what it finds, as values. No record's key or value is in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.format.names import TopicPartition
from logwright.log.model import ReadableLog
from logwright.place.model import Place
from logwright.units import INT64_MAX, Offset

Kind = Literal[
    "resurrected key",
    "aborted record shown",
    "committed record hidden",
    "lost record",
    "lost marker",
    "frozen last stable offset",
    "diverged offset",
]
KINDS: Final[tuple[Kind, ...]] = (
    "resurrected key",
    "aborted record shown",
    "committed record hidden",
    "lost record",
    "lost marker",
    "frozen last stable offset",
    "diverged offset",
)
BOTH_LEVELS: Final = ("read_uncommitted", "read_committed")
COMMITTED_ONLY: Final = ("read_committed",)
LEVELS: Final[Mapping[Kind, tuple[str, ...]]] = {
    "resurrected key": BOTH_LEVELS,
    "aborted record shown": COMMITTED_ONLY,
    "committed record hidden": COMMITTED_ONLY,
    "lost record": BOTH_LEVELS,
    "lost marker": COMMITTED_ONLY,
    "frozen last stable offset": COMMITTED_ONLY,
    "diverged offset": BOTH_LEVELS,
}
"""The isolation levels of consumers that notice a finding."""

NOWHERE: Final = INT64_MAX
"""Offset of a marker that does not exist."""
NONE: Final = -1
"""Offset or producer id of a finding that has none."""

ROW: Final = np.dtype(
    [
        ("offset", np.int64),
        ("sum", np.uint64),
        ("hash1", np.uint64),
        ("hash2", np.uint64),
        ("flags", np.uint8),
    ]
)
"""One record: its offset, 64 bits of all that no cleaning changes, the hash of its key, FLAGS."""
KEYED, TOMBSTONE, TRANSACTED, HIDDEN = (np.uint8(1 << bit) for bit in range(4))
"""Has a key; has no value; is data of a transaction; is data of a transaction that was aborted or
has not ended."""


class Span(NamedTuple):
    """The offsets [start, end) that a replica serves: from its log start offset to its high
    watermark.
    """

    start: int
    end: int


class Transactions(NamedTuple):
    """The transactions of a replica, by its headers.

    Attributes:
        data: int64[n, 2], producer id and base offset of batches of transactions that have records,
            ascending.
        emptied: int64[k, 2], the same of batches that a cleaning has emptied.
        markers: int64[m, 3], producer id, offset, and kind (`scan.ABORT` or `scan.COMMIT`),
            ascending.
        open: int64[p, 2], producer id and first offset of the transactions that a broker takes for
            open: they determine the last stable offset.
    """

    data: NDArray[np.int64]
    emptied: NDArray[np.int64]
    markers: NDArray[np.int64]
    open: NDArray[np.int64]


class Replica(NamedTuple):
    """One replica of a partition.

    Attributes:
        log: as observed.
        clean_offset: below it the replica is clean, see `compaction.coordination`.
        records: number of records that its headers declare.
    """

    log: ReadableLog
    clean_offset: Offset
    transactions: Transactions
    records: int

    @property
    def span(self) -> Span:
        """The offsets that it serves."""
        return Span(self.log.log_start_offset, self.log.high_watermark)


class Difference(NamedTuple):
    """A finding by the numbers of the replicas.

    Attributes:
        replica: the one that serves what it should not, or lacks what it should serve.
        offset: of the record, marker or last stable offset there, or of what is lacking.
        other: the replica that shows it.
        other_offset: the offset there, `NONE` if it has removed what it had.
        producer_id: of a transaction, `NONE` without one.
    """

    kind: Kind
    replica: int
    offset: int
    other: int
    other_offset: int = NONE
    producer_id: int = NONE


class Finding(NamedTuple):
    """A finding; see `Difference`."""

    kind: Kind
    partition: TopicPartition
    log_dir: Place
    offset: int
    other_log_dir: Place
    other_offset: int
    producer_id: int

    @property
    def levels(self) -> tuple[str, ...]:
        """The isolation levels whose consumers notice it."""
        return LEVELS[self.kind]


class PartitionAudit(NamedTuple):
    """The audit of one partition.

    Attributes:
        replicas: at least one.
        counts: how many findings there are of each kind.
        findings: the first of each kind, replica and other replica.
    """

    partition: TopicPartition
    replicas: tuple[Replica, ...]
    counts: Mapping[Kind, int]
    findings: tuple[Finding, ...]

    @property
    def end_offset(self) -> int:
        """The highest offset that a replica serves, exclusive."""
        return max(replica.span.end for replica in self.replicas)
