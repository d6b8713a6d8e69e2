"""The order in which logs are cleaned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar

from logwright.place.model import AnyPlace_co

if TYPE_CHECKING:
    from logwright.compaction.model import CleanPlan, ReadablePlan
    from logwright.format.names import TopicPartition
    from logwright.place.model import AnyPlace, Place


class Planned(Protocol[AnyPlace_co]):
    """A log on its way through a sweep, with what was decided about it."""

    @property
    def plan(self) -> CleanPlan[AnyPlace_co] | None:
        """None if it was not planned."""


Work = TypeVar("Work", bound="Planned[Place]")


def urgency(*, deadline_ms: int | None, ratio: float) -> tuple[int, float]:
    """Return the sort key of a log: first those past ``max.compaction.lag.ms`` by their deadline,
    then the filthiest.

    Kafka takes the filthiest only (LogCleanerManager.grabFilthiestCompactedLog, 4.3.0); deadline
    first is a declared difference.

    Args:
        deadline_ms: when the lag was exceeded, on any clock that all logs share; None if it was
            not.
        ratio: cleanable ratio.
    """
    return (1, -ratio) if deadline_ms is None else (0, deadline_ms)


def pick_order(plans: Sequence[CleanPlan[AnyPlace]]) -> list[CleanPlan[AnyPlace]]:
    """Return the plans that are due in the order of `urgency`, equals by name; with
    ``--like-kafka`` the filthiest first.
    """

    def rank(plan: CleanPlan[AnyPlace]) -> tuple[tuple[int, float], TopicPartition]:
        compaction = plan.compaction
        overdue = compaction.need_compaction_now and not plan.options.like_kafka
        deadline_ms = -compaction.compaction_delay_ms if overdue else None
        key = urgency(deadline_ms=deadline_ms, ratio=compaction.cleanable_ratio)
        return key, plan.log.partition

    return sorted((plan for plan in plans if plan.compaction.eligible), key=rank)


def plans_of(works: Iterable[Planned[AnyPlace]]) -> list[CleanPlan[AnyPlace]]:
    """Return the plans of those logs that have one."""
    return [work.plan for work in works if work.plan is not None]


def cleaning_order(works: Sequence[Work]) -> list[Work]:
    """Return all planned logs: the due ones in `pick_order`, then the others, which may be forced
    or only roll.
    """
    by_plan = {work.plan.plan_id: work for work in works if work.plan is not None}
    due = pick_order(plans_of(works))
    first = [by_plan.pop(plan.plan_id) for plan in due]
    return first + list(by_plan.values())


def changes(plan: ReadablePlan) -> bool:
    """Decide whether a commit of this plan changes something: the log, or only its cleaner
    checkpoint.
    """
    return plan.clean or plan.roll.due or plan.compaction.force_update_checkpoint
