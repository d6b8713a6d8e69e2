"""Look for what frees space: each function returns steps of `logwright.rescue.free` for one log
directory. Sizes are those of blocks: a sparse file frees less than its length.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from logwright.deletion.observe import list_deleted
from logwright.deletion.plan import plan_purge_logs
from logwright.errors import LogwrightError
from logwright.format.names import SEGMENT_SUFFIXES, segment_file_name
from logwright.log.log_dir import list_marked
from logwright.log.tree import list_tree
from logwright.purge.observe import PartitionListing, list_partition
from logwright.purge.plan import plan_purge
from logwright.rescue.free import FreeStep, Kind, Space
from logwright.steps.step import Unlink
from logwright.units import INT64_MAX, ByteCount, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from logwright.format.names import TopicPartition
    from logwright.retention.plan import RetentionPlan

EVER: Final = TimestampMs(INT64_MAX)
"""The clock by which every delay is over."""
_ROLL_BYTES: Final = 32 << 10
_PRODUCER_BYTES: Final = 64
"""Room for a roll: blocks of a snapshot of the producers, and of checkpoints that are replaced; and
what a snapshot has of a producer.
"""
_BLOCK_BYTES: Final = 512
"""The unit of st_blocks, whatever the file system's is."""


def space_of(directory: Path) -> Space:
    """Return the file system of a directory, by statvfs(3). Effects: asks it."""
    status = os.statvfs(directory)
    return Space(
        device=directory.stat().st_dev,
        total=ByteCount(status.f_blocks * status.f_frsize),
        free=ByteCount(status.f_bavail * status.f_frsize),
    )


def blocks_of(path: Path | str) -> tuple[ByteCount, bool]:
    """Return the bytes that removing a file frees, and whether it has another name, which keeps
    them. Effects: looks.
    """
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return ByteCount(0), False
    linked = status.st_nlink > 1
    return ByteCount(0 if linked else status.st_blocks * _BLOCK_BYTES), linked


def purge_step(
    listing: PartitionListing, kind: Kind, *, now_ms: TimestampMs, delay_ms: int
) -> FreeStep | None:
    """Return what a purge by this clock frees, None if it has nothing to remove. Effects: looks at
    its files.

    Raises:
        LogwrightError: as `plan_purge`.
    """
    plan = plan_purge(listing, now_ms=now_ms, file_delete_delay_ms=delay_ms)
    paths = [step.path for step in plan.steps if isinstance(step, Unlink)]
    return _step(kind, listing.directory, paths, f"retired files: {len(plan.result.removed)}")


def deleted_steps(
    log_dir: Path, kind: Kind, *, now_ms: TimestampMs, delay_ms: int
) -> list[FreeStep]:
    """Return the deleted logs that a purge by this clock removes. Effects: lists them."""
    listing = list_deleted(log_dir)
    steps = []
    for log in plan_purge_logs(listing, now_ms=now_ms, delay_ms=delay_ms, named=None):
        if log.goes:
            directory = listing.directories[log.directory]
            files = (*directory.logs, *directory.others)
            steps.append(_found(kind, directory.path, files, "a deleted log"))
    return steps


def stray_steps(log_dir: Path, named: Collection[str]) -> list[FreeStep]:
    """Return the stray logs that were named, by directory. Effects: lists them."""
    steps = []
    for marked in list_marked(log_dir):
        if marked.mark == "stray" and marked.name in named:
            path = log_dir / marked.name
            files = [path / name for name in list_tree(path).files]
            steps.append(_step("due", path, files, "a stray log that was named"))
    return [step for step in steps if step is not None]


def retention_step(plan: RetentionPlan, kind: Kind) -> FreeStep | None:
    """Return what a retention frees, None if it deletes nothing. Effects: looks at its files."""
    files = [path for verdict in plan.deleted for path in segment_paths(plan, verdict.base_offset)]
    last = plan.deleted[-1].reason if plan.deleted else ""
    below = plan.log_start_offset
    detail = f"segments below offset {below}: {len(plan.deleted)}; the last one: {last}"
    if plan.rolls:
        detail += "; it is the active one, and rolled before"
    step = _step(kind, plan.log.directory, files, detail)
    return None if step is None else replace(step, need=roll_need(plan))


def roll_need(plan: RetentionPlan) -> int:
    """Return the bytes that the roll of a retention takes; 0 if it keeps the active segment."""
    return _ROLL_BYTES + _PRODUCER_BYTES * len(plan.log.producers) if plan.rolls else 0


def segment_paths(plan: RetentionPlan, base_offset: int) -> list[Path]:
    """Return the files that a segment may have."""
    names = (segment_file_name(base_offset, suffix) for suffix in SEGMENT_SUFFIXES)
    return [plan.log.directory / name for name in names]


def segment_bytes(plan: RetentionPlan) -> list[int]:
    """Return what each segment of a retention frees. Effects: looks at its files."""
    return [
        sum(blocks_of(path)[0] for path in segment_paths(plan, verdict.base_offset))
        for verdict in plan.deleted
    ]


def _step(kind: Kind, directory: Path, files: Iterable[Path | str], detail: str) -> FreeStep | None:
    """Return what removing files frees, None if none is there."""
    step = _found(kind, directory, files, detail)
    return step if step.files else None


def _found(kind: Kind, directory: Path, files: Iterable[Path | str], detail: str) -> FreeStep:
    looked = [blocks_of(path) for path in files if os.path.lexists(path)]
    return FreeStep(
        kind=kind,
        log_dir=directory.parent,
        name=directory.name,
        bytes=ByteCount(sum(size for size, _ in looked)),
        files=len(looked),
        linked=sum(linked for _, linked in looked),
        detail=detail,
    )


def held_open(device: int) -> list[tuple[int, ByteCount]]:
    """Return the processes that hold files open which have no name any more, with their bytes: the
    space is free when they close them. Only of processes that this user may look at. Effects: reads
    /proc.
    """
    sizes: dict[int, int] = {}
    for process in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
        seen: set[int] = set()
        with suppress(OSError):
            for file in os.listdir(f"/proc/{process}/fd"):  # noqa: PTH208
                with suppress(OSError):
                    status = os.stat(f"/proc/{process}/fd/{file}")  # noqa: PTH116
                    is_gone = status.st_dev == device and not status.st_nlink
                    if is_gone and status.st_ino not in seen:
                        seen.add(status.st_ino)
                        size = status.st_blocks * _BLOCK_BYTES
                        sizes[int(process)] = sizes.get(int(process), 0) + size
    return [(process, ByteCount(size)) for process, size in sorted(sizes.items()) if size]


def first_due(
    log_dir: Path, partition: TopicPartition, *, now_ms: TimestampMs, delay_ms: int
) -> Path | None:
    """Return one file with blocks of its own that a purge by this clock removes, None if there is
    none, or the log's directory cannot be listed. Effects: lists.
    """
    with suppress(LogwrightError):
        listing = list_partition(log_dir / partition.directory_name)
        plan = plan_purge(listing, now_ms=now_ms, file_delete_delay_ms=delay_ms)
        for step in plan.steps:
            if isinstance(step, Unlink) and blocks_of(step.path)[0]:
                return Path(step.path)
    return None
