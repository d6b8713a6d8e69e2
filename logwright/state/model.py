"""Pauses, quarantine and open moves of the partitions of one log directory, as values.

1. **Pause**: nobody maintains the partition while at least one pause holds. Each owner has at most
   one, so setting it twice and lifting it once leaves none: pauses cannot accumulate (KAFKA-9087).
   An expired pause does not count.
2. **Quarantine**: cleaning the partition failed permanently. It is skipped until the retry time,
   which is further away after each failure; a cleaning that succeeds ends it
   (LogCleanerManager.markPartitionUncleanable, 4.3.0, lasts until the broker stops).
3. **Move**: a move to another log directory has begun and is not finished (`logwright.move`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from logwright.errors import (
    CorruptLogError,
    LogwrightError,
    QualityError,
    RecordAboveLimit,
    UnsupportedFormatError,
)
from logwright.format.names import TopicPartition
from logwright.times import instant
from logwright.units import INT64_MAX, TimestampMs

FIRST_RETRY_MS: Final = 15 * 60 * 1000
LAST_RETRY_MS: Final = 24 * 60 * 60 * 1000
"""The delay before a quarantined partition is tried again: doubled by each failure, up to a day."""

LARGEST_TEXT: Final = 1_000
"""Characters of an owner, a reason or a problem."""

FOR_GOOD: Final = (CorruptLogError, RecordAboveLimit, UnsupportedFormatError, QualityError)
"""Errors that a retry does not fix."""

_LARGEST_PATH: Final = 4_096
_IN_THE_FILE: Final = ConfigDict(alias_generator=to_camel, strict=True)
"""How the state file is read and written (`logwright.state.file`)."""


def _require_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("not printable")
    return text


def _require_absolute(text: str) -> str:
    if not Path(text).is_absolute():
        raise ValueError("not an absolute path")
    return text


_Printable = Annotated[str, AfterValidator(_require_printable)]
_Text = Annotated[_Printable, Field(max_length=LARGEST_TEXT)]
_Path = Annotated[_Printable, Field(max_length=_LARGEST_PATH), AfterValidator(_require_absolute)]
_Number = Annotated[int, Field(ge=0, le=INT64_MAX)]
_Time = Annotated[TimestampMs, Field(ge=0, le=INT64_MAX)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """One owner's request to leave a partition alone.

    Attributes:
        owner: who wants it; one pause each.
        reason: why, for people.
        since_ms: when it was first set.
        expires_at_ms: from when on it does not count, None = it stays until it is lifted.
    """

    __pydantic_config__ = _IN_THE_FILE

    owner: _Text
    reason: _Text
    since_ms: _Time
    expires_at_ms: _Time | None = None

    def holds(self, now_ms: TimestampMs) -> bool:
        """Return whether the pause has not expired."""
        return self.expires_at_ms is None or now_ms < self.expires_at_ms

    @property
    def sentence(self) -> str:
        """Who paused it, until when and why."""
        until = "until it is resumed"
        if self.expires_at_ms is not None:
            until = f"until {instant(self.expires_at_ms)}"
        return f"paused by {self.owner} {until}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """A partition that could not be cleaned, for a cause that a retry does not fix.

    Attributes:
        cause: name of the error, such as ``CorruptBatch``.
        problem: what it said.
        file: name of the file concerned, None if it is not known.
        position: byte in that file, None if it is not known.
        since_ms: the first failure.
        retry_at_ms: from when on it is tried again.
        failures: how often cleaning failed, at least 1.
        topic_id: of the log that failed, None if it is not known. A log with another one, of a new
            topic of that name, is not in quarantine.
    """

    __pydantic_config__ = _IN_THE_FILE

    cause: _Text
    problem: _Text
    file: _Text | None = None
    position: _Number | None = None
    since_ms: _Time
    retry_at_ms: _Time
    failures: _Number
    topic_id: _Text | None = None

    def holds(self, now_ms: TimestampMs) -> bool:
        """Return whether its retry time has not come yet."""
        return now_ms < self.retry_at_ms

    @property
    def sentence(self) -> str:
        """What failed, where, how often, and when it is tried again."""
        place = ""
        if self.file is not None:
            at = "" if self.position is None else f" at byte {self.position}"
            place = f" in {self.file}{at}"
        again = f"tried again from {instant(self.retry_at_ms)} on"
        return (
            f"quarantined since {instant(self.since_ms)}, failures: {self.failures}, {again}: "
            f"{self.cause}{place}: {self.problem}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMove:
    """A move out of this log directory that is not finished.

    Attributes:
        move_id: 32 hexadecimal digits, in the names of its directories.
        destination: the other log directory, an absolute path.
        since_ms: when it began.
    """

    __pydantic_config__ = _IN_THE_FILE

    move_id: Annotated[str, Field(alias="id", pattern=r"^[0-9a-f]{32}$")]
    destination: _Path
    since_ms: _Time

    @property
    def owner(self) -> str:
        """Owner of the pause that it sets."""
        return f"move:{self.move_id}"

    @property
    def sentence(self) -> str:
        """Its destination and when it began."""
        return f"an unfinished move to {self.destination} since {instant(self.since_ms)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """The state of one partition.

    Attributes:
        pauses: one of each owner, by owner.
        quarantine: None if it can be cleaned, as far as is known.
        move: None if no move is open.
    """

    __pydantic_config__ = _IN_THE_FILE

    pauses: tuple[Pause, ...] = ()
    quarantine: Quarantine | None = None
    move: OpenMove | None = None

    def with_pause(self, pause: Pause) -> PartitionState:
        """Return the state with a pause by this owner; an earlier pause of the same owner keeps its
        beginning.
        """
        before = {one.owner: one for one in self.pauses}
        known = before.get(pause.owner)
        since_ms = pause.since_ms if known is None else known.since_ms
        before[pause.owner] = replace(pause, since_ms=since_ms)
        return replace(self, pauses=tuple(before[owner] for owner in sorted(before)))

    def without_pauses(self, owner: str | None) -> PartitionState:
        """Return the state without this owner's pause; without any pause if None."""
        left = tuple(one for one in self.pauses if owner is not None and one.owner != owner)
        return replace(self, pauses=left)

    def without_expired(self, now_ms: TimestampMs) -> PartitionState:
        """Return the state without expired pauses."""
        return replace(self, pauses=tuple(one for one in self.pauses if one.holds(now_ms)))

    def with_failure(self, error: LogwrightError, now_ms: TimestampMs) -> PartitionState:
        """Return the state with a quarantine for one more failure."""
        before = self.quarantine
        failures = 1 if before is None else before.failures + 1
        doublings = min(failures - 1, LAST_RETRY_MS.bit_length())
        delay_ms = min(FIRST_RETRY_MS << doublings, LAST_RETRY_MS)
        quarantine = Quarantine(
            cause=type(error).__name__,
            problem=printable(error.problem),
            file=None if error.path is None else printable(error.path.name),
            position=error.position,
            since_ms=now_ms if before is None else before.since_ms,
            retry_at_ms=TimestampMs(now_ms + delay_ms),
            failures=failures,
        )
        return replace(self, quarantine=quarantine)

    def hold(self, now_ms: TimestampMs, *, force: bool = False) -> Hold | None:
        """Return why it must be skipped now; None if it can be worked on. A pause comes before a
        quarantine. `force` overrides a quarantine; nothing overrides a pause.
        """
        pauses = tuple(one for one in self.pauses if one.holds(now_ms))
        if pauses:
            return Hold(kind="paused", sentence="; ".join(one.sentence for one in pauses))
        if not force and self.quarantine is not None and self.quarantine.holds(now_ms):
            return Hold(kind="quarantined", sentence=self.quarantine.sentence)
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why a partition is skipped.

    Attributes:
        kind: ``disabled``: by ``log.cleaner.enable=false``, of a retention. ``unknown``: nothing
            says the topic's ``cleanup.policy``. ``stray``: a broker would not serve it.
            ``running``: a broker runs on its log directory.
        sentence: with owner, reason and expiry, or cause, place and retry time.
    """

    kind: Literal["paused", "quarantined", "disabled", "unknown", "stray", "running"]
    sentence: str


LogDirState = Mapping[TopicPartition, PartitionState]
"""The states of the partitions of one log directory; partitions without a state are not in it.
"""

NOTHING: Final = PartitionState()


def printable(text: str) -> str:
    """Return one line of bounded length without control characters, as the state file holds it."""
    shown = "".join(one if one.isprintable() else " " for one in text)
    return shown[:LARGEST_TEXT]
