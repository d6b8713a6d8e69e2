"""What `plan` and `clean` share: the plans of the chosen partitions, their order, and how a plan is
shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from logwright.cli.output import Cell, human_bytes
from logwright.cli.wording import reason, short_names
from logwright.errors import LogwrightError

if TYPE_CHECKING:
    from logwright.cli.output import Output
    from logwright.cli.request import Request
    from logwright.compaction.model import CleaningOptions, CleanPlan, CompactionPlan
    from logwright.config.topic import CleanerConfig, TopicConfig
    from logwright.format.names import TopicPartition

_LAST_DATETIME_MS = 253_402_300_799_999
"""The last millisecond of the year 9999."""


@dataclass(slots=True, kw_only=True)
class FailureLog:
    """Gathers what went wrong with single partitions while the others go on.

    Attributes:
        failures: (partition, error), in the order in which they came.
        directories: the same of future and stray logs, by directory name.
    """

    output: Output
    failures: list[tuple[TopicPartition, LogwrightError]] = field(default_factory=list)
    directories: list[tuple[str, LogwrightError]] = field(default_factory=list)

    def add(self, partition: TopicPartition, error: LogwrightError) -> None:
        """Remember and report it. Effects: stderr, and stdout as JSON."""
        self.failures.append((partition, error))
        self.output.message(f"Error: {partition}: {error}")
        self.output.error_object(error, topicPartition=str(partition))

    def add_directory(self, name: str, error: LogwrightError) -> None:
        """`add`, of a future or stray log. Effects: as there."""
        self.directories.append((name, error))
        self.output.message(f"Error: {name}: {error}")
        self.output.error_object(error, directory=name)

    @property
    def exit_status(self) -> int:
        """That of the first error of a partition, else of a directory; 0 if there was none."""
        errors = [error for _, error in (*self.failures, *self.directories)]
        return errors[0].exit_status if errors else 0


def plan_partitions(
    request: Request,
    partitions: Sequence[TopicPartition],
    failures: FailureLog,
    *,
    options: CleaningOptions,
    dedupe_buffer: int | None = None,
) -> list[CleanPlan]:
    """A plan for each partition that can be planned. Effects: reads the log directory.

    Raises:
        LogwrightError: of the directory, see `plan_many`.
    """
    from logwright import maintain  # noqa: PLC0415 -- numpy and more: not for --help

    outcomes = maintain.plan_many(
        request.log_dir,
        partitions,
        lambda topic: _settings(request, topic, dedupe_buffer),
        now_ms=request.now_ms,
        options=options,
        high_watermark=request.high_watermark,
    )
    plans = []
    for partition, outcome in zip(partitions, outcomes, strict=True):
        if isinstance(outcome, LogwrightError):
            failures.add(partition, outcome)
        else:
            plans.append(outcome)
    return plans


def plan_one(
    request: Request,
    partition: TopicPartition,
    *,
    options: CleaningOptions,
    dedupe_buffer: int | None,
) -> CleanPlan:
    """The plan of one partition. Effects: reads it. `dedupe_buffer` is in bytes.

    Raises:
        LogwrightError: of settings, or of what is there.
    """
    from logwright import maintain  # noqa: PLC0415 -- numpy and more: not for --help

    return maintain.plan_clean(
        request.log_dir,
        partition,
        _settings(request, partition.topic, dedupe_buffer),
        now_ms=request.now_ms,
        options=options,
        high_watermark=request.high_watermark,
    )


def _settings(
    request: Request, topic: str, dedupe_buffer: int | None
) -> tuple[TopicConfig, CleanerConfig]:
    config, cleaner = request.settings(topic)
    if dedupe_buffer is not None:
        cleaner = cleaner.model_copy(update={"dedupe_buffer_bytes": dedupe_buffer})
    return config, cleaner


def pick_order(plans: Sequence[CleanPlan]) -> list[CleanPlan]:
    """The plans that are due, in the order in which they are taken up.

    Overdue ones first, by deadline, then the filthiest; under ``--like-kafka`` the filthiest of all
    (LogCleanerManager.grabFilthiestCompactedLog, 4.3.0). Equals go by name.
    """

    def rank(plan: CleanPlan) -> tuple[int, float, TopicPartition]:
        compaction = plan.compaction
        if compaction.need_compaction_now and not plan.options.like_kafka:
            return (0, -compaction.compaction_delay_ms, plan.log.partition)
        return (1, -compaction.cleanable_ratio, plan.log.partition)

    return sorted((plan for plan in plans if plan.compaction.eligible), key=rank)


def cleaning_order(plans: Sequence[CleanPlan]) -> list[CleanPlan]:
    """All plans: the due ones in pick order, then the others (they may be forced, or only roll)."""
    due = pick_order(plans)
    return due + [plan for plan in plans if not plan.compaction.eligible]


def compaction_object(compaction: CompactionPlan) -> dict[str, object]:
    """The decision, by the names of the oracle's ``plan`` and of each pass of its ``clean``."""
    return {
        "firstDirtyOffset": compaction.first_dirty_offset,
        "firstUncleanableDirtyOffset": compaction.first_uncleanable_dirty_offset,
        "firstUncleanableOffset": compaction.first_uncleanable_offset,
        "cleanBytes": compaction.clean_bytes,
        "cleanableBytes": compaction.cleanable_bytes,
        "totalBytes": compaction.total_bytes,
        "cleanableRatio": compaction.cleanable_ratio,
        "minCleanableRatio": compaction.min_cleanable_ratio,
        "compactionDelayMs": compaction.compaction_delay_ms,
        "needCompactionNow": compaction.need_compaction_now,
        "forceUpdateCheckpoint": compaction.force_update_checkpoint,
        "eligible": compaction.eligible,
    }


