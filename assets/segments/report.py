"""Metadata that a run shows for each log: numbers, never a record's key or value."""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

import dagster as dg

from logwright.assets.lib.human import human_bytes
from logwright.assets.lib.partitions import SEGMENT_SET
from logwright.assets.lib.report import Metadata, table, unplotted
from logwright.assets.lib.verdict import PASSED
from logwright.compaction.model import CleaningStats, ReadablePlan, StagedCleaning
from logwright.forecast.model import forecast_error
from logwright.place.model import Place
from logwright.sweep.commit import CommitResult, lag_metrics
from logwright.sweep.model import LogWork, SweepState

REMOVED: Final = {
    "removed_superseded": "a later record has the same key",
    "removed_tombstones": "a tombstone past its horizon",
    "removed_null_keys": "no key",
    "removed_aborted": "data of an aborted transaction",
    "removed_markers": "a transaction marker past its horizon",
}
"""CleaningStats' counters → why records were removed; in the metadata the names have spaces."""

BEFORE: Final = "changed by an earlier attempt of this run; what it removed is not known"
"""The outcome of a log in a bucket whose change was found there."""


def decision_metadata(state: SweepState[Place]) -> Metadata:
    """Return a table of the decision about each log, with the reason."""
    rows = [_decision_row(work) for work in state.works]
    planned = [work.plan for work in state.works if work.plan is not None]
    return {
        "logs": len(state.works),
        "to clean": sum(plan.clean for plan in planned),
        "to roll": sum(plan.roll.due for plan in planned),
        "skipped": sum(work.held is not None for work in state.works),
        "failed": len(state.failures),
        "decisions": table(("log", "cleaning", "roll", "why"), rows),
    }


def _decision_row(work: LogWork[Place]) -> tuple[str, str, str, str]:
    if work.held is not None:
        return work.key, "skipped", "", work.held.sentence
    if work.plan is None:
        return work.key, "refused", "", str(work.failure)
    plan = work.plan
    roll = f"at {plan.roll.new_base_offset}: {plan.roll.cause}" if plan.roll.due else "no"
    verb = "yes" if plan.clean else "not due"
    reasons = "; ".join((*plan.compaction.reasons, f"roll: {plan.roll.reason}"))
    return work.key, verb, roll, reasons


def roll_metadata(state: SweepState[Place]) -> Metadata:
    """Return what was rolled, and what is cleaned now."""
    rolled = [(work.key, work.rolled.decision) for work in state.works if work.rolled is not None]
    rows = [
        (key, decision.new_base_offset, decision.cause, decision.reason) for key, decision in rolled
    ]
    return {
        "logs": len(state.works),
        "rolled": len(rolled),
        "to clean": sum(work.plan is not None and work.plan.clean for work in state.works),
        "failed": len(state.failures),
        **({"rolls": table(("log", "new segment", "by", "why"), rows)} if rolled else {}),
    }


def staged_metadata(state: SweepState[Place]) -> Metadata:
    """Return what was built."""
    stats = [work.staged.stats for work in state.works if work.staged is not None]
    return {
        "logs built": len(stats),
        "bytes read": sum(one.bytes_read for one in stats),
        "bytes written": sum(one.bytes_written for one in stats),
        "bytes not rewritten": sum(one.bytes_kept for one in stats),
        "records read": sum(one.records_read for one in stats),
        "records written": sum(one.records_written for one in stats),
        "failed": len(state.failures),
    }


