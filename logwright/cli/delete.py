"""``logwright delete``: delete whole logs, as Kafka does when a topic is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logwright.cli.leaving import leave_held
from logwright.cli.planning import FailureLog, instant
from logwright.cli.request import Request, request_options
from logwright.errors import LogwrightError

if TYPE_CHECKING:
    from logwright.format.deleted_logs import DeletedLog


@click.command(name="delete")
@request_options
def command(request: Request) -> None:
    """Delete whole logs: rename their directories to -delete, for a later purge."""
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
    from logwright.deletion.commit import delete_log, finish_deletion  # noqa: PLC0415 -- not for --help

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
