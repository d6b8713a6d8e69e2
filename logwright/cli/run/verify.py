"""``logwright verify``: check every batch, index entry, snapshot and checkpoint. Read-only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from logwright.cli.failures import FailureLog
from logwright.cli.request import Request
from logwright.errors import CorruptLogError, LogwrightError
from logwright.format.names import CLEAN_SHUTDOWN_MARKER, TopicPartition
from logwright.recovery.root import look_at_root
from logwright.verify.against import compare_partition
from logwright.verify.model import Fault
from logwright.verify.partition import verify_partition

_WRONG: Final = CorruptLogError.exit_status


def run(request: Request, *, against: Path | None) -> None:
    """Run the command."""
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
    problems = look_at_root(request.log_dir).problems
    for one in problems:
        path = request.log_dir if one.path is None else one.path
        request.output.text(f"{path}: {one.problem}")
        request.output.json_object({"path": str(path), "position": None, "problem": one.problem})
    return len(problems)


def _verify(request: Request, partition: TopicPartition, against: Path | None) -> list[Fault]:
    """Return the problems of one partition. Effects: reads it, in both directories."""
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
