"""``logwright undo``: revert the last compaction, retention or deletion of a log, as long as the
retired files exist.
"""

from __future__ import annotations

import click

from logwright.cli.failures import FailureLog
from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.cli.run.planning import instant
from logwright.cli.run.recover import recover_or_show
from logwright.cli.selection import leave_held
from logwright.deletion.commit import find_deleted, restore_log
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.undo.commit import undo_partition
from logwright.undo.observe import plan_undo_of


def run(request: Request) -> None:
    """Run the command."""
    if not request.named:
        raise click.UsageError("name the logs to undo the last change of: TOPIC-N ...")
    request.require_terminal()
    failures = FailureLog(output=request.output)
    present = request.partitions(absent=True)
    chosen = leave_held(request, sorted(set(request.named)), force=True)
    ready = recover_or_show(request, failures, [one for one in chosen if one in present])
    for partition in chosen:
        if partition in present and partition not in ready:
            continue
        undo = _undo_last if partition in present else _undo_deletion
        try:
            undo(request, partition)
        except LogwrightError as error:
            failures.add(partition, error)
    click.get_current_context().exit(failures.exit_status)


def _undo_last(request: Request, partition: TopicPartition) -> None:
    """Undo the last operation on a partition. Effects: changes the log, unless it is a dry run."""
    plan = plan_undo_of(request.log_dir, partition)
    bases = list(plan.bases)
    what = (
        f"{partition}: restore {len(bases)} segments ({human_bytes(plan.bytes)}) from before the"
        f" {plan.operation} of {instant(plan.at_ms)}"
    )
    if not request.dry_run:
        request.confirm(f"{what}?")
        undo_partition(plan, now_ms=request.now_ms)
    request.output.text(what)
    request.output.json_object(
        {
            "topicPartition": str(partition),
            "now": request.now_ms,
            "undone": not request.dry_run,
            "operation": plan.operation,
            "id": plan.id,
            "atMs": plan.at_ms,
            "segments": bases,
            "bytes": plan.bytes,
        }
    )


def _undo_deletion(request: Request, partition: TopicPartition) -> None:
    """Undo the deletion of a log. Effects: changes the log directory, unless it is a dry run."""
    deletion = find_deleted(request.log_dir, partition)
    what = (
        f"{partition}: restore {deletion.directory} from the deletion of {instant(deletion.at_ms)}"
    )
    if not request.dry_run:
        request.confirm(f"{what}?")
        restore_log(request.log_dir, deletion)
    request.output.text(what)
    request.output.json_object(
        {
            "topicPartition": str(partition),
            "now": request.now_ms,
            "undone": not request.dry_run,
            "operation": "delete",
            "directory": deletion.directory,
            "atMs": deletion.at_ms,
        }
    )
