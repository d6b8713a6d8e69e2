"""``logwright delete``: delete whole logs, as Kafka does when a topic is deleted."""

from __future__ import annotations

import click

from logwright.cli.failures import FailureLog
from logwright.cli.request import Request
from logwright.cli.run.planning import instant
from logwright.cli.selection import leave_held
from logwright.deletion.commit import delete_log, finish_deletion
from logwright.errors import LogwrightError
from logwright.format.deleted_logs import DeletedLog


def run(request: Request) -> None:
    """Run the command."""
    if not request.named:
        raise click.UsageError("name the logs to delete: TOPIC-N ...")
    request.require_terminal()
    present = request.partitions(absent=True)
    partitions = leave_held(request, sorted(set(request.named)), force=True)
    delay_ms = request.broker().file_delete_delay_ms
    failures = FailureLog(output=request.output)
    if request.dry_run:
        for partition in partitions:
            request.output.json_object(
                {"topicPartition": str(partition), "now": request.now_ms, "deleted": False}
            )
            request.output.text(f"{partition}: would be deleted")
        return
    names = ", ".join(map(str, partitions))
    request.confirm(f"Delete {len(partitions)} whole logs from {request.log_dir}: {names}?")
    done: list[DeletedLog] = []
    for partition in partitions:
        try:
            if partition in present:
                done.append(delete_log(request.log_dir, partition, now_ms=request.now_ms))
            else:
                done.append(finish_deletion(request.log_dir, partition))
        except LogwrightError as error:
            failures.add(partition, error)
    _show(request, done, delay_ms)
    click.get_current_context().exit(failures.exit_status)


def _show(request: Request, done: list[DeletedLog], delay_ms: int) -> None:
    for deletion in done:
        request.output.json_object(
            {
                "topicPartition": str(deletion.partition),
                "now": request.now_ms,
                "deleted": True,
                "directory": deletion.directory,
                "purgeDueAtMs": deletion.at_ms + delay_ms,
                "checkpoints": dict(deletion.checkpoints),
            }
        )
    rows = [
        (str(deletion.partition), deletion.directory, instant(deletion.at_ms + delay_ms))
        for deletion in done
    ]
    request.output.table(("partition", "directory", "purge due at"), rows)
