"""``logwright rescue``: do what `doctor` says, so that a broker starts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict, Unpack

import click

from logwright.cli.output import Output
from logwright.cli.recovering import (
    finding_object,
    report_findings,
    say_if_they_lead,
    say_who_leads,
)
from logwright.cli.request import Request
from logwright.cli.run.doctor import local_directories, show_verdict, status_of
from logwright.cli.run.rescue_free import free_disk
from logwright.cli.statuses import STOPPED
from logwright.cli.streams import confirmed
from logwright.cli.wording import counted
from logwright.config.topic import TopicConfig
from logwright.errors import LogwrightError, NotALogDir, PreconditionError
from logwright.format.names import TopicPartition
from logwright.ingest.settle import settle_before_recovery
from logwright.locks import lock_log_dir
from logwright.place.model import Place
from logwright.reading import reading
from logwright.recovery.commit import commit_directory
from logwright.recovery.directory_plan import Settings
from logwright.recovery.model import DirectoryPlan, DirectoryResult, RecoveryOptions
from logwright.rescue.cluster import read_cluster
from logwright.rescue.model import StartVerdict
from logwright.rescue.recovering import plan_recovery_of
from logwright.rescue.repair import Repair, RepairPlan, plan_repairs
from logwright.rescue.repair_commit import (
    do_repairs,
    note_recovery,
    read_journal,
    seal_journal,
    undo_repairs,
)
from logwright.rescue.rights import User, owner_of, user_named
from logwright.rescue.start import judge_start
from logwright.steps.marker import WITHOUT_EPOCH
from logwright.units import TimestampMs

_VERBS: Final = {
    "written": "write",
    "removed": "remove",
    "moved out": "rename",
    "set aside": "rename",
    "kept": "keep a copy of",
    "epoch removed": "do without",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rescue:
    """One call: all directories, resolved, and the options."""

    request: Request
    output: Output
    log_dirs: tuple[Path, ...]
    now_ms: TimestampMs
    user: User | None
    metadata: Path | None
    aside: tuple[Path, ...]
    options: RecoveryOptions
    yes: bool
    dry_run: bool

    def judge(self) -> StartVerdict:
        """Return what doctor says. Effects: reads the directories."""
        return judge_start(
            self.log_dirs, now_ms=self.now_ms, user=self.user, metadata=self.metadata
        )

    def plan(self, verdict: StartVerdict, aside: Sequence[Path]) -> RepairPlan:
        """Return the steps for a verdict. Effects: reads the directories."""
        cluster = read_cluster(self.log_dirs, self.metadata, now_ms=self.now_ms)
        return plan_repairs(
            self.log_dirs,
            verdict.findings,
            metadata=cluster.metadata,
            named=aside,
            now_ms=self.now_ms,
            accept_loss=self.options.accept_loss,
        )

    def plan_recoveries(self, log_dirs: Sequence[Path]) -> list[DirectoryPlan]:
        """Return the plans of recoveries. Effects: reads the directories."""
        cluster = read_cluster(self.log_dirs, self.metadata, now_ms=self.now_ms)
        return [
            plan_recovery_of(
                each,
                cluster.metadata,
                self._settings(each),
                now_ms=self.now_ms,
                options=self.options,
            )
            for each in log_dirs
        ]

    def _settings(self, log_dir: Path) -> Settings:
        """Return the settings of topics, Kafka's defaults where what has them is damaged, too."""
        request = self.request.of(log_dir)

        def of(topic: str) -> TopicConfig:
            try:
                return request.settings(topic)[0]
            except LogwrightError:
                return TopicConfig()

        return of

    def ask(self, question: str) -> None:
        """Ask on the terminal, unless ``--yes`` was given. Effects: exits if declined."""
        if not self.yes and not confirmed(question):
            self.output.message("Nothing more was changed.")
            raise click.exceptions.Exit(STOPPED)


class Free(TypedDict):
    """The values of the options of ``--free``."""

    reserve: int | None
    strays: tuple[str, ...]
    tighter: tuple[tuple[str, str], ...]


class Given(Free):
    """The values of the options, as click passes them."""

    user: str | None
    aside: tuple[Path, ...]
    accept_loss: bool
    undo: bool
    goal: int | None


