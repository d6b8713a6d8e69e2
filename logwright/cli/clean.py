"""``logwright clean``: plan, ask, build, examine, commit; once or several times at one clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from logwright.cli.cleaning import Cleaning, clean_pass
from logwright.cli.leaving import leave_held, leave_strays, leave_unknown, say_sources
from logwright.cli.output import Output, human_bytes
from logwright.cli.planning import (
    FailureLog,
    acts,
    cleaning_order,
    plan_object,
    plan_partitions,
    show_plan,
)
from logwright.cli.recover import recover_first, show_recovery_first
from logwright.cli.request import Request, like_kafka_option, request_options
from logwright.cli.retain import plan_one, show
from logwright.errors import LogwrightError
from logwright.extras import require

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from logwright.compaction.model import CleaningOptions, CleanPlan
    from logwright.config.policy_models import Checks
    from logwright.format.names import TopicPartition

MIN_DEDUPE_BUFFER: Final = 25
"""Bytes; more than one slot of the offset map (`logwright.config.topic.MAP_SLOT_BYTES`)."""


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
@request_options
def command(
    request: Request,
    *,
    like_kafka: bool,
    retain: bool,
    force: bool,
    dedupe_buffer: int | None,
    passes: int,
    checks: Checks | None,
    threads: int | None,
) -> None:
    """Compact what is due: roll, dedupe, check, swap, checkpoint."""
    from logwright.compaction.model import CleaningOptions  # noqa: PLC0415
    from logwright.compaction.runtime import available_cores  # noqa: PLC0415 -- not for --help
    from logwright.locks import lock_log_dir  # noqa: PLC0415

    request.require_terminal()
    if request.engine == "spark":
        require("spark", by="--engine spark")
    failures = FailureLog(output=request.output)
    options = CleaningOptions(
        force=force,
        like_kafka=like_kafka,
        checks=checks or (request.policies.checks if request.policies else "quick"),
    )
    chosen = leave_strays(request, request.partitions(), failures, force=force)
    chosen = leave_unknown(request, chosen, failures)
    say_sources(request, chosen)
    if request.dry_run:
        partitions = show_recovery_first(
            request, failures, like_kafka=like_kafka, partitions=chosen
        )
        for plan in _plans(request, partitions, failures, options, dedupe_buffer):
            request.output.json_object(plan_object(plan))
            show_plan(plan, request.output.text)
            if retain and plan.config.compact:
                _show_retention(request, plan, failures)
    else:
        with lock_log_dir(request.log_dir):
            recover_first(request, failures, like_kafka=like_kafka, partitions=chosen)
            plans = _plans(request, chosen, failures, options, dedupe_buffer)
            _ask(request, plans)
            if retain and not request.yes:
                request.confirm("Then delete old segments of compacted logs by their retention?")
            cleanings = _clean(
                request, plans, failures, passes=passes, threads=threads or available_cores()
            )
            _quarantine(request, failures)
            _report(request.output, cleanings)
            if retain:
                _retain(request, [each for each in cleanings if not each.failed], failures)
    click.get_current_context().exit(failures.exit_status)


def _plans(
    request: Request,
    partitions: Iterable[TopicPartition],
    failures: FailureLog,
    options: CleaningOptions,
    dedupe_buffer: int | None,
) -> list[CleanPlan]:
    failed = {partition for partition, _ in failures.failures}
    return cleaning_order(
        plan_partitions(
            request,
            leave_held(
                request,
                [one for one in partitions if one not in failed],
                force=options.force,
            ),
            failures,
            options=options,
            dedupe_buffer=dedupe_buffer,
        )
    )


def _ask(request: Request, plans: Sequence[CleanPlan]) -> None:
    """Effects: shows the plans and asks on the terminal, unless ``--yes`` was given."""
    due = [plan for plan in plans if acts(plan)]
    if not due or request.yes:
        return
    for plan in plans:
        show_plan(plan, request.output.message)
    request.confirm(f"Change {len(due)} of {len(plans)} partitions in {request.log_dir}?")


def _clean(
    request: Request,
    plans: Sequence[CleanPlan],
    failures: FailureLog,
    *,
    passes: int,
    threads: int,
) -> list[Cleaning]:
    """Effects: changes the logs whose plans say so, up to `passes` times."""
    cleanings = [Cleaning(plan) for plan in plans]
    clean_pass(request, [each for each in cleanings if acts(each.plan)], failures, threads=threads)
    for _ in range(passes - 1):
        again = [each for each in cleanings if each.plan_again(request, failures)]
        if not again:
            break
        clean_pass(request, again, failures, threads=threads)
    return cleanings


def _quarantine(request: Request, failures: FailureLog) -> None:
    """Leave alone from now on what failed for good. Effects: the state file; stderr."""
    from logwright import maintain  # noqa: PLC0415 -- compiled kernels: not for --help

    for partition, error in tuple(failures.failures):
        try:
            quarantine = maintain.quarantine_failure(
                request.log_dir, partition, error, request.now_ms
            )
        except LogwrightError as unwritten:
            failures.add(partition, unwritten)
        else:
            if quarantine is not None:
                request.output.message(f"{partition}: {quarantine.sentence}")


def _show_retention(request: Request, plan: CleanPlan, failures: FailureLog) -> None:
    """What its retention would delete of a log as it is now. Effects: reads; stdout."""
    partition = plan.log.partition
    try:
        found = plan_one(request, partition, None, force=plan.options.force)
    except LogwrightError as error:
        failures.add(partition, error)
    else:
        show(request, [] if found is None else [found], done=False)


def _retain(request: Request, cleanings: Sequence[Cleaning], failures: FailureLog) -> None:
    """The retention of the compacted logs. Effects: changes them; stdout."""
    from logwright import maintain  # noqa: PLC0415 -- compiled kernels: not for --help

    done = []
    for partition, outcome in maintain.retain_compacted(
        request.log_dir,
        [each.plan.log.partition for each in cleanings],
        request.settings,
        now_ms=request.now_ms,
        high_watermark=request.high_watermark,
        force=any(each.plan.options.force for each in cleanings),
    ):
        if isinstance(outcome, LogwrightError):
            failures.add(partition, outcome)
        else:
            done.append(outcome)
    show(request, done, done=True)


def _report(output: Output, cleanings: Sequence[Cleaning]) -> None:
    from logwright.maintain import lag_metrics  # noqa: PLC0415 -- compiled kernels: not for --help

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
