"""``logwright delete``: delete whole logs, as Kafka does when a topic is deleted."""

from __future__ import annotations

import click

from logwright.cli.recovering import say_if_they_lead
from logwright.cli.request import Request
from logwright.cli.selection import leave_held
from logwright.cli.wording import instant
from logwright.deletion.commit import delete_log, finish_deletion


def run(request: Request) -> None:
    """Run the command."""
    if not request.named:
        raise click.UsageError("name the logs to delete: TOPIC-N ...")
    request.require_terminal()
    present = request.partitions(absent=True)
    partitions = leave_held(request, sorted(set(request.named)))
    delay_ms = request.broker().file_delete_delay_ms
    if request.dry_run:
        for partition in partitions:
            request.output.result(
                f"{partition}: would be deleted",
                topicPartition=str(partition),
                now=request.now_ms,
                deleted=False,
            )
        return
    say_if_they_lead(request.log_dir, partitions, request.output.message, metadata=request.metadata)
    names = ", ".join(map(str, partitions))
    request.confirm(f"Delete {len(partitions)} whole logs from {request.log_dir}: {names}?")
    done = []
    for partition in partitions:
        with request.failures.of(partition):
            if partition in present:
                deleted = delete_log(
                    request.log_dir, partition, now_ms=request.now_ms, delay_ms=delay_ms
                )
                done.append(deleted)
            else:
                done.append(finish_deletion(request.log_dir, partition))
            request.changed.append(partition)
    request.output.show(
        [
            {
                "topicPartition": str(deletion.partition),
                "now": request.now_ms,
                "deleted": True,
                "directory": deletion.directory,
                "purgeDueAtMs": max(deletion.at_ms + delay_ms, deletion.not_before_ms),
                "checkpoints": dict(deletion.checkpoints),
            }
            for deletion in done
        ],
        {
            "partition": "topicPartition",
            "directory": "directory",
            "purge due at": lambda deletion: instant(deletion["purgeDueAtMs"]),
        },
    )