def run(request: Request, *, more_dirs: tuple[Place, ...], **given: Unpack[Given]) -> int:
    """Run the command; its exit status."""
    request.require_terminal()
    free: Free = {
        "reserve": given["reserve"],
        "strays": given["strays"],
        "tighter": given["tighter"],
    }
    own = given["undo"], given["aside"], given["accept_loss"], given["user"]
    if given["goal"] is None and any(value not in (None, ()) for value in free.values()):
        raise click.UsageError("--reserve, --stray and --tighter-retention need --free")
    if given["goal"] is not None and any(own):
        raise click.UsageError(
            "--free does nothing else: give no --undo, --set-aside, --accept-loss or --user"
        )
    if given["goal"] is not None:
        free_disk(request, more_dirs, goal=given["goal"], **free)
        return 0
    directories = [each.resolve() for each in local_directories((request.place, *more_dirs))]
    rescue = _Rescue(
        request=request,
        output=request.output,
        log_dirs=tuple(directories),
        now_ms=request.now_ms,
        user=owner_of(directories) if given["user"] is None else user_named(given["user"]),
        metadata=request.metadata,
        aside=tuple(each.parent.resolve() / each.name for each in given["aside"]),
        options=RecoveryOptions(accept_loss=given["accept_loss"]),
        yes=request.yes,
        dry_run=request.dry_run,
    )
    if given["undo"]:
        return _undo(rescue)
    return _dry_run(rescue) if rescue.dry_run else _rescue(rescue)


def _dry_run(rescue: _Rescue) -> int:
    """Show the steps. Effects: output."""
    with ExitStack() as stack:
        for each in rescue.log_dirs:
            stack.enter_context(reading(each))
        verdict = rescue.judge()
        plan = rescue.plan(verdict, rescue.aside)
        recoveries = rescue.plan_recoveries(plan.to_recover)
    _show_plan(rescue.output, plan, recoveries)
    _say_who_leads(rescue, (*rescue.aside, *_absent(verdict)))
    _show_by_hand(rescue.output, plan)
    if not plan.steps and not recoveries:
        rescue.output.text("Nothing to do.")
    return status_of(verdict)


def _rescue(rescue: _Rescue) -> int:
    """Do the steps. Effects: changes the log directories, under their locks; output."""
    with ExitStack() as locks:
        for each in rescue.log_dirs:
            locks.enter_context(lock_log_dir(each))
        before = rescue.judge()
        plan = rescue.plan(before, rescue.aside)
        recoveries = rescue.plan_recoveries(plan.to_recover)
        _say_who_leads(rescue, (*rescue.aside, *_absent(before)))
        if plan.steps or recoveries:
            _show_plan(rescue.output, plan, recoveries)
            steps = counted(len(plan.steps), "step")
            rescue.ask(f"Do {steps}, then recover {counted(len(recoveries), 'directory')}?")
        do_repairs(plan.steps)
        if any(step.kind == "epoch removed" for step in plan.steps):
            rescue.output.message(WITHOUT_EPOCH)
        _recover(rescue, planned={each.log_dir for each in recoveries})
        for each in rescue.log_dirs:
            seal_journal(each)
        verdict = rescue.judge()
        last = rescue.plan(verdict, ())
    if not plan.steps and not recoveries:
        rescue.output.text("Nothing to do.")
    _show_by_hand(rescue.output, last)
    show_verdict(rescue.output, verdict)
    return status_of(verdict)


def _recover(rescue: _Rescue, *, planned: set[Path]) -> None:
    """Recover the directories of which there is a finding now; ask again for one that was not
    planned: the steps before made its logs readable. Effects: changes them; output.
    """
    for log_dir in rescue.plan(rescue.judge(), ()).to_recover:
        settle_before_recovery(log_dir)
        (plan,) = rescue.plan_recoveries([log_dir])
        if log_dir not in planned:
            _show_recovery(rescue.output, plan)
            rescue.ask(f"Recover {log_dir}?")
        kept = [step for step in rescue.plan(rescue.judge(), ()).steps if step.kind == "kept"]
        do_repairs([step for step in kept if step.log_dir == log_dir and not _has_copy(step)])
        note_recovery(plan)
        result = commit_directory(plan)
        _show_result(rescue, plan, result)


