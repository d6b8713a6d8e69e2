"""Read the compacted output back and judge it, before anything live changes.

Two ways make the same checks (docs/adr/0010): `quick` is the default; `thorough` reads keys and
records of the source again and relies on nothing that the build remembers.
"""

from __future__ import annotations

from logwright.checks.model import OutputFacts
from logwright.checks.quick import examine_quickly
from logwright.checks.thorough import examine_thoroughly
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.compaction.runtime import Means

__all__ = ["examine", "examine_thoroughly"]


def examine(plan: CleanPlan, staged: StagedCleaning, *, means: Means | None = None) -> OutputFacts:
    """Judge the staged output of a plan, as its options say. Effects: reads the staged files and
    the segments they were made from.

    What the quick checks find broken is examined thoroughly too, which says where; their own word
    stays on what only they can see, such as a record that should have gone.

    `means`: of the quick checks; one thread and no throttle, if not given.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: the *source* changed for
        the worse.
    """
    if plan.options.checks == "thorough":
        return examine_thoroughly(plan, staged)
    quick = examine_quickly(plan, staged, means=means)
    if not quick.failed:
        return quick
    thorough = examine_thoroughly(plan, staged)
    judged = (
        seen if told.passed else told
        for seen, told in zip(quick.checks, thorough.checks, strict=True)
    )
    return thorough._replace(checks=tuple(judged))
