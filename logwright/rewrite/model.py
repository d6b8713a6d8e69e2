"""The values of a rewrite: what it takes of a plan, and what was staged."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from logwright.log.model import PartitionLog
from logwright.units import ByteCount, Offset, TimestampMs


class RewritePlan(Protocol):
    """What the plans of all operations that rewrite segments have in common: `CleanPlan`,
    `ErasePlan`.
    """

    @property
    def plan_id(self) -> str:
        """Names the staging directory; unique to this plan."""

    @property
    def log(self) -> PartitionLog:
        """The log as it was observed, before a roll."""


class GroupFacts(NamedTuple):
    """The facts about a group of segments that a build reports to the checks.

    Attributes:
        kept_records: of each source segment, records that are not dead.
        changes: batches that do not stay as they are.
        summed_set: sum of the batches that stay as they are, modulo 2**64.
        summed_digest, summed_mapped: their mapped keys, sum and number.
        summed_tombstones: their tombstones.
        verbatim_min_timestamp_ms: smallest timestamp of those that stay, ms; None without records.
        aborted_set: sum of the batches that go as data of aborted transactions, but what is
            below the log start offset.
    """

    kept_records: tuple[int, ...]
    changes: int
    summed_set: int
    summed_digest: int
    summed_mapped: int
    summed_tombstones: int
    verbatim_min_timestamp_ms: TimestampMs | None
    aborted_set: int


class RebuiltFacts(NamedTuple):
    """The facts about the batches rebuilt in a segment that a build reports to the checks
    (`batch_receipt`).

    Attributes:
        content: sum of their records, modulo 2**64.
        digest: sum of their mapped keys.
    """

    content: int
    digest: int


class UnchangedSegment(NamedTuple):
    """A segment that stays as it is: rewritten, its files would have the same bytes.

    Attributes:
        log_bytes, records: of its ``.log``.
    """

    base_offset: Offset
    log_bytes: ByteCount
    records: int
    facts: GroupFacts


class StagedSegment(NamedTuple):
    """One cleaned segment in the staging directory, and what it replaces.

    Attributes:
        base_offset: of the first source segment, and of the cleaned one.
        source_base_offsets: the replaced segments, ascending.
        log_bytes, index_bytes, timeindex_bytes: sizes of the staged files.
        txnindex_bytes: size of the staged ``.txnindex``, None if there is no such file.
        next_offset: last offset of the last staged batch + 1; the base offset if it is empty.
        modified_ns: modification time, the last source segment's.
        facts, rebuilt: the build's report on its records.
    """

    base_offset: Offset
    source_base_offsets: tuple[Offset, ...]
    log_bytes: ByteCount
    index_bytes: ByteCount
    timeindex_bytes: ByteCount
    next_offset: Offset
    modified_ns: int
    txnindex_bytes: ByteCount | None = None
    facts: GroupFacts | None = None
    rebuilt: RebuiltFacts | None = None
