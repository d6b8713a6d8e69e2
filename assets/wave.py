"""The logs that one run works on together, as a value that goes from step to step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from logwright.checks.model import OutputFacts
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.errors import LogwrightError
from logwright.resources.log_dirs import MaintainedLog
from logwright.state.model import Hold


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWork:
    """One log on its way from plan to swap.

    Attributes:
        key: its partition key in Dagster.
        plan: what was decided; None if planning failed.
        staged: what was built, if something was to be cleaned.
        facts: what was read back from it.
        failure: why it goes no further.
        held: why it is left alone; it is neither planned nor failed then.
        log: where it lies; None where a test made it up.
        now_ms: the run's clock.
    """

    key: str
    plan: CleanPlan | None = None
    staged: StagedCleaning | None = None
    facts: OutputFacts | None = None
    failure: LogwrightError | None = None
    held: Hold | None = None
    log: MaintainedLog | None = None
    now_ms: int = 0

    @property
    def due(self) -> bool:
        """Something is to be done to this log."""
        return self.plan is not None and (self.plan.clean or self.plan.roll.due)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wave:
    """The logs of one run. One log's failure leaves the others in."""

    works: tuple[LogWork, ...]

    @property
    def going_on(self) -> tuple[LogWork, ...]:
        """The logs that have not failed."""
        return tuple(work for work in self.works if work.failure is None)

    @property
    def failures(self) -> dict[str, LogwrightError]:
        """Why logs failed, by key."""
        return {work.key: work.failure for work in self.works if work.failure is not None}

    def with_works(self, changed: Mapping[str, LogWork]) -> Wave:
        """The same wave with some logs' work replaced, by key."""
        return Wave(works=tuple(changed.get(work.key, work) for work in self.works))
