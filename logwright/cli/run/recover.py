"""``logwright recover``: repair a log directory as a broker does when it loads its logs after a
crash.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from logwright.cli.output import Output
from logwright.cli.recovering import (
    add_failures,
    ask,
    finding_object,
    plan_of,
    report_findings,
    say_who_leads,
    settled,
)
from logwright.cli.request import Request
from logwright.errors import LogwrightError
from logwright.format import names
from logwright.locks import lock_log_dir
from logwright.recovery.commit import commit_directory
from logwright.recovery.model import (
    DirectoryPlan,
    DirectoryResult,
    RecoveryOptions,
    RecoveryPlan,
)
from logwright.recovery.observe import marked_logs
from logwright.recovery.root import Root
from logwright.rescue.stray import sentence_of_strays

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
    options = RecoveryOptions(like_kafka=like_kafka, accept_loss=accept_loss)
    if request.dry_run:
        plan = plan_of(request, request.partitions(), options)
        _report(request, plan.plans, plan.root, None)
        add_failures(request, plan)
    else:
        request.partitions()  # locking creates a file: only in a log directory
        with lock_log_dir(request.log_dir):
            plan = plan_of(request, request.partitions(), options)
            ask(request, plan)
            if not like_kafka and settled(request):
                plan = plan_of(request, request.partitions(), options)
            result = commit_directory(plan)
        add_failures(request, result)
        _report(request, (*result.recovered, *result.marked), plan.root, result)
        _report_marker(request, plan, result)
        say = request.output.text
        say_who_leads(
            plan,
            result,
            lambda text: say(f"{request.log_dir}: {text}"),
            metadata=request.metadata,
        )
    for problem in plan.root.problems:
        request.failures.add_directory(str(request.log_dir), problem)
    for note in plan.root.notes:
        request.output.message(f"{request.log_dir}: {note}.")
    _say_what_is_renamed(request)


def _say_what_is_renamed(request: Request) -> None:
    """Say which logs a broker renames to ``-stray`` when it starts. Effects: reads their topic ids
    and the metadata; output.
    """
    present = [partition.directory_name for partition in request.partitions()]
    present += [log.name for log in marked_logs(request.log_dir)]
    try:
        metadata = request.sources().metadata
    except LogwrightError:  # it was refused where it was needed
        metadata = None
    sentence = sentence_of_strays(request.log_dir, present, metadata)
    if sentence is not None:
        request.output.message(f"{request.log_dir}: {sentence}.")


def _report(
    request: Request, plans: Iterable[RecoveryPlan], root: Root, result: DirectoryResult | None
) -> None:
    output = request.output
    plans = tuple(plans)
    kept = {} if result is None else result.cut
    for plan in plans:
        output.result(
            None,
            topicPartition=str(plan.partition),
            directory=plan.name,
            now=request.now_ms,
            recovered=result is not None,
            logStartOffset=plan.log_start_offset,
            logEndOffset=plan.log_end_offset,
            cutBytes=sum(repair.cut_bytes for repair in plan.repairs),
            droppedSegments=list(plan.dropped),
            keptIn=str(kept[plan.name]) if plan.name in kept else None,
            findings=[finding_object(finding) for finding in plan.findings],
        )
    report_findings(plans, output.text)
    for name, path in kept.items():
        output.text(f"{name}: removed bytes are kept in {path}")
    for name, problem in root.malformed.items():
        _report_checkpoint(output, name, problem, None if result is None else result.damaged[name])
    if not any(plan.findings for plan in plans) and not root.malformed:
        output.text("Nothing to repair.")


def _report_checkpoint(output: Output, name: str, problem: str, kept: Path | None) -> None:
    """Report a malformed checkpoint that is replaced, and what that means. Effects: output."""
    meaning = _WITHOUT_ENTRY[name]
    where = ""
    if kept is not None:
        where = f" It is kept as {kept}; until that is removed, searches count it as not searched."
    output.result(
        f"{name}: written without the unreadable entries: {problem} {meaning}{where}",
        checkpoint=name,
        problem=problem,
        meaning=meaning,
        keptAs=None if kept is None else str(kept),
    )


def _report_marker(request: Request, plan: DirectoryPlan, result: DirectoryResult) -> None:
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
