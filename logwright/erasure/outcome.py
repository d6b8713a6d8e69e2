"""What the stages of an erasure say of each log and directory (`logwright.erasure.run`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logwright.erasure.erase.by_tombstones import ErasedByRules, Tombstones
    from logwright.erasure.erase.directories import MarkedErasure
    from logwright.erasure.erase.model import Erased, ErasePlan
    from logwright.errors import LogwrightError
    from logwright.format.names import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfLog:
    """What is said of any log or directory, by its name."""

    name: str

    @property
    def records(self) -> int:
        """How many records of the requests it has, or had, if they were counted."""
        return 0

    @property
    def has_matches(self) -> bool:
        """Whether it has, or had, records of the requests."""
        return bool(self.records)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(_OfLog):
    """A log that was not erased. Its partition is None for a deleted, stray or future log."""

    partition: TopicPartition | None
    error: LogwrightError


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTombstones(_OfLog):
    """The tombstones that a log lacks."""

    tombstones: Tombstones

    @property
    def records(self) -> int:
        """How many of the requests it has."""
        return self.tombstones.matches


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedByTombstones(_OfLog):
    """What was done by the rules to a log."""

    partition: TopicPartition
    erased: ErasedByRules

    @property
    def records(self) -> int:
        """How many of the requests it had."""
        return self.erased.matches

    @property
    def appended(self) -> int:
        """How many tombstones were appended now."""
        appended = self.erased.appended
        return 0 if appended is None or appended.repeated else appended.records


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOnce(_OfLog):
    """What is erased at once from a live, stray or future log.

    Attributes:
        done: the stage has erased it, not only planned.
        erased: None if nothing was, or was to be, erased.
    """

    plan: ErasePlan
    done: bool
    erased: Erased | None

    @property
    def unreadable(self) -> list[str]:
        """Files that stay though they cannot be read to their end."""
        if self.erased is not None:
            return list(self.erased.unreadable)
        unread = [copy.path for copy in self.plan.copies if copy.matches is None]
        return [] if self.plan.purge_unreadable else unread

    @property
    def purged(self) -> list[str]:
        """Files besides the segments that go."""
        if self.erased is not None:
            return list(self.erased.purged)
        purged = [copy.path for copy in self.plan.copies if copy.matches]
        unread = [copy.path for copy in self.plan.copies if copy.matches is None]
        return [*purged, *unread] if self.plan.purge_unreadable else purged

    @property
    def has_matches(self) -> bool:
        """Whether the log has, or had, records of the requests."""
        return bool(self.records or self.purged)

    @property
    def records(self) -> int:
        """How many are in its segments."""
        return self.plan.scan.records


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedAtOnce(_OfLog):
    """What becomes of a deleted log at once; `done`: not only planned."""

    marked: MarkedErasure
    done: bool

    @property
    def has_matches(self) -> bool:
        """Whether it has a match, and goes."""
        return self.marked.removed


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgedDirectory(_OfLog):
    """A deleted log that was due, and is gone."""

    @property
    def has_matches(self) -> bool:
        """It is of a topic that the requests apply to."""
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftDirectory(_OfLog):
    """A deleted, stray or future log that an erasure by the rules leaves as it is.

    Attributes:
        files: with records of the requests, or that cannot be read to their end.
    """

    files: int

    @property
    def has_matches(self) -> bool:
        """It has some."""
        return True


LogResult = Failed | PlannedTombstones | ErasedByTombstones | AtOnce
DirectoryResult = Failed | AtOnce | DeletedAtOnce | PurgedDirectory | LeftDirectory
Result = LogResult | DirectoryResult
"""What a stage says of a log or directory. All have `name`, `has_matches` and `records`."""
