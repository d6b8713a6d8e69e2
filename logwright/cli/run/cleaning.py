"""What `clean` shows of each partition after its passes, and of all while it works."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from logwright.batches.runtime import Progress
from logwright.cli.output import human_bytes
from logwright.cli.run.planning import compaction_object
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.sweep.commit import CommitResult, lag_metrics
from logwright.sweep.model import LogWork

_PHASES: Final = {"map": (0.0, 0.5), "copy": (0.5, 0.4), "check": (0.9, 0.1)}
"""Where each phase of a cleaning begins, and its share of the time; roughly."""

TITLES: Final = (
    "partition",
    "passes",
    "bytes before",
    "after",
    "superseded",
    "tombstones",
    "without key",
    "aborted",
    "dirty from",
    "note",
)
"""The header of a table of `Cleaning.as_row`."""


@dataclass(frozen=True, slots=True)
class Cleaning:
    """One partition after its passes.

    Attributes:
        first_plan: of the first pass.
        works: how each pass ended; the last one may only have been planned.
    """

    first_plan: CleanPlan
    works: tuple[LogWork, ...]

    @property
    def failed(self) -> bool:
        """An error ended its last pass."""
        return self.works[-1].failure is not None

    @property
    def passes(self) -> list[tuple[CleanPlan, StagedCleaning]]:
        """Plan and output of each pass that cleaned."""
        return [
            (work.plan, work.staged)
            for work in self.works
            if work.result is not None and work.plan is not None and work.staged is not None
        ]

    @property
    def results(self) -> list[CommitResult]:
        """What the commits did."""
        return [work.result for work in self.works if work.result is not None]

    @property
    def rolled(self) -> bool:
        """A pass rolled the active segment."""
        return any(result.rolled for result in self.results)

    @property
    def bytes_before(self) -> int:
        """``.log`` bytes before the first pass."""
        return self.first_plan.log.log_bytes

    @property
    def bytes_after(self) -> int:
        """``.log`` bytes after the last."""
        return self.results[-1].bytes_after if self.results else self.bytes_before

    @property
    def new_first_dirty_offset(self) -> int | None:
        """As the checkpoint has it now; None if it has no entry."""
        if self.results:
            return self.results[-1].first_dirty_offset
        return self.first_plan.log.cleaner_checkpoint

    def note(self) -> str:
        """Return why nothing was done, or what else was done."""
        if self.failed:
            return "failed, see above"
        words = [f"rolled ({self.first_plan.roll.cause})"] if self.rolled else []
        if not self.passes:
            words.append("; ".join(self.first_plan.compaction.reasons))
        unchanged = sum(staged.stats.bytes_kept for _, staged in self.passes)
        if unchanged:
            words.append(f"{human_bytes(unchanged)} not rewritten")
        reads = max((staged.stats.map_reads for _, staged in self.passes), default=1)
        if reads > 1:
            words.append(f"keys read {reads} times")
        return ", ".join(words)

    def as_row(self) -> tuple[object, ...]:
        """Return a row of the final table."""
        stats = [staged.stats for _, staged in self.passes]
        return (
            str(self.first_plan.log.partition),
            len(self.passes),
            self.bytes_before,
            self.bytes_after,
            sum(each.removed_superseded for each in stats),
            sum(each.removed_tombstones for each in stats),
            sum(each.removed_null_keys for each in stats),
            sum(each.removed_aborted + each.removed_markers for each in stats),
            self.new_first_dirty_offset,
            self.note(),
        )

    def as_object(self) -> dict[str, object]:
        """Return the result by the names of the oracle's ``clean``, and by logwright's."""
        log = self.first_plan.log
        passes: list[dict[str, object]] = [
            compaction_object(plan.compaction) | {"cleaned": True} | _stats_object(plan, staged)
            for plan, staged in self.passes
        ]
        last = self.works[-1]
        if last.plan is not None and (last.result is None or last.staged is None):
            passes.append(compaction_object(last.plan.compaction) | {"cleaned": False})
        dirty = self.new_first_dirty_offset
        return {
            "topicPartition": str(log.partition),
            "now": self.first_plan.now_ms,
            "passes": passes,
            "newFirstDirtyOffset": -1 if dirty is None else dirty,
            "logStartOffset": log.log_start_offset,
            "logEndOffset": log.log_end_offset,
            "cleaned": bool(self.passes),
            "rolled": self.rolled,
            "metrics": lag_metrics(self.results),
            "bytesBefore": self.bytes_before,
            "bytesAfter": self.bytes_after,
            "reasons": list(self.first_plan.compaction.reasons),
        }


def one_bar(
    plans: Sequence[CleanPlan], show: Progress
) -> Callable[[CleanPlan, str, int, int], None]:
    """Return what shows the progress of many cleanings as one: bytes of logs done, and in all."""
    if len(plans) == 1:
        return lambda _, phase, done, total: show(phase, done, total)
    done_bytes = dict.fromkeys((plan.plan_id for plan in plans), 0)
    whole = sum(int(plan.compaction.total_bytes) for plan in plans)
    shown = 0

    def progress(plan: CleanPlan, phase: str, done: int, total: int) -> None:
        nonlocal shown, whole
        if plan.plan_id not in done_bytes:  # of a further pass
            done_bytes[plan.plan_id] = 0
            whole += plan.compaction.total_bytes
        begin, share = _PHASES[phase]
        now = int(plan.compaction.total_bytes * (begin + share * done / max(total, 1)))
        shown += max(now - done_bytes[plan.plan_id], 0)
        done_bytes[plan.plan_id] = max(now, done_bytes[plan.plan_id])
        show("clean", shown, whole)

    return progress


def _stats_object(plan: CleanPlan, staged: StagedCleaning) -> dict[str, object]:
    """Return Kafka's figures, which count the bytes of unchanged segments as written."""
    stats = staged.stats
    return {
        "newFirstDirtyOffset": staged.end_offset,
        "messagesRead": stats.records_read,
        "bytesRead": stats.bytes_read,
        "messagesWritten": stats.records_written,
        "bytesWritten": stats.bytes_written + stats.bytes_kept,
        "bytesNotRewritten": stats.bytes_kept,
        "mapMessages": stats.map_records,
        "elapsedSeconds": round(stats.map_seconds + stats.copy_seconds, 3),
        "elapsedIndexSeconds": round(stats.map_seconds, 3),
        "segmentsBefore": stats.segments_before,
        "segmentsAfter": stats.segments_after,
        "distinctKeys": stats.distinct_keys,
        "mapReads": stats.map_reads,
        "mapBytes": stats.map_bytes,
        "removedSuperseded": stats.removed_superseded,
        "removedTombstones": stats.removed_tombstones,
        "removedNullKeys": stats.removed_null_keys,
        "removedAborted": stats.removed_aborted,
        "removedMarkers": stats.removed_markers,
        "horizonsSet": stats.horizons_set,
        "batchesVerbatim": stats.batches_verbatim,
        "batchesRebuilt": stats.batches_rebuilt,
        "batchesDropped": stats.batches_dropped,
        "rolled": plan.roll.due,
    }
