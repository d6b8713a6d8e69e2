"""``logwright recover``: repair a log directory as a broker does when it loads its logs after a
crash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import click

from logwright.cli.failures import FailureLog
from logwright.cli.output import Output, human_bytes
from logwright.cli.request import Request
from logwright.cli.selection import leave_held
from logwright.config.sources import served_topic_id
from logwright.errors import LogwrightError
from logwright.format import names
from logwright.format.names import TopicPartition
from logwright.ingest.settle import settle_before_recovery
from logwright.locks import broker_kept_out, lock_log_dir
from logwright.recovery.commit import commit_directory
from logwright.recovery.directory_plan import partitions_to_recover, plan_directory
from logwright.recovery.model import (
    DirectoryPlan,
    DirectoryResult,
    Finding,
    RecoveryOptions,
    RecoveryPlan,
)
from logwright.recovery.root import Root

_WITHOUT_ENTRY: Final = {
    names.RECOVERY_POINT_CHECKPOINT: "Logs without an entry count as not flushed.",
    names.LOG_START_OFFSET_CHECKPOINT: "Each log starts with its first segment: records that a"
    " DeleteRecords removed from the middle of a segment are visible again.",
    names.HIGH_WATERMARK_CHECKPOINT: "A broker finds the high watermarks again from the replicas.",
    names.CLEANER_OFFSET_CHECKPOINT: "The next cleaning reads each log from its start.",
}
"""What it means that a checkpoint has no entry of a log."""


def run(request: Request, *, like_kafka: bool, accept_loss: bool) -> None:
    """Run the command."""
    request.require_terminal()
    failures = FailureLog(output=request.output)
    options = RecoveryOptions(like_kafka=like_kafka, accept_loss=accept_loss)
    if request.dry_run:
        plan = _plan(request, options)
        _report(request, plan.plans, plan.root, None)
        add_failures(failures, plan)
    else:
        request.partitions()  # locking creates a file: only in a log directory
        with lock_log_dir(request.log_dir):
            plan = _plan(request, options)
            _ask(request, plan)
            if not like_kafka and _settled(request):
                plan = _plan(request, options)
            result = _commit(plan)
        add_failures(failures, result)
        _report(request, (*result.recovered, *result.marked), plan.root, result)
        _say_marker(request, plan, result)
    for problem in plan.root.problems:
        failures.add_directory(str(request.log_dir), problem)
    for note in plan.root.notes:
        request.output.message(f"{request.log_dir}: {note}.")
    click.get_current_context().exit(failures.exit_status)


def recover_first(
    request: Request,
    failures: FailureLog,
    *,
    like_kafka: bool,
    partitions: Iterable[TopicPartition] | None = None,
) -> None:
    """Recover before another command's own work, if the directory was not shut down cleanly or
    partitions have leftovers. Effects: changes the log directory; the caller holds its lock.

    Partitions that cannot be recovered without data loss become failures. Pauses are ignored: as
    when a broker starts, the directory is clean only when all of it is recovered.

    Args:
        partitions: the partitions the command works on; None: those that the request names.
    """
    wanted = request.partitions() if partitions is None else partitions
    damaged = partitions_to_recover(request.log_dir, wanted) if wanted else ()
    if not damaged:
        return
    plan = plan_directory(
        request.log_dir,
        damaged,
        lambda topic: request.settings(topic)[0],
        now_ms=request.now_ms,
        options=RecoveryOptions(like_kafka=like_kafka),
        topic_ids=topic_ids(request),
    )
    _ask(request, plan)
    if not like_kafka and _settled(request):
        recover_first(request, failures, like_kafka=like_kafka, partitions=partitions)
        return
    result = _commit(plan)
    failures.recovered.update(one.partition for one in result.recovered if one.changes)
    if result.recovered:
        request.output.message(f"Recovered {len(result.recovered)} partitions first.")
    say_findings((*result.recovered, *result.marked), request.output.message)
    _add_first_failures(request, failures, result, wanted)
    for problem in plan.root.problems:
        request.output.message(f"A broker would not start: {problem}")


def add_failures(failures: FailureLog, found: DirectoryPlan | DirectoryResult) -> None:
    """Add what cannot be or was not recovered to the failures. Effects: output."""
    for partition, error in found.failures.items():
        failures.add(partition, error)
    for name, error in found.marked_failures.items():
        failures.add_directory(name, error)


def _add_first_failures(
    request: Request,
    failures: FailureLog,
    found: DirectoryPlan | DirectoryResult,
    wanted: Iterable[TopicPartition],
) -> None:
    """Add the failures of the logs that a command is about: of those that were named, else of all.
    Others are said: the command continues without them. Effects: output.
    """
    if not request.named:
        add_failures(failures, found)
        return
    own = set(wanted)
    for partition, error in found.failures.items():
        if partition in own:
            failures.add(partition, error)
        else:
            request.output.message(f"{partition}: not recovered: {error}")
    for name, error in found.marked_failures.items():
        request.output.message(f"{name}: not recovered: {error}")


def ready_partitions(
    request: Request, failures: FailureLog, partitions: Iterable[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """Return the partitions that a command may work on: without paused ones, and recovered first
    where needed. Effects: changes the log directory, unless it is a dry run; output.
    """
    return leave_held(request, recover_or_show(request, failures, partitions), force=True)


def recover_or_show(
    request: Request, failures: FailureLog, partitions: Iterable[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """Recover the partitions that need it, or show it in a dry run, and return those that the
    command can continue with. Effects: changes the log directory, unless it is a dry run; output.
    """
    wanted = tuple(partitions)
    if not wanted:
        return ()
    if request.dry_run:
        return show_recovery_first(request, failures, like_kafka=False, partitions=wanted)
    if partitions_to_recover(request.log_dir, wanted):
        with lock_log_dir(request.log_dir):
            recover_first(request, failures, like_kafka=False, partitions=wanted)
    failed = {partition for partition, _ in failures.failures}
    return tuple(one for one in wanted if one not in failed)


def show_recovery_first(
    request: Request,
    failures: FailureLog,
    *,
    like_kafka: bool,
    partitions: tuple[TopicPartition, ...] | None = None,
) -> tuple[TopicPartition, ...]:
    """Show the recovery that would run first, in a dry run, and return the partitions that can be
    planned now. Effects: reads the log directory; output.

    Partitions that cannot be recovered without data loss become failures.

    Raises:
        LogDirLocked: a broker is running on the directory.
    """
    wanted = request.partitions() if partitions is None else partitions
    damaged = partitions_to_recover(request.log_dir, wanted)
    if not damaged:
        return wanted
    with broker_kept_out(request.log_dir):
        plan = plan_directory(
            request.log_dir,
            damaged,
            lambda topic: request.settings(topic)[0],
            now_ms=request.now_ms,
            options=RecoveryOptions(like_kafka=like_kafka),
            topic_ids=topic_ids(request),
        )
    output = request.output
    say_findings(plan.plans, lambda line: output.text(f"Recovered first: {line}"))
    for one in (each for each in plan.plans if not each.is_marked):
        output.text(f"{one.partition}: to be planned after its recovery")
        output.json_object(
            {
                "topicPartition": str(one.partition),
                "now": request.now_ms,
                "planned": False,
                "recoveredFirst": [_finding_object(finding) for finding in one.findings],
            }
        )
    _add_first_failures(request, failures, plan, wanted)
    return tuple(one for one in wanted if one not in damaged)


def _settled(request: Request) -> bool:
    """Finish or roll back an interrupted append before recovery, and return whether there was one.
    Effects: see `logwright.ingest.settle`; output.
    """
    settled = settle_before_recovery(request.log_dir)
    if settled:
        request.output.message(
            "Rolled back the incomplete part of an interrupted ingest. Run it again with the same"
            " input."
        )
    return settled


def _plan(request: Request, options: RecoveryOptions) -> DirectoryPlan:
    return plan_directory(
        request.log_dir,
        request.partitions(),
        lambda topic: request.settings(topic)[0],
        now_ms=request.now_ms,
        options=options,
        topic_ids=topic_ids(request),
    )


def topic_ids(request: Request) -> Callable[[TopicPartition], str | None]:
    """Return what gives the id of a partition's topic by the sources of the settings; None if they
    do not have it, or cannot be read. Effects of the result: reads the sources.
    """

    def find(partition: TopicPartition) -> str | None:
        try:
            return served_topic_id(request.sources(), partition)
        except LogwrightError:
            return None

    return find


def _commit(plan: DirectoryPlan) -> DirectoryResult:
    return commit_directory(plan)


def _ask(request: Request, plan: DirectoryPlan) -> None:
    """Show the plans and ask on the terminal, unless ``--yes`` was given. Effects: output; reads
    the terminal.
    """
    if request.yes or not plan.changes:
        return
    say_findings(plan.plans, request.output.message)
    for name, problem in plan.root.malformed.items():
        request.output.message(f"{name}: to be replaced: {problem}")
    changing = sum(one.changes for one in plan.plans)
    request.confirm(f"Repair {changing} of {len(plan.plans)} partitions in {request.log_dir}?")


def say_findings(plans: Iterable[RecoveryPlan], say: Callable[[str], None]) -> None:
    """Print one line per repair: action, files, reason."""
    for plan in plans:
        for finding in plan.findings:
            say(f"{plan.name}: {_sentence(finding)}")


def _sentence(finding: Finding) -> str:
    where = "" if finding.position is None else f" at byte {finding.position}"
    size = f" ({human_bytes(finding.bytes)})" if finding.bytes else ""
    offset = "" if finding.first_offset is None else f" from offset {finding.first_offset}"
    return f"{finding.action} {', '.join(finding.files)}{where}{offset}{size}: {finding.reason}"


def _report(
    request: Request, plans: Iterable[RecoveryPlan], root: Root, result: DirectoryResult | None
) -> None:
    output = request.output
    plans = tuple(plans)
    for plan in plans:
        cut = None if result is None else result.cut.get(plan.name)
        output.json_object(
            {
                "topicPartition": str(plan.partition),
                "directory": plan.name,
                "now": request.now_ms,
                "recovered": result is not None,
                "logStartOffset": plan.log_start_offset,
                "logEndOffset": plan.log_end_offset,
                "cutBytes": sum(repair.cut_bytes for repair in plan.repairs),
                "droppedSegments": list(plan.dropped),
                "keptIn": None if cut is None else str(cut),
                "findings": [_finding_object(finding) for finding in plan.findings],
            }
        )
    say_findings(plans, output.text)
    if result is not None:
        for name, path in result.cut.items():
            output.text(f"{name}: removed bytes are kept in {path}")
    for name, problem in root.malformed.items():
        _report_checkpoint(output, name, problem, None if result is None else result.damaged[name])
    if not any(plan.findings for plan in plans) and not root.malformed:
        output.text("Nothing to repair.")


def _report_checkpoint(output: Output, name: str, problem: str, kept: Path | None) -> None:
    """Report a malformed checkpoint that is replaced, and what that means. Effects: output."""
    what = _WITHOUT_ENTRY[name]
    where = (
        ""
        if kept is None
        else (f" It is kept as {kept}; until that is removed, searches count it as not searched.")
    )
    output.text(f"{name}: written without the unreadable entries: {problem} {what}{where}")
    output.json_object(
        {
            "checkpoint": name,
            "problem": problem,
            "meaning": what,
            "keptAs": None if kept is None else str(kept),
        }
    )


def _finding_object(finding: Finding) -> dict[str, object]:
    return {
        "action": finding.action,
        "files": list(finding.files),
        "reason": finding.reason,
        "firstOffset": finding.first_offset,
        "endOffset": finding.end_offset,
        "position": finding.position,
        "bytes": finding.bytes,
    }


def _say_marker(request: Request, plan: DirectoryPlan, result: DirectoryResult) -> None:
    output = request.output
    if result.clean:
        if plan.marker is None:
            output.text(f"{request.log_dir} is now marked as cleanly shut down.")
        return
    left = ", ".join(plan.left_out[:3]) + (" and more" if len(plan.left_out) > 3 else "")  # noqa: PLR2004 - as sliced
    why = f"left out: {left}"
    if result.failures or result.marked_failures:
        why = "some logs could not be recovered; the others were"
    elif plan.root.stops_a_broker:
        why = "a broker would not start on it"
    output.message(f"{request.log_dir} is still not marked as cleanly shut down: {why}.")