def swap_metadata(work: LogWork[Place]) -> Metadata:
    """Return the result for one log."""
    plan = work.plan
    if work.held is not None:
        return {"outcome": "skipped", "why": work.held.sentence}
    if plan is None:
        return {}
    metadata: Metadata = {"outcome": _outcome(work, plan)}
    if work.staged is not None and work.result is not None:
        metadata |= _cleaned_metadata(work.staged, work.result, work.commit_seconds)
        rolls = int(work.rolled is not None or plan.roll.due)
        metadata["summary"] = dg.MetadataValue.md(_summary(work.staged.stats, rolls=rolls))
        metadata |= _forecast_metadata(work.staged, work.forecast_bytes)
    if work.version is not None:
        metadata["version"] = str(work.version)
    metadata |= _checks(work)
    decided_at = datetime.fromtimestamp(plan.now_ms / 1000, tz=UTC)
    return metadata | {
        "why": "; ".join(plan.compaction.reasons),
        "roll": (plan.roll if work.rolled is None else work.rolled.decision).reason,
        **(_cleanable(plan) if plan.config.compact else {}),
        "log end offset": plan.log.log_end_offset,
        "log directory": dg.MetadataValue.path(str(work.log_dir)),
        "decided at": dg.MetadataValue.timestamp(decided_at),
        "plan": plan.plan_id,
    }


def _cleanable(plan: ReadablePlan) -> Metadata:
    """Return what decides about a compaction; a log that is only deleted from has nothing of it."""
    return {
        "dirty ratio": round(plan.compaction.cleanable_ratio, 4),
        "first dirty offset": plan.compaction.first_dirty_offset,
        "first uncleanable offset": plan.compaction.first_uncleanable_offset,
    }


def _checks(work: LogWork[Place]) -> Metadata:
    """Return what each check found in this log's output; empty if nothing was staged."""
    if not work.checked:
        return {}
    failed_first = sorted(work.checked.items(), key=lambda check: check[1] == PASSED)
    return {"checks": table(("check", "result"), failed_first)}


def _cleaned_metadata(
    staged: StagedCleaning, result: CommitResult, commit_seconds: float
) -> Metadata:
    stats = staged.stats
    before, after = stats.bytes_read, stats.bytes_read - stats.bytes_removed
    return {
        "bytes before": before,
        "bytes after": after,
        "bytes not rewritten": stats.bytes_kept,
        "records before": stats.records_read,
        "records after": stats.records_written,
        **removed_by_cause(stats),
        "reduction": round(1 - after / before, 4) if before else 0.0,
        "cleaned up to offset": staged.end_offset,
        "map seconds": round(stats.map_seconds, 3),
        "copy seconds": round(stats.copy_seconds, 3),
        "swap seconds": round(commit_seconds, 3),
        **(lag_metrics([result]) if result.by_max_compaction_lag else {}),
    }


def _forecast_metadata(staged: StagedCleaning, forecast_bytes: int | None) -> Metadata:
    """Return what was forecast, what was freed, and the error as a share of that."""
    if forecast_bytes is None:
        return {}
    freed = staged.stats.bytes_removed
    error = forecast_error(forecast_bytes, freed)
    return {
        "forecast bytes": forecast_bytes,
        "freed bytes": freed,
        **({} if error is None else {"forecast error": round(error, 4)}),
    }


def removed_by_cause(stats: CleaningStats) -> dict[str, int]:
    """Return cause → number of removed records, with the names of the metadata."""
    return {name.replace("_", " "): getattr(stats, name) for name in REMOVED}


def run_metadata(state: SweepState[Place]) -> Metadata:
    """Return the totals of a run: logs, bytes, and KIP-354's metrics by name."""
    results = [work.result for work in state.works if work.result is not None]
    return {
        "logs changed": sum(work.changed for work in state.works),
        "logs rolled": sum(work.rolled is not None for work in state.works),
        "bytes before": sum(result.bytes_before for result in results),
        "bytes after": sum(result.bytes_after for result in results),
        **lag_metrics(results),
    }


def run_line(state: SweepState[Place]) -> str:
    """Return what was looked at, changed and reclaimed, as one line for the run's log."""
    if not state.works:
        return "There are no logs in the log directories: nothing was looked at."
    results = [work.result for work in state.works if work.result is not None]
    before = sum(result.bytes_before for result in results)
    after = sum(result.bytes_after for result in results)
    stats = [work.staged.stats for work in state.works if work.staged and work.result]
    removed = sum(one.records_read - one.records_written for one in stats)
    counts = {
        "cleaned": len(stats),
        "rolled": sum(work.rolled is not None for work in state.works),
        "in order": sum(work.in_order for work in state.works),
        "skipped": sum(work.held is not None for work in state.works),
        "failed": len(state.failures),
    }
    logs = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count)
    reclaimed = f" ({human_bytes(before)} → {human_bytes(after)})" if before else ""
    return (
        f"{len(state.works):,} logs: {logs}. Reclaimed {human_bytes(before - after)}{reclaimed};"
        f" {removed:,} records were removed."
    )


