"""``logwright clean``: plan, ask, build, examine, commit; once or several times at one clock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Unpack

import click

from logwright.cli.options.clean import Given
from logwright.cli.output import Output, human_bytes
from logwright.cli.request import Request
from logwright.cli.run.cleaning import TITLES, Cleaning, one_bar
from logwright.cli.run.planning import (
    CleaningSettings,
    plan_lines,
    plan_object,
    plan_partitions,
    report_failed,
)
from logwright.cli.run.replicas import leave_incomplete, say_unknown_high_watermarks
from logwright.cli.run.retain import plan_one, show
from logwright.cli.selection import choose, ready, report_sources
from logwright.cli.wording import counted
from logwright.compaction.model import CleaningOptions, CleanPlan, ReadablePlan
from logwright.errors import LogwrightError
from logwright.extras import require
from logwright.format.names import TopicPartition
from logwright.locks import lock_log_dir
from logwright.place.model import is_versioned
from logwright.retention.plan import RetentionPlan
from logwright.sweep.clean import clean_logs, plan_again
from logwright.sweep.commit import lag_metrics
from logwright.sweep.executor import Executor, LocalExecutor
from logwright.sweep.holds import quarantine
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.order import changes, cleaning_order, plans_of
from logwright.sweep.retain import retain_compacted
from logwright.sweep.stages import to_clean
from logwright.times import duration


def run(
    request: Request,
    **given: Unpack[Given],
) -> None:
    """Run the command."""
    request.require_terminal(versioned=True)
    if request.engine == "spark":
        require("spark", by="--engine spark")
    elif given["spark_master"] is not None:
        raise click.UsageError("--spark-master is for --engine spark")
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
    chosen = choose(request, force=force)
    report_sources(request, chosen)
    chosen = leave_incomplete(request, chosen, given["replicas"])
    say_unknown_high_watermarks(request, chosen)
    if request.dry_run:
        logs = ready(request, chosen, force=force, like_kafka=like_kafka)
        planned = plan_partitions(request, request.place, logs, options=options, settings=settings)
        for plan in plans_of(cleaning_order(planned)):
            request.output.result(plan_lines(plan), **plan_object(plan))
            if retain and plan.config.compact:
                _show_retention(request, plan)
        return
    if is_versioned(request.place):
        _clean_there(request, chosen, options, settings, given)
        return
    with lock_log_dir(request.log_dir):
        logs = ready(request, chosen, force=force, like_kafka=like_kafka, locked=True)
        works = cleaning_order(
            plan_partitions(request, request.log_dir, logs, options=options, settings=settings)
        )
        _ask(request, plans_of(works))
        if retain:
            request.confirm("Then delete old segments of compacted logs by their retention?")
        with _executor(request, plans_of(works), given) as executor:
            cleanings = _clean(works, executor, given["passes"], settings)
        _quarantine(request)
        _report(request.output, cleanings)
        if retain:
            done = _retain(request, [each for each in cleanings if not each.failed])
            show(request, done, done=True)


def _clean_there(
    request: Request,
    chosen: Sequence[TopicPartition],
    options: CleaningOptions,
    settings: CleaningSettings,
    given: Given,
) -> None:
    """Clean logs in a bucket. Effects: changes them, as `clean_in_bucket`; output."""
    from logwright.cli.run.clean_in_bucket import clean_in_bucket  # noqa: PLC0415 -- of an extra

    if request.engine == "spark" and given["replicas"]:
        raise click.UsageError(
            "--coordinate-with is for --engine local: tasks see no directories of this machine"
        )
    force, like_kafka = given["force"], given["like_kafka"]
    logs = ready(request, chosen, force=force, like_kafka=like_kafka)
    planned = plan_partitions(request, request.place, logs, options=options, settings=settings)
    works = cleaning_order(planned)
    _ask(request, plans_of(works))
    if given["retain"]:
        request.confirm("Then delete old segments of compacted logs by their retention?")

    cleanings, retained = clean_in_bucket(request, plans_of(works), options, given)
    _quarantine(request)
    if works and not cleanings:  # of each it was said what is known
        return
    _report(request.output, cleanings)
    if given["retain"]:
        show(request, retained, done=True)


@contextmanager
def _executor(request: Request, plans: Sequence[CleanPlan], given: Given) -> Iterator[Executor]:
    """Open the executor: this process, with one progress bar, or a Spark session that starts when
    it is needed. Effects: output; the session ends on leaving.
    """
    plans = [plan for plan in plans if plan.clean]
    if request.engine == "local":
        title = str(plans[0].log.partition) if len(plans) == 1 else f"{len(plans)} logs"
        with request.output.progress(title) as show:
            yield LocalExecutor(threads=given["threads"], progress=one_bar(plans, show))
        return
    from logwright.spark.sweep import executor_of  # noqa: PLC0415 -- seconds

    say_start = partial(request.output.message, "Starting Spark …")
    with executor_of(given["spark_master"], say_start) as spark:
        yield spark


def _ask(request: Request, plans: Sequence[ReadablePlan]) -> None:
    """Show the plans and ask, unless nothing is to be changed. Effects: output; exits."""
    due = sum(map(changes, plans))
    if due:
        request.confirm(
            f"Change {due} of {len(plans)} partitions in {request.place}?",
            [line for plan in plans for line in plan_lines(plan)],
        )


def _clean(
    works: Sequence[LogWork],
    executor: Executor,
    passes: int,
    settings: CleaningSettings,
) -> list[Cleaning]:
    """Execute the plans that change a log, up to `passes` times. Effects: changes the logs;
    output.
    """
    request = settings.request
    history = {work.key: [work] for work in works}
    state = SweepState(works=tuple(works), now_ms=request.now_ms)
    for number in range(passes):
        ended = []
        with closing(clean_logs(state, executor)) as cleaned:
            for work in cleaned:
                report_failed(request, [work])
                if work.failure is None and work.partition not in request.changed:
                    request.changed.append(work.partition)
                history[work.key][-1] = work
                ended.append(work)
        if number + 1 == passes:
            break
        again = plan_again(
            ended, settings, now_ms=request.now_ms, high_watermark=request.high_watermark
        )
        for work in again.works:
            history[work.key].append(work)
        report_failed(request, again.works)
        state = replace(again, works=tuple(to_clean(again)))
        if not state.works:
            break
    return [
        Cleaning(work.plan, tuple(history[work.key])) for work in works if work.plan is not None
    ]


def _quarantine(request: Request) -> None:
    """Quarantine the partitions that failed permanently. Effects: the state; stderr."""
    failed = {
        str(each): LogWork(key=str(each), log_dir=request.place, partition=each, failure=error)
        for each, error in request.failures.failures
    }
    state = SweepState(works=tuple(failed.values()), now_ms=request.now_ms)
    for key, outcome in quarantine(state).items():
        if isinstance(outcome, LogwrightError):
            request.failures.add(failed[key].partition, outcome)
        else:
            request.output.message(f"{key}: {outcome.sentence}")


def _show_retention(request: Request, plan: ReadablePlan) -> None:
    """Show what retention would delete from the log as it is now. Effects: reads; stdout."""
    partition = plan.log.partition
    with request.failures.of(partition):
        retention = plan_one(request, partition, before=None, force=plan.options.force)
        show(request, [] if retention is None else [retention], done=False)


def _retain(request: Request, cleanings: Sequence[Cleaning]) -> list[RetentionPlan]:
    """Apply retention to the compacted logs; return what was deleted. Effects: changes them;
    output about those that fail.
    """
    ended = retain_compacted(
        SweepState(works=tuple(each.works[-1] for each in cleanings), now_ms=request.now_ms),
        CleaningSettings(request=request),
        high_watermark=request.high_watermark,
        force=any(each.first_plan.options.force for each in cleanings),
    )
    return [work.retained for work in report_failed(request, ended) if work.retained is not None]


def _report(output: Output, cleanings: Sequence[Cleaning]) -> None:
    if output.is_json:
        for cleaning in cleanings:
            if not cleaning.failed:
                output.result(None, **cleaning.as_object())
        return
    output.table(TITLES, [cleaning.as_row() for cleaning in cleanings])
    reclaimed = sum(each.bytes_before - each.bytes_after for each in cleanings)
    if not any(cleaning.passes for cleaning in cleanings):
        output.text("Nothing was cleaned.")
        return
    output.text(
        f"Reclaimed {human_bytes(reclaimed)}; the old segments go with `logwright purge` "
        "once file.delete.delay.ms is over."
    )
    metrics = lag_metrics(result for each in cleanings for result in each.results)
    overdue = metrics["num-logs-compacted-by-max-compaction-lag"]
    if overdue:
        by = duration(metrics["max-compaction-delay"])
        output.text(f"{counted(overdue, 'log')} past max.compaction.lag.ms, by up to {by}.")
