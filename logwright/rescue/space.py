"""Whether a file system has the space that a start needs.

A broker writes new checkpoints, each next to the one that it replaces, and what the loading
of its logs makes: indexes of the segments that it recovers, producer snapshots, leader epochs. If
a write fails, the directory goes offline (Kafka 4.3.0). What it appends afterwards is not counted.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from logwright.format.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.recovery.model import DirectoryPlan, RecoveryPlan
from logwright.rescue.model import FileSystemSpace, StartFinding

_EPOCH_BYTES: Final = 32
"""Of a line, and of what is above the lines."""
_CUTS: Final = " Do not try: a loading that cannot write its indexes then cuts intact records."
_FREE: Final = (
    "Free space first: `logwright rescue LOG_DIR --free SIZE` needs none; or give the file system"
    " more."
)


def spaces(
    plans: Sequence[DirectoryPlan], *, is_root: bool
) -> tuple[Mapping[Path, FileSystemSpace], tuple[StartFinding, ...]]:
    """Return the space of each directory's file system, and what is not enough. Effects: asks the
    file systems.

    Args:
        is_root: the broker's user may use what is reserved for root.
    """
    by_device: defaultdict[int, list[DirectoryPlan]] = defaultdict(list)
    for plan in plans:
        by_device[plan.log_dir.stat().st_dev].append(plan)
    known: dict[Path, FileSystemSpace] = {}
    findings: list[StartFinding] = []
    for on_one in by_device.values():
        space = _space_of(on_one, is_root=is_root)
        known.update((plan.log_dir, space) for plan in on_one)
        recovers = any(log.repairs for plan in on_one for log in plan.plans)
        findings += _lacks(on_one[0].log_dir, space, recovers=recovers)
    return known, tuple(findings)


def _space_of(plans: Sequence[DirectoryPlan], *, is_root: bool) -> FileSystemSpace:
    status = os.statvfs(plans[0].log_dir)
    return FileSystemSpace(
        free_bytes=(status.f_bfree if is_root else status.f_bavail) * status.f_frsize,
        needed_bytes=sum(_needed_bytes(plan, status.f_frsize) for plan in plans),
        has_inodes=status.f_files == 0 or (status.f_ffree if is_root else status.f_favail) > 0,
        is_read_only=bool(status.f_flag & os.ST_RDONLY),
    )


def _needed_bytes(plan: DirectoryPlan, block_bytes: int) -> int:
    written = [_size(plan.log_dir / name) for name in CHECKPOINT_FILES]
    for log in plan.plans:
        written += _written(log)
    return sum(-(-max(size, 1) // block_bytes) * block_bytes for size in written)


def _written(log: RecoveryPlan) -> Iterator[int]:
    """Yield the size of each file that the loading of a log makes."""
    for repair in log.repairs:
        entries = repair.log_bytes // log.index_interval_bytes + 1
        yield entries * TIME_ENTRY_BYTES
        if repair.rebuild:
            yield entries * OFFSET_ENTRY_BYTES
    yield from map(len, log.snapshots.values())
    if log.epochs is not None:
        yield (len(log.epochs) + 1) * _EPOCH_BYTES


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _lacks(log_dir: Path, space: FileSystemSpace, *, recovers: bool) -> Iterator[StartFinding]:
    problem, remedy = "", _FREE
    if space.is_read_only:
        problem, remedy = "its file system is mounted read-only.", "Mount it for writing."
    elif not space.has_inodes:
        problem = "its file system has no inode left for a new file."
    elif space.free_bytes < space.needed_bytes:
        problem = (
            f"its file system has {space.free_bytes} bytes free, and the start needs about"
            f" {space.needed_bytes}: a write fails, and the directory goes offline."
            f"{_CUTS if recovers else ''}"
        )
    if problem:
        yield StartFinding(
            path=log_dir, problem=problem, effect="stops", about="machine", remedy=remedy
        )
