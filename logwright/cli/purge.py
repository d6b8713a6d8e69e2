"""``logwright purge``: unlink what was renamed to ``.deleted`` long enough ago.

Long enough is at or before now - ``file.delete.delay.ms``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logwright.cli.output import human_bytes
from logwright.cli.planning import FailureLog, instant
from logwright.cli.request import Request, request_options
from logwright.errors import LogwrightError

if TYPE_CHECKING:
    from logwright.format.names import TopicPartition
    from logwright.purge.plan import PurgeResult


@click.command(name="purge")
@request_options
def command(request: Request) -> None:
    """Unlink what was renamed to .deleted long enough ago, and leftovers that are worth nothing."""
    request.require_terminal()
    failures = FailureLog(output=request.output)
    plans: dict[TopicPartition, PurgeResult] = {}
    for partition in request.partitions():
        try:
            plans[partition] = _plan(request, partition)
        except LogwrightError as error:
            failures.add(partition, error)
    if request.dry_run:
        _show(request, plans, done=False)
    else:
        _ask(request, plans)
        _show(request, _purge(request, plans, failures), done=True)
    click.get_current_context().exit(failures.exit_status)


def _plan(request: Request, partition: TopicPartition) -> PurgeResult:
    """What would be removed now. Effects: lists the partition's directory."""
    from logwright.purge.listing import list_partition  # noqa: PLC0415 -- not for --help
    from logwright.purge.plan import plan_purge  # noqa: PLC0415

    config, _ = request.settings(partition.topic)
    return plan_purge(
        list_partition(request.log_dir / partition.directory_name),
        now_ms=request.now_ms,
        file_delete_delay_ms=config.file_delete_delay_ms,
    ).result


def _purge(
    request: Request, plans: dict[TopicPartition, PurgeResult], failures: FailureLog
) -> dict[TopicPartition, PurgeResult]:
    """Effects: removes files."""
    from logwright import maintain  # noqa: PLC0415 -- not for --help

    results: dict[TopicPartition, PurgeResult] = {}
    for partition in plans:
        config, _ = request.settings(partition.topic)
        try:
            results[partition] = maintain.purge(
                request.log_dir, partition, config, now_ms=request.now_ms
            )
        except LogwrightError as error:
            failures.add(partition, error)
    return results


def _ask(request: Request, plans: dict[TopicPartition, PurgeResult]) -> None:
    """Effects: shows the plans and asks on the terminal, unless ``--yes`` was given."""
    files = sum(_count(result) for result in plans.values())
    if request.yes or not files:
        return
    for partition, result in plans.items():
        for name in (*result.removed, *result.leftovers, *result.staging):
            request.output.message(f"{partition}/{name}")
    freed = human_bytes(sum(result.removed_bytes for result in plans.values()))
    request.confirm(f"Remove {files} files ({freed}) from {request.log_dir}?")


def _show(request: Request, results: dict[TopicPartition, PurgeResult], *, done: bool) -> None:
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
            len(result.leftovers) + len(result.staging),
            len(result.pending),
            instant(min((file.due_at_ms for file in result.pending), default=None)),
        )
        for partition, result in results.items()
    ]
    output.table(header, rows)
    if not any(map(_count, results.values())):
        output.text("Nothing to remove.")


def _count(result: PurgeResult) -> int:
    return len(result.removed) + len(result.leftovers) + len(result.staging)
