"""``logwright purge``: remove retired files, renamed to ``.deleted`` at or before
now - ``file.delete.delay.ms``: the longer of the settings now and those that they were retired
with, unless ``--config`` has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from logwright.cli.output import human_bytes
from logwright.cli.recovering import recover_first
from logwright.cli.request import Request
from logwright.cli.selection import leave_held
from logwright.cli.wording import instant
from logwright.deletion.commit import plan_purge_deleted, purge_deleted
from logwright.deletion.plan import PurgedLog
from logwright.errors import LogwrightError, UncleanLogDir
from logwright.format.names import TopicPartition
from logwright.log.inventory import DELETE_DELAY, DELETED_LOG_DELAY
from logwright.place.model import is_versioned
from logwright.purge.commit import purge_partition
from logwright.purge.observe import list_partition
from logwright.purge.plan import PurgeResult, plan_purge


def run(request: Request) -> None:
    """Run the command."""
    purge(request, quarantined=True)


def purge(request: Request, *, quarantined: bool) -> None:
    """Purge; with `quarantined` logs in quarantine, too. Effects: removes files, unless it is a dry
    run; output.
    """
    request.require_terminal(versioned=True)
    if is_versioned(request.place):
        _purge_there(request, quarantined=quarantined)
        return
    deleted = _purge_deleted(request, dry_run=True)
    known = {log.partition for log in deleted}
    present = request.partitions(absent=known.issuperset(request.absent()))
    unfinished = {partition for partition in present if _is_unfinished(request, partition)}
    recovered = recover_first(request, sorted(unfinished))
    plans: dict[TopicPartition, PurgeResult] = {}
    able = sorted({*present} - unfinished | {*recovered})
    for partition in leave_held(request, able, force=quarantined):
        with request.failures.of(partition):
            plans[partition] = plan_purge_of(request, partition)
    if not request.dry_run:
        _ask(request, plans, deleted)
        plans = _purge(request, plans)
        deleted = _purge_deleted(request, dry_run=False)
    _show(request, plans, deleted)


def _purge_there(request: Request, *, quarantined: bool) -> None:
    """Purge logs in a bucket. Effects: removes objects, unless it is a dry run; output."""
    from logwright.cli.run.in_bucket import (  # noqa: PLC0415 -- of an extra
        name_foreign,
        purge_earlier_states,
        purge_unfinished_uploads,
        purge_versions,
    )

    if not request.dry_run:
        request.confirm(
            f"Remove what earlier versions alone need, and is due, from {request.place}?"
        )
    request.output.show(
        purge_versions(request, quarantined=quarantined),
        {
            "partition": "topicPartition",
            "due" if request.dry_run else "removed": lambda log: len(log["objects"]),
            "versions": lambda log: len(log["versions"]),
            "pending": lambda log: len(log["pending"]),
            "next at": lambda log: instant(
                min((each["dueAtMs"] for each in log["pending"]), default=None)
            ),
        },
    )
    purge_earlier_states(request)
    if not request.named:
        purge_unfinished_uploads(request)
        name_foreign(request)


def _is_unfinished(request: Request, partition: TopicPartition) -> bool:
    """Return whether a committed swap must be finished first. Effects: lists the partition's
    directory.
    """
    try:
        plan_purge_of(request, partition)
    except UncleanLogDir:
        return True
    except LogwrightError:
        pass  # planning the purge raises it again
    return False


def is_forced(request: Request) -> bool:
    """Return whether the command line says the delay of retired files: then it alone counts, and
    not the one that they were retired with.
    """
    return request.gives(DELETE_DELAY, DELETED_LOG_DELAY)


def plan_purge_of(request: Request, partition: TopicPartition) -> PurgeResult:
    """Return what a purge would remove now. Effects: lists the partition's directory."""
    config, _ = request.settings(partition.topic)
    return plan_purge(
        list_partition(request.log_dir / partition.directory_name),
        now_ms=request.now_ms,
        file_delete_delay_ms=config.file_delete_delay_ms,
        force=is_forced(request),
    ).result


def _purge(
    request: Request, plans: Mapping[TopicPartition, PurgeResult]
) -> dict[TopicPartition, PurgeResult]:
    """Purge the partitions. Effects: removes files."""
    results: dict[TopicPartition, PurgeResult] = {}
    for partition in plans:
        config, _ = request.settings(partition.topic)
        with request.failures.of(partition):
            results[partition] = purge_partition(
                request.log_dir,
                partition,
                now_ms=request.now_ms,
                file_delete_delay_ms=config.file_delete_delay_ms,
                force=is_forced(request),
            )
            request.changed.append(partition)
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
        force=request.gives(DELETED_LOG_DELAY),
        named=request.named or None,
    )


def _ask(
    request: Request,
    plans: Mapping[TopicPartition, PurgeResult],
    deleted: tuple[PurgedLog, ...],
) -> None:
    """Show what is removed and ask, unless it is nothing. Effects: output; exits."""
    files = [f"{name}/{file}" for name, result in plans.items() for file in _files(result)]
    logs = [log for log in deleted if log.goes]
    if files or logs:
        sizes = [result.removed_bytes for result in plans.values()]
        freed = sum(sizes) + sum(log.bytes for log in logs)
        request.confirm(
            f"Remove {len(files)} files and {len(logs)} deleted logs ({human_bytes(freed)}) from"
            f" {request.log_dir}?",
            [*files, *(f"{log.directory}: {log.reason}" for log in logs)],
        )


def _files(result: PurgeResult) -> tuple[str, ...]:
    return (*result.removed, *result.leftovers, *result.staging, *result.failed_outputs)


def _show(
    request: Request,
    results: Mapping[TopicPartition, PurgeResult],
    deleted: tuple[PurgedLog, ...],
) -> None:
    output, done = request.output, not request.dry_run
    output.show(
        [
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
            for partition, result in results.items()
        ],
        {
            "partition": "topicPartition",
            "removed" if done else "due": lambda log: len(log["removed"]),
            "bytes": "removedBytes",
            "leftovers": lambda log: sum(
                len(log[kind]) for kind in ("leftovers", "staging", "failedOutputs")
            ),
            "pending": lambda log: len(log["pending"]),
            "next at": lambda log: instant(
                min((file["dueAtMs"] for file in log["pending"]), default=None)
            ),
        },
    )
    for log in deleted:
        output.result(
            f"{log.directory}: {'removed' if log.goes else 'kept'}: {log.reason}",
            directory=log.directory,
            topicPartition=str(log.partition),
            now=request.now_ms,
            purged=log.goes and done,
            bytes=log.bytes,
            dueAtMs=log.due_at_ms,
            reason=log.reason,
        )
    if not (any(map(_files, results.values())) or any(log.goes for log in deleted)):
        output.text("Nothing to remove.")
