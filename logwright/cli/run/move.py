"""``logwright move``: move partitions to another log directory of the same broker (KIP-113,
offline).
"""

from __future__ import annotations

from pathlib import Path

import click

from logwright.cli.failures import FailureLog
from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.move.commit import (
    MoveOutlook,
    MoveResult,
    abandon_move,
    look_at_move,
    move_partition,
)


def run(request: Request, *, destination: Path | None, abandon: bool) -> None:
    """Run the command."""
    if not request.named:
        raise click.UsageError("name the partitions to move: TOPIC-N ...")
    if abandon == (destination is not None):
        raise click.UsageError("give either --to DIR or --abandon")
    request.require_terminal()
    failures = FailureLog(output=request.output)
    if destination is None:
        _abandon(request, failures)
    else:
        _move(request, destination, failures)
    click.get_current_context().exit(failures.exit_status)


def _move(request: Request, destination: Path, failures: FailureLog) -> None:
    """Show the plan, ask, and move one partition after the other. Effects: moves logs; output."""
    outlooks: dict[TopicPartition, MoveOutlook] = {}
    for partition in sorted(set(request.named)):
        try:
            outlooks[partition] = look_at_move(request.log_dir, partition, destination)
        except LogwrightError as error:
            failures.add(partition, error)
    if request.dry_run:
        for partition, outlook in outlooks.items():
            request.output.json_object(_outlook_object(request, partition, destination, outlook))
            request.output.text(_outlook_line(partition, outlook))
        return
    _ask(request, destination, outlooks)
    results: dict[TopicPartition, MoveResult] = {}
    for partition in outlooks:
        try:
            with request.output.progress(str(partition)) as progress:
                results[partition] = move_partition(
                    request.log_dir,
                    partition,
                    destination,
                    now_ms=request.now_ms,
                    progress=progress,
                )
        except LogwrightError as error:
            failures.add(partition, error)
    _show(request, results, destination)


def _abandon(request: Request, failures: FailureLog) -> None:
    """Ask, and remove the copies of unfinished moves. Effects: removes files; output."""
    partitions = sorted(set(request.named))
    if request.dry_run:
        for partition in partitions:
            request.output.text(f"{partition}: would remove the copy of an unfinished move.")
        return
    names = ", ".join(map(str, partitions))
    request.confirm(f"Remove the unfinished copies of {names}?")
    results: dict[TopicPartition, MoveResult] = {}
    for partition in partitions:
        try:
            results[partition] = abandon_move(request.log_dir, partition, now_ms=request.now_ms)
        except LogwrightError as error:
            failures.add(partition, error)
    _show(request, results, None)


def _ask(request: Request, destination: Path, outlooks: dict[TopicPartition, MoveOutlook]) -> None:
    """Show the plan and ask on the terminal, unless ``--yes`` was given. Effects: output; reads the
    terminal.
    """
    if request.yes or not outlooks:
        return
    for partition, outlook in outlooks.items():
        request.output.message(_outlook_line(partition, outlook))
    request.confirm(f"Move {len(outlooks)} partitions from {request.log_dir} to {destination}?")


def _outlook_line(partition: TopicPartition, outlook: MoveOutlook) -> str:
    if outlook.stage != "copying":
        return f"{partition}: already copied by an earlier run; this run finishes the move"
    missing, whole = human_bytes(outlook.missing_bytes), human_bytes(outlook.bytes)
    resumed = ", the rest was copied earlier" if outlook.resumes else ""
    return (
        f"{partition}: {missing} of {whole} in {outlook.files} files to copy{resumed}; "
        f"{human_bytes(outlook.free_bytes)} free"
    )


def _outlook_object(
    request: Request, partition: TopicPartition, destination: Path, outlook: MoveOutlook
) -> dict[str, object]:
    return {
        "topicPartition": str(partition),
        "now": request.now_ms,
        "from": str(request.log_dir),
        "to": str(destination),
        "outcome": None,
        "files": outlook.files,
        "bytes": outlook.bytes,
        "missingBytes": outlook.missing_bytes,
        "freeBytes": outlook.free_bytes,
        "resumes": outlook.resumes,
    }


def _show(
    request: Request, results: dict[TopicPartition, MoveResult], destination: Path | None
) -> None:
    output = request.output
    for partition, result in results.items():
        output.json_object(
            {
                "topicPartition": str(partition),
                "now": request.now_ms,
                "from": str(request.log_dir),
                "to": None if destination is None else str(destination),
                "outcome": result.outcome,
                "files": result.files,
                "bytes": result.bytes,
                "copiedBytes": result.copied_bytes,
            }
        )
    header = ("partition", "outcome", "files", "bytes", "copied now")
    rows = [
        (str(partition), result.outcome, result.files, result.bytes, result.copied_bytes)
        for partition, result in results.items()
    ]
    if rows:
        output.table(header, rows)
    if any(result.outcome == "moved" for result in results.values()):
        output.text(
            "The source directories now end in -delete; a broker deletes them after "
            "file.delete.delay.ms."
        )
