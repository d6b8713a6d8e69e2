"""``logwright rescue --free``: free a full disk."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import click

from logwright.cli.output import Output, human_bytes
from logwright.cli.recovering import recover_first
from logwright.cli.request import Request
from logwright.cli.run.doctor import local_directories
from logwright.cli.run.replicas import say_unknown_high_watermarks
from logwright.cli.selection import report_held
from logwright.errors import DiskFull
from logwright.format.names import TopicPartition
from logwright.place.model import Place
from logwright.rescue.free import FreeStep
from logwright.rescue.free_disk import (
    LIMITS,
    Done,
    FreeDirectory,
    Freeing,
    Outlook,
    by_file_system,
    free_space,
    key_of,
    require_names,
)
from logwright.rescue.free_look import held_open


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operator:
    """Shows what is done, and asks before.

    Attributes:
        requests: one for each log directory of the file system.
        outlooks: what was shown.
    """

    requests: Sequence[Request]
    freeing: Freeing
    outlooks: list[Outlook] = field(default_factory=list)

    def short(self) -> DiskFull | None:
        """Return why a run would free less than was asked for, by what was shown; None if it may
        free enough. Effects: asks the file system.
        """
        return self.freeing.short_by(self.outlooks[-1]) if self.outlooks else None

    def planned(self, outlook: Outlook, chosen: Sequence[FreeStep]) -> bool:
        """Show a plan, and ask. Effects: output; exits if declined."""
        self.outlooks.append(outlook)
        request = self.requests[0]
        for (_, partition), hold in outlook.held.items():
            report_held(request, partition, hold.kind, hold.sentence)
        for _, partition in outlook.unclean:
            request.output.message(f"{partition}: to be planned after its recovery")
        for (_, partition), error in outlook.failures.items():
            request.failures.add(partition, error)
        _show_plan(request.output, self.freeing, outlook.steps, chosen)
        if request.dry_run:
            return False
        if chosen:
            request.confirm(
                f"Remove what these {len(chosen)} steps name, as far as it is needed? There is no"
                " undo."
            )
        return True

    def done(self, done: Done) -> None:
        """Report what a step freed. Effects: output."""
        (request,) = (one for one in self.requests if one.log_dir == done.step.log_dir)
        step, error = done.step, done.error
        if done.need is not None:
            request.output.message(
                f"{step.name}: not compacted to its end: the next group of segments needs"
                f" {human_bytes(done.need)}, and {human_bytes(done.free)} are free, of which"
                f" {human_bytes(self.freeing.kept_free)} are kept"
            )
        partition = TopicPartition.parse(step.name)
        if error is not None and not isinstance(error, DiskFull):
            if partition is None:
                request.failures.add_directory(step.name, error)
            else:
                request.failures.add(partition, error)
        if error is None and partition is not None:
            request.changed.append(partition)
        outcome = f"freed {human_bytes(done.freed)}" if error is None else f"not done: {error}"
        request.output.result(
            f"{step.kind}: {step.log_dir / step.name}: {outcome}",
            step=step.kind,
            path=str(step.log_dir / step.name),
            done=error is None,
            why=None if error is None else error.problem,
            freedBytes=done.freed,
            freeBytes=done.free,
            seconds=round(done.seconds, 3),
        )

    def recover(self) -> None:
        """Recover what was not shut down cleanly. Effects: as `recover_first`."""
        for request in self.requests:
            recover_first(request, request.partitions())


def free_disk(
    request: Request,
    more_dirs: tuple[Place, ...],
    *,
    goal: int,
    reserve: int | None,
    strays: tuple[str, ...],
    tighter: tuple[tuple[str, str], ...],
) -> None:
    """Free the file systems of some log directories. Effects: removes files, unless it is a dry
    run; output.

    Args:
        request: of the first log directory; more_dirs: the others.
        goal: bytes that shall be free on each of their file systems.
        reserve: what a compaction leaves free, bytes.
        strays: names of directories of stray logs that may go.
        tighter: topics with another retention than their own.

    Raises:
        PolicyError: there is no such stray log or topic. Nothing was changed.
        DiskFull: fewer bytes are free in the end; of a dry run: would be.
    """
    limits = _limits(tighter)
    requests = [request, *map(request.of, more_dirs)]
    by_path = dict(zip(local_directories([each.place for each in requests]), requests, strict=True))
    every = [_directory(each) for each in by_path.values()]
    require_names(every, strays, limits)
    short = []
    for directories in by_file_system(every):
        freeing = Freeing(
            directories=directories,
            goal=goal,
            now_ms=request.now_ms,
            reserve=reserve,
            strays=frozenset(strays),
            tighter=limits,
        )
        before, started = freeing.space.free, time.monotonic()
        own = [by_path[one.log_dir] for one in directories]
        operator = _Operator(requests=own, freeing=freeing)
        free_space(freeing, operator)
        short.append(operator.short() if request.dry_run else freeing.short())
        if freeing.missing <= 0 or not request.dry_run:
            _show_end(request.output, freeing, before, time.monotonic() - started)
    for error in filter(None, short):
        raise error


def _directory(request: Request) -> FreeDirectory:
    """Return what the engine takes of a request. Effects: lists the directory; reads settings;
    output about logs without a high watermark.
    """
    partitions = request.partitions()
    say_unknown_high_watermarks(request, partitions)
    return FreeDirectory(
        log_dir=request.log_dir,
        partitions=partitions,
        settings=request.settings,
        delete_delay_ms=request.broker().file_delete_delay_ms,
        stray=request.stray,
        high_watermark=request.high_watermark,
    )


def _limits(tighter: Sequence[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Return the settings of ``--tighter-retention`` by topic."""
    limits: dict[str, dict[str, int]] = {}
    for topic, text in tighter:
        name, _, value = text.partition(":")
        if name not in LIMITS or not value.isdecimal():
            raise click.UsageError(
                f"--tighter-retention {topic}={text}: give TOPIC=retention.ms:MS or"
                " TOPIC=retention.bytes:BYTES"
            )
        limits.setdefault(topic, {})[name] = int(value)
    return limits