def _outcome(work: LogWork[Place], plan: ReadablePlan) -> str:
    if work.version is not None and work.result is None:
        return BEFORE
    committed = work.result is not None
    cleaned = committed and plan.clean
    if work.rolled is not None or (committed and plan.roll.due):
        return "rolled and cleaned" if cleaned else "rolled"
    return "cleaned" if cleaned else "nothing was due"


def _summary(stats: CleaningStats, *, rolls: int) -> str:
    """Return the figures as Markdown. `rolls`: segments that the roll before the cleaning added,
    which the cleaning counts as there before it.
    """
    return "\n".join(
        [
            "| | before | after |",
            "|---|---:|---:|",
            f"| segments | {stats.segments_before - rolls:,} | {stats.segments_after:,} |",
            f"| records | {stats.records_read:,} | {stats.records_written:,} |",
            f"| bytes | {stats.bytes_read:,} | {stats.bytes_read - stats.bytes_removed:,} |",
            "",
            "| removed because | records |",
            "|---|---:|",
            *(f"| {why} | {getattr(stats, name):,} |" for name, why in REMOVED.items()),
            "",
            "| batches | |",
            "|---|---:|",
            f"| copied unchanged | {stats.batches_verbatim:,} |",
            f"| rebuilt | {stats.batches_rebuilt:,} |",
            f"| dropped | {stats.batches_dropped:,} |",
            "",
            (
                f"Distinct keys: {stats.distinct_keys:,}, read {stats.map_reads} times. "
                f"Batches with a new delete horizon: {stats.horizons_set:,}. "
                f"Bytes of unchanged segments: {stats.bytes_kept:,}."
            ),
        ]
    )


def materialization(work: LogWork[Place]) -> dg.AssetMaterialization:
    """Return the materialization of a log's segment set, changed or confirmed."""
    return dg.AssetMaterialization(
        asset_key=SEGMENT_SET,
        partition=work.key,
        metadata=unplotted(swap_metadata(work)),
    )


def failure_observations(state: SweepState[Place]) -> Iterable[dg.AssetObservation]:
    """Return one observation for each log that failed: its partition's page shows why it has no new
    materialization.
    """
    for work in state.works:
        error = work.failure
        if error is None:
            continue
        yield dg.AssetObservation(
            asset_key=SEGMENT_SET,
            partition=work.key,
            description=f"{_left_of(work)}: {type(error).__name__}: {error}",
            metadata={"outcome": "failed", "error": type(error).__name__, "why": str(error)},
        )


def _left_of(work: LogWork[Place]) -> str:
    return "Not changed" if work.rolled is None else "Rolled, and not cleaned"


def unchanged_observations(works: Iterable[LogWork[Place]]) -> Iterable[dg.AssetObservation]:
    """Return the observations of logs that a sweep did not change: one for each that is held, and
    one for all others together, because storing an event takes some milliseconds.
    """
    works = tuple(works)
    alone = [work for work in works if work.held is not None]
    others = [work for work in works if work.held is None]
    if len(others) == 1:
        alone, others = [*alone, *others], []
    for work in alone:
        yield dg.AssetObservation(
            asset_key=SEGMENT_SET, partition=work.key, metadata=unplotted(swap_metadata(work))
        )
    if others:
        rows = [
            (work.key, "; ".join(work.plan.compaction.reasons))
            for work in others
            if work.plan is not None
        ]
        yield dg.AssetObservation(
            asset_key=SEGMENT_SET,
            description=f"Nothing was due in {len(others):,} logs.",
            metadata={
                "logs": len(others),
                "reasons": table(("log", "why"), rows),
            },
        )
