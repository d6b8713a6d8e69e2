"""What `plan` and `clean` share: the plans of the chosen partitions, and how a plan is shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from logwright.cli.output import Cell, Output, size_cell
from logwright.cli.request import Request
from logwright.cli.run.upkeep import LogUpkeep
from logwright.cli.wording import open_transaction, short_names
from logwright.compaction.model import CleaningOptions, CompactionPlan, ReadablePlan
from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.format.names import TopicPartition
from logwright.place.model import AnyPlace, Place
from logwright.sweep.model import LogWork
from logwright.sweep.order import changes
from logwright.sweep.stages import plan_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningSettings:
    """The settings of a request's topics, as `logwright.sweep` asks for them.

    Attributes:
        dedupe_buffer: of ``--dedupe-buffer``, in bytes.
    """

    request: Request
    dedupe_buffer: int | None = None

    def of(self, log_dir: Place, topic: str) -> tuple[TopicConfig, CleanerConfig]:
        """Return a topic's settings. Effects and errors: as `Request.settings`."""
        del log_dir
        config, cleaner = self.request.settings(topic)
        if self.dedupe_buffer is not None:
            cleaner = cleaner.model_copy(update={"dedupe_buffer_bytes": self.dedupe_buffer})
        return config, cleaner

    def stray(self, log_dir: Place, partition: TopicPartition) -> str | None:
        """Return why a broker would not serve a partition: `Request.stray`."""
        del log_dir
        return self.request.stray(partition)


def plan_partitions(
    request: Request,
    log_dir: AnyPlace,
    partitions: Sequence[TopicPartition],
    *,
    options: CleaningOptions,
    settings: CleaningSettings | None = None,
) -> list[LogWork[AnyPlace]]:
    """Plan each partition that can be planned. Effects: reads the log directory; output.

    `log_dir`: of the request; as a path, if what is planned is to be committed.

    Raises:
        LogwrightError: of the directory, see `logwright.sweep.plan.plan_cleanings`.
    """
    planned = plan_directory(
        log_dir,
        [LogWork(key=str(each), log_dir=log_dir, partition=each) for each in partitions],
        settings or CleaningSettings(request=request),
        now_ms=request.now_ms,
        options=options,
        high_watermark=request.high_watermark,
    )
    return report_failed(request, planned)


def report_failed(request: Request, works: Iterable[LogWork[AnyPlace]]) -> list[LogWork[AnyPlace]]:
    """Return the logs that have not failed. Effects: output about the others."""
    going = []
    for work in works:
        if work.failure is None:
            going.append(work)
        else:
            request.failures.add(work.partition, work.failure)
    return going


def compaction_object(compaction: CompactionPlan) -> dict[str, object]:
    """Return the decision, by the names of the oracle's ``plan`` and each pass of its ``clean``."""
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


def plan_object(plan: ReadablePlan) -> dict[str, object]:
    """Return one partition's plan: first the oracle's names, then logwright's."""
    log = plan.log
    return {
        "topicPartition": str(log.partition),
        "compact": plan.config.compact,
        "delete": plan.config.delete,
        "cleanupPolicy": ",".join(plan.config.cleanup_policy),
        "kafkaVersion": plan.cleaner.kafka.name,
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
        "openTransaction": _transaction_object(plan),
        "roll": {
            "due": plan.roll.due,
            "cause": plan.roll.cause,
            "newBaseOffset": plan.roll.new_base_offset,
            "dueAtMs": plan.roll.due_at_ms,
            "reason": plan.roll.reason,
        },
    }


def _transaction_object(plan: ReadablePlan) -> dict[str, int | None] | None:
    producer = open_transaction(plan)
    if producer is None:
        return None
    return {
        "producerId": producer.producer_id,
        "firstOffset": producer.current_txn_first_offset,
        "lastTimestampMs": producer.timestamp_ms,
    }


def show_plans(
    output: Output, works: Sequence[LogUpkeep], forecasts: Mapping[str, int | None]
) -> None:
    """Print a line for each log. Effects: stdout, text only.

    Args:
        output: where to.
        works: what is due for each partition.
        forecasts: bytes that a cleaning would reclaim by plan id, None if that is not known.
    """
    plans = [work.plan for work in works]
    whole = [str(plan.log.partition) for plan in plans]
    short = {name: name for name in whole} if output.verbose else short_names(whole)
    header = ("partition", "policy", "segments", "size", "offsets", "dirty", "reclaims", "plan")
    rows = [
        (
            short[name],
            ",".join(plan.config.cleanup_policy) or "(empty)",
            len(plan.log.segments),
            size_cell(plan.log.log_bytes),
            f"{plan.log.log_start_offset}..{plan.log.log_end_offset}",
            size_cell(plan.compaction.cleanable_bytes if plan.config.compact else None),
            size_cell(forecasts[plan.plan_id] or None),
            Cell(text=work.reason, colour=_colour(work)),
        )
        for name, plan, work in zip(whole, plans, works, strict=True)
    ]
    output.table(header, rows)


def _colour(work: LogUpkeep) -> str | None:
    if not work.plan.config.policy_known:
        return "yellow"
    return "green" if changes(work.plan) or work.retains or work.purges else None


def plan_lines(plan: ReadablePlan) -> list[str]:
    """Return what is done with a partition, and the reason of each decision."""
    partition = plan.log.partition
    verdict = "clean" if plan.clean else "not cleaned"
    lines = [f"{partition}: {verdict}: {'; '.join(plan.compaction.reasons)}"]
    if plan.roll.due or plan.roll.due_at_ms is not None:
        rolled = "rolled" if plan.roll.due else "not rolled"
        lines.append(f"{partition}: {rolled}: {plan.roll.reason}")
    return lines
