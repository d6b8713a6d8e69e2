"""The rows of the maintenance history, and how they are made of what a run did.

Pure. A row has numbers, names and the reasons of decisions; never a record's key or value.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from logwright.deletion.plan import PurgedLog
from logwright.format.names import TopicPartition
from logwright.place.model import Place
from logwright.purge.plan import PurgeResult
from logwright.retention.plan import RetentionPlan
from logwright.sweep.model import LogWork, SweepState
from logwright.units import TimestampMs

Operation = Literal["clean", "roll", "retain", "purge", "recover"]
"""Named as the commands of the command line."""

_NS_PER_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """What one operation did to one log; the columns of the history, in this order.

    Attributes:
        run_id: the run of Dagster that did it.
        log: the partition key; topic and partition: of the log, log_dir: where it is.
        operation: as the command of that name.
        started_at_ms: the clock of the decision. ended_at_ms: when the step of the run had ended.
        why: the reason of the decision, with its numbers.
        bytes_before, bytes_after: ``.log`` bytes of the log; of a purge, bytes of retired files.
        bytes_read: ``.log`` bytes in the range of a cleaning.
        bytes_written: ``.log`` bytes that it wrote; segments that do not change are not written.
        records_before, records_after: records in the range of a cleaning.
        removed_…: records that a cleaning removed, by cause.
        segments_deleted, offsets_deleted: by retention; of a log with gaps, fewer records than
            offsets were deleted.
        compaction_delay_ms: by how much ``max.compaction.lag.ms`` was exceeded when a cleaning
            ended (KIP-354); 0 if it was not.
        delete_horizon_ms: earliest delete horizon of the batches that a cleaning kept: when the
            next tombstones or markers may go.
        cpu_seconds: of a cleaning's passes.
        wall_seconds: of the passes and of the commit, which several logs share.
        forecast_bytes: what the plan expected the cleaning to reclaim.
    """

    run_id: str
    log: str
    topic: str
    partition: int
    log_dir: str
    operation: Operation
    started_at_ms: int
    ended_at_ms: int
    why: str
    bytes_before: int | None = None
    bytes_after: int | None = None
    bytes_read: int | None = None
    bytes_written: int | None = None
    records_before: int | None = None
    records_after: int | None = None
    removed_superseded: int | None = None
    removed_tombstones: int | None = None
    removed_null_keys: int | None = None
    removed_aborted: int | None = None
    removed_markers: int | None = None
    segments_deleted: int | None = None
    offsets_deleted: int | None = None
    compaction_delay_ms: int | None = None
    delete_horizon_ms: int | None = None
    cpu_seconds: float | None = None
    wall_seconds: float | None = None
    forecast_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOrigin:
    """What all rows of a log in one step of a run have in common.

    Attributes:
        key: the log's partition key.
        started_at_ms, ended_at_ms: of the step.
    """

    run_id: str
    key: str
    log_dir: Place
    partition: TopicPartition
    started_at_ms: int
    ended_at_ms: int

    def row(self, operation: Operation, why: str) -> HistoryRow:
        """Return a row without figures."""
        return HistoryRow(
            run_id=self.run_id,
            log=self.key,
            topic=self.partition.topic,
            partition=self.partition.partition,
            log_dir=str(self.log_dir),
            operation=operation,
            started_at_ms=self.started_at_ms,
            ended_at_ms=max(self.ended_at_ms, self.started_at_ms),
            why=why,
        )


def sweep_rows(
    state: SweepState[Place], *, run_id: str, ended_ms: TimestampMs | None = None
) -> list[HistoryRow]:
    """Return the rows of what a sweep, or a retention, did: recoveries, rolls, cleanings and
    retentions. A log without any of them has none; a roll by itself is in `roll_rows`.

    Args:
        state: after the commit; the works of retentions have `retained`.
        run_id: of the run.
        ended_ms: when it ended; the default is the state's clock, plus the time that has passed
            since the plans were made. Effects: reads the system clock then.
    """
    if ended_ms is None:
        now_ns = time.time_ns()
        planned_ns = [work.plan.planned_ns for work in state.works if work.plan is not None]
        passed_ms = max(now_ns - min(planned_ns, default=now_ns), 0) // _NS_PER_MS
        ended_ms = TimestampMs(state.now_ms + passed_ms)
    rows: list[HistoryRow] = []
    for work in state.works:
        rows += _work_rows(work, _origin(work, state, run_id, ended_ms))
    return rows


def _origin(
    work: LogWork[Place], state: SweepState[Place], run_id: str, ended_ms: TimestampMs
) -> RowOrigin:
    return RowOrigin(
        run_id=run_id,
        key=work.key,
        log_dir=work.log_dir,
        partition=work.partition,
        started_at_ms=state.now_ms,
        ended_at_ms=ended_ms,
    )


def roll_rows(state: SweepState[Place], *, run_id: str) -> list[HistoryRow]:
    """Return the rows of the rolls that a sweep did before its cleanings; arguments as for
    `sweep_rows`.
    """
    return [
        replace(
            _origin(work, state, run_id, state.now_ms).row("roll", work.rolled.decision.reason),
            bytes_before=work.rolled.log_bytes,
            bytes_after=work.rolled.log_bytes,
            wall_seconds=work.rolled.seconds,
        )
        for work in state.works
        if work.rolled is not None
    ]


def purge_rows(result: PurgeResult, origin: RowOrigin) -> list[HistoryRow]:
    """Return the row of a purge of one log, if something was removed."""
    if not (result.removed or result.leftovers or result.staging):
        return []
    waiting = sum(file.bytes for file in result.pending)
    leftovers = len(result.leftovers) + len(result.staging)
    why = (
        f"{len(result.removed)} retired files were due, {len(result.pending)} wait,"
        f" {leftovers} leftovers"
    )
    before = result.removed_bytes + waiting
    return [replace(origin.row("purge", why), bytes_before=before, bytes_after=waiting)]


def purged_log_rows(purged: PurgedLog, origin: RowOrigin) -> list[HistoryRow]:
    """Return the row of the purge of a deleted log, if it was purged."""
    if not purged.goes:
        return []
    return [replace(origin.row("purge", purged.reason), bytes_before=purged.bytes, bytes_after=0)]


def _work_rows(work: LogWork[Place], origin: RowOrigin) -> Iterator[HistoryRow]:
    if work.recovered is not None:
        yield origin.row("recover", "; ".join(work.recovered) or "nothing to repair")
    if work.result is not None and work.plan is not None:
        yield from _commit_rows(work, origin)
    if work.retained is not None and work.retained.deleted:
        yield _retention_row(work.retained, origin)


def _commit_rows(work: LogWork[Place], origin: RowOrigin) -> Iterator[HistoryRow]:
    plan, result, staged = work.plan, work.result, work.staged
    if plan is None or result is None:
        return
    if result.rolled:
        alone = None if staged is not None else work.commit_seconds
        yield replace(
            origin.row("roll", plan.roll.reason),
            bytes_before=result.bytes_before,
            bytes_after=result.bytes_before,
            wall_seconds=alone,
        )
    if staged is not None:
        stats = staged.stats
        yield replace(
            origin.row("clean", "; ".join(plan.compaction.reasons)),
            bytes_before=result.bytes_before,
            bytes_after=result.bytes_after,
            forecast_bytes=work.forecast_bytes,
            bytes_read=stats.bytes_read,
            bytes_written=stats.bytes_written,
            records_before=stats.records_read,
            records_after=stats.records_written,
            removed_superseded=stats.removed_superseded,
            removed_tombstones=stats.removed_tombstones,
            removed_null_keys=stats.removed_null_keys,
            removed_aborted=stats.removed_aborted,
            removed_markers=stats.removed_markers,
            compaction_delay_ms=result.compaction_delay_ms,
            delete_horizon_ms=stats.delete_horizon_ms,
            cpu_seconds=stats.cpu_seconds,
            wall_seconds=stats.map_seconds + stats.copy_seconds + work.commit_seconds,
        )


def _retention_row(plan: RetentionPlan[Place], origin: RowOrigin) -> HistoryRow:
    return replace(
        origin.row("retain", _retention_reason(plan)),
        bytes_before=plan.log.log_bytes,
        bytes_after=plan.bytes_after,
        segments_deleted=len(plan.deleted),
        offsets_deleted=plan.log_start_offset - plan.log.log_start_offset,
    )


def _retention_reason(plan: RetentionPlan[Place]) -> str:
    """Return how many segments each step deleted, with the reason of its first."""
    count = Counter(verdict.cause for verdict in plan.deleted)
    first = {verdict.cause: verdict.reason for verdict in reversed(plan.deleted)}
    return "; ".join(f"{count[cause]} segments by {cause}: {first[cause]}" for cause in count)
