"""What an operation on one version of a log makes of another one. Pure.

An operation changes segments from the log's begin up to some offset, and leaves those after it.
Meanwhile another one may have added segments at the end. So:

1. The segments that the operation looked at and changed, all below the first ones that it left, are
   in the newest version as they were. They are replaced; those after them stay.
2. Producer snapshots that it removed go, those that it made come.
3. Of the offsets, the epochs and the settings each is as the operation left it, if the newest
   version has what was there before; as the newest version has it, if the operation did not change
   it.
4. Anything else is a `Conflict`: the operation is planned again, from the newest version.

An undo is the same, with an operation's states exchanged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, TypeVar

from logwright.bucket.commit import Conflict
from logwright.bucket.manifest import LogState
from logwright.bucket.stored import StoredSegment, StoredSnapshot

_T = TypeVar("_T")
_REMEDY: Final = "Nothing was changed. Run it again."


def applied(before: LogState, after: LogState, newest: LogState) -> LogState:
    """Return what an operation makes of the newest version.

    Args:
        before, after: the state that it was planned on, and what it made of that.
        newest: the state that is changed.

    Raises:
        Conflict: another operation changed what this one changes.
    """
    if newest == before:
        return after
    log = newest.partition
    return replace(
        newest,
        segments=_segments(before, after, newest),
        snapshots=_snapshots(before, after, newest),
        topic_id=_one(log, before.topic_id, after.topic_id, newest.topic_id),
        log_start_offset=_one(
            log, before.log_start_offset, after.log_start_offset, newest.log_start_offset
        ),
        high_watermark=_one(
            log, before.high_watermark, after.high_watermark, newest.high_watermark
        ),
        log_end_offset=_one(
            log, before.log_end_offset, after.log_end_offset, newest.log_end_offset
        ),
        cleaner_checkpoint=_one(
            log, before.cleaner_checkpoint, after.cleaner_checkpoint, newest.cleaner_checkpoint
        ),
        leader_epochs=_one(log, before.leader_epochs, after.leader_epochs, newest.leader_epochs),
        configs=_one(log, before.configs, after.configs, newest.configs),
    )


def _segments(before: LogState, after: LogState, newest: LogState) -> tuple[StoredSegment, ...]:
    """Return the segments; rule 1."""
    left = 0
    for old, new in zip(reversed(before.segments), reversed(after.segments), strict=False):
        if old != new:
            break
        left += 1
    changed = before.segments[: len(before.segments) - left]
    made = after.segments[: len(after.segments) - left]
    rest = newest.segments[len(changed) :]
    follows = not (made and rest) or (
        made[-1].base_offset < rest[0].base_offset and made[-1].next_offset <= rest[0].base_offset
    )
    if newest.segments[: len(changed)] != changed or not follows or not (made or rest):
        raise Conflict(
            "another operation has changed the same segments.",
            path=newest.partition,
            remedy=_REMEDY,
        )
    return (*made, *rest)


def _snapshots(before: LogState, after: LogState, newest: LogState) -> tuple[StoredSnapshot, ...]:
    """Return the producer snapshots; rule 2."""
    removed = [each for each in before.snapshots if each not in after.snapshots]
    made = [each for each in after.snapshots if each not in before.snapshots]
    kept = [each for each in newest.snapshots if each not in removed]
    known = {_content(each) for each in kept}
    made = [each for each in made if _content(each) not in known]
    result = tuple(sorted((*kept, *made), key=lambda each: each.offset))
    if len({each.offset for each in result}) < len(result):
        raise Conflict(
            "another operation has written the same producer snapshot.",
            path=newest.partition,
            remedy=_REMEDY,
        )
    return result


def _content(snapshot: StoredSnapshot) -> tuple[int, int, int]:
    return snapshot.offset, snapshot.file.bytes, snapshot.file.crc32c


def _one(log: object, before: _T, after: _T, newest: _T) -> _T:
    """Return one value; rules 3 and 4."""
    if after in (before, newest):
        return newest
    if newest == before:
        return after
    raise Conflict(
        "another operation has changed the same offsets or settings.", path=log, remedy=_REMEDY
    )
