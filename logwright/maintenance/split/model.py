"""What the tasks of a cleaning get and give. All of it is sent from process to process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.bucket.store import Bucket
from logwright.bucket.stored import StoredFile
from logwright.checks.model import OutputFacts
from logwright.compaction.model import ReadablePlan, StagedCleaning
from logwright.compaction.split import Segments
from logwright.format.names import TopicPartition
from logwright.format.siphash import HashKey
from logwright.maintenance.split.objects import JobObjects, Stored

if TYPE_CHECKING:
    from logwright.config.topic import CleanerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What all tasks of one cleaning have in common.

    Attributes:
        url: of the log directory.
        partition: whose log.
        id: see `Maintenance.id`.
        scratch: as `BucketSweep.scratch`.
        key: of the keys' hash; it is in no object.
        shards: how many.
    """

    url: str
    partition: TopicPartition
    id: str
    scratch: Path | None
    key: HashKey = field(repr=False)
    shards: int

    @property
    def directory(self) -> Bucket:
        """The partition's directory in the bucket."""
        return Bucket.of(self.url).below(self.partition.directory_name)

    @property
    def objects(self) -> JobObjects:
        """The job's objects, for one call."""
        return JobObjects(self.directory, self.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupTask:
    """One group of segments.

    Attributes:
        plan: of `plan_of_group`.
        files: name → each of its files, and the modification time, ns.
        fates: what transactions decide, of `fates_of`; None: nothing, as far as is known.
    """

    job: Job
    plan: ReadablePlan
    files: dict[str, tuple[StoredFile, int]]
    fates: Stored | None = None


class Piece(NamedTuple):
    """Rows of a group's keys, by shard, in one object.

    Attributes:
        counts: int64[2, shards], rows, and those that are inserted.
        crcs: uint32[shards].
    """

    key: str
    counts: NDArray[np.int64]
    crcs: NDArray[np.uint32]


class KeysRead(NamedTuple):
    """What was read of a group.

    Attributes:
        thin: the batches that a walk over transactions needs, of each segment.
        has_transactions: what is known without such a walk is not all.
        read: null keys, expired tombstones and notes; None: the keys were not read, since
            transactions decide about them.
        pieces: the keys.
        offered: records that are inserted.
    """

    thin: Stored
    has_transactions: bool
    read: Stored | None = None
    pieces: tuple[Piece, ...] = ()
    offered: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionsTask:
    """All transactions of a log.

    Attributes:
        plan: of the log.
        groups: of `groups_of`.
        thin: of each group.
    """

    job: Job
    plan: ReadablePlan
    groups: tuple[Segments, ...]
    thin: tuple[Stored, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardTask:
    """One shard of the keys.

    Attributes:
        shard: its number.
        cleaner: has the memory budget.
        parts: of each group, of each of its pieces.
        inserted: rows that are inserted, of all groups.
    """

    job: Job
    shard: int
    cleaner: CleanerConfig
    parts: tuple[tuple[Stored, ...], ...]
    inserted: int


class ShardFound(NamedTuple):
    """What a shard shows.

    Attributes:
        key: of the object with the ordinals that are superseded, uint32[n] for each group.
        counts: int64[groups], how many. crcs: uint32[groups].
        sums: GROUP_SUMS[groups].
        is_right: whether the sample agrees with the table.
        distinct, table_bytes, reads: see `Superseded`.
    """

    key: str
    counts: NDArray[np.int64]
    crcs: NDArray[np.uint32]
    sums: NDArray[np.void]
    is_right: bool
    distinct: int
    table_bytes: int
    reads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteTask:
    """What a group becomes.

    Attributes:
        group: which.
        read: of `KeysRead`.
        superseded: of each shard.
        digest, records: sum and number of the keys that must survive.
    """

    group: GroupTask
    read: Stored
    superseded: tuple[Stored, ...]
    digest: int
    records: int


class GroupBuilt(NamedTuple):
    """What a group has become.

    Attributes:
        staged: as `build` returns it; its directory is gone.
        facts: what the checks say.
        files: name → what was sent; none if a check failed.
        sent_bytes: of them.
    """

    staged: StagedCleaning
    facts: OutputFacts
    files: dict[str, StoredFile]
    sent_bytes: int
