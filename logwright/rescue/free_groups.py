"""Check and swap one group of segments after the other; see `logwright.compaction.groups`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from logwright.checks.model import LATEST_VALUE_PER_KEY, CheckResult, refusal
from logwright.checks.quick import examine_quickly
from logwright.format.names import DELETED
from logwright.rewrite.staging import discard_staging
from logwright.rewrite.steps import swap_steps, unchanged_steps
from logwright.steps.interpreter import execute
from logwright.steps.step import FsyncDir, Link, Rename, Unlink

if TYPE_CHECKING:
    from logwright.compaction.groups import GroupCleaning
    from logwright.steps.filesystem import FileSystem
    from logwright.steps.step import FileStep


def require_right(cleaning: GroupCleaning) -> None:
    """Require that what was read of the keys is right.

    Raises:
        QualityError: a sample of the keys contradicts the map.
    """
    if not cleaning.is_right:
        raise refusal(cleaning.plan, [CheckResult(LATEST_VALUE_PER_KEY, 1).sentence])


def do_group(
    cleaning: GroupCleaning, number: int, files: FileSystem, at_worst: Callable[[], None]
) -> None:
    """Build, check and swap one group, and remove its old files. Effects: as said; what is staged
    is removed if an error is raised.

    Args:
        at_worst: called when all is staged and nothing is removed yet.

    Raises:
        QualityError: the output breaks a check. Nothing was changed.
        DiskFull, StepFailed: a step failed; the log is the old or the new one for a recovery.
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: as `GroupCleaning.build`.
    """
    plan, staged, aborted = cleaning.build(number)
    try:
        facts = examine_quickly(plan, staged, aborted=aborted)
        if facts.failed:
            raise refusal(plan, (check.sentence for check in facts.failed))
        at_worst()
        log, now_ms = cleaning.plan.rolled_log, plan.now_ms
        execute(unchanged_steps(log, staged.unchanged), files)
        for segment in staged.segments:
            steps = swap_steps(log, segment, staged.directory, now_ms=now_ms, undoable=False)
            execute((*steps, *_removal(steps), FsyncDir(plan.log.directory)), files)
    finally:
        discard_staging(plan)


def _removal(steps: Iterable[FileStep]) -> Iterator[FileStep]:
    """Yield the steps that remove what these steps retire."""
    for step in steps:
        if isinstance(step, Link | Rename) and str(step.target).endswith(DELETED):
            yield Unlink(step.target)
