"""What is read of a log of ``__consumer_offsets`` or ``__transaction_state``, and what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.log.model import ReadableLog
from logwright.place.model import Place
from logwright.units import Offset, TimestampMs

Kind = Literal[
    "not compacted",
    "cleaner late",
    "hanging transaction",
    "transaction not judged",
    "corrupt batch",
    "expired offsets",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A batch that cannot be read, with its file; the rest of that file was not read.

    Attributes:
        offset: the next one that was expected. position, unread_bytes: bytes.
        stops: Kafka's cleaner stops at it; False: it does not, as it compares no CRC; None: that
            is not known.
    """

    path: Place
    position: int
    offset: int
    unread_bytes: int
    problem: str
    stops: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A group, or a transactional id, in one partition.

    Attributes:
        name: of the group or id; shown only on request.
        records, bytes: of all records, the bytes as shares of their batches.
        live_records, live_bytes: of the newest record of each key, if it is not a tombstone.
        commits: live committed offsets.
        members: the group has a live member.
        metadata: live metadata of the group is there.
        active_ms: the newest commit, or change of state; None if neither has a time.
        pending: it has offsets in a transaction that is open.
    """

    name: str
    records: int
    bytes: int
    live_records: int
    live_bytes: int
    commits: int
    members: bool
    metadata: bool
    active_ms: TimestampMs | None
    pending: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinated:
    """A transactional id's newest state in ``__transaction_state``.

    Attributes:
        partitions: directory names of the partitions that the transaction has.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: TimestampMs | None
    update_ms: TimestampMs | None
    partitions: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The records of a log.

    Attributes:
        bytes_read: of whole batches that were read. old_format_bytes: of those in format v0 or v1.
        undecoded: records whose key or value is not known.
        began_ms: producer id → timestamp of the first batch of its open transaction.
        states: of ``__transaction_state``.
    """

    bytes_read: int
    old_format_bytes: int
    undecoded: int
    damages: tuple[Damage, ...]
    owners: tuple[Owner, ...]
    began_ms: Mapping[int, TimestampMs]
    states: tuple[Coordinated, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """What Kafka's cleaner may clean of a log: the figures of a `CompactionPlan`.

    Attributes:
        first_dirty, first_uncleanable: offsets of the dirty part, the end excluded.
        clean_bytes, bytes: of ``.log`` files, below the dirty part and of it.
        ratio, min_ratio: the dirty ratio, and ``min.cleanable.dirty.ratio``.
        due_at_ms: by ``max.compaction.lag.ms``; None if that makes nothing due.
        eligible: due now.
    """

    first_dirty: Offset
    first_uncleanable: Offset
    clean_bytes: int
    bytes: int
    ratio: float
    min_ratio: float
    due_at_ms: TimestampMs | None
    eligible: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A log, its settings, what its cleaner would do now, and its records.

    Attributes:
        as_of_ms: now, or when the log's broker was stopped.
        cleaned_ms: when cleaner-offset-checkpoint was written; None if it is not there.
    """

    log: ReadableLog
    config: TopicConfig
    cleaner: CleanerConfig
    cleanable: Cleanable
    contents: Contents
    as_of_ms: TimestampMs
    cleaned_ms: TimestampMs | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """An open transaction of a log.

    Attributes:
        first_offset: where it begins. began_ms, last_ms: of its first and last batch, -1: unknown.
        coordinated: the state of its producer; None if it is in no log that was read.
        hangs: True: nobody will end it; None: not known.
        why: of `hangs`.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int
    began_ms: TimestampMs
    last_ms: TimestampMs
    coordinated: Coordinated | None
    hangs: bool | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long is too long, ms: settings of the broker, and the operator's patience.

    Attributes:
        late_ms: a log may wait so long for the cleaner once it is due.
        retention_ms: ``offsets.retention.minutes``.
        transaction_ms: ``transaction.max.timeout.ms``.
    """

    late_ms: int
    retention_ms: int
    transaction_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that makes a log grow.

    Attributes:
        since_ms: since when; None if that is not known.
        bytes: of ``.log`` files that it concerns.
        fix: the command, or what to do.
    """

    kind: Kind
    problem: str
    fix: str
    since_ms: TimestampMs | None = None
    bytes: int = 0
    transaction: Transaction | None = None
