"""What a command that changes logs does with one in a bucket: the same, in a working copy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from logwright.bucket.agreement import limits_of
from logwright.bucket.commit import Collect
from logwright.bucket.driver import drive
from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.cli.selection import leave_held
from logwright.cli.wording import counted, instant
from logwright.format.names import TopicPartition
from logwright.maintenance.copy import Needed
from logwright.maintenance.maintain import Maintained, Maintenance
from logwright.maintenance.purge import purge_states, purge_unfinished
from logwright.maintenance.scratch import own_temporary
from logwright.maintenance.scrub import scrub
from logwright.maintenance.undo import plan_undo, undo_requests
from logwright.place.bucket import bucket_of
from logwright.place.whole import contents_of
from logwright.state.hold import refuse_held
from logwright.verify.model import Fault

_T = TypeVar("_T")
_MOST_NAMED: Final = 20
"""Objects of no log that are named each."""


def in_bucket(
    request: Request,
    partition: TopicPartition,
    operation: str,
    act: Callable[[Request], _T | None],
    scratch: Path | None,
    *,
    needed: Needed | None = None,
    past_quarantine: bool = True,
    erased: Callable[[Path], Mapping[str, int]] | None = None,
) -> _T | None:
    """Change one log in a bucket: see `logwright.maintenance.maintain`. Effects: as said; output.

    Args:
        request: of the bucket.
        operation: its name in the history of the log.
        act: changes the log, in the working copy that its request is of; None: nothing of it
            counts.
        scratch: where working copies are made; None: where temporary files are.
        needed: which segments it reads; None: all.
        past_quarantine: it changes a log in quarantine, too.
        erased: see `Maintenance`.

    Returns:
        what `act` returns.

    Raises:
        LogwrightError: see `Maintenance.run`.
    """
    bucket = bucket_of(request.place)
    maintenance = Maintenance(
        bucket=bucket,
        partition=partition,
        operation=operation,
        scratch=own_temporary() if scratch is None else scratch,
        limits=limits_of(bucket),
        now_ms=request.now_ms,
        needed=needed,
        past_quarantine=past_quarantine,
        erased=erased,
    )

    def local(log_dir: Path) -> _T | None:
        return act(replace(request, place=log_dir, named=(partition,), yes=True, changed=[]))

    done = maintenance.run(local)
    report_version(request, partition, done)
    return None if done is None else done.result


def report_version(
    request: Request, partition: TopicPartition, done: Maintained[_T] | None
) -> None:
    """Say which version has the change of a log, if there is one. Effects: output."""
    if done is not None and done.version is not None:
        request.changed.append(partition)
        request.output.message(
            f"{partition}: version {done.version}, {human_bytes(done.sent_bytes)} written"
        )


def undo_version(request: Request, partition: TopicPartition) -> None:
    """Undo the last operation on a log in a bucket. Effects: changes it, unless it is a dry run;
    output.

    Raises:
        LogwrightError: see `logwright.maintenance.undo`.
    """
    bucket = bucket_of(request.place)
    limits, directory = limits_of(bucket), bucket.below(partition.directory_name)
    plan = drive(directory, plan_undo(partition, limits))
    what = (
        f"{counted(len(plan.bases), 'segment')} ({human_bytes(plan.bytes)}) from before the"
        f" {plan.operation} of {instant(plan.undone.written_ms)}"
    )
    if not request.dry_run:
        request.confirm(f"{partition}: restore {what}?")
        refuse_held(request.place, partition, request.now_ms, force=True)
        drive(directory, undo_requests(plan, limits, now_ms=request.now_ms))
        request.changed.append(partition)
    request.output.result(
        f"{partition}: {'restore' if request.dry_run else 'restored'} {what}",
        topicPartition=str(partition),
        now=request.now_ms,
        undone=not request.dry_run,
        operation=plan.operation,
        id=plan.undone.operation,
        atMs=plan.undone.written_ms,
        segments=list(plan.bases),
        bytes=plan.bytes,
    )


def purge_versions(request: Request, *, quarantined: bool) -> Iterator[dict[str, object]]:
    """Yield what was removed of each log in a bucket, with `quarantined` of those in quarantine,
    too, and when the rest is due. Effects: removes objects, unless it is a dry run.
    """
    bucket = bucket_of(request.place)
    collect = Collect(limits_of(bucket))
    for partition in leave_held(request, request.partitions(), force=quarantined):
        with request.failures.of(partition):
            directory = bucket.below(partition.directory_name)
            refuse_held(request.place, partition, request.now_ms, force=quarantined)
            done = drive(directory, collect.look() if request.dry_run else collect.run())
            if not request.dry_run:
                request.changed.append(partition)
            yield {
                "topicPartition": str(partition),
                "purged": not request.dry_run,
                "objects": list(done.data),
                "versions": list(done.versions),
                "pending": [
                    {"object": key, "dueAtMs": due_ms}
                    for key, due_ms in sorted(done.waiting.items())
                ],
            }


def purge_earlier_states(request: Request) -> None:
    """Purge what was paused earlier: the versions of the state of a log directory in a bucket.
    Effects: removes objects, unless it is a dry run; output.

    Raises:
        LogwrightError: see `purge_states`.
    """
    versions = purge_states(request.place, removes=not request.dry_run)
    if versions:
        done = "due" if request.dry_run else "removed"
        request.output.result(
            f"{request.place}: {counted(len(versions), 'earlier state')} {done}",
            directory=str(request.place),
            now=request.now_ms,
            purged=not request.dry_run,
            states=list(versions),
        )


def purge_unfinished_uploads(request: Request) -> None:
    """Remove what uploads left of which no version came. Effects: removes objects, unless it is a
    dry run; output.

    Raises:
        LogwrightError: see `purge_unfinished`.
    """
    purged = purge_unfinished(request.place, removes=not request.dry_run)
    for partition, result in purged.items():
        done = "due" if request.dry_run else "removed"
        next_ms = min((each.due_at_ms for each in result.pending), default=None)
        waiting = f", the next at {instant(next_ms)}" if result.pending else ""
        request.output.result(
            f"{partition}: {counted(len(result.removed), 'object')} {done} of an upload without a"
            f" version, {len(result.pending)} pending{waiting}",
            topicPartition=str(partition),
            purged=not request.dry_run,
            objects=list(result.removed),
            versions=[],
            pending=[{"object": each.name, "dueAtMs": each.due_at_ms} for each in result.pending],
        )


def name_foreign(request: Request) -> None:
    """Name what is in a bucket and of no log. Effects: lists it; output.

    Raises:
        LogwrightError: see `contents_of`.
    """
    contents = contents_of(bucket_of(request.place))
    for name, count in sorted(contents.unfinished().items()):
        request.output.message(
            f"{name}: {counted(count, 'object')} of an upload without a version; `logwright purge`"
            " removes them when they are due"
        )
    foreign = sorted(contents.foreign())
    for key, why in foreign[:_MOST_NAMED]:
        request.output.message(f"{request.place}/{key}: {why}; no command removes it")
    if len(foreign) > _MOST_NAMED:
        request.output.message(f"and {len(foreign) - _MOST_NAMED:,} more objects of no log")


def object_faults(request: Request, partition: TopicPartition) -> list[Fault]:
    """Return what is wrong with the objects of a log. Effects: reads those of its newest version;
    output about those that it does not name.
    """
    directory = bucket_of(request.place).below(partition.directory_name)
    report = scrub(directory)
    for keys, size, whose in (
        (report.unnamed, report.unnamed_bytes, "that no version names"),
        (report.earlier, report.earlier_bytes, "of earlier versions"),
    ):
        if keys:
            request.output.message(
                f"{partition}: {counted(len(keys), 'object')} {whose} ({human_bytes(size)})"
            )
    return [
        Fault(path=f"{directory}/{key}", position=None, problem=problem)
        for key, problem in report.wrong
    ]
