"""The values of an erasure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from logwright.batches.source import Source
    from logwright.config.topic import CleanerConfig, TopicConfig
    from logwright.erasure.keys import Keys, Matched
    from logwright.erasure.match import MatchTable
    from logwright.log.model import PartitionLog
    from logwright.rewrite.model import StagedSegment
    from logwright.roll.plan import RollDecision
    from logwright.units import ByteCount, Offset, TimestampMs


class Matcher(Protocol):
    """The keys to be erased of one topic, as a `KeySet`."""

    @property
    def table(self) -> MatchTable:
        """Return what says of a key that it may match; see `needs_hmacs`."""

    @property
    def needs_hmacs(self) -> bool:
        """Whether any key may match, whatever the table says."""

    def match(self, keys: Keys, /) -> Matched:
        """Return the index of each key's request."""

    def shorts(self, indexes: Iterable[int], /, *, forms: bool = True) -> tuple[str, ...]:
        """Return what a mark has of these requests (`logwright.state.erasure_mark`).

        Args:
            forms: whether all forms of their keys were looked for.
        """

    def asked(self, *, forms: bool = True) -> tuple[str, ...]:
        """Return what a mark has of all requests."""


class SegmentMatches(NamedTuple):
    """The matches in one segment.

    Attributes:
        log_bytes: of its ``.log``.
        records: number of matching records.
        first_offset: of the first of them.
    """

    base_offset: Offset
    log_bytes: ByteCount
    records: int
    first_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What a scan found in the live segments of a log.

    Attributes:
        sources: all segments, ascending; ordinals count through them.
        matching: bitmap by ordinal, uint8[(records + 7) / 8].
        segments: those with a match, ascending.
        requests: those of a match.
        undecoded: there are keys that cannot be decoded, and may be forms of a request's key.
    """

    sources: Sequence[Source]
    matching: NDArray[np.uint8]
    segments: tuple[SegmentMatches, ...]
    requests: frozenset[int] = frozenset()
    undecoded: bool = False

    @property
    def records(self) -> int:
        """Number of matching records."""
        return sum(segment.records for segment in self.segments)


class Copy(NamedTuple):
    """A file of a log outside its live segments.

    Attributes:
        path: relative to the partition's directory.
        bytes: its size.
        matches: it has a matching record; None if it cannot be read to its end.
    """

    path: str
    bytes: ByteCount
    matches: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasePlan:
    """The decisions about one log: a `RewritePlan`, and what goes.

    Attributes:
        plan_id: names the staging directory; unique to this plan.
        log: the log as it was observed, before a roll.
        roll: whether the active segment is rolled first.
        scan: the matches in its segments.
        copies: its files besides, that go if they match: as far as they do or cannot be read.
        purge_unreadable: also files go that cannot be read to their end and have no match before.
    """

    plan_id: str
    now_ms: TimestampMs
    log: PartitionLog
    config: TopicConfig
    cleaner: CleanerConfig
    roll: RollDecision
    scan: Scan
    copies: tuple[Copy, ...]
    purge_unreadable: bool = False

    @property
    def rolled_log(self) -> PartitionLog:
        """The log as it will be after the roll, if there is one."""
        return self.roll.applied_to(self.log)

    @property
    def rebuilds(self) -> bool:
        """Whether a segment is rebuilt."""
        return bool(self.scan.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Erased:
    """What an erasure did to one log.

    Attributes:
        records: that are gone from the live segments.
        segments: base offsets of the rebuilt segments.
        rolled: the active segment was rolled.
        bytes_before, bytes_after: ``.log`` bytes of the live segments.
        purged: the files that were unlinked besides them, relative to the partition's directory.
        unreadable: files that stay though they cannot be read to their end.
    """

    records: int
    segments: tuple[Offset, ...]
    rolled: bool
    bytes_before: ByteCount
    bytes_after: ByteCount
    purged: tuple[str, ...]
    unreadable: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedErasure:
    """The rebuilt segments of a plan, durable in the staging directory."""

    plan: ErasePlan
    segments: tuple[StagedSegment, ...]
