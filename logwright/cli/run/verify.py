"""``logwright verify``: check every batch, index entry, snapshot and checkpoint. Read-only."""

from __future__ import annotations

from pathlib import Path

from logwright.cli.request import Request
from logwright.cli.wording import counted
from logwright.errors import CorruptLogError
from logwright.format.names import CLEAN_SHUTDOWN_MARKER, TopicPartition
from logwright.log.load import list_partitions
from logwright.place.files import exists
from logwright.place.model import is_running, is_versioned
from logwright.recovery.root import look_at_root
from logwright.verify.against import compare_partition
from logwright.verify.model import Fault
from logwright.verify.partition import verify_partition


def run(request: Request, *, against: Path | None) -> int:
    """Run the command."""
    pair = None if against is None else (against, request.log_dir)
    partitions = request.partitions()
    if against is not None:
        list_partitions(against)  # refuse one that is none, also where nothing is compared
    stopped = not is_running(request.place)
    if stopped and not exists(request.place / CLEAN_SHUTDOWN_MARKER):
        request.output.message(
            f"{request.place} was not shut down cleanly: indexes may have unused space."
        )
    wrong = 0 if request.named else _check_root(request)
    if is_versioned(request.place) and not request.named:
        from logwright.cli.run.in_bucket import name_foreign  # noqa: PLC0415 -- of an extra

        name_foreign(request)
    for partition in partitions:
        with request.failures.of(partition):
            faults = _verify(request, partition, pair)
            for fault in faults:
                request.output.result(
                    str(fault),
                    topicPartition=str(partition),
                    path=str(fault.path),
                    position=fault.position,
                    problem=fault.problem,
                )
            wrong += len(faults)
            result = counted(len(faults), "problem") if faults else "no problems found"
            request.output.result(
                f"{partition}: {result}", topicPartition=str(partition), problems=len(faults)
            )
    if not wrong and not request.failures.failures:
        request.output.text(f"{len(partitions)} partitions checked, no problems found.")
    return CorruptLogError.exit_status if wrong else 0


def _check_root(request: Request) -> int:
    """Return how many entries of the root would stop a broker. Effects: reads them; output."""
    problems = look_at_root(request.place).problems
    for error in problems:
        path = error.path or request.place
        request.output.result(
            f"{path}: {error.problem}", path=str(path), position=None, problem=error.problem
        )
    return len(problems)


def _verify(
    request: Request, partition: TopicPartition, pair: tuple[Path, Path] | None
) -> list[Fault]:
    """Return the problems of one partition. Effects: reads it, in both directories of a pair."""
    faults = verify_partition(request.place, partition)
    if is_versioned(request.place):
        from logwright.cli.run.in_bucket import object_faults  # noqa: PLC0415 -- of an extra

        faults += object_faults(request, partition)
    if pair is None or faults:
        return faults
    settings = request.settings(partition.topic)
    return compare_partition(*pair, partition, settings, now_ms=request.now_ms)
