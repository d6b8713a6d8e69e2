"""``logwright purge``: remove retired files, renamed to ``.deleted`` at or before
now - ``file.delete.delay.ms``.
"""

from __future__ import annotations

import click

from logwright.cli.failures import FailureLog
from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.cli.run.planning import instant
from logwright.cli.run.recover import recover_or_show
from logwright.cli.selection import leave_held
from logwright.deletion.commit import plan_purge_deleted, purge_deleted
from logwright.deletion.plan import PurgedLog
from logwright.errors import LogwrightError, UncleanLogDir
from logwright.format.names import TopicPartition
from logwright.purge.commit import purge_partition
from logwright.purge.observe import list_partition
from logwright.purge.plan import PurgeResult, plan_purge


def run(request: Request) -> None:
    """Run the command."""
    request.require_terminal()
    failures = FailureLog(output=request.output)
    plans: dict[TopicPartition, PurgeResult] = {}
    deleted = _purge_deleted(request, dry_run=True)
    known = {log.partition for log in deleted}
    present = request.partitions(absent=known.issuperset(request.absent()))
    chosen = leave_held(request, present, force=True)
    unfinished = [one for one in chosen if _is_unfinished(request, one)]
    ready = recover_or_show(request, failures, unfinished)
    for partition in chosen:
        if partition in unfinished and partition not in ready:
            continue
        try:
            plans[partition] = _plan(request, partition)
        except LogwrightError as error:
            failures.add(partition, error)
    if request.dry_run:
        _show(request, plans, deleted, done=False)
    else:
        _ask(request, plans, deleted)
        results = _purge(request, plans, failures)
        _show(request, results, _purge_deleted(request, dry_run=False), done=True)
    click.get_current_context().exit(failures.exit_status)


def _is_unfinished(request: Request, partition: TopicPartition) -> bool:
    """Return whether a committed swap must be finished first. Effects: lists the partition's
    directory.
    """
    try:
        _plan(request, partition)
    except UncleanLogDir:
        return True
    except LogwrightError:
        pass  # planning the purge raises it again
    return False


def _plan(request: Request, partition: TopicPartition) -> PurgeResult:
    """Return what would be removed now. Effects: lists the partition's directory."""
    config, _ = request.settings(partition.topic)
    return plan_purge(
        list_partition(request.log_dir / partition.directory_name),
        now_ms=request.now_ms,
        file_delete_delay_ms=config.file_delete_delay_ms,
    ).result


def _purge(
    request: Request, plans: dict[TopicPartition, PurgeResult], failures: FailureLog
) -> dict[TopicPartition, PurgeResult]:
    """Purge the partitions. Effects: removes files."""
    results: dict[TopicPartition, PurgeResult] = {}
    for partition in plans:
        config, _ = request.settings(partition.topic)
        try:
            results[partition] = purge_partition(
                request.log_dir,
                partition,
                now_ms=request.now_ms,
                file_delete_delay_ms=config.file_delete_delay_ms,
            )
        except LogwrightError as error:
            failures.add(partition, error)
    return results


def _purge_deleted(request: Request, *, dry_run: bool) -> tuple[PurgedLog, ...]:
    """Return the requested deleted logs. Effects: removes those that are due, unless it is a dry
    run.
    """
    purge = plan_purge_deleted if dry_run else purge_deleted
    return purge(
        request.log_dir,
        now_ms=request.now_ms,
        delay_ms=request.broker().file_delete_delay_ms,
        named=request.named or None,
    )


def _ask(
    request: Request,
    plans: dict[TopicPartition, PurgeResult],
    deleted: tuple[PurgedLog, ...],
) -> None:
    """Show the plans and ask on the terminal, unless ``--yes`` was given. Effects: output; reads
    the terminal.
    """
    files = sum(_count(result) for result in plans.values())
    logs = [log for log in deleted if log.goes]
    if request.yes or not (files or logs):
        return
    for partition, result in plans.items():
        for name in (
            *result.removed,
            *result.leftovers,
            *result.staging,
            *result.failed_outputs,
        ):
            request.output.message(f"{partition}/{name}")
    for log in logs:
        request.output.message(f"{log.directory}: {log.reason}")
    freed = sum(result.removed_bytes for result in plans.values()) + sum(log.bytes for log in logs)
    what = f"{files} files and {len(logs)} deleted logs ({human_bytes(freed)})"
    request.confirm(f"Remove {what} from {request.log_dir}?")


def _show(
    request: Request,
    results: dict[TopicPartition, PurgeResult],
    deleted: tuple[PurgedLog, ...],
    *,
    done: bool,
) -> None:
    output = request.output
    for partition, result in results.items():
        output.json_object(
            {
                "topicPartition": str(partition),
                "now": request.now_ms,
                "purged": done,
                "removed": list(result.removed),
                "removedBytes": result.removed_bytes,
                "leftovers": list(result.leftovers),
                "staging": list(result.staging),
                "failedOutputs": list(result.failed_outputs),
                "pending": [
                    {"name": file.name, "bytes": file.bytes, "dueAtMs": file.due_at_ms}
                    for file in result.pending
                ],
            }
        )
    header = ("partition", "removed" if done else "due", "bytes", "leftovers", "pending", "next at")
    rows = [
        (
            str(partition),
            len(result.removed),
            result.removed_bytes,
            len(result.leftovers) + len(result.staging) + len(result.failed_outputs),
            len(result.pending),
            instant(min((file.due_at_ms for file in result.pending), default=None)),
        )
        for partition, result in results.items()
    ]
    output.table(header, rows)
    for log in deleted:
        output.json_object(
            {
                "directory": log.directory,
                "topicPartition": str(log.partition),
                "now": request.now_ms,
                "purged": log.goes and done,
                "bytes": log.bytes,
                "dueAtMs": log.due_at_ms,
                "reason": log.reason,
            }
        )
        output.text(f"{log.directory}: {'removed' if log.goes else 'kept'}: {log.reason}")
    if not (any(map(_count, results.values())) or any(log.goes for log in deleted)):
        output.text("Nothing to remove.")


def _count(result: PurgeResult) -> int:
    return (
        len(result.removed)
        + len(result.leftovers)
        + len(result.staging)
        + len(result.failed_outputs)
    )