def _say_who_leads(rescue: _Rescue, paths: Iterable[Path]) -> None:
    """Say if logs that are missing, set aside, or brought back, lead all the same, empty or older.
    Effects: reads the metadata; output.
    """
    logs: dict[Path, list[TopicPartition]] = {}
    for path in paths:
        partition = TopicPartition.parse(path.name)
        if partition is not None:
            logs.setdefault(path.parent, []).append(partition)
    for log_dir, partitions in logs.items():
        say_if_they_lead(log_dir, partitions, rescue.output.message, metadata=rescue.metadata)


def _absent(verdict: StartVerdict) -> list[Path]:
    return [each.path for each in verdict.findings if each.about == "absent log"]


def _has_copy(step: Repair) -> bool:
    return step.target is not None and step.target.exists()


def _show_plan(output: Output, plan: RepairPlan, recoveries: Sequence[DirectoryPlan]) -> None:
    for step in plan.steps:
        to = "" if step.target is None else f" to {step.target}"
        if step.kind == "written":
            to = "" if step.target is None else f", keep the old one as {step.target}"
        output.result(
            f"{_VERBS[step.kind]} {step.path}{to}: {step.why}",
            path=str(step.path),
            step=step.kind,
            target=None if step.target is None else str(step.target),
            why=step.why,
        )
    for recovery in recoveries:
        _show_recovery(output, recovery)


def _show_recovery(output: Output, plan: DirectoryPlan) -> None:
    changing = [log for log in plan.plans if log.changes]
    output.result(
        f"recover {plan.log_dir}",
        path=str(plan.log_dir),
        step="recover",
        checkpoints=dict(plan.root.malformed),
        logs=[
            {"directory": log.name, "findings": [finding_object(each) for each in log.findings]}
            for log in changing
        ],
    )
    for name, problem in plan.root.malformed.items():
        output.text(f"  {name}: written without the unreadable entries: {problem}")
    report_findings(changing, lambda line: output.text(f"  {line}"))


def _show_result(rescue: _Rescue, plan: DirectoryPlan, result: DirectoryResult) -> None:
    output = rescue.output
    failures = {one.directory_name: error for one, error in result.failures.items()}
    failures |= result.marked_failures
    recovered = [*result.recovered, *result.marked]
    changed = sum(log.changes for log in recovered)
    output.result(
        f"recovered {plan.log_dir}: {counted(len(recovered), 'log')}, {changed} of them changed,"
        f" {len(failures)} could not be recovered",
        path=str(plan.log_dir),
        step="recovered",
        recovered=[log.name for log in recovered],
        cutBytes=sum(repair.cut_bytes for log in recovered for repair in log.repairs),
        keptIn={name: str(path) for name, path in result.cut.items()},
        notRecovered={name: error.problem for name, error in failures.items()},
        done=True,
    )
    for name, path in result.cut.items():
        output.text(f"  {name}: removed bytes are kept in {path}")
    say_who_leads(plan, result, lambda text: output.text(f"  {text}"), metadata=rescue.metadata)
    for name, error in failures.items():
        output.message(f"{name}: not recovered: {error}")


def _show_by_hand(output: Output, plan: RepairPlan) -> None:
    for finding in plan.by_hand:
        remedy = "" if finding.remedy is None else f" {finding.remedy}"
        output.result(
            f"by hand: {finding.path}: {finding.problem}{remedy}",
            path=str(finding.path),
            step="by hand",
            why=finding.problem,
            remedy=finding.remedy,
        )


def _undo(rescue: _Rescue) -> int:
    """Bring back what was set aside. Effects: changes the log directories; output."""
    status = 0
    for log_dir in rescue.log_dirs:
        if not log_dir.is_dir():
            raise NotALogDir("the log directory does not exist.", path=log_dir)
        steps = read_journal(log_dir)
        for step in reversed(steps):
            rescue.output.text(f"undo: {log_dir / step.path}: {step.kind}")
        if not steps:
            rescue.output.text(f"{log_dir}: nothing to undo.")
        _say_who_leads(rescue, (log_dir / step.path for step in steps if step.kind == "moved out"))
        if rescue.dry_run or not steps:
            continue
        rescue.ask(f"Undo {counted(len(steps), 'step')} in {log_dir}?")
        for step, error in undo_repairs(log_dir):
            rescue.output.result(
                f"{log_dir / step.path}: {'undone' if error is None else error}",
                path=str(log_dir / step.path),
                step=step.kind,
                undone=error is None,
            )
            status = status if error is None else PreconditionError.exit_status
    return status
