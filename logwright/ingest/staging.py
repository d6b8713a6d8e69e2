"""Create the directories of an append, and remove them if it fails."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from logwright.errors import UnreadableFile
from logwright.ingest.appender import discard_staging
from logwright.live_plans import end_plan, hold_plan
from logwright.locks import lock_checkpoints, lock_log_dir
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.live import set_offsets_locked

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from logwright.ingest.model import AppendPlan


@contextmanager
def staging(plans: Sequence[AppendPlan]) -> Iterator[None]:
    """Stage appends inside the block. Effects: creates missing partition directories and marks the
    plans as live; after an error it removes the staged files, and the new directories if empty: a
    broker treats a directory without segments as a log.
    """
    made: list[AppendPlan] = []
    try:
        for plan in plans:
            made.extend([plan] if make_directory(plan) else [])
            hold_plan(plan.log_dir, plan.plan_id)  # workers may stage its output
        yield
    except BaseException:
        for plan in plans:
            discard_staging(plan)
        for plan in made:
            with suppress(OSError):  # another process uses it
                plan.directory.rmdir()
        raise
    finally:  # uncommitted output is no longer needed
        for plan in plans:
            end_plan(plan.log_dir, plan.plan_id)


def make_directory(plan: AppendPlan) -> bool:
    """Create a partition's directory if it is missing. Effects: mkdir in the log directory, under
    the lock of the checkpoints, because an undo of a deletion may use the same name. First removes
    checkpoint entries that an interrupted deletion of a log with this name left, because they would
    apply to the new log.

    Returns:
        whether it was missing.

    Raises:
        LogDirLocked: a broker holds the log directory's lock.
        UnreadableFile: a link or a file has its name.
        DiskFull, StepFailed: the checkpoint files cannot be replaced.
    """
    with lock_log_dir(plan.log_dir), lock_checkpoints(plan.log_dir):
        if not os.path.lexists(plan.directory):
            with RealFileSystem(plan.log_dir) as files:
                none = dict.fromkeys(CHECKPOINT_FILES)
                set_offsets_locked(plan.log_dir, plan.partition, none, files)
        return _make_directory(plan)


def _make_directory(plan: AppendPlan) -> bool:
    owner = plan.log_dir.stat()
    try:
        plan.directory.mkdir(mode=0o700)
    except FileExistsError:
        if not stat.S_ISDIR(plan.directory.lstat().st_mode):
            raise UnreadableFile(
                "expected a directory.", path=plan.directory, remedy="Remove it."
            ) from None
        return False
    if os.geteuid() == 0:
        os.chown(plan.directory, owner.st_uid, owner.st_gid, follow_symlinks=False)
    plan.directory.chmod(stat.S_IMODE(owner.st_mode))
    return True
