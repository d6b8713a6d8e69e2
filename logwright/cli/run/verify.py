"""``logwright verify``: check every batch, index entry, snapshot and checkpoint. Read-only."""

from __future__ import annotations

from pathlib import Path

from logwright.cli.request import Request
from logwright.errors import CorruptLogError
from logwright.format.names import CLEAN_SHUTDOWN_MARKER, TopicPartition
from logwright.recovery.root import look_at_root
from logwright.verify.against import compare_partition
from logwright.verify.model import Fault
from logwright.verify.partition import verify_partition


def run(request: Request, *, against: Path | None) -> int:
    """Run the command."""
    if not (request.log_dir / CLEAN_SHUTDOWN_MARKER).exists():
        request.output.message(
            f"{request.log_dir} was not shut down cleanly: indexes may have unused space."
        )
    partitions = request.partitions()
    wrong = 0 if request.named else _check_root(request)
    for partition in partitions:
        with request.failures.of(partition):
            for fault in _verify(request, partition, against):
                wrong += 1
                request.output.result(
                    str(fault),
                    topicPartition=str(partition),
                    path=str(fault.path),
                    position=fault.position,
                    problem=fault.problem,
                )
    if not wrong and not request.failures.failures:
        request.output.text(f"{len(partitions)} partitions checked, no problems found.")
    return CorruptLogError.exit_status if wrong else 0


def _check_root(request: Request) -> int:
    """Return how many entries of the root would stop a broker. Effects: reads them; output."""
    problems = look_at_root(request.log_dir).problems
    for error in problems:
        path = error.path or request.log_dir
        request.output.result(
            f"{path}: {error.problem}", path=str(path), position=None, problem=error.problem
        )
    return len(problems)


def _verify(request: Request, partition: TopicPartition, against: Path | None) -> list[Fault]:
    """Return the problems of one partition. Effects: reads it, in both directories."""
    faults = verify_partition(request.log_dir, partition)
    if against is None or faults:
        return faults
    settings = request.settings(partition.topic)
    return compare_partition(against, request.log_dir, partition, settings, now_ms=request.now_ms)
