"""``logwright verify``: check every batch, index entry, snapshot and checkpoint. Read-only."""

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
    help="Compare with an earlier copy of the log directory, by the checks of a cleaning.",
)
@request_options
def command(request: Request, *, against: Path | None) -> None:
    """Check everything and print one line per problem; exit status 3 if there is any.

    Without TOPIC-N also what a broker reads in the directory itself before it starts. A log that
    cannot be checked, such as one of an old message format, is named in one line.
    """
    failures = FailureLog(output=request.output)
    if not (request.log_dir / CLEAN_SHUTDOWN_MARKER).exists():
        request.output.message(
            f"{request.log_dir} was not shut down cleanly: indexes may have unused space."
        )
    partitions = request.partitions()
    wrong = 0 if request.named else _check_root(request)
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
        request.output.text(f"{len(partitions)} partitions checked, no problems found.")
    status = failures.exit_status or (_WRONG if wrong else 0)
    click.get_current_context().exit(status)


def _check_root(request: Request) -> int:
    """Return how many entries of the root would stop a broker. Effects: reads them; output."""
    from logwright.recovery.root import look_at_root  # noqa: PLC0415 -- numpy: not for --help

    problems = look_at_root(request.log_dir).problems
    for one in problems:
        path = request.log_dir if one.path is None else one.path
        request.output.text(f"{path}: {one.problem}")
        request.output.json_object({"path": str(path), "position": None, "problem": one.problem})
    return len(problems)


def _verify(request: Request, partition: TopicPartition, against: Path | None) -> list[Fault]:
    """Return the problems of one partition. Effects: reads it, in both directories."""
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
