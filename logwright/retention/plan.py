"""Decide which segments retention deletes (UnifiedLog.deleteOldSegments, Kafka 4.3.0).

Three steps, each over what the one before it left: log start offset, then ``retention.bytes``, then
``retention.ms``; the last two only where ``cleanup.policy`` has ``delete`` (KIP-71; an empty policy
keeps everything). Each walks from the oldest segment and ends at the first that stays. So the
deleted segments are always a prefix, and one young segment, or one with a timestamp in the future,
protects all after it.

A segment goes only if the high watermark has passed it, and the active segment only if it is not
empty. When every segment goes, the log is rolled first.

The cleaner deletes a compacted log's segments (LogCleaner.cleanupLogs): so none are deleted in a
quarantine, and none without a cleaner.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Generic, Literal

from logwright.errors import PolicyError
from logwright.format.names import HIGH_WATERMARK_CHECKPOINT
from logwright.log.model import log_bytes_of
from logwright.log.watermark import is_without_high_watermark
from logwright.place.model import AnyPlace, AnyPlace_co
from logwright.state.model import Hold
from logwright.times import duration, durations_apart
from logwright.units import ByteCount, Offset, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from logwright.config.topic import CleanerConfig, TopicConfig
    from logwright.log.model import PartitionLog, ReadableLog, Segment
    from logwright.state.model import PartitionState

RetentionCause = Literal["log start offset", "size", "time"]

HIGH_WATERMARK = -1
"""The offset of a DeleteRecords request for all that is committed (KIP-107)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentVerdict:
    """The decision about one segment.

    Attributes:
        bytes: of the ``.log``.
        freed_bytes: of all its files.
        cause: which step deletes it; None if it stays.
        limit: what the step compared with: an offset, bytes or ms; None if it stays.
        value: what was compared: the next base offset, the bytes left without it, its age in ms.
        from_records: its time is that of its records, not the file's.
        reason: one sentence with the numbers.
    """

    base_offset: Offset
    bytes: ByteCount
    freed_bytes: ByteCount
    largest_timestamp_ms: TimestampMs
    from_records: bool
    cause: RetentionCause | None
    limit: int | None
    value: int | None
    reason: str

    @property
    def deleted(self) -> bool:
        """It goes."""
        return self.cause is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPlan(Generic[AnyPlace_co]):
    """A retention, planned.

    Attributes:
        log: as it was observed.
        now_ms: the clock.
        deleted: the decisions about the deleted segments, ascending.
        stays: why the first remaining segment stays.
        log_start_offset: the new one.
        checkpointed_start: what the log-start-offset-checkpoint holds afterwards: an entry only
            while the first segment's name does not show it.
        rolls: every segment goes, so that a new active one is needed first.
        past_quarantine: a quarantine does not stop it.
        file_delete_delay_ms: how long its files are kept after it.
    """

    log: PartitionLog[AnyPlace_co]
    now_ms: TimestampMs
    deleted: tuple[SegmentVerdict, ...]
    stays: str
    log_start_offset: Offset
    checkpointed_start: Offset | None
    rolls: bool
    past_quarantine: bool
    file_delete_delay_ms: int

    @property
    def kept(self) -> Sequence[Segment]:
        """The segments that stay, ascending."""
        return self.log.segments[len(self.deleted) :]

    @property
    def verdicts(self) -> tuple[SegmentVerdict, ...]:
        """The decisions about all segments, ascending."""
        return (*self.deleted, *(self._stay(segment) for segment in self.kept))

    @property
    def oldest(self) -> SegmentVerdict:
        """The decision about the first segment."""
        return self.deleted[0] if self.deleted else self._stay(self.kept[0])

    def _stay(self, segment: Segment) -> SegmentVerdict:
        first = self.kept[0].base_offset
        is_first = segment.base_offset == first
        return _verdict(segment, self.stays if is_first else f"segment {first} before it stays")

    @property
    def freed_bytes(self) -> ByteCount:
        """What the deletion frees once it is purged."""
        return ByteCount(sum(verdict.freed_bytes for verdict in self.deleted))

    @property
    def bytes_after(self) -> ByteCount:
        """Remaining ``.log`` bytes."""
        return ByteCount(self.log.log_bytes - sum(verdict.bytes for verdict in self.deleted))

    @property
    def changes(self) -> bool:
        """The retention changes the log."""
        return bool(self.deleted) or self.log_start_offset != self.log.log_start_offset

    @property
    def read_segments(self) -> frozenset[Offset]:
        """Base offsets of the segments that the retention reads: those that go by their time, and
        the active one if it goes.
        """
        by_time = {verdict.base_offset for verdict in self.deleted if verdict.cause == "time"}
        return frozenset(by_time | ({self.log.active.base_offset} if self.rolls else set()))


