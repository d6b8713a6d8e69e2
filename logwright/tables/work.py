"""What an update takes and returns, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from logwright.config.table import Unique, UniqueBy
from logwright.errors import LogwrightError
from logwright.tables.batches import Batches
from logwright.tables.columns import Columns
from logwright.tables.files import DirectoryFiles, TableFiles
from logwright.tables.identity import KeyIdentity
from logwright.tables.merge import MergeLimits
from logwright.tables.model import Snapshot, Tail
from logwright.tables.plan import Observed, PartitionStep
from logwright.tables.quarantine import Quarantine
from logwright.tables.store import Store
from logwright.units import INT64_MAX

if TYPE_CHECKING:
    from pyroaring import BitMap64

    from logwright.decode.model import Decoder
    from logwright.latest.model import LatestCounts


class Reading(NamedTuple):
    """What is read of a log.

    Attributes:
        bytes: ``.log`` bytes that hold it.
        batches: the newest record of each key, columns `READ_COLUMNS`.
        counts: complete when all batches were taken.
    """

    bytes: int
    batches: Iterator[pa.RecordBatch]
    counts: LatestCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSource:
    """One partition's log.

    Attributes:
        observed: the log as it is now.
        log_bytes: size of its ``.log`` files.
        read: reads the offsets of a step; tombstones only for an upsert.
        records: reads all records of the offsets [start, end); None: from the log's start.
        tail: returns what is right below an offset; None if the offset before it is missing.
        batches: returns what is below an offset, see `BatchesOf.below`.
        missing: returns the first of the offsets [start, end) that has no record, None if all have.
        held: returns the offsets of the committed records below this one.
        epoch: returns the leader epoch of an offset; None: not known.
        settle: requires that what was read is still the log's history.
    """

    partition: int
    observed: Observed
    log_bytes: int
    read: Callable[[PartitionStep], Reading]
    records: Callable[[int | None, int], Iterator[pa.RecordBatch]]
    tail: Callable[[int], Tail | None]
    batches: Callable[[int, Batches | None], Batches | None]
    missing: Callable[[int, int], int | None]
    held: Callable[[int], BitMap64]
    epoch: Callable[[int], int | None]
    settle: Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionResult:
    """What an update did for one partition.

    Attributes:
        held: the table holds the log below this offset.
        bytes_read: ``.log`` bytes in the range of the step.
        records: records read: the newest of each key in the range of the step.
        written: rows that are new, or replace one.
        deleted: rows that tombstones, or records that cannot be decoded, took away, or whose record
            is gone.
        replaced: rows that were there before, and are not any more: deleted ones too.
        refused: records that cannot be decoded.
        buckets: files that were written.
        keyless: records without a key: they have no rows.
        messages: records that say nothing of a row, as Debezium's op m; some may be `keyless`.
        truncations: records that emptied the table.
        unknown: rows with a null for a value that the source left out, and that is not known.
    """

    partition: int
    step: PartitionStep
    held: int
    bytes_read: int = 0
    records: int = 0
    written: int = 0
    deleted: int = 0
    replaced: int = 0
    refused: int = 0
    buckets: int = 0
    keyless: int = 0
    messages: int = 0
    truncations: int = 0
    unknown: int = 0

    @property
    def waits(self) -> bool:
        """Whether the table holds more than the log shows."""
        return self.step.kind == "nothing" and self.step.reason != ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What an update did.

    Attributes:
        snapshot: the table afterwards; None: there is none.
        changed: there is a new version.
        partitions: those that were planned.
        failures: partition → error, of those that could not be updated.
        gone: partitions of an earlier topic of the same name, whose rows were removed.
    """

    snapshot: Snapshot | None
    changed: bool
    partitions: tuple[PartitionResult, ...]
    failures: Mapping[int, LogwrightError]
    gone: tuple[int, ...] = ()

    @property
    def left(self) -> tuple[int, ...]:
        """The partitions whose log is not there: their rows were not updated."""
        held = set() if self.snapshot is None else self.snapshot.progress.keys()
        return tuple(sorted(held - {one.partition for one in self.partitions} - {*self.failures}))

    @property
    def only_refused(self) -> bool:
        """Whether some records could not be decoded, and none of the others has a row."""
        refused = sum(one.refused for one in self.partitions)
        return refused > 0 and not sum(one.written for one in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The table to update.

    Attributes:
        store: the table.
        quarantine: where records go that cannot be decoded.
        topic: whose state it is.
        decoder: of its records.
        columns: of its files.
        asked: the decoding of the policies, as JSON; decoding: with what was inferred.
        buckets: wanted number of buckets; None: by size, or as the table has.
        work: directory of temporary files.
        limits: when files are written again; None: always.
        keep_ms: how long rows that are marked as deleted stay in the files.
        unique: where a key has one row; unique_by: what makes two keys the same.
        hidden: where the hidden heads are, if there are any.
        partitions: numbers of those that are known of the topic.
        again: why the table is made again from its whole log, in one commit; empty: it is not.
        key_before: the column of the raw key in the files that are there; empty: as in `columns`.
    """

    store: Store
    quarantine: Quarantine
    topic: str
    decoder: Decoder
    columns: Columns
    asked: str
    decoding: str
    work: Path
    buckets: int | None = None
    limits: MergeLimits | None = None
    keep_ms: int = INT64_MAX
    unique: Unique = "partition"
    unique_by: UniqueBy = "bytes"
    hidden: TableFiles = field(default_factory=lambda: DirectoryFiles(Path()))
    partitions: frozenset[int] = frozenset()
    again: str = ""
    key_before: str = ""

    @property
    def identity(self) -> KeyIdentity | None:
        """How keys are compared by their decoded values; None: by their bytes."""
        return identity_of(self.unique, self.unique_by)

    @property
    def remembers(self) -> bool:
        """Whether the table has hidden heads, since a row may hide other records."""
        return self.unique == "topic" or self.unique_by == "decoded"


def identity_of(unique: Unique, unique_by: UniqueBy) -> KeyIdentity | None:
    """Return how keys are compared by their decoded values; None: by their bytes."""
    return None if unique_by == "bytes" else KeyIdentity(by_partition=unique == "partition")
