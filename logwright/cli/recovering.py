"""The recovery that a command begins with, and what it shares with `recover`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.format.names import TopicPartition
from logwright.ingest.settle import settle_before_recovery
from logwright.locks import lock_log_dir
from logwright.place.model import Place, is_running, is_versioned
from logwright.reading import reading
from logwright.recovery.commit import commit_directory
from logwright.recovery.directory_plan import partitions_to_recover, plan_directory
from logwright.recovery.model import (
    DirectoryPlan,
    DirectoryResult,
    Finding,
    RecoveryOptions,
    RecoveryPlan,
)
from logwright.rescue.alone import elected_anyway
from logwright.steps.marker import WITHOUT_EPOCH

_MOST_NAMED: Final = 3
"""Of logs with the same repairs."""


def recover_first(
    request: Request,
    partitions: Iterable[TopicPartition],
    *,
    like_kafka: bool = False,
    locked: bool = False,
) -> tuple[TopicPartition, ...]:
    """Recover before a command's own work, or show it in a dry run: if the directory was not shut
    down cleanly or partitions have leftovers. Return those that the command can continue with.
    Effects: changes the log directory under its lock, unless it is a dry run; output.

    Logs of a running broker, and those in a bucket, need none: they are shown whole. Partitions
    that cannot be recovered without data loss become failures. Pauses are ignored: as when a broker
    starts, the directory is clean only when all of it is recovered.

    Args:
        locked: the caller holds the directory's lock.

    Raises:
        LogDirLocked: a broker is running on the directory.
    """
    wanted = request.failures.without(partitions)
    if is_running(request.place) or is_versioned(request.place):
        return wanted
    damaged = partitions_to_recover(request.log_dir, wanted) if wanted else ()
    if not damaged:
        return wanted
    options = RecoveryOptions(like_kafka=like_kafka)
    if request.dry_run:
        with reading(request.log_dir):
            plan = plan_of(request, damaged, options)
        _show_first(request, plan)
        _add_first_failures(request, plan, wanted)
        return tuple(partition for partition in wanted if partition not in damaged)
    with nullcontext() if locked else lock_log_dir(request.log_dir):
        plan = plan_of(request, damaged, options)
        ask(request, plan)
        if not like_kafka and settled(request):
            return recover_first(request, wanted, like_kafka=like_kafka, locked=True)
        result = commit_directory(plan)
    request.failures.recovered.update(log.partition for log in result.recovered if log.changes)
    if result.recovered:
        request.output.message(f"Recovered {len(result.recovered)} partitions first.")
    report_findings((*result.recovered, *result.marked), request.output.message)
    say_who_leads(
        plan,
        result,
        lambda text: request.output.message(f"{request.log_dir}: {text}"),
        metadata=request.metadata,
    )
    _add_first_failures(request, result, wanted)
    for problem in plan.root.problems:
        request.output.message(f"A broker would not start: {problem}")
    return request.failures.without(wanted)


def say_who_leads(
    plan: DirectoryPlan,
    result: DirectoryResult,
    say: Callable[[str], None],
    *,
    metadata: Place | None,
) -> None:
    """Say what the cluster's controller makes of logs that have less than they acknowledged.
    Effects: reads the metadata; those of `say`.

    Args:
        metadata: the directory of ``--metadata``.
    """
    if result.clean and plan.doubts:
        say(WITHOUT_EPOCH)
    say_if_they_lead(plan.log_dir, plan.lacking, say, metadata=metadata)


def say_if_they_lead(
    log_dir: Path,
    lacking: Iterable[TopicPartition],
    say: Callable[[str], None],
    *,
    metadata: Place | None,
) -> None:
    """Say of logs that lack records if the controller lets them lead all the same. Effects: reads
    the metadata; those of `say`.

    Args:
        metadata: the directory of ``--metadata``; None: that of the directory, or next to it.
    """
    sentence = elected_anyway(log_dir, lacking, metadata)
    if sentence is not None:
        say(sentence)


def plan_of(
    request: Request, partitions: Iterable[TopicPartition], options: RecoveryOptions
) -> DirectoryPlan:
    """Return the plan of a recovery. Effects and errors: as `plan_directory`."""
    return plan_directory(
        request.log_dir,
        partitions,
        lambda topic: request.settings(topic)[0],
        now_ms=request.now_ms,
        options=options,
        topic_ids=request.topic_id,
    )


def ask(request: Request, plan: DirectoryPlan) -> None:
    """Show the plans and ask on the terminal, unless ``--yes`` was given. Effects: output; reads
    the terminal.
    """
    if request.yes or not plan.changes:
        return
    report_findings(plan.plans, request.output.message)
    for name, problem in plan.root.malformed.items():
        request.output.message(f"{name}: to be replaced: {problem}")
    changing = sum(log.changes for log in plan.plans)
    request.confirm(f"Repair {changing} of {len(plan.plans)} partitions in {request.log_dir}?")


def settled(request: Request) -> bool:
    """Finish or roll back an interrupted append before recovery, and return whether there was one.
    Effects: see `logwright.ingest.settle`; output.
    """
    was_interrupted = settle_before_recovery(request.log_dir)
    if was_interrupted:
        request.output.message(
            "Rolled back the incomplete part of an interrupted ingest. Run it again with the same"
            " input."
        )
    return was_interrupted


def report_findings(plans: Iterable[RecoveryPlan], report: Callable[[str], None]) -> None:
    """Report each repair in a line: action, files, reason. Of empty logs with the same repairs each
    is in one line.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for plan in plans:
        sentences = tuple(map(_sentence, plan.findings))
        if _is_empty(plan):
            alike.setdefault(sentences, []).append(plan.name)
            continue
        for sentence in sentences:
            report(f"{plan.name}: {sentence}")
    for sentences, names in alike.items():
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        named = f"{len(names)} empty logs ({', '.join(names[:_MOST_NAMED])}{more})"
        for sentence in sentences:
            report(f"{names[0] if len(names) == 1 else named}: {sentence}")


