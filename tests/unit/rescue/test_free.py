"""What is done to free a disk, in which order, and no more than is needed."""

from __future__ import annotations

from pathlib import Path

from logwright.rescue.free import FreeStep, Kind, Space, at_most, fits, in_order, needed
from logwright.units import ByteCount

MIB = 1 << 20


def step(kind: Kind, size: int, *, need: int = 0, name: str = "t-0") -> FreeStep:
    return FreeStep(
        kind=kind, log_dir=Path("/logs"), name=name, bytes=ByteCount(size), files=3, need=need
    )


def test_what_costs_nothing_comes_first() -> None:
    """Then the smallest temporary need."""
    steps = [
        step("tighter", 9),
        step("compaction", 5, need=20),
        step("compaction", 4, need=10),
        step("retention", 5),
        step("retention", 7),
        step("retired", 1),
        step("due", 1),
    ]
    kinds = [(one.kind, one.bytes, one.need) for one in in_order(steps)]
    assert [
        ("due", 1, 0),
        ("retired", 1, 0),
        ("retention", 7, 0),
        ("retention", 5, 0),
        ("compaction", 4, 10),
        ("compaction", 5, 20),
        ("tighter", 9, 0),
    ] == kinds


def test_all_that_is_due_goes_and_else_no_more_than_is_needed() -> None:
    steps = in_order([step("due", 5), step("due", 6), step("retention", 4), step("tighter", 9)])
    assert ["due", "due"] == [one.kind for one in needed(steps, 3)]
    assert ["due", "due", "retention"] == [one.kind for one in needed(steps, 12)]
    assert steps == needed(steps, 16)


def test_the_reserve_stays_free() -> None:
    """A hundredth of a small file system, 64 MiB of a large one."""
    space = Space(device=1, total=ByteCount(100 * MIB), free=ByteCount(10 * MIB))
    assert MIB == space.reserve
    assert 64 * MIB == Space(device=1, total=ByteCount(1 << 40), free=ByteCount(0)).reserve
    assert fits(9 * MIB, space, space.reserve)
    assert not fits(9 * MIB + 1, space, space.reserve)
    full = Space(device=1, total=ByteCount(MIB), free=ByteCount(0))
    assert fits(0, full, full.reserve)


def test_what_two_steps_remove_counts_once() -> None:
    """Retired files include those that are due, and both kinds of cleaning begin at the start."""
    steps = [step("due", 1), step("retired", 3), step("retention", 5), step("compaction", 9)]
    assert 12 == at_most(steps)
    assert 21 == at_most([*steps, step("tighter", 8), step("retention", 9, name="u-0")])
    assert 0 == at_most([])
