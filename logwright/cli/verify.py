"""``logwright verify``: every batch, index entry, snapshot and checkpoint. Reads only."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from logwright.cli.planning import FailureLog
from logwright.cli.request import Request, request_options
from logwright.errors import CorruptLogError, LogwrightError
from logwright.format.names import CLEAN_SHUTDOWN_MARKER

if TYPE_CHECKING:
    from logwright.format.names import TopicPartition
    from logwright.verify.model import Fault

_WRONG: Final = CorruptLogError.exit_status


@click.command(name="verify")
@click.option(
    "--against",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="An earlier state of the log directory: check what a cleaning may have changed since.",
)
@request_options
def command(request: Request, *, against: Path | None) -> None:
    """Check everything; one line for each thing that is wrong, exit status 3 if there is one."""
    failures = FailureLog(output=request.output)
    if not (request.log_dir / CLEAN_SHUTDOWN_MARKER).exists():
        request.output.message(
            f"{request.log_dir} was not stopped cleanly: indexes may be longer than their entries."
        )
    partitions = request.partitions()
    wrong = 0
    for partition in partitions:
        try:
            found = _verify(request, partition, against)
        except LogwrightError as error:
            failures.add(partition, error)
            continue
        wrong += len(found)
        for fault in found:
            _show(request, partition, fault)
    if not wrong and not failures.failures:
        request.output.text(f"{len(partitions)} partitions checked; nothing is wrong.")
    status = failures.exit_status or (_WRONG if wrong else 0)
    click.get_current_context().exit(status)


def _verify(request: Request, partition: TopicPartition, against: Path | None) -> list[Fault]:
    """Effects: reads the partition, of both directories."""
    from logwright.verify.against import compare_partition  # noqa: PLC0415 -- kernels: not for --help
    from logwright.verify.partition import verify_partition  # noqa: PLC0415

    found = verify_partition(request.log_dir, partition)
    if against is None or found:
        return found
    settings = request.settings(partition.topic)
    return compare_partition(against, request.log_dir, partition, settings, now_ms=request.now_ms)


def _show(request: Request, partition: TopicPartition, fault: Fault) -> None:
    request.output.text(str(fault))
    request.output.json_object(
        {
            "topicPartition": str(partition),
            "path": str(fault.path),
            "position": fault.position,
            "problem": fault.problem,
        }
    )
