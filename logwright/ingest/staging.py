"""Where an append is staged: directories that are made for it, and that go with it if it fails."""

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
    """Where appends are staged. Effects: makes the directories of partitions that are not there,
    and keeps the plans alive; after an error it removes what is staged, and the directories that it
    made if they are empty: a broker takes a directory without segments for a log.
    """
    made: list[AppendPlan] = []
    try:
        for plan in plans:
            made.extend([plan] if make_directory(plan) else [])
            hold_plan(plan.log_dir, plan.plan_id)  # its output may be staged by workers
        yield
    except BaseException:
        for plan in plans:
            discard_staging(plan)
        for plan in made:
            with suppress(OSError):  # another process stages or locks there
                plan.directory.rmdir()
        raise
    finally:  # what was not committed is not needed any more
        for plan in plans:
            end_plan(plan.log_dir, plan.plan_id)


def make_directory(plan: AppendPlan) -> bool:
    """Make the directory of a partition that is not there. Effects: mkdir in the log directory,
    under the lock of the checkpoints: an undo of a deletion may be about to take this name. What an
    interrupted deletion of a log of this name left in the checkpoint files goes first: it would
    count for the new log.

    Returns:
        whether it was not there.

    Raises:
        LogDirLocked: a broker works on the log directory.
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
                "it is a link or no directory.", path=plan.directory, remedy="Remove it."
            ) from None
        return False
    if os.geteuid() == 0:
        os.chown(plan.directory, owner.st_uid, owner.st_gid, follow_symlinks=False)
    plan.directory.chmod(stat.S_IMODE(owner.st_mode))
    return True
