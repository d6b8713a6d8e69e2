"""The two stages that an executor runs for one log: build its output, and examine it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from logwright.batches.runtime import Runtime, silent
from logwright.checks import examine as examining
from logwright.compaction import build as building
from logwright.errors import OutOfMemory, enough_memory
from logwright.rewrite.staging import discard_staging

if TYPE_CHECKING:
    from logwright.batches.runtime import Progress
    from logwright.checks.model import OutputFacts
    from logwright.compaction.model import CleanPlan, StagedCleaning


def build(
    plan: CleanPlan, *, progress: Progress = silent, runtime: Runtime | None = None
) -> StagedCleaning:
    """Build the log's compacted output. Effects and errors: see `logwright.compaction.build.build`.

    Raises:
        OutOfMemory: the log needs more memory than there is. The staging directory is removed.
    """
    try:
        with enough_memory(plan.log.directory):
            return building.build(plan, progress=progress, runtime=runtime)
    except OutOfMemory:
        discard_staging(plan)
        raise


def examine(
    plan: CleanPlan,
    staged: StagedCleaning,
    *,
    progress: Progress = silent,
    runtime: Runtime | None = None,
) -> OutputFacts:
    """Examine what was built. Effects and errors: see `logwright.checks.examine.examine`.

    Raises:
        OutOfMemory: the log needs more memory than there is.
    """
    size = plan.compaction.total_bytes
    progress("check", 0, size)
    with enough_memory(plan.log.directory):
        facts = examining.examine(plan, staged, runtime=runtime)
    progress("check", size, size)
    return facts


def build_and_examine(
    plan: CleanPlan, *, progress: Progress = silent, runtime: Runtime | None = None
) -> tuple[StagedCleaning, OutputFacts]:
    """Build and examine a log while its files are in the page cache. Effects and errors: as `build`
    and `examine`; the staged files of a log that cannot be examined stay.
    """
    runtime = runtime or Runtime()
    staged = build(plan, progress=progress, runtime=runtime)
    return staged, examine(plan, staged, progress=progress, runtime=runtime)