@dataclass(frozen=True, slots=True)
class _Breach:
    cause: RetentionCause
    limit: int
    value: int
    reason: str


if TYPE_CHECKING:
    _Predicate = Callable[[Segment, Segment | None], _Breach | str]
    """Decides about a segment, given the next one: why it is deleted, or in words why it stays."""


def plan_retention(
    log: PartitionLog[AnyPlace],
    config: TopicConfig,
    *,
    now_ms: TimestampMs,
    delete_records_before: int | None = None,
    force: bool = False,
) -> RetentionPlan[AnyPlace]:
    """Decide about every segment.

    Args:
        log: as it was observed; its high watermark bounds what may go.
        config: the topic's settings.
        now_ms: the clock.
        delete_records_before: raise the log start offset to this first, as the DeleteRecords
            request does (KIP-107); `HIGH_WATERMARK` for all that is committed.
        force: also in a quarantine, if the log is compacted.

    Raises:
        PolicyError: the topic's ``cleanup.policy`` is unknown; that offset is above the high
            watermark, or the topic is compacted only.
    """
    if not config.policy_known:
        raise PolicyError("its cleanup.policy is unknown.", path=log.log_dir)
    start = _raised_start(log, config, delete_records_before)
    segments = log.segments
    deleted: list[SegmentVerdict] = []
    stays: list[str] = []
    for predicate in _predicates(config, start, now_ms):
        gone, why = _walk(segments, log, predicate(segments))
        segments = segments[len(gone) :]
        deleted += gone
        stays = [why] if gone else [*stays, why]
        if not segments:
            break
    first = segments[0].base_offset if segments else log.log_end_offset
    new_start = Offset(max(start, first))
    return RetentionPlan(
        log=log,
        now_ms=now_ms,
        deleted=tuple(deleted),
        stays="; ".join(dict.fromkeys(stays)),
        log_start_offset=new_start,
        checkpointed_start=new_start if new_start > first else None,
        rolls=not segments,
        past_quarantine=force or not config.compact,
        file_delete_delay_ms=config.file_delete_delay_ms,
    )


def retention_hold(
    config: TopicConfig,
    cleaner: CleanerConfig,
    state: PartitionState,
    *,
    now_ms: TimestampMs,
    force: bool,
) -> Hold | None:
    """Return why retention leaves a log alone, or None. `force` overrides all but a pause and an
    unknown ``cleanup.policy``.

    Args:
        config, cleaner: the topic's settings.
        state: what is remembered of the partition.
        now_ms: the clock.
        force: also a compacted log that is in quarantine or has no cleaner.
    """
    if not config.policy_known:
        return Hold(kind="unknown", sentence="its cleanup.policy is unknown")
    hold = state.hold(now_ms, force=force or not config.compact)
    if hold is None and config.compact and cleaner.off is not None and not force:
        sentence = f"{cleaner.off}: the cleaner deletes a compacted log's segments"
        return Hold(kind="disabled", sentence=sentence)
    return hold


def _raised_start(log: ReadableLog, config: TopicConfig, requested: int | None) -> Offset:
    if requested is None:
        return log.log_start_offset
    if config.compact and not config.delete:
        raise PolicyError(
            f"records of {log.partition} cannot be deleted by offset: its cleanup.policy is compact"
            " alone.",
            remedy="Kafka refuses it too. Write tombstones, or add delete to the policy.",
        )
    offset = log.high_watermark if requested == HIGH_WATERMARK else requested
    if offset > log.high_watermark:
        raise PolicyError(
            f"records of {log.partition} before {offset} cannot be deleted: the high watermark is"
            f" {log.high_watermark}.",
        )
    return Offset(max(offset, log.log_start_offset))


