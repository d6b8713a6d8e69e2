"""``logwright clean`` of logs in a bucket: each is one call, here or of a Spark task, or, if it is
large, one for each of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, compress
from typing import cast

from logwright.batches.runtime import Progress
from logwright.cli.options.clean import Given
from logwright.cli.request import Request
from logwright.cli.run.cleaning import Cleaning
from logwright.cli.run.in_bucket import report_version
from logwright.compaction.model import CleaningOptions, CleanPlan, ReadablePlan
from logwright.errors import LogwrightError
from logwright.maintenance.maintain import Maintained, new_job
from logwright.maintenance.split.run import Caller, SplitSweep, is_split
from logwright.maintenance.sweep import BucketSweep, Swept, sweep_in_task
from logwright.place.bucket import bucket_of
from logwright.retention.plan import RetentionPlan
from logwright.sweep.executor import LocalExecutor
from logwright.sweep.model import LogWork, planned
from logwright.sweep.order import changes


def clean_in_bucket(
    request: Request,
    plans: Sequence[ReadablePlan],
    options: CleaningOptions,
    given: Given,
) -> tuple[list[Cleaning], list[RetentionPlan]]:
    """Clean logs in a bucket, one after another, or by the tasks of Spark. Effects: changes them,
    see `BucketSweep.run`; output about those that fail.

    Args:
        plans: of the logs as they are; each is planned again in its working copy.

    Returns:
        what became of those that did not fail, and what retention deleted.
    """
    is_due = [changes(plan) or given["retain"] for plan in plans]
    due = sorted(compress(plans, is_due), key=lambda plan: _is_split(plan, given))
    cleanings = [_unchanged(plan) for plan, swept in zip(plans, is_due, strict=True) if not swept]
    retained: list[RetentionPlan] = []
    jobs = [
        BucketSweep(
            url=bucket_of(request.place).url,
            partition=plan.log.partition,
            id=new_job("clean"),
            scratch=given["scratch"],
            now_ms=request.now_ms,
            config=plan.config,
            cleaner=plan.cleaner,
            options=options,
            high_watermark=request.high_watermark,
            passes=given["passes"],
            retains=given["retain"],
        )
        for plan in due
    ]
    for plan, outcome in zip(due, _outcomes(request, jobs, due, given), strict=True):
        with request.failures.of(plan.log.partition):
            if isinstance(outcome, LogwrightError):
                raise outcome
            report_version(request, plan.log.partition, outcome)
            swept = None if outcome is None else outcome.result
            if swept is None:
                _report_lost(request, plan, outcome)
                continue
            cleanings.append(Cleaning(planned(swept.passes[0]), swept.passes))
            if swept.retained is not None and swept.retained.retained is not None:
                retained.append(swept.retained.retained)
    return cleanings, retained


def _report_lost(request: Request, plan: ReadablePlan, outcome: Maintained[Swept] | None) -> None:
    """Say that a log was changed by an attempt whose answer was lost. Effects: output."""
    partition = str(plan.log.partition)
    request.output.result(
        f"{partition}: changed by a task whose answer was lost. What it removed is not known.",
        topicPartition=partition,
        now=request.now_ms,
        cleaned=None,
        version=None if outcome is None else outcome.version,
    )


def _unchanged(plan: ReadablePlan) -> Cleaning:
    """Return what is shown of a log that was only planned."""
    work = LogWork(key=plan.plan_id, log_dir=plan.log.log_dir, partition=plan.log.partition)
    shown = cast("LogWork", replace(work, plan=plan))  # only shown
    return Cleaning(cast("CleanPlan", plan), (shown,))


def _outcomes(
    request: Request,
    jobs: Sequence[BucketSweep],
    plans: Sequence[ReadablePlan],
    given: Given,
) -> Iterator[Maintained[Swept] | LogwrightError | None]:
    """Yield what became of each job, in their order. Effects: as `BucketSweep.run`; progress."""
    if request.engine == "spark" and jobs:
        yield from _outcomes_of_tasks(request, jobs, plans, given)
        return
    for job, plan in zip(jobs, plans, strict=True):
        with request.output.progress(str(job.partition)) as show:
            executor = LocalExecutor(threads=given["threads"], progress=_without_plan(show))
            try:
                if _is_split(plan, given):
                    yield SplitSweep(sweep=job).run(executor)
                else:
                    yield job.run(executor)
            except LogwrightError as error:
                yield error


def _is_split(plan: ReadablePlan, given: Given) -> bool:
    """Return whether a log is cleaned in parts."""
    return is_split(plan, given["split_bytes"], retains=given["retain"])


def _outcomes_of_tasks(
    request: Request, jobs: Sequence[BucketSweep], plans: Sequence[ReadablePlan], given: Given
) -> Iterator[Maintained[Swept] | LogwrightError | None]:
    """Yield what became of each job, of which each is called by a task of Spark, or, if it is
    split, each of its parts. Effects: as `BucketSweep.run`.

    Raises:
        SparkDied: and so did the tasks that had not ended; the others have changed their logs.
    """
    from logwright.spark.session import SparkDied  # noqa: PLC0415 -- seconds
    from logwright.spark.sweep import executor_of  # noqa: PLC0415

    say_start, master = partial(request.output.message, "Starting Spark …"), given["spark_master"]
    whole = sum(not _is_split(plan, given) for plan in plans)
    try:
        with executor_of(master, say_start) as spark:
            arguments = [(job,) for job in jobs[:whole]]
            yield from chain.from_iterable(
                spark.call_planned(sweep_in_task, arguments, plans[:whole])
            )
            for job in jobs[whole:]:
                yield _split(job, spark)
    except SparkDied as error:
        look = "" if master is None else f"See whether {master} answers, and has workers. "
        error.remedy = f"{look}Logs may have been changed, each as a whole: run it again."
        raise


def _split(job: BucketSweep, caller: Caller) -> Maintained[Swept] | LogwrightError | None:
    """Return what became of a job that is split. Effects: as `SplitSweep.run`.

    Raises:
        SparkDied: not of the log, but of all.
    """
    from logwright.spark.session import SparkDied  # noqa: PLC0415 -- seconds

    try:
        return SplitSweep(sweep=job).run(caller)
    except SparkDied:
        raise
    except LogwrightError as error:
        return error


def _without_plan(show: Progress) -> Callable[[CleanPlan, str, int, int], None]:
    def progress(_: CleanPlan, phase: str, done: int, total: int) -> None:
        show(phase, done, total)

    return progress
