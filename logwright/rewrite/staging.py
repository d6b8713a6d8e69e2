"""The staging directory of a plan, ``<partition>/.logwright/staging/<plan id>``: what is written
there, and what ends it. No live file is changed.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from logwright.batches.runtime import Progress
from logwright.errors import DiskFull, LogwrightError, StalePlan, StepFailed
from logwright.format.names import LOG, STAGING, WORK_DIRECTORY, segment_file_name
from logwright.live_plans import end_plan, hold_plan
from logwright.rewrite.chunks import Rewrite
from logwright.rewrite.model import RewritePlan, StagedSegment
from logwright.rewrite.output import COUNTS
from logwright.rewrite.segment import Group, SegmentWriter
from logwright.steps.work import PrivateDirectory, make_private, remove_private


def staging_directory(plan: RewritePlan) -> Path:
    """Return where this plan's output is built, ``<partition>/.logwright/staging/<plan id>``."""
    return plan.log.directory / WORK_DIRECTORY / STAGING / plan.plan_id


@contextmanager
def discarded_on_error(plan: RewritePlan) -> Iterator[None]:
    """End the plan if its output cannot be built. Effects: removes the staging directory then.

    Raises:
        DiskFull, StalePlan, StepFailed: instead of the system's error.
    """
    try:
        yield
    except OSError as error:
        raise give_up(plan, error) from error
    except LogwrightError:
        discard_staging(plan)
        raise


@contextmanager
def new_staging(plan: RewritePlan) -> Iterator[PrivateDirectory]:
    """Open the empty staging directory. Effects: marks the plan as alive; makes the directory,
    instead of one that is there.
    """
    hold_plan(plan.log.log_dir, plan.plan_id)
    below = (WORK_DIRECTORY, STAGING, plan.plan_id)
    if os.path.lexists("/".join((plan.log.directory_text, *below))):
        # Spark runs a task again whose executor was lost. If that one still lives, it writes to
        # files without a name; if it fails then, it removes these, and the commit fails.
        remove_private(plan.log.directory_text, *below)
    with make_private(plan.log.directory_text, *below) as directory:
        yield directory


def write_groups(
    directory: PrivateDirectory,
    groups: Iterable[Group],
    rewrite: Rewrite,
    copied: Callable[[int], None],
    written: Callable[[StagedSegment], None] = lambda _: None,
) -> tuple[tuple[StagedSegment, ...], Counter[str]]:
    """Write the segment of each group, durably; return them, and the sums of their `COUNTS`.
    Effects: creates their files.

    Args:
        written: called with each segment, before the next one is written.

    Raises:
        OSError, UnsupportedFormatError: see `SegmentWriter.write`.
    """
    staged: list[StagedSegment] = []
    counts = Counter[str]()
    for group in groups:
        writer = SegmentWriter(directory, group, rewrite)
        segment = writer.write(copied)
        written(segment)
        staged.append(segment)
        counts.update({name: int(writer.output.state[name]) for name in COUNTS})
    rewrite.runtime.sync(directory.fd)
    return tuple(staged), counts


def copy_progress(progress: Progress, total: int) -> Callable[[int], None]:
    """Return what reports the bytes of the sources that are done besides those before, of all."""
    done = 0

    def copied(length: int) -> None:
        nonlocal done
        done += length
        progress("copy", done, total)

    return copied


def require_complete(plan: RewritePlan, segments: Iterable[StagedSegment]) -> None:
    """Require all of the staged output, before the first step: a purge may have removed it as that
    of a dead plan. Effects: looks at the files.

    Raises:
        StalePlan: some of it is not there.
    """
    for segment in segments:
        name = segment_file_name(segment.base_offset, LOG)
        path = f"{plan.log.directory_text}/{WORK_DIRECTORY}/{STAGING}/{plan.plan_id}/{name}"
        try:
            size = os.stat(path, follow_symlinks=False).st_size  # noqa: PTH116 -- a path costs
        except FileNotFoundError:
            size = None
        if size != segment.log_bytes:
            raise StalePlan(
                f"the staged output is incomplete: {size} of {segment.log_bytes} bytes.",
                path=path,
                remedy="Nothing was changed. Run it again.",
            )


def give_up(plan: RewritePlan, error: OSError) -> LogwrightError:
    """Return the error to raise if the output could not be written or made durable: DiskFull,
    StalePlan or StepFailed. Effects: removes the staging directory.
    """
    discard_staging(plan)
    return _write_error(error, staging_directory(plan))


def discard_staging(plan: RewritePlan) -> None:
    """End this plan. Effects: unlinks its staged files, if there are any, and the directories that
    are then empty.
    """
    remove_private(plan.log.directory_text, WORK_DIRECTORY, STAGING, plan.plan_id)
    end_plan(plan.log.log_dir, plan.plan_id)


def _write_error(error: OSError, directory: Path) -> LogwrightError:
    path = error.filename or directory
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(
            "there is no room for the compacted output.",
            path=path,
            remedy="Nothing was changed. Kept records are written before the old ones go: free "
            "some space; `logwright purge` unlinks what is due.",
        )
    if isinstance(error, FileNotFoundError):
        return StalePlan(
            "the log, or what was staged for it, went away after it was planned.",
            path=path,
            remedy="Nothing was changed. Plan again.",
        )
    return StepFailed(
        f"the compacted output could not be written: {error.strerror}.",
        path=path,
        remedy="Nothing was changed. Fix the cause and retry.",
    )
