"""Read the compacted output back and judge it, before anything live changes.

There are two ways, `quick` and `thorough`: see `logwright.checks`.
"""

from __future__ import annotations

from logwright.batches.runtime import Runtime
from logwright.checks.model import OutputFacts
from logwright.checks.quick import examine_quickly
from logwright.checks.thorough import examine_thoroughly
from logwright.compaction.model import CleanPlan, StagedCleaning

__all__ = ["examine", "examine_thoroughly"]


def examine(
    plan: CleanPlan, staged: StagedCleaning, *, runtime: Runtime | None = None
) -> OutputFacts:
    """Judge the staged output of a plan by the checks that its options choose. Effects: reads the
    staged files and the segments they were made from.

    If a quick check fails, the thorough ones run too and report where. What only the quick one can
    see, such as a record that should be gone, stays failed.

    Args:
        plan: of the cleaning.
        staged: its output.
        runtime: threads and throttle of the quick checks; by default one thread, no throttle.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the *source* changed for
        the worse.
    """
    if plan.options.checks == "thorough":
        return examine_thoroughly(plan, staged)
    quick = examine_quickly(plan, staged, runtime=runtime)
    if not quick.failed:
        return quick
    thorough = examine_thoroughly(plan, staged)
    checks = (
        first if second.passed else second
        for first, second in zip(quick.checks, thorough.checks, strict=True)
    )
    return thorough._replace(checks=tuple(checks))