def _show_plan(
    output: Output, freeing: Freeing, steps: Sequence[FreeStep], chosen: Sequence[FreeStep]
) -> None:
    """Show what would be done, in its order. Effects: output."""
    space = freeing.space
    output.message(
        f"{human_bytes(space.free)} of {human_bytes(space.total)} are free,"
        f" {human_bytes(freeing.goal)} were asked for."
    )
    picked = set(map(key_of, chosen))
    output.show(
        [
            {
                "step": step.kind,
                "path": str(step.log_dir / step.name),
                "needed": key_of(step) in picked,
                "bytesAtMost": step.bytes,
                "files": step.files,
                "linkedFiles": step.linked,
                "needBytes": step.need,
                "estimatedSeconds": round(step.seconds, 1),
                "detail": step.detail,
            }
            for step in steps
        ],
        {
            "step": "step",
            "path": "path",
            "needed": lambda row: "yes" if row["needed"] else "no",
            "at most": lambda row: human_bytes(row["bytesAtMost"]),
            "files": "files",
            "linked": "linkedFiles",
            "needs": lambda row: human_bytes(row["needBytes"]),
            "seconds": "estimatedSeconds",
            "what": "detail",
        },
    )


def _show_end(output: Output, freeing: Freeing, before: int, seconds: float) -> None:
    """Show what is free now, and who holds removed files open. Effects: output."""
    space = freeing.space
    holders = held_open(space.device)
    for process, size in holders:
        output.message(
            f"Process {process} holds {human_bytes(size)} of removed files open: they are free when"
            " it ends."
        )
    output.result(
        f"{human_bytes(space.free)} are free, {human_bytes(before)} were;"
        f" {human_bytes(freeing.goal)} were asked for. At the worst moment"
        f" {human_bytes(freeing.lowest)} were free.",
        askedBytes=freeing.goal,
        freeBytes=space.free,
        freeBytesBefore=before,
        lowestFreeBytes=freeing.lowest,
        reached=space.free >= freeing.goal,
        seconds=round(seconds, 3),
        heldOpen=[{"process": process, "bytes": size} for process, size in holders],
    )