def plan_object(plan: CleanPlan) -> dict[str, object]:
    """One partition's plan: the oracle's names, then ours."""
    log = plan.log
    return {
        "topicPartition": str(log.partition),
        "compact": plan.config.compact,
        "delete": plan.config.delete,
        "cleanupPolicy": ",".join(plan.config.cleanup_policy),
        "segments": len(log.segments),
        "activeSegmentBaseOffset": log.active.base_offset,
        "logStartOffset": log.log_start_offset,
        "logEndOffset": log.log_end_offset,
        "highWatermark": log.high_watermark,
        "lastStableOffset": log.last_stable_offset,
        "checkpointedOffset": log.cleaner_checkpoint,
        **compaction_object(plan.compaction),
        "clean": plan.clean,
        "dueAtMs": plan.compaction.due_at_ms,
        "reasons": list(plan.compaction.reasons),
        "roll": {
            "due": plan.roll.due,
            "cause": plan.roll.cause,
            "newBaseOffset": plan.roll.new_base_offset,
            "dueAtMs": plan.roll.due_at_ms,
            "reason": plan.roll.reason,
        },
    }


def acts(plan: CleanPlan) -> bool:
    """Committing this plan changes something."""
    return plan.clean or plan.roll.due or plan.compaction.force_update_checkpoint


def show_plans(
    output: Output, plans: Sequence[CleanPlan], forecasts: Mapping[str, int | None]
) -> None:
    """A line for each plan. Effects: stdout, text only.

    Args:
        output: where to.
        plans: of all partitions.
        forecasts: bytes that a cleaning would reclaim by plan id, None if that is not known.
    """
    whole = [str(plan.log.partition) for plan in plans]
    short = {name: name for name in whole} if output.verbose else short_names(whole)
    header = ("partition", "policy", "segments", "size", "offsets", "dirty", "reclaims", "plan")
    rows = [
        (
            short[name],
            ",".join(plan.config.cleanup_policy) or "(empty)",
            len(plan.log.segments),
            Cell(text=human_bytes(plan.log.log_bytes), right=True),
            f"{plan.log.log_start_offset}..{plan.log.log_end_offset}",
            Cell(text=human_bytes(plan.compaction.cleanable_bytes), right=True),
            Cell(text=human_bytes(found), right=True)
            if (found := forecasts[plan.plan_id])
            else None,
            Cell(text=reason(plan), colour=_colour(plan)),
        )
        for name, plan in zip(whole, plans, strict=True)
    ]
    output.table(header, rows)


def _colour(plan: CleanPlan) -> str | None:
    if not plan.config.policy_known:
        return "yellow"
    return "green" if acts(plan) else None


def show_plan(plan: CleanPlan, say: Callable[[str], None]) -> None:
    """What is done with one partition, and the reason of each decision."""
    partition = plan.log.partition
    verdict = "clean" if plan.clean else "not cleaned"
    say(f"{partition}: {verdict}: {'; '.join(plan.compaction.reasons)}")
    if plan.roll.due or plan.roll.due_at_ms is not None:
        say(f"{partition}: {'rolled' if plan.roll.due else 'not rolled'}: {plan.roll.reason}")


def instant(time_ms: int | None) -> str:
    """A time for people, UTC."""
    if time_ms is None or not 0 <= time_ms <= _LAST_DATETIME_MS:
        return "-"
    moment = datetime.fromtimestamp(time_ms / 1000, tz=UTC)
    return moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00") + "Z"