def _is_empty(plan: RecoveryPlan) -> bool:
    """Return whether a log has no records, and no checkpoint is beyond its end."""
    checkpoints = plan.observed.checkpoints
    known = (
        plan.observed.recovery_point,
        checkpoints.high_watermark.get(plan.partition, 0),
        checkpoints.cleaner_offset.get(plan.partition, 0),
    )
    return (
        plan.log_start_offset == plan.log_end_offset >= max(known)
        and not any(finding.bytes for finding in plan.findings)
        and not (plan.dropped or plan.orphans or plan.removed_snapshots)
    )


def _sentence(finding: Finding) -> str:
    if finding.action == "missing":
        return finding.reason
    where = "" if finding.position is None else f" at byte {finding.position}"
    size = f" ({human_bytes(finding.bytes)})" if finding.bytes else ""
    offset = "" if finding.first_offset is None else f" from offset {finding.first_offset}"
    return f"{finding.action} {', '.join(finding.files)}{where}{offset}{size}: {finding.reason}"


def finding_object(finding: Finding) -> dict[str, object]:
    """Return the JSON form of a repair."""
    return {
        "action": finding.action,
        "files": list(finding.files),
        "reason": finding.reason,
        "firstOffset": finding.first_offset,
        "endOffset": finding.end_offset,
        "position": finding.position,
        "bytes": finding.bytes,
    }


def add_failures(request: Request, result: DirectoryPlan | DirectoryResult) -> None:
    """Add what cannot be or was not recovered to the failures. Effects: output."""
    for partition, error in result.failures.items():
        request.failures.add(partition, error)
    for name, error in result.marked_failures.items():
        request.failures.add_directory(name, error)


def _show_first(request: Request, plan: DirectoryPlan) -> None:
    """Show the recovery that would run first. Effects: output."""
    output = request.output
    report_findings(plan.plans, lambda line: output.text(f"Recovered first: {line}"))
    for log in plan.plans:
        if not log.is_marked:
            output.result(
                f"{log.partition}: to be planned after its recovery",
                topicPartition=str(log.partition),
                now=request.now_ms,
                planned=False,
                recoveredFirst=[finding_object(finding) for finding in log.findings],
            )


def _add_first_failures(
    request: Request, result: DirectoryPlan | DirectoryResult, wanted: Iterable[TopicPartition]
) -> None:
    """Add the failures of the logs that a command is about: of those that were named, else of all.
    Others are reported: the command continues without them. Effects: output.
    """
    if not request.named:
        add_failures(request, result)
        return
    own = set(wanted)
    for partition, error in result.failures.items():
        if partition in own:
            request.failures.add(partition, error)
        else:
            request.output.message(f"{partition}: not recovered: {error}")
    for name, error in result.marked_failures.items():
        request.output.message(f"{name}: not recovered: {error}")
