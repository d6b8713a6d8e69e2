"""``logwright clean``: plan, ask, build, examine, commit; once or several times at one clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Unpack

import click

from logwright.cli.failures import FailureLog
from logwright.cli.options.clean import Given
from logwright.cli.output import Output, human_bytes
from logwright.cli.request import Request
from logwright.cli.run.cleaning import Cleaning, one_bar
from logwright.cli.run.planning import (
    CleaningSettings,
    plan_object,
    plan_partitions,
    report_failed,
    show_plan,
)
from logwright.cli.run.recover import recover_first, show_recovery_first
from logwright.cli.run.replicas import leave_incomplete
from logwright.cli.run.retain import plan_one, show
from logwright.cli.selection import leave_held, leave_strays, leave_unknown, say_sources
from logwright.compaction.model import CleaningOptions, CleanPlan
from logwright.errors import LogwrightError
from logwright.extras import require
from logwright.format.names import TopicPartition
from logwright.locks import lock_log_dir
from logwright.sweep.clean import clean_logs, plan_again
from logwright.sweep.commit import lag_metrics
from logwright.sweep.executor import Executor, LocalExecutor
from logwright.sweep.holds import quarantine
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.order import changes, cleaning_order, plans_of
from logwright.sweep.retain import retain_compacted
from logwright.sweep.stages import to_clean


def run(
    request: Request,
    **given: Unpack[Given],
) -> None:
    """Run the command."""
    request.require_terminal()
    if request.engine == "spark":
        require("spark", by="--engine spark")
    failures = FailureLog(output=request.output)
    force, like_kafka, retain = given["force"], given["like_kafka"], given["retain"]
    options = CleaningOptions(
        force=force,
        like_kafka=like_kafka,
        checks=given["checks"] or (request.policies.checks if request.policies else "quick"),
        keep_failed_output_ms=(
            request.policies.sweep.keep_failed_output_ms if request.policies else 0
        ),
        replicas=given["replicas"],
    )
    settings = CleaningSettings(request=request, dedupe_buffer=given["dedupe_buffer"])
    chosen = leave_strays(request, request.partitions(), failures, force=force)
    chosen = leave_unknown(request, chosen, failures)
    say_sources(request, chosen)
    chosen = leave_incomplete(request, chosen, given["replicas"], failures)
    if request.dry_run:
        partitions = show_recovery_first(
            request, failures, like_kafka=like_kafka, partitions=chosen
        )
        for plan in plans_of(_plan(request, partitions, failures, options, settings)):
            request.output.json_object(plan_object(plan))
            show_plan(plan, request.output.text)
            if retain and plan.config.compact:
                _show_retention(request, plan, failures)
    else:
        with lock_log_dir(request.log_dir):
            recover_first(request, failures, like_kafka=like_kafka, partitions=chosen)
            works = _plan(request, chosen, failures, options, settings)
            _ask(request, plans_of(works))
            if retain and not request.yes:
                request.confirm("Then delete old segments of compacted logs by their retention?")
            with _executor(request, plans_of(works), given["threads"]) as executor:
                cleanings = _clean(works, executor, failures, (given["passes"], settings))
            _quarantine(request, failures)
            _report(request.output, cleanings)
            if retain:
                _retain(request, [each for each in cleanings if not each.failed], failures)
    click.get_current_context().exit(failures.exit_status)


def _plan(
    request: Request,
    partitions: Iterable[TopicPartition],
    failures: FailureLog,
    options: CleaningOptions,
    settings: CleaningSettings,
) -> list[LogWork]:
    """Plan what is not held, in the order of cleaning. Effects: reads; output."""
    failed = {partition for partition, _ in failures.failures}
    free = leave_held(
        request, [one for one in partitions if one not in failed], force=options.force
    )
    works = plan_partitions(request, free, failures, options=options, settings=settings)
    return cleaning_order(works)


@contextmanager
def _executor(
    request: Request, plans: Sequence[CleanPlan], threads: int | None
) -> Iterator[Executor]:
    """Open the executor: this process, with one progress bar, or a Spark session that starts when
    it is needed. Effects: output; the session ends on leaving.
    """
    plans = [plan for plan in plans if plan.clean]
    if request.engine == "local":
        title = str(plans[0].log.partition) if len(plans) == 1 else f"{len(plans)} logs"
        with request.output.progress(title) as show:
            yield LocalExecutor(threads=threads, progress=one_bar(plans, show))
        return
    from logwright.spark.sweep import local_executor  # noqa: PLC0415 -- seconds

    with local_executor(lambda: request.output.message("Starting Spark …")) as spark:
        yield spark


def _ask(request: Request, plans: Sequence[CleanPlan]) -> None:
    """Show the plans and ask on the terminal, unless ``--yes`` was given. Effects: output; reads
    the terminal.
    """
    due = [plan for plan in plans if changes(plan)]
    if not due or request.yes:
        return
    for plan in plans:
        show_plan(plan, request.output.message)
    request.confirm(f"Change {len(due)} of {len(plans)} partitions in {request.log_dir}?")


def _clean(
    works: Sequence[LogWork],
    executor: Executor,
    failures: FailureLog,
    asked: tuple[int, CleaningSettings],
) -> list[Cleaning]:
    """Execute the plans that change a log. Effects: changes the logs; output.

    `asked`: the number of passes at most, and the settings.
    """
    passes, settings = asked
    request = settings.request
    history = {work.key: [work] for work in works}
    state = SweepState(works=tuple(works), now_ms=request.now_ms)
    for number in range(passes):
        ended = []
        with closing(clean_logs(state, executor)) as cleaned:
            for work in cleaned:
                report_failed([work], failures)
                history[work.key][-1] = work
                ended.append(work)
        if number + 1 == passes:
            break
        again = plan_again(
            ended, settings, now_ms=request.now_ms, high_watermark=request.high_watermark
        )
        for work in again.works:
            history[work.key].append(work)
        report_failed(again.works, failures)
        state = replace(again, works=tuple(to_clean(again)))
        if not state.works:
            break
    return [
        Cleaning(work.plan, tuple(history[work.key])) for work in works if work.plan is not None
    ]


def _quarantine(request: Request, failures: FailureLog) -> None:
    """Quarantine the partitions that failed permanently. Effects: the state file; stderr."""
    failed = {
        str(one): LogWork(key=str(one), log_dir=request.log_dir, partition=one, failure=error)
        for one, error in failures.failures
    }
    state = SweepState(works=tuple(failed.values()), now_ms=request.now_ms)
    for key, outcome in quarantine(state).items():
        if isinstance(outcome, LogwrightError):
            failures.add(failed[key].partition, outcome)
        else:
            request.output.message(f"{key}: {outcome.sentence}")


def _show_retention(request: Request, plan: CleanPlan, failures: FailureLog) -> None:
    """Show what retention would delete from the log as it is now. Effects: reads; stdout."""
    partition = plan.log.partition
    try:
        found = plan_one(request, partition, None, force=plan.options.force)
    except LogwrightError as error:
        failures.add(partition, error)
    else:
        show(request, [] if found is None else [found], done=False)


def _retain(request: Request, cleanings: Sequence[Cleaning], failures: FailureLog) -> None:
    """Apply retention to the compacted logs. Effects: changes them; stdout."""
    ended = retain_compacted(
        SweepState(works=tuple(each.works[-1] for each in cleanings), now_ms=request.now_ms),
        CleaningSettings(request=request),
        high_watermark=request.high_watermark,
        force=any(each.first_plan.options.force for each in cleanings),
    )
    done = [work.retained for work in report_failed(ended, failures) if work.retained is not None]
    show(request, done, done=True)


def _report(output: Output, cleanings: Sequence[Cleaning]) -> None:
    for cleaning in cleanings:
        if not cleaning.failed:
            output.json_object(cleaning.as_object())
    header = (
        "partition",
        "passes",
        "bytes before",
        "after",
        "superseded",
        "tombstones",
        "without key",
        "aborted",
        "dirty from",
        "note",
    )
    output.table(header, [cleaning.as_row() for cleaning in cleanings])
    reclaimed = sum(each.bytes_before - each.bytes_after for each in cleanings)
    if any(cleaning.passes for cleaning in cleanings):
        output.text(
            f"Reclaimed {human_bytes(reclaimed)}; the old segments go with `logwright purge` "
            "once file.delete.delay.ms is over."
        )
        metrics = lag_metrics(result for each in cleanings for result in each.results)
        output.text(", ".join(f"{name}: {value}" for name, value in metrics.items()))
    else:
        output.text("Nothing was cleaned.")
