"""Undo the last compaction or retention of a log in a bucket: a new version with what was there.

What was added since stays (`logwright.maintenance.change`). Not undone is what was replaced more
than half of the age ago: a removal could be at work on its objects (`logwright.bucket.commit`, 7).
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Final

from logwright.bucket.commit import (
    Clock,
    Commit,
    Conflict,
    Limits,
    Operation,
    Requests,
    Yes,
    listed,
    newest,
    read_manifest,
    sure,
)
from logwright.bucket.manifest import MANIFESTS, LogState, Manifest, manifest_key
from logwright.errors import CannotUndo, invariant
from logwright.format.names import TopicPartition
from logwright.maintenance.change import applied
from logwright.units import ByteCount

UNDONE: Final = frozenset({"clean", "retain"})
UNDO: Final = "undo"
ERASE: Final = "erase"
"""An operation that is not undone, and beyond which nothing is."""
_PART_OF_AGE: Final = 2
_UNCHANGED: Final = "Nothing was changed."


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionUndo:
    """An undo before it is done.

    Attributes:
        undone: the version whose operation is undone.
        earlier: the version before that.
        newest: the version that is changed.
        state: what the log becomes.
    """

    undone: Manifest
    earlier: Manifest
    newest: Manifest
    state: LogState

    @property
    def operation(self) -> str:
        """What is undone."""
        return name_of(self.undone.operation)

    @property
    def bases(self) -> tuple[int, ...]:
        """Base offsets of the segments that come back, ascending."""
        now = set(self.newest.state.segments)
        return tuple(each.base_offset for each in self.state.segments if each not in now)

    @property
    def bytes(self) -> ByteCount:
        """Of the ``.log`` files that come back."""
        now = set(self.newest.state.segments)
        return ByteCount(sum(each.log.bytes for each in self.state.segments if each not in now))


def name_of(operation: str) -> str:
    """Return what an operation did: the first word of its id."""
    return operation.partition("-")[0]


def plan_undo(partition: TopicPartition, limits: Limits) -> Requests[VersionUndo]:
    """Decide what an undo of the last operation on a log restores.

    Raises:
        CannotUndo: there is nothing, or it is too long ago, or the log was changed since.
        Unsettled, CorruptLogError, UnsupportedFormatError: see `read_manifest`.
    """
    base = yield from newest()
    if base is None:
        raise _refuse(partition, "there is not a log.")
    version = last_undoable(partition, base)
    undone = yield from read_manifest(version)
    earlier = yield from read_manifest(version - 1)
    if undone is None or earlier is None:
        raise _refuse(partition, "the version before it was removed.")
    answer = yield from sure(Clock())
    entries = yield from listed(MANIFESTS)
    replaced_ms = {each.key: each.modified_ms for each in entries}.get(manifest_key(version))
    invariant(isinstance(answer, Yes) and isinstance(answer.value, int), "a time is a number")
    now_ms: int = answer.value  # type: ignore[union-attr, assignment]  # as the invariant says
    if replaced_ms is None or now_ms - replaced_ms > limits.age_ms // _PART_OF_AGE:
        raise _refuse(
            partition, f"it was more than {limits.age_ms // _PART_OF_AGE} ms ago, half of the age."
        )
    try:
        state = applied(undone.state, earlier.state, base.state)
    except Conflict as error:
        raise _refuse(partition, "the same segments were changed since.") from error
    return VersionUndo(undone=undone, earlier=earlier, newest=base, state=state)


def last_undoable(partition: TopicPartition, base: Manifest) -> int:
    """Return the version of the last compaction or retention that was not undone.

    Raises:
        CannotUndo: none is known.
    """
    again: set[int] = set()
    for done in reversed(base.operations):
        name = name_of(done.id)
        if name == UNDO:
            again.add(int(done.id.split("-")[1]))
        elif name == ERASE:
            raise _refuse(
                partition, "an erasure came after it, and what it erased would be there again."
            )
        elif name in UNDONE and done.version not in again:
            return done.version
    raise _refuse(partition, "no compaction or retention is among its last operations.")


def undo_requests(plan: VersionUndo, limits: Limits, *, now_ms: int) -> Requests[int]:
    """Undo as it was planned; return the new version.

    Raises:
        CannotUndo: the log was changed since. Nothing was changed.
        TooLate, Unsettled: see `Commit.run`.
    """
    log = plan.newest.state.partition

    def change(manifest: Manifest | None) -> Requests[LogState]:
        yield from ()
        if manifest is None or last_undoable(log, manifest) != plan.undone.version:
            raise _refuse(log, "another operation came between.")
        try:
            return applied(plan.undone.state, plan.earlier.state, manifest.state)
        except Conflict as error:
            raise _refuse(log, "the same segments were changed since.") from error

    operation = Operation(
        id=f"{UNDO}-{plan.undone.version}-{secrets.token_hex(8)}",
        attempt=0,
        planned_version=plan.newest.version,
        written_ms=now_ms,
        erasures=plan.newest.erased.number,
    )
    return (yield from Commit(operation, change, limits).run())


def _refuse(partition: TopicPartition, problem: str) -> CannotUndo:
    return CannotUndo(
        f"the last operation on {partition} cannot be undone: {problem}", remedy=_UNCHANGED
    )
