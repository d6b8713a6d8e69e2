"""``logwright undo``: revert the last compaction, retention or deletion of a log, as long as the
retired files exist.
"""

from __future__ import annotations

import click

from logwright.cli.output import human_bytes
from logwright.cli.recovering import recover_first, say_if_they_lead
from logwright.cli.request import Request
from logwright.cli.selection import leave_held
from logwright.cli.wording import instant
from logwright.deletion.commit import find_deleted, restore_log
from logwright.format.names import TopicPartition
from logwright.place.model import is_versioned
from logwright.undo.commit import undo_partition
from logwright.undo.observe import plan_undo_of


def run(request: Request) -> None:
    """Run the command."""
    if not request.named:
        raise click.UsageError("name the logs to undo the last change of: TOPIC-N ...")
    request.require_terminal(versioned=True)
    if is_versioned(request.place):
        _undo_there(request)
        return
    present = request.partitions(absent=True)
    recovered = recover_first(request, present)
    for partition in leave_held(request, sorted({*recovered, *request.absent()})):
        undo = _undo_last if partition in present else _undo_deletion
        with request.failures.of(partition):
            undo(request, partition)


def _undo_last(request: Request, partition: TopicPartition) -> None:
    """Undo the last operation on a partition. Effects: changes the log, unless it is a dry run."""
    plan = plan_undo_of(request.log_dir, partition)
    bases = list(plan.bases)
    what = (
        f"{len(bases)} segments ({human_bytes(plan.bytes)}) from before the"
        f" {plan.operation} of {instant(plan.at_ms)}"
    )
    if not request.dry_run:
        request.confirm(f"{partition}: restore {what}?")
        undo_partition(plan, now_ms=request.now_ms)
        request.changed.append(partition)
    request.output.result(
        f"{partition}: {'restore' if request.dry_run else 'restored'} {what}",
        topicPartition=str(partition),
        now=request.now_ms,
        undone=not request.dry_run,
        operation=plan.operation,
        id=plan.id,
        atMs=plan.at_ms,
        segments=bases,
        bytes=plan.bytes,
    )


def _undo_there(request: Request) -> None:
    """Undo the last operation on logs in a bucket. Effects: changes them, unless a dry run."""
    from logwright.cli.run.in_bucket import undo_version  # noqa: PLC0415 -- of an extra

    for partition in leave_held(request, request.partitions()):
        with request.failures.of(partition):
            undo_version(request, partition)


def _undo_deletion(request: Request, partition: TopicPartition) -> None:
    """Undo the deletion of a log. Effects: changes the log directory, unless it is a dry run."""
    deletion = find_deleted(request.log_dir, partition)
    what = f"{deletion.directory} from the deletion of {instant(deletion.at_ms)}"
    say_if_they_lead(
        request.log_dir, [partition], request.output.message, metadata=request.metadata
    )
    if not request.dry_run:
        request.confirm(f"{partition}: restore {what}?")
        restore_log(request.log_dir, deletion)
        request.changed.append(partition)
    request.output.result(
        f"{partition}: {'restore' if request.dry_run else 'restored'} {what}",
        topicPartition=str(partition),
        now=request.now_ms,
        undone=not request.dry_run,
        operation="delete",
        directory=deletion.directory,
        atMs=deletion.at_ms,
    )
