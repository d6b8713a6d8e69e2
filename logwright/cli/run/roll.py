"""``logwright roll``: roll active segments that are due."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from logwright.cli.request import Request
from logwright.cli.selection import choose, ready
from logwright.cli.wording import instant
from logwright.log.model import PartitionLog
from logwright.place.model import Place, is_versioned
from logwright.roll.commit import plan_roll_of, roll_partition
from logwright.roll.plan import RollDecision

_Plan = tuple[PartitionLog[Place], RollDecision]
_Plans = list[_Plan]


def run(request: Request, *, force: bool, scratch: Path | None) -> None:
    """Run the command."""
    request.require_terminal(versioned=True)
    plans: _Plans = []
    for partition in ready(request, choose(request, force=force, by_policy=False)):
        with request.failures.of(partition):
            config, _ = request.settings(partition.topic)
            plans.append(
                plan_roll_of(request.place, partition, config, now_ms=request.now_ms, force=force)
            )
    if not request.dry_run:
        due = [f"{log.partition}: {decision.reason}" for log, decision in plans if decision.due]
        if due:
            request.confirm(f"Roll {len(due)} active segments in {request.place}?", due)
        plans = _roll(request, plans, force=force, scratch=scratch)
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


def _roll(request: Request, plans: _Plans, *, force: bool, scratch: Path | None) -> _Plans:
    """Carry out the plans and return those that succeeded. Effects: changes the logs."""
    done: _Plans = []
    for log, decision in plans:
        with request.failures.of(log.partition):
            if is_versioned(request.place):
                done.append(_roll_there(request, (log, decision), force=force, scratch=scratch))
                continue
            roll_partition(cast("PartitionLog", log), decision)  # of this machine
            request.changed.append(log.partition)
            done.append((log, decision))
    return done


def _roll_there(request: Request, planned: _Plan, *, force: bool, scratch: Path | None) -> _Plan:
    """Roll a log in a bucket, if it is due. Effects: changes it, as `in_bucket`."""
    log, decision = planned
    if not decision.due:
        return planned
    from logwright.cli.run.in_bucket import in_bucket  # noqa: PLC0415 -- of an extra

    def roll(local: Request) -> _Plan:
        config, _ = local.settings(log.partition.topic)
        earlier, again = plan_roll_of(
            local.log_dir, log.partition, config, now_ms=local.now_ms, force=force
        )
        roll_partition(earlier, again)
        return earlier, again

    active = log.active.base_offset
    done = in_bucket(request, log.partition, "roll", roll, scratch, needed=active.__le__)
    return planned if done is None else done
