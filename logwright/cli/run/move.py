"""``logwright move``: move partitions to another log directory of the same broker (KIP-113,
offline).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from logwright.cli.output import human_bytes
from logwright.cli.recovering import say_if_they_lead
from logwright.cli.request import Request
from logwright.format.names import TopicPartition
from logwright.log.load import META_PROPERTIES
from logwright.move.commit import (
    MoveOutlook,
    MoveResult,
    abandon_move,
    look_at_move,
    move_partition,
)
from logwright.place.files import exists


def run(request: Request, *, destination: Path | None, abandon: bool) -> None:
    """Run the command."""
    if not request.named:
        raise click.UsageError("name the partitions to move: TOPIC-N ...")
    if abandon == (destination is not None):
        raise click.UsageError("give either --to DIR or --abandon")
    request.require_terminal()
    if destination is None:
        _abandon(request)
    else:
        _move(request, destination)


def _move(request: Request, destination: Path) -> None:
    """Show the plan, ask, and move one partition after the other. Effects: moves logs; output."""
    outlooks: dict[TopicPartition, MoveOutlook] = {}
    for partition in sorted(set(request.named)):
        with request.failures.of(partition):
            outlooks[partition] = look_at_move(request.log_dir, partition, destination)
    if outlooks and not exists(destination / META_PROPERTIES):
        request.output.message(
            f"{destination} is not formatted: a broker starts on it only after"
            " `kafka-storage.sh format --ignore-formatted`."
        )
    older = [partition for partition, outlook in outlooks.items() if outlook.is_older]
    say_if_they_lead(destination, older, request.output.message, metadata=request.metadata)
    lines = {partition: _outlook_line(partition, outlooks[partition]) for partition in outlooks}
    if request.dry_run:
        for partition, outlook in outlooks.items():
            request.output.result(
                lines[partition],
                **_moved(request, partition, destination),
                outcome=None,
                files=outlook.files,
                bytes=outlook.bytes,
                missingBytes=outlook.missing_bytes,
                freeBytes=outlook.free_bytes,
                resumes=outlook.resumes,
            )
        return
    if outlooks:
        request.confirm(
            f"Move {len(outlooks)} partitions from {request.log_dir} to {destination}?",
            lines.values(),
        )
    results: dict[TopicPartition, MoveResult] = {}
    for partition in outlooks:
        with (
            request.failures.of(partition),
            request.output.progress(str(partition)) as progress,
        ):
            results[partition] = move_partition(
                request.log_dir, partition, destination, now_ms=request.now_ms, progress=progress
            )
            request.changed.append(partition)
    _show(request, results, destination)


def _abandon(request: Request) -> None:
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
        with request.failures.of(partition):
            results[partition] = abandon_move(request.log_dir, partition, now_ms=request.now_ms)
    _show(request, results, None)


def _outlook_line(partition: TopicPartition, outlook: MoveOutlook) -> str:
    if outlook.stage != "copying":
        return f"{partition}: already copied by an earlier run; this run finishes the move"
    missing, whole = human_bytes(outlook.missing_bytes), human_bytes(outlook.bytes)
    resumed = ", the rest was copied earlier" if outlook.resumes else ""
    return (
        f"{partition}: {missing} of {whole} in {outlook.files} files to copy{resumed}; "
        f"{human_bytes(outlook.free_bytes)} free"
    )


def _moved(
    request: Request, partition: TopicPartition, destination: Path | None
) -> dict[str, object]:
    """Return the fields of what is moved."""
    return {
        "topicPartition": str(partition),
        "now": request.now_ms,
        "from": str(request.log_dir),
        "to": None if destination is None else str(destination),
    }


def _show(
    request: Request, results: Mapping[TopicPartition, MoveResult], destination: Path | None
) -> None:
    if results:
        request.output.show(
            [
                {
                    **_moved(request, partition, destination),
                    "outcome": result.outcome,
                    "files": result.files,
                    "bytes": result.bytes,
                    "copiedBytes": result.copied_bytes,
                }
                for partition, result in results.items()
            ],
            {
                "partition": "topicPartition",
                "outcome": "outcome",
                "files": "files",
                "bytes": "bytes",
                "copied now": "copiedBytes",
            },
        )
    if any(result.outcome == "moved" for result in results.values()):
        request.output.text(
            "The source directories now end in -delete; a broker deletes them after "
            "file.delete.delay.ms."
        )
