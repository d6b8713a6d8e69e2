"""Do one step of `logwright.rescue.free` on a log directory that may have no byte free.

No lock file of a partition, ledger or note is made: an exclusive lock on the log directory's
``.lock``, which a broker and every command of logwright needs, keeps all of them away.

What was done shows in the directory itself, so a run that is killed continues with the next one:
each step is decided again when it is done, by what is there then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from logwright.deletion.commit import purge_deleted_locked
from logwright.deletion.observe import look_at
from logwright.deletion.steps import unlink_steps
from logwright.errors import DiskFull, LogDirLocked
from logwright.format.names import BROKER_LOCK, TopicPartition
from logwright.locks import acquire, held
from logwright.log.load import observe
from logwright.log.log_dir import list_marked
from logwright.place.files import open_log_dir
from logwright.purge.commit import purge_locked
from logwright.rescue.free import FreeStep, oldest_needed, sealed_only
from logwright.rescue.free_look import EVER, roll_need, segment_bytes
from logwright.retention.commit import retain_locked
from logwright.retention.plan import RetentionPlan, plan_retention
from logwright.roll.commit import sealing_steps
from logwright.roll.plan import force_roll
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.step import FsyncDir, Unlink

if TYPE_CHECKING:
    from logwright.config.topic import TopicConfig
    from logwright.log.committed import HighWatermark
    from logwright.steps.filesystem import FileSystem
    from logwright.units import ByteCount, TimestampMs


@contextmanager
def alone(log_dir: Path, first: Callable[[], Path | None] = lambda: None) -> Iterator[FileSystem]:
    """Keep brokers and all other commands off a log directory, and yield its file system. Effects:
    makes ``.lock`` if necessary; without room for it removes one file before.

    That file is removed without a lock: where there is no ``.lock`` nobody works, and a broker that
    starts at this moment removes it, too.

    Args:
        first: gives a retired file that may go by the step for which this is.

    Raises:
        LogDirLocked: somebody works on it.
        DiskFull: there is no room for ``.lock``, and no retired file.
        NotALogDir, UnreadableFile: as `lock_log_dir`.
    """
    with open_log_dir(log_dir) as directory, RealFileSystem(log_dir) as files:
        try:
            file = acquire(directory, BROKER_LOCK, "exclusive")
        except DiskFull:
            path = first()
            if path is None:
                raise
            execute((Unlink(path), FsyncDir(path.parent)), files)
            file = acquire(directory, BROKER_LOCK, "exclusive")
        if file is None:
            raise LogDirLocked(
                "a broker or another logwright process holds this lock.",
                path=log_dir / BROKER_LOCK,
                remedy="Wait for the other process to end, then run it again.",
            )
        with held(file):
            yield files


def purge_log(
    log_dir: Path,
    partition: TopicPartition,
    files: FileSystem,
    *,
    now_ms: TimestampMs,
    delay_ms: int,
) -> None:
    """Remove what is due by this clock. Effects and errors: as `purge_locked`."""
    purge_locked(log_dir, partition, files, now_ms=now_ms, file_delete_delay_ms=delay_ms)


def remove_marked(step: FreeStep, files: FileSystem, *, now_ms: TimestampMs, delay_ms: int) -> None:
    """Remove a deleted log that is due by this clock, or a stray one. Effects: removes files.

    Raises:
        DiskFull, StepFailed: as `purge_deleted_locked`.
    """
    for marked in list_marked(step.log_dir):
        if marked.name == step.name and marked.mark == "stray":
            execute(unlink_steps(look_at(step.log_dir, marked, None)), files)
            return
    purge_deleted_locked(
        step.log_dir, files, now_ms=now_ms, delay_ms=delay_ms, directories={step.name}
    )


def plan_oldest(
    log_dir: Path,
    partition: TopicPartition,
    config: TopicConfig,
    *,
    now_ms: TimestampMs,
    high_watermark: HighWatermark,
) -> RetentionPlan:
    """Return the retention of a log on which nobody else works. Its active segment goes, too, as by
    a broker, if that frees more than the roll takes. Effects: reads.

    Raises:
        LogwrightError: as `observe` and `plan_retention`.
    """
    log = observe(log_dir, partition, high_watermark=high_watermark)
    plan = plan_retention(log, config, now_ms=now_ms)
    gains = plan.rolls and segment_bytes(plan)[-1] > roll_need(plan)
    return plan if gains else sealed_only(plan)


def retain_needed(plan: RetentionPlan, files: FileSystem, missing: int) -> ByteCount:
    """Delete the oldest segments of a retention that free the missing bytes, without an undo;
    return the bytes of their blocks. Effects: removes files.

    They get their ``.deleted`` names as by any retention, and are removed then: a run that is
    killed in between leaves retired files, which the next one or a broker removes.

    Raises:
        LogwrightError: as `retain_partition`.
    """
    log = plan.log
    less, freed_bytes = oldest_needed(plan, segment_bytes(plan), missing)
    retain_locked(
        less,
        lambda log: sealing_steps(log, force_roll(log, cause="emptied")),
        files,
        undoable=False,
    )
    purge_locked(log.log_dir, log.partition, files, now_ms=EVER, file_delete_delay_ms=0)
    return freed_bytes
