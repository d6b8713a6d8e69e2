"""``logwright roll``: roll active segments that are due."""

from __future__ import annotations

from logwright.cli.request import Request
from logwright.cli.selection import choose, ready
from logwright.cli.wording import instant
from logwright.log.model import PartitionLog
from logwright.roll.commit import plan_roll_of, roll_partition
from logwright.roll.plan import RollDecision

_Plans = list[tuple[PartitionLog, RollDecision]]


def run(request: Request, *, force: bool) -> None:
    """Run the command."""
    request.require_terminal()
    plans: _Plans = []
    for partition in ready(request, choose(request, force=force, by_policy=False)):
        with request.failures.of(partition):
            config, _ = request.settings(partition.topic)
            plans.append(
                plan_roll_of(request.log_dir, partition, config, now_ms=request.now_ms, force=force)
            )
    if not request.dry_run:
        due = [f"{log.partition}: {decision.reason}" for log, decision in plans if decision.due]
        if due:
            request.confirm(f"Roll {len(due)} active segments in {request.log_dir}?", due)
        plans = _roll(request, plans)
    request.output.show(
        [
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
            for log, decision in plans
        ],
        {
            "partition": "topicPartition",
            "active": "activeSegment",
            "bytes": "size",
            "new segment": "newSegment",
            "due at": lambda roll: instant(roll["dueAtMs"]),
            "why": "reason",
        },
    )


def _roll(request: Request, plans: _Plans) -> _Plans:
    """Carry out the plans and return those that succeeded. Effects: changes the logs."""
    done = []
    for log, decision in plans:
        with request.failures.of(log.partition):
            roll_partition(log, decision)
            request.changed.append(log.partition)
            done.append((log, decision))
    return done
