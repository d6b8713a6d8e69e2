"""``logwright roll``: roll active segments that are due."""

from __future__ import annotations

import click

from logwright.cli.failures import FailureLog
from logwright.cli.request import Request
from logwright.cli.run.planning import instant
from logwright.cli.run.recover import ready_partitions
from logwright.cli.selection import leave_strays
from logwright.errors import LogwrightError
from logwright.log.model import PartitionLog
from logwright.roll.commit import plan_roll_of, roll_partition
from logwright.roll.plan import RollDecision


def run(request: Request, *, force: bool) -> None:
    """Run the command."""
    request.require_terminal()
    failures = FailureLog(output=request.output)
    plans: list[tuple[PartitionLog, RollDecision]] = []
    request.sources()
    chosen = leave_strays(request, request.partitions(), failures, force=force)
    for partition in ready_partitions(request, failures, chosen):
        try:
            config, _ = request.settings(partition.topic)
            plans.append(
                plan_roll_of(request.log_dir, partition, config, now_ms=request.now_ms, force=force)
            )
        except LogwrightError as error:
            failures.add(partition, error)
    if not request.dry_run:
        _ask(request, plans)
        plans = _roll(plans, failures)
    _show(request, plans)
    click.get_current_context().exit(failures.exit_status)


def _ask(request: Request, plans: list[tuple[PartitionLog, RollDecision]]) -> None:
    """Show what is due and ask on the terminal, unless ``--yes`` was given. Effects: output; reads
    the terminal.
    """
    due = [(log, decision) for log, decision in plans if decision.due]
    if request.yes or not due:
        return
    for log, decision in due:
        request.output.message(f"{log.partition}: {decision.reason}")
    request.confirm(f"Roll {len(due)} active segments in {request.log_dir}?")


def _roll(
    plans: list[tuple[PartitionLog, RollDecision]], failures: FailureLog
) -> list[tuple[PartitionLog, RollDecision]]:
    """Carry out the plans and return those that succeeded. Effects: changes the logs."""
    done = []
    for log, decision in plans:
        try:
            roll_partition(log, decision)
        except LogwrightError as error:
            failures.add(log.partition, error)
        else:
            done.append((log, decision))
    return done


def _show(request: Request, plans: list[tuple[PartitionLog, RollDecision]]) -> None:
    output = request.output
    for log, decision in plans:
        output.json_object(
            {
                "topicPartition": str(log.partition),
                "now": request.now_ms,
                "rolled": decision.due and not request.dry_run,
                "due": decision.due,
                "cause": decision.cause,
                "activeSegment": log.active.base_offset,
                "size": log.active.log_bytes,
                "newSegment": decision.new_base_offset,
                "dueAtMs": decision.due_at_ms,
                "reason": decision.reason,
            }
        )
    header = ("partition", "active", "bytes", "new segment", "due at", "why")
    rows = [
        (
            str(log.partition),
            log.active.base_offset,
            log.active.log_bytes,
            decision.new_base_offset,
            instant(decision.due_at_ms),
            decision.reason,
        )
        for log, decision in plans
    ]
    output.table(header, rows)
