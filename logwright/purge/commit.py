"""Execute a purge of one partition."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from logwright.locks import lock_log_dir, lock_partition
from logwright.log.listing import stamp_files
from logwright.place.files import open_partition_dir
from logwright.purge.account import account_of
from logwright.purge.observe import list_partition
from logwright.purge.plan import PurgeResult, plan_purge
from logwright.state.hold import refuse_held
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.room import room_or_without

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.format.names import TopicPartition
    from logwright.steps.filesystem import FileSystem
    from logwright.units import TimestampMs

_LOG = logging.getLogger(__name__)


def purge_partition(
    log_dir: Path,
    partition: TopicPartition,
    *,
    now_ms: TimestampMs,
    file_delete_delay_ms: int,
    force: bool = False,
) -> PurgeResult:
    """Remove what is due, and leftovers without value. Effects: takes both locks, removes files.

    Only the locks' files and the ledger need space; on a full disk the ledger stays as it is.

    Args:
        log_dir, partition: the log. The others as for `plan_purge`.

    Raises:
        DiskFull: there is no room for a lock. Nothing was changed.
        LogDirLocked: a broker or another process works on it.
        NotALogDir, UnreadableFile: it does not exist, or has something other than regular files.
        UncleanLogDir: a committed swap is unfinished.
        Paused: it is paused, so that retired files can still be restored.
        StepFailed: a file could not be removed.
    """
    with (
        lock_log_dir(log_dir),
        lock_partition(log_dir, partition),
        RealFileSystem(log_dir) as files,
    ):
        refuse_held(log_dir, partition, now_ms, force=True)
        return purge_locked(
            log_dir,
            partition,
            files,
            now_ms=now_ms,
            file_delete_delay_ms=file_delete_delay_ms,
            force=force,
        )


def purge_locked(
    log_dir: Path,
    partition: TopicPartition,
    files: FileSystem,
    *,
    now_ms: TimestampMs,
    file_delete_delay_ms: int,
    force: bool = False,
) -> PurgeResult:
    """Purge like `purge_partition`, also a log that is paused; the caller keeps everybody else off
    it.
    """
    listing = list_partition(log_dir / partition.directory_name)
    plan = plan_purge(
        listing, now_ms=now_ms, file_delete_delay_ms=file_delete_delay_ms, force=force
    )
    execute(plan.steps, files)
    with room_or_without("compacting the deletion ledger, which the next purge does"):
        execute(plan.ledger, files)
    with open_partition_dir(log_dir, partition) as directory:
        account = account_of(listing, stamp_files(directory))
    _LOG.info(
        "purged topic_partition=%s files=%d bytes=%d pending=%d",
        partition,
        len(plan.result.removed),
        plan.result.removed_bytes,
        len(plan.result.pending),
    )
    return replace(plan.result, account=account)
