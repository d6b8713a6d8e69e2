"""What frees a full disk, in the order of what it costs (docs/adr/0059). Pure.

1. ``due``: retired files and deleted logs whose delay is over, and what killed operations left;
   stray logs that are named. A broker's loader removes the same, but for the stray logs.
2. ``retired``: retired files and deleted logs whose delay is not over. Only an undo is lost: a
   broker removes them when it starts.
3. ``retention``: the oldest segments, by the topics' own settings; the active one is rolled before
   it goes, for which there must be a little room.
4. ``compaction``: what Kafka's cleaner would remove. It needs room before it frees any.
5. ``tighter``: the oldest segments of topics that are named, by a limit that is named.

1 costs nothing and is done as a whole; of 2 to 5 no more than is needed for the bytes asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from logwright.errors import invariant
from logwright.units import ByteCount

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from logwright.retention.plan import RetentionPlan

Kind = Literal["due", "retired", "retention", "compaction", "tighter"]
KINDS: Final[tuple[Kind, ...]] = ("due", "retired", "retention", "compaction", "tighter")
"""In the order in which they are done."""

MOST_RESERVE_BYTES: Final = 64 << 20
_RESERVE_SHARE: Final = 100
"""The reserve is a hundredth of the file system, if that is less."""
_FILES_PER_SECOND: Final = 2_000
_BYTES_PER_SECOND: Final = 50_000_000
"""Assumed, for the estimates: files that go, and bytes that are read and written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A file system.

    Attributes:
        device: its number. total: bytes of it.
        free: bytes that users other than root may take.
    """

    device: int
    total: ByteCount
    free: ByteCount

    @property
    def reserve(self) -> ByteCount:
        """What a compaction leaves free at every moment, unless another number is given."""
        return ByteCount(min(MOST_RESERVE_BYTES, self.total // _RESERVE_SHARE))


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeStep:
    """One thing that frees space in a log directory.

    Attributes:
        name: of a partition's directory, or of a deleted or stray log's.
        bytes: of blocks that go; of a compaction at most. A file with another name has none.
        files: how many go; of a compaction: are read.
        need: bytes that must be free before, at most; 0: none. Of a compaction: for its smallest
            group of segments; of a retention: to roll the active one.
        linked: files among them that have another name, so that they free nothing.
        detail: one sentence.
    """

    kind: Kind
    log_dir: Path
    name: str
    bytes: ByteCount
    files: int
    need: int = 0
    linked: int = 0
    detail: str = ""

    @property
    def seconds(self) -> float:
        """An estimate."""
        return self.files / _FILES_PER_SECOND + self.need / _BYTES_PER_SECOND


def in_order(steps: Iterable[FreeStep]) -> list[FreeStep]:
    """Return steps in the order in which they are done: what needs least room first, then what
    frees most.
    """
    return sorted(
        steps, key=lambda one: (KINDS.index(one.kind), one.need, -one.bytes, one.log_dir, one.name)
    )


def needed(steps: Sequence[FreeStep], missing: int) -> list[FreeStep]:
    """Return the steps, in order, that are expected to be needed: all that are due, and of the
    others no more than free the missing bytes.
    """
    chosen: list[FreeStep] = []
    left = missing
    for step in steps:
        if step.kind == "due" or left > 0:
            chosen.append(step)
            left -= step.bytes
    return chosen


def at_most(steps: Iterable[FreeStep]) -> ByteCount:
    """Return what steps free together, at most. Of one log what is retired includes what is due,
    and a retention and a compaction both begin with its first segment: the larger one counts.
    """
    largest: dict[tuple[Path, str, bool], int] = {}
    for step in steps:
        key = step.log_dir, step.name, step.kind in {"due", "retired"}
        largest[key] = max(largest.get(key, 0), step.bytes)
    return ByteCount(sum(largest.values()))


def fits(need: int, space: Space, reserve: int) -> bool:
    """Return whether the reserve is left free when this many bytes are taken."""
    return not need or need <= space.free - reserve


def oldest_needed(
    plan: RetentionPlan, freed_bytes: Sequence[int], missing: int
) -> tuple[RetentionPlan, ByteCount]:
    """Return a retention of no more segments than free the missing bytes, and what it frees.

    Args:
        plan: what may go at most.
        freed_bytes: what each of its segments frees, in its order.
        missing: bytes, above 0.
    """
    invariant(len(freed_bytes) == len(plan.deleted), "each segment has its bytes")
    freed = count = 0
    while count < len(freed_bytes) and freed < missing:
        freed += freed_bytes[count]
        count += 1
    return first_segments(plan, count), ByteCount(freed)


def sealed_only(plan: RetentionPlan) -> RetentionPlan:
    """Return a retention that keeps the active segment: to delete it takes a roll, for which there
    may be no room.
    """
    return first_segments(plan, len(plan.deleted) - plan.rolls)


def first_segments(plan: RetentionPlan, count: int) -> RetentionPlan:
    """Return a retention of this many of its segments, the oldest ones."""
    if count == len(plan.deleted):
        return plan
    first = plan.log.segments[count].base_offset
    start = max(plan.log.log_start_offset, first)
    return replace(
        plan,
        deleted=plan.deleted[:count],
        stays="no more is needed",
        log_start_offset=start,
        checkpointed_start=start if start > first else None,
        rolls=False,
    )
