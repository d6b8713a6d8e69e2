"""``logwright recover``: what a broker's loading and clean stop would leave of a directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from logwright.cli.leaving import leave_held
from logwright.cli.output import human_bytes
from logwright.cli.planning import FailureLog
from logwright.cli.request import Request, request_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from logwright.format.names import TopicPartition
    from logwright.recovery.model import (
        DirectoryPlan,
        DirectoryResult,
        Finding,
        RecoveryOptions,
        RecoveryPlan,
    )


@click.command(name="recover")
@click.option(
    "--like-kafka",
    is_flag=True,
    help="Cut, drop and delete as Kafka's loading does; nothing is kept of it.",
)
@click.option(
    "--accept-loss",
    is_flag=True,
    help="Whole segments may be dropped that lie behind damage.",
)
@request_options
def command(request: Request, *, like_kafka: bool, accept_loss: bool) -> None:
    """Repair what a crash left; then the directory counts as cleanly stopped."""
    from logwright.locks import lock_log_dir  # noqa: PLC0415 -- not for --help
    from logwright.recovery.model import RecoveryOptions  # noqa: PLC0415

    request.require_terminal()
    failures = FailureLog(output=request.output)
    options = RecoveryOptions(like_kafka=like_kafka, accept_loss=accept_loss)
    if request.dry_run:
        plan = _plan(request, options)
        _report(request, plan.plans, None)
        add_failures(failures, plan)
    else:
        request.partitions()  # locking makes a file, which only a log directory may get
        with lock_log_dir(request.log_dir):
            plan = _plan(request, options)
            _ask(request, plan)
            if not like_kafka and _settled(request):
                plan = _plan(request, options)
            result = _commit(plan)
        add_failures(failures, result)
        _report(request, (*result.recovered, *result.marked), result)
        _say_marker(request, plan, result)
    click.get_current_context().exit(failures.exit_status)


def recover_first(
    request: Request,
    failures: FailureLog,
    *,
    like_kafka: bool,
    partitions: Iterable[TopicPartition] | None = None,
) -> None:
    """What another command does about a directory that was not stopped cleanly, or partitions with
    leftovers, before its own work. Effects: changes the log directory, which is locked.

    Partitions that cannot be recovered without a loss are put down as failures. A pause does not
    count: the directory is clean only when all of it is recovered, as when a broker starts.

    Args:
        partitions: the command works on these; None: on those that the request names.
    """
    from logwright.recovery.directory_plan import partitions_to_recover, plan_directory  # noqa: PLC0415
    from logwright.recovery.model import RecoveryOptions  # noqa: PLC0415 -- not for --help

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
    )
    _ask(request, plan)
    if not like_kafka and _settled(request):
        recover_first(request, failures, like_kafka=like_kafka, partitions=partitions)
        return
    result = _commit(plan)
    request.output.message(f"Recovered {len(result.recovered)} partitions first.")
    say_findings((*result.recovered, *result.marked), request.output.message)
    add_failures(failures, result)


def add_failures(failures: FailureLog, found: DirectoryPlan | DirectoryResult) -> None:
    """Put down what cannot or could not be recovered. Effects: output."""
    for partition, error in found.failures.items():
        failures.add(partition, error)
    for name, error in found.marked_failures.items():
        failures.add_directory(name, error)


def ready_partitions(
    request: Request, failures: FailureLog, partitions: Iterable[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """Those of some partitions that a command may work on: recovered first where that is needed,
    and without those that are paused. Effects: changes the log directory, unless it is a dry run;
    output.
    """
    return leave_held(request, recover_or_show(request, failures, partitions), force=True)


def recover_or_show(
    request: Request, failures: FailureLog, partitions: Iterable[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """Recover first those of some partitions that need it, or in a dry run say so; those that the
    command can go on with. Effects: changes the log directory, unless it is a dry run; output.
    """
    from logwright.locks import lock_log_dir  # noqa: PLC0415 -- not for --help
    from logwright.recovery.directory_plan import partitions_to_recover  # noqa: PLC0415

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
    """What a dry run says of the recovery that would come first, and the partitions that it can
    plan now. Effects: reads the log directory; output.

    Partitions that cannot be recovered without a loss are put down as failures.

    Raises:
        LogDirLocked: a broker runs on the directory, so it is not there to be recovered.
    """
    from logwright.locks import broker_kept_out  # noqa: PLC0415 -- not for --help
    from logwright.recovery.directory_plan import partitions_to_recover, plan_directory  # noqa: PLC0415
    from logwright.recovery.model import RecoveryOptions  # noqa: PLC0415

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
        )
    output = request.output
    say_findings(plan.plans, lambda line: output.text(f"Recovered first: {line}"))
    for one in (each for each in plan.plans if not each.is_marked):
        output.text(f"{one.partition}: its plan is made after the recovery")
        output.json_object(
            {
                "topicPartition": str(one.partition),
                "now": request.now_ms,
                "planned": False,
                "recoveredFirst": [_finding_object(finding) for finding in one.findings],
            }
        )
    add_failures(failures, plan)
    return tuple(one for one in wanted if one not in damaged)


def _settled(request: Request) -> bool:
    """Bring an append that was interrupted to its end, instead of recovering what is there of it;
    whether there was one. Effects: see `logwright.ingest.settle`; output.
    """
    from logwright.ingest.settle import settle_before_recovery  # noqa: PLC0415 -- not for --help

    settled = settle_before_recovery(request.log_dir)
    if settled:
        request.output.message(
            "An ingest was interrupted: what was not complete of it is cut back. Run it again with"
            " the same input."
        )
    return settled


def _plan(request: Request, options: RecoveryOptions) -> DirectoryPlan:
    from logwright.recovery.directory_plan import plan_directory  # noqa: PLC0415 -- kernels: not for --help

    return plan_directory(
        request.log_dir,
        request.partitions(),
        lambda topic: request.settings(topic)[0],
        now_ms=request.now_ms,
        options=options,
    )


def _commit(plan: DirectoryPlan) -> DirectoryResult:
    from logwright.recovery.commit import commit_directory  # noqa: PLC0415

    return commit_directory(plan)


def _ask(request: Request, plan: DirectoryPlan) -> None:
    """Effects: shows the plans and asks on the terminal, unless ``--yes`` was given."""
    if request.yes or not plan.changes:
        return
    say_findings(plan.plans, request.output.message)
    changing = sum(one.changes for one in plan.plans)
    request.confirm(f"Repair {changing} of {len(plan.plans)} partitions in {request.log_dir}?")


def say_findings(plans: Iterable[RecoveryPlan], say: Callable[[str], None]) -> None:
    """A line for each thing that is done, and why."""
    for plan in plans:
        for finding in plan.findings:
            say(f"{plan.name}: {_sentence(finding)}")


def _sentence(finding: Finding) -> str:
    where = "" if finding.position is None else f" at byte {finding.position}"
    size = f" ({human_bytes(finding.bytes)})" if finding.bytes else ""
    offset = "" if finding.first_offset is None else f" from offset {finding.first_offset}"
    return f"{finding.action} {', '.join(finding.files)}{where}{offset}{size}: {finding.reason}"


def _report(
    request: Request, plans: Iterable[RecoveryPlan], result: DirectoryResult | None
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
            output.text(f"{name}: what was cut out is kept in {path}")
    if not any(plan.findings for plan in plans):
        output.text("Nothing to repair.")


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
            output.text(f"{request.log_dir} counts as cleanly stopped now.")
        return
    left = ", ".join(plan.left_out[:3]) + (" and more" if len(plan.left_out) > 3 else "")  # noqa: PLR2004 - as sliced
    why = f"of {left}"
    if result.failures or result.marked_failures:
        why = "some logs could not be recovered"
    output.message(f"{request.log_dir} still counts as not cleanly stopped, because {why}.")
