"""``logwright clean``: plan, ask, build, examine, commit; once or several times at one clock."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from logwright.cli.cleaning import Cleaning, one_bar
from logwright.cli.leaving import leave_held, leave_strays, leave_unknown, say_sources
from logwright.cli.output import Output, human_bytes
from logwright.cli.planning import (
    CleaningSettings,
    FailureLog,
    plan_object,
    plan_partitions,
    report_failed,
    show_plan,
)
from logwright.cli.recover import recover_first, show_recovery_first
from logwright.cli.request import Request, engine_options, like_kafka_option
from logwright.cli.retain import plan_one, show
from logwright.errors import LogwrightError
from logwright.extras import require
from logwright.sweep.order import changes, cleaning_order, plans_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from logwright.compaction.model import CleaningOptions, CleanPlan
    from logwright.config.policy_models import Checks
    from logwright.format.names import TopicPartition
    from logwright.sweep.executor import Executor
    from logwright.sweep.model import LogWork

MIN_DEDUPE_BUFFER: Final = 25
"""Bytes; more than one slot of the offset map (`logwright.config.topic.MAP_SLOT_BYTES`)."""


class _Given(TypedDict):
    """Values of the options below, as click passes them."""

    like_kafka: bool
    retain: bool
    force: bool
    dedupe_buffer: int | None
    passes: int
    checks: Checks | None
    threads: int | None
    replicas: tuple[Path, ...]


@click.command(name="clean")
@like_kafka_option
@click.option("--force", is_flag=True, help="Clean even if not due, and stray logs too.")
@click.option(
    "--dedupe-buffer",
    metavar="BYTES",
    type=click.IntRange(min=MIN_DEDUPE_BUFFER),
    help="Offset map memory; overrides log.cleaner.dedupe.buffer.size.",
)
@click.option(
    "--passes",
    metavar="N",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Repeat up to N times, until nothing is cleanable.",
)
@click.option(
    "--checks",
    type=click.Choice(["quick", "thorough"]),
    help="How to check the output before the swap; thorough reads the source again "
    "[default: from --policies, else quick].",
)
@click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(min=1),
    help="Threads per log with --engine local [default: all cores].",
)
@click.option(
    "--retain",
    is_flag=True,
    help="Afterwards apply retention to these compacted logs, as Kafka's cleaner does "
    "[default: only `logwright retain` does].",
)
@click.option(
    "--coordinate-with",
    "replicas",
    metavar="DIR",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A log directory with other replicas, repeatable: tombstones and markers stay as long as "
    "one of them may need them.",
)
@engine_options
def command(
    request: Request,
    **given: Unpack[_Given],
) -> None:
    """Compact what is due: roll, dedupe, check, swap, checkpoint."""
    from logwright.compaction.model import CleaningOptions  # noqa: PLC0415 -- not for --help
    from logwright.locks import lock_log_dir  # noqa: PLC0415

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
        from logwright.sweep.executor import LocalExecutor  # noqa: PLC0415 -- compiled kernels

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
    from logwright.sweep.clean import clean_logs, plan_again  # noqa: PLC0415 -- compiled kernels
    from logwright.sweep.model import SweepState  # noqa: PLC0415
    from logwright.sweep.stages import to_clean  # noqa: PLC0415

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
    from logwright.sweep.holds import quarantine  # noqa: PLC0415 -- compiled kernels
    from logwright.sweep.model import LogWork, SweepState  # noqa: PLC0415

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
    from logwright.sweep.model import SweepState  # noqa: PLC0415 -- compiled kernels
    from logwright.sweep.retain import retain_compacted  # noqa: PLC0415

    ended = retain_compacted(
        SweepState(works=tuple(each.works[-1] for each in cleanings), now_ms=request.now_ms),
        CleaningSettings(request=request),
        high_watermark=request.high_watermark,
        force=any(each.first_plan.options.force for each in cleanings),
    )
    done = [work.retained for work in report_failed(ended, failures) if work.retained is not None]
    show(request, done, done=True)


def _report(output: Output, cleanings: Sequence[Cleaning]) -> None:
    from logwright.sweep.commit import lag_metrics  # noqa: PLC0415 -- compiled kernels

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
