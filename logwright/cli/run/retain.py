"""``logwright retain``: delete old segments by ``retention.bytes``, ``retention.ms`` and the log
start offset.
"""

from __future__ import annotations

import click

from logwright.cli.failures import FailureLog
from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.cli.run.recover import ready_partitions
from logwright.cli.selection import leave_strays, leave_unknown, say_held, say_sources
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.retention.commit import plan_retention_of
from logwright.retention.plan import RetentionPlan, SegmentVerdict, retention_hold
from logwright.state.model import NOTHING
from logwright.state.store import read_state
from logwright.sweep.retain import retain

_MOST_KEPT = 2
"""Number of kept segments shown with their reason; later ones have the same reason."""


def run(
    request: Request, delete_records_before: int | None, *, force: bool, like_kafka: bool
) -> None:
    """Run the command."""
    del like_kafka  # retention has no declared differences from Kafka
    request.require_terminal()
    if delete_records_before is not None and len(request.named) != 1:
        raise click.UsageError("--delete-records-before needs exactly one TOPIC-N")
    failures = FailureLog(output=request.output)
    plans: list[RetentionPlan] = []
    chosen = leave_strays(request, request.partitions(), failures, force=force)
    chosen = leave_unknown(request, chosen, failures)
    say_sources(request, chosen)
    for partition in ready_partitions(request, failures, chosen):
        try:
            plan = plan_one(request, partition, delete_records_before, force=force)
            plans += [] if plan is None else [plan]
        except LogwrightError as error:
            failures.add(partition, error)
    if not request.dry_run:
        _ask(request, plans)
        plans = _retain(plans, failures)
    show(request, plans, done=not request.dry_run)
    click.get_current_context().exit(failures.exit_status)


def plan_one(
    request: Request, partition: TopicPartition, before: int | None, *, force: bool
) -> RetentionPlan | None:
    """Return the retention plan, None if the partition is skipped. Effects: reads; output."""
    config, cleaner = request.settings(partition.topic)
    state = read_state(request.log_dir).get(partition, NOTHING)
    hold = retention_hold(config, cleaner, state, now_ms=request.now_ms, force=force)
    if hold is not None:
        say_held(request, partition, hold.kind, hold.sentence)
        return None
    return plan_retention_of(
        request.log_dir,
        partition,
        config,
        now_ms=request.now_ms,
        high_watermark=request.high_watermark,
        delete_records_before=before,
        force=force,
    )


def _ask(request: Request, plans: list[RetentionPlan]) -> None:
    """Show the plans and ask on the terminal, unless ``--yes`` was given. Effects: output; reads
    the terminal.
    """
    segments = sum(len(plan.deleted) for plan in plans)
    raised = any(plan.log_start_offset != plan.log.log_start_offset for plan in plans)
    if request.yes or not (segments or raised):
        return
    for plan in plans:
        for line in _lines(plan):
            request.output.message(line)
    freed = human_bytes(sum(plan.freed_bytes for plan in plans))
    request.confirm(f"Delete {segments} segments ({freed}) from {request.log_dir}?")


def _retain(plans: list[RetentionPlan], failures: FailureLog) -> list[RetentionPlan]:
    """Carry out the plans and return those that succeeded. Effects: changes the logs."""
    done = []
    for plan in plans:
        try:
            retain(plan)
        except LogwrightError as error:
            failures.add(plan.log.partition, error)
        else:
            done.append(plan)
    return done


def show(request: Request, plans: list[RetentionPlan], *, done: bool) -> None:
    """Show which segments are deleted and kept, and why. Effects: writes to stdout."""
    output = request.output
    for plan in plans:
        output.json_object(plan_object(plan, done=done))
        for line in _lines(plan):
            output.text(line)
    header = ("partition", "segments", "deleted", "bytes", "after", "freed", "log start", "was")
    rows = [
        (
            str(plan.log.partition),
            len(plan.verdicts),
            len(plan.deleted),
            plan.log.log_bytes,
            plan.bytes_after,
            plan.freed_bytes,
            plan.log_start_offset,
            plan.log.log_start_offset,
        )
        for plan in plans
    ]
    output.table(header, rows)


def _lines(plan: RetentionPlan) -> list[str]:
    """Return one line per deleted segment, and for the first kept ones."""
    partition = plan.log.partition
    kept = [verdict for verdict in plan.verdicts if not verdict.deleted]
    lines = [
        f"{partition}: delete segment {verdict.base_offset} by {verdict.cause}: {verdict.reason}"
        for verdict in plan.deleted
    ]
    lines += [
        f"{partition}: keep segment {verdict.base_offset}: {verdict.reason}"
        for verdict in kept[:_MOST_KEPT]
    ]
    more = len(kept) - _MOST_KEPT
    return lines + ([f"{partition}: keep the {more} segments after it"] if more > 0 else [])


def plan_object(plan: RetentionPlan, *, done: bool) -> dict[str, object]:
    """Return the JSON form of a plan, with the field names of the oracle's ``retain``."""
    log = plan.log
    left = [verdict.base_offset for verdict in plan.verdicts if not verdict.deleted]
    return {
        "topicPartition": str(log.partition),
        "now": plan.now_ms,
        "retained": done,
        "logStartOffsetBefore": log.log_start_offset,
        "segmentsBefore": [_segment(verdict) for verdict in plan.verdicts],
        "deletedSegments": len(plan.deleted),
        "rolled": plan.rolls,
        "logStartOffset": plan.log_start_offset,
        "logEndOffset": log.log_end_offset,
        "segmentsAfter": left or [log.log_end_offset],
        "bytesBefore": log.log_bytes,
        "bytesAfter": plan.bytes_after,
        "bytesToBeFreed": plan.freed_bytes,
    }


def _segment(verdict: SegmentVerdict) -> dict[str, object]:
    return {
        "baseOffset": verdict.base_offset,
        "bytes": verdict.bytes,
        "largestTimestamp": verdict.largest_timestamp_ms,
        "timestampFromRecords": verdict.from_records,
        "deleted": verdict.deleted,
        "cause": verdict.cause,
        "limit": verdict.limit,
        "value": verdict.value,
        "reason": verdict.reason,
    }
