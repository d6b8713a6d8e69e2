"""What a log in a bucket becomes when a log directory's state of it is written there. Pure.

1. Segments that the bucket has with the same offsets, sizes and checksums stay as they are.
2. What is in the bucket below the log's first segment stays: retention of the log directory deletes
   nothing in the bucket. Everything from there on is as the log directory has it, so a compaction
   there takes the place of what it compacted. Of a compacted log nothing below stays: the cleaner
   may have removed the tombstone of a record there, and a deleted key would be back. What retention
   deleted in the bucket stays deleted: the log start offset there never falls.
3. Refused: another topic of the same name; a log that ends before the one in the bucket does, which
   would lose records; of a log that is not compacted, a segment in the bucket that begins before
   the log's first one and ends after it begins.
4. A log that is not compacted may be committed in parts. A compacted one is not: a key is missing
   in a part if its newest record is after it.
5. What another operation replaced meanwhile is not named again (`logwright.bucket.commit`, 4).
6. Refused: a log that may have records of keys that were erased in the bucket. It has none of a key
   below the offset that its mark has (`logwright.state.erasure_mark`), nor below its first segment.
7. A log that an erasure began in place of another's first version is as if there were none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from logwright.bucket.commit import Conflict
from logwright.bucket.manifest import Erased, LogState
from logwright.errors import PreconditionError
from logwright.format.checkpoints import (
    LeaderEpoch,
    parse_leader_epochs,
    serialize_leader_epochs,
)
from logwright.format.names import TopicPartition
from logwright.log.model import Segment

_NOT_CHANGED: Final = "Nothing was written."


class LogFacts(NamedTuple):
    """What is known of the log directory's log before a file of it was read.

    Attributes:
        first_offset: base offset of its first segment.
        end_offset: its log end offset.
        compacted: as `is_compacted` says.
    """

    partition: TopicPartition
    topic_id: str | None
    first_offset: int
    end_offset: int
    compacted: bool


def is_compacted(cleaner_checkpoint: int | None, configs: Mapping[str, str]) -> bool:
    """Return whether a cleaner removes records of a log. Kafka keeps the entry of a log that was
    compacted once, whatever its settings say now (LogCleanerManager, 4.3.0): the entry counts only
    if the policy is not known.

    Args:
        cleaner_checkpoint: its first dirty offset on record, None without an entry.
        configs: settings of the topic, as far as they are known.
    """
    policy = configs.get("cleanup.policy")
    if policy is None:
        return cleaner_checkpoint is not None
    return "compact" in map(str.strip, policy.split(","))


def require_erased(erased: Erased, absent: Mapping[str, int], log: LogFacts) -> None:
    """Refuse a log that would bring back what was erased in the bucket; rule 6.

    Args:
        erased: from the log in the bucket.
        absent: see `logwright.state.erasure_mark.absent_below`, of the log directory's.

    Raises:
        PreconditionError: it may.
    """
    left = brought_back(erased, absent, log.first_offset)
    if left:
        raise PreconditionError(
            f"{len(left)} keys were erased from the log in the bucket and not from this one: what"
            f" it has of them below offset {max(erased.below[key] for key in left)} would be back.",
            path=log.partition,
            remedy=f"{_NOT_CHANGED} Erase them here first, with the same --secret: `logwright erase"
            " LOG_DIR --now-and-for-good`; or bring them back: --bring-back-erased.",
        )


def brought_back(erased: Erased, absent: Mapping[str, int], first_offset: int) -> list[str]:
    """Return the keys that were erased in the bucket and that a log which begins at an offset may
    have; see `require_erased`.
    """
    return [
        key for key, below in erased.below.items() if max(absent.get(key, 0), first_offset) < below
    ]


def needed_segments(
    before: LogState | None, segments: Sequence[Segment], end_offset: int
) -> Sequence[Segment]:
    """Return the segments that the bucket has to have: not those before its first one, which
    retention deleted there; rule 2. No segment if the bucket has nothing but the end of the log.

    Args:
        before: in the bucket.
        segments: of the log directory, ascending, at least one; end_offset: its log end offset.
    """
    if before is None or _is_begun(before):
        return segments
    first = before.segments[0].base_offset
    ends = [*(following.base_offset for following in segments[1:]), end_offset]
    is_empty = segments[-1].base_offset == end_offset
    gone = sum(1 for end in (ends[:-1] if is_empty else ends) if end <= first)
    return segments[gone:]


def dropped_offsets(before: LogState | None, log: LogFacts) -> tuple[int, int] | None:
    """Return the offsets, first and last, that the bucket has and that go, since the log is
    compacted and begins after them; rule 2. None if there are none.
    """
    if before is None or _is_begun(before) or not log.compacted:
        return None
    first = before.segments[0].base_offset
    return (first, log.first_offset - 1) if first < log.first_offset else None


def require_continues(before: LogState | None, log: LogFacts) -> None:
    """Refuse a log that cannot follow the one in the bucket; rule 3.

    Raises:
        PreconditionError: it cannot.
    """
    if before is None:
        return
    problem = None
    first = log.first_offset
    across = [s for s in before.segments if s.base_offset < first < s.next_offset]
    if None not in (before.topic_id, log.topic_id) and before.topic_id != log.topic_id:
        problem = f"is of the topic {before.topic_id}, another one than {log.topic_id}"
    elif log.end_offset < before.log_end_offset:
        problem = (
            f"ends at offset {before.log_end_offset}, the log directory's at {log.end_offset}:"
            " records would be lost"
        )
    elif across and not log.compacted:
        problem = (
            f"has a segment from offset {across[0].base_offset} to {across[0].next_offset}, in"
            f" which the log directory's first one begins, at {first}"
        )
    if problem is not None:
        raise PreconditionError(
            f"the log in the bucket {problem}.",
            path=log.partition,
            remedy=f"{_NOT_CHANGED} Write this log into another directory of the bucket.",
        )


def merged(before: LogState | None, state: LogState) -> LogState:
    """Return the state that is committed; rules 1 and 2. Errors: as `require_continues`."""
    first = state.segments[0].base_offset
    compacted = is_compacted(state.cleaner_checkpoint, state.configs)
    facts = LogFacts(state.partition, state.topic_id, first, state.log_end_offset, compacted)
    require_continues(before, facts)
    if before is None:
        return state
    older = tuple(s for s in before.segments if s.base_offset < first)
    if compacted or _is_begun(before):
        older = ()
    return replace(
        state,
        topic_id=state.topic_id or before.topic_id,
        log_start_offset=before.log_start_offset
        if older
        else max(before.log_start_offset, state.log_start_offset),
        high_watermark=max(before.high_watermark, state.high_watermark),
        leader_epochs=_epochs(before, state) if older else state.leader_epochs,
        segments=(*older, *state.segments),
    )


def missing_offsets(before: LogState | None, log: LogFacts) -> tuple[int, int] | None:
    """Return the offsets, first and last, that are neither in the bucket nor in the log directory:
    retention deleted them before they were written. None if there are none.
    """
    if before is None or _is_begun(before) or log.compacted:
        return None
    if log.first_offset <= before.log_end_offset:
        return None
    return before.log_end_offset, log.first_offset - 1


def require_named(before: LogState | None, state: LogState, own: Iterable[str]) -> None:
    """Refuse a state that names an object which is neither this operation's nor in the newest
    version; rule 5.

    Raises:
        Conflict: another operation has replaced it.
    """
    missing = state.keys() - (set() if before is None else before.keys()) - set(own)
    if missing:
        raise Conflict(
            f"another operation has replaced {len(missing)} objects.",
            path=state.partition,
            remedy=f"{_NOT_CHANGED} Run it again.",
        )


def part_of(before: LogState | None, state: LogState) -> LogState | None:
    """Return the state of a log of which only the first segments are written yet, with what the
    bucket has after them. None if a segment there begins before they end, and ends later; or if
    the producers of this part are not known: its transactions would seem to be decided.

    Args:
        before: in the bucket.
        state: the log's, with the segments that are written.
    """
    segments = state.segments
    first, end = segments[0].base_offset, segments[-1].next_offset
    if before is None or before.log_end_offset <= end:
        begin = _begin_of(state)
        is_known = bool(begin.snapshots) or not state.snapshots
        return merged(before, begin) if is_known else None
    if any(s.base_offset < end < s.next_offset for s in before.segments):
        return None
    older = [s for s in before.segments if s.base_offset < first]
    later = [s for s in before.segments if s.base_offset >= end]
    return replace(before, segments=(*older, *segments, *later))


def _is_begun(before: LogState) -> bool:
    """Return whether an erasure made this log; rule 7."""
    return before.log_end_offset == 0 and before.topic_id is None


def _begin_of(state: LogState) -> LogState:
    """Return the state of a log that ends after the segments that are written."""
    end = state.segments[-1].next_offset
    start = min(state.log_start_offset, end)
    epochs = state.leader_epochs
    if epochs is not None:
        parsed = parse_leader_epochs(epochs, state.partition)
        epochs = serialize_leader_epochs([each for each in parsed if each.start_offset <= end])
    return replace(
        state,
        log_start_offset=start,
        high_watermark=max(min(state.high_watermark, end), start),
        log_end_offset=end,
        leader_epochs=epochs,
        snapshots=tuple(each for each in state.snapshots if each.offset <= end),
    )


def _epochs(before: LogState, state: LogState) -> bytes | None:
    """Return the leader epochs of what stays, and those of the log directory."""
    if state.leader_epochs is None or before.leader_epochs is None:
        return state.leader_epochs
    newer = parse_leader_epochs(state.leader_epochs, state.partition)
    older = parse_leader_epochs(before.leader_epochs, before.partition)
    if not newer:
        return before.leader_epochs
    first = newer[0]
    kept: list[LeaderEpoch] = [
        each
        for each in older
        if each.epoch < first.epoch and each.start_offset < first.start_offset
    ]
    same = [each for each in older if each.epoch == first.epoch]
    return serialize_leader_epochs([*kept, *(same[:1] or [first]), *newer[1:]])
