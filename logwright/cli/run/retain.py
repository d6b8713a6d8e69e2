"""``logwright retain``: delete old segments by ``retention.bytes``, ``retention.ms`` and the log
start offset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, cast

import click

from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.cli.run.replicas import say_unknown_high_watermarks
from logwright.cli.selection import choose, ready, report_held, report_sources
from logwright.format.names import TopicPartition
from logwright.maintenance.retain import Retained, retain_copy
from logwright.place.model import Place, is_versioned
from logwright.retention.commit import plan_retention_of
from logwright.retention.plan import RetentionPlan, SegmentVerdict, retention_hold
from logwright.state.model import NOTHING
from logwright.state.store import read_state
from logwright.sweep.retain import retain

_MOST_KEPT: Final = 2
"""Number of kept segments shown with their reason; later ones have the same reason."""


def run(
    request: Request,
    *,
    delete_records_before: int | None,
    force: bool,
    like_kafka: bool,
    scratch: Path | None,
) -> None:
    """Run the command."""
    del like_kafka  # retention has no declared differences from Kafka
    request.require_terminal(versioned=True)
    if delete_records_before is not None and len(request.named) != 1:
        raise click.UsageError("--delete-records-before needs exactly one TOPIC-N")
    chosen = choose(request, force=force)
    report_sources(request, chosen)
    say_unknown_high_watermarks(request, chosen)
    plans: list[RetentionPlan[Place]] = []
    for partition in ready(request, chosen):
        with request.failures.of(partition):
            plan = plan_one(request, partition, before=delete_records_before, force=force)
            plans += [] if plan is None else [plan]
    if not request.dry_run:
        _ask(request, plans)
        again = partial(plan_one, before=delete_records_before, force=force)
        if is_versioned(request.place):
            plans = _retain_there(request, plans, again, scratch)
        else:
            plans = _retain(request, plans)
    show(request, plans, done=not request.dry_run)


def plan_one(
    request: Request, partition: TopicPartition, *, before: int | None, force: bool
) -> RetentionPlan[Place] | None:
    """Return the retention plan, None if the partition is skipped. Effects: reads; output."""
    config, cleaner = request.settings(partition.topic)
    state = read_state(request.place).get(partition, NOTHING)
    hold = retention_hold(config, cleaner, state, now_ms=request.now_ms, force=force)
    if hold is not None:
        report_held(request, partition, hold.kind, hold.sentence)
        return None
    return plan_retention_of(
        request.place,
        partition,
        config,
        now_ms=request.now_ms,
        high_watermark=request.high_watermark,
        delete_records_before=before,
        force=force,
    )


def _ask(request: Request, plans: Sequence[RetentionPlan[Place]]) -> None:
    """Show the plans and ask, unless nothing is to be changed. Effects: output; exits."""
    segments = sum(len(plan.deleted) for plan in plans)
    if any(plan.changes for plan in plans):
        freed = human_bytes(sum(plan.freed_bytes for plan in plans))
        request.confirm(
            f"Delete {segments} segments ({freed}) from {request.place}?",
            [line for plan in plans for line in _lines(plan, done=False)],
        )


def _retain(request: Request, plans: Sequence[RetentionPlan[Place]]) -> list[RetentionPlan[Place]]:
    """Carry out the plans and return those that succeeded. Effects: changes the logs."""
    done = []
    for plan in plans:
        with request.failures.of(plan.log.partition):
            retain(cast("RetentionPlan", plan))  # of this machine
            request.changed.append(plan.log.partition)
            done.append(plan)
    return done


def _retain_there(
    request: Request,
    plans: Sequence[RetentionPlan[Place]],
    again: Callable[[Request, TopicPartition], RetentionPlan[Place] | None],
    scratch: Path | None,
) -> list[RetentionPlan[Place]]:
    """Carry out the plans in a bucket and return those that succeeded. Effects: changes the logs,
    as `in_bucket`.
    """
    from logwright.cli.run.in_bucket import in_bucket  # noqa: PLC0415 -- of an extra

    done: list[RetentionPlan[Place]] = []
    for plan in plans:
        partition = plan.log.partition

        def act(local: Request, plan: RetentionPlan[Place] = plan) -> Retained | None:
            def plan_again(_: Path) -> RetentionPlan | None:
                return cast("RetentionPlan | None", again(local, plan.log.partition))

            return retain_copy(local.log_dir, plan, plan_again)

        with request.failures.of(partition):
            if not plan.changes:
                done.append(plan)
                continue
            needed = plan.read_segments.__contains__
            ended = in_bucket(
                request,
                partition,
                "retain",
                act,
                scratch,
                needed=needed,
                past_quarantine=plan.past_quarantine,
            )
            done += [] if ended is None else [ended.plan]
    return done


def show(request: Request, plans: Sequence[RetentionPlan[Place]], *, done: bool) -> None:
    """Show which segments are deleted and kept, and why. Effects: writes to stdout."""
    for plan in plans:
        for line in _lines(plan, done=done):
            request.output.text(line)
    request.output.show(
        [plan_object(plan, done=done) for plan in plans],
        {
            "partition": "topicPartition",
            "segments": lambda plan: len(plan["segmentsBefore"]),
            "deleted" if done else "to delete": "deletedSegments",
            "bytes": "bytesBefore",
            "after": "bytesAfter",
            "freed" if done else "to free": "bytesToBeFreed",
            "log start": "logStartOffset",
            "was": "logStartOffsetBefore",
        },
    )


def _lines(plan: RetentionPlan[Place], *, done: bool) -> list[str]:
    """Return one line per deleted segment, and for the first kept ones."""
    partition = plan.log.partition
    delete, keep = ("deleted", "kept") if done else ("delete", "keep")
    kept = [verdict for verdict in plan.verdicts if not verdict.deleted]
    lines = [
        f"{partition}: {delete} segment {verdict.base_offset} by {verdict.cause}: {verdict.reason}"
        for verdict in plan.deleted
    ]
    lines += [
        f"{partition}: {keep} segment {verdict.base_offset}: {verdict.reason}"
        for verdict in kept[:_MOST_KEPT]
    ]
    more = len(kept) - _MOST_KEPT
    return lines + ([f"{partition}: {keep} the {more} segments after it"] if more > 0 else [])


def plan_object(plan: RetentionPlan[Place], *, done: bool) -> dict[str, object]:
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