def _predicates(
    config: TopicConfig, start: Offset, now_ms: TimestampMs
) -> list[Callable[[Sequence[Segment]], _Predicate]]:
    """Return for each step of the policy, in Kafka's order, the function that makes its predicate
    from the remaining segments.
    """
    steps: list[Callable[[Sequence[Segment]], _Predicate]] = [lambda _: _by_start_offset(start)]
    if config.delete and config.retention_bytes >= 0:
        steps.append(lambda left: _by_size(left, config.retention_bytes))
    if config.delete and config.retention_ms >= 0:
        steps.append(lambda _: _by_time(config.retention_ms, now_ms))
    return steps


def _walk(
    segments: Sequence[Segment], log: ReadableLog, predicate: _Predicate
) -> tuple[list[SegmentVerdict], str]:
    """Return the decisions about the deleted segments, and why the first remaining one stays."""
    gone: list[SegmentVerdict] = []
    pairs = zip(segments, chain(islice(segments, 1, None), [None]), strict=True)
    for segment, following in pairs:
        end = log.log_end_offset if following is None else following.base_offset
        if log.high_watermark < end:
            return gone, f"its records up to {end} are not committed: {_watermark(log)}"
        decision = predicate(segment, following)
        if isinstance(decision, str):
            return gone, decision
        if following is None and segment.log_bytes == 0:
            return gone, "it is the active segment and empty"
        gone.append(_verdict(segment, decision))
    return gone, ""


def _watermark(log: ReadableLog) -> str:
    if is_without_high_watermark(log):
        return f"the high watermark is not on record in {HIGH_WATERMARK_CHECKPOINT}"
    return f"the high watermark is {log.high_watermark}, by {HIGH_WATERMARK_CHECKPOINT}"


def _by_start_offset(start: Offset) -> _Predicate:
    def breach(_: Segment, following: Segment | None) -> _Breach | str:
        if following is None:
            return "it is the active segment"
        if following.base_offset > start:
            return f"it reaches up to {following.base_offset}, above log start offset {start}"
        reason = f"it ends at {following.base_offset}, log start offset is {start}"
        return _Breach("log start offset", start, following.base_offset, reason)

    return breach


def _by_size(left: Sequence[Segment], limit: int) -> _Predicate:
    """Return the decision by size: the remaining bytes shrink with each deleted segment."""
    bytes_left: int = log_bytes_of(left)

    def breach(segment: Segment, _: Segment | None) -> _Breach | str:
        nonlocal bytes_left
        without = bytes_left - segment.log_bytes
        if without < limit:
            return f"without it {without} bytes would be left of retention.bytes={limit}"
        bytes_left = without
        reason = f"{without} bytes are left without it, retention.bytes={limit}"
        return _Breach("size", limit, without, reason)

    return breach


def _by_time(limit: int, now_ms: TimestampMs) -> _Predicate:
    def breach(segment: Segment, _: Segment | None) -> _Breach | str:
        age_ms = now_ms - segment.largest_timestamp_ms
        whose = "its newest record" if from_records(segment) else "its file, without timestamps,"
        if age_ms < 0:
            ahead = duration(-age_ms)
            return f"{whose} is {ahead} in the future, retention.ms is {duration(limit)}"
        age, most = durations_apart(age_ms, limit)
        reason = f"{whose} is {age} old, retention.ms is {most}"
        if age_ms <= limit:
            return reason
        return _Breach("time", limit, age_ms, reason)

    return breach


def from_records(segment: Segment) -> bool:
    """Return whether a segment's time is that of its records: its time index has an entry."""
    return segment.timeindex_bytes > 0


def _verdict(segment: Segment, decision: _Breach | str) -> SegmentVerdict:
    """Return the decision about a segment; text says why it stays."""
    breach = None if isinstance(decision, str) else decision
    files = segment.log_bytes + segment.index_bytes + segment.timeindex_bytes
    return SegmentVerdict(
        base_offset=segment.base_offset,
        bytes=segment.log_bytes,
        freed_bytes=ByteCount(files + (segment.txnindex_bytes or 0)),
        largest_timestamp_ms=segment.largest_timestamp_ms,
        from_records=from_records(segment),
        cause=None if breach is None else breach.cause,
        limit=None if breach is None else breach.limit,
        value=None if breach is None else breach.value,
        reason=decision if isinstance(decision, str) else decision.reason,
    )
