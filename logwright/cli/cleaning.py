"""Cleaning the chosen partitions by either engine, and what is told about each of them
afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from logwright.cli.output import human_bytes
from logwright.cli.planning import FailureLog, compaction_object, plan_one
from logwright.errors import LogwrightError

if TYPE_CHECKING:
    from logwright.checks.model import OutputFacts
    from logwright.cli.request import Request
    from logwright.compaction.model import CleanPlan, StagedCleaning
    from logwright.maintain import CommitResult


class Cleaning:
    """One partition on its way through the passes.

    Attributes:
        plan: of the next pass.
        passes: what each cleaning so far was planned as, and what it staged.
        failed: an error ended its way.
    """

    def __init__(self, plan: CleanPlan) -> None:
        self.plan = plan
        self.first_plan = plan
        self.passes: list[tuple[CleanPlan, StagedCleaning]] = []
        self.results: list[CommitResult] = []
        self.failed = False

    def committed(self, staged: StagedCleaning | None, result: CommitResult) -> None:
        """The plan of this pass has become the log."""
        self.results.append(result)
        if staged is not None:
            self.passes.append((self.plan, staged))

    def plan_again(self, request: Request, failures: FailureLog) -> bool:
        """Plan a further pass; whether there is anything left to clean.

        The ratio and the lag were asked in the first pass; a further one only needs something that
        is cleanable.
        """
        if self.failed or not self.passes:
            return False
        options = replace(self.plan.options, force=True)
        buffer_bytes = self.plan.cleaner.dedupe_buffer_bytes
        try:
            self.plan = plan_one(
                request, self.plan.log.partition, options=options, dedupe_buffer=buffer_bytes
            )
        except LogwrightError as error:
            self.fail(failures, error)
            return False
        return self.plan.clean

    def fail(self, failures: FailureLog, error: LogwrightError) -> None:
        """This partition's way ends here. Effects: reports it."""
        self.failed = True
        failures.add(self.plan.log.partition, error)

    @property
    def rolled(self) -> bool:
        """A pass rolled the active segment."""
        return any(result.rolled for result in self.results)

    @property
    def bytes_before(self) -> int:
        """``.log`` bytes before the first pass."""
        return self.first_plan.log.log_bytes

    @property
    def bytes_after(self) -> int:
        """``.log`` bytes after the last."""
        return self.results[-1].bytes_after if self.results else self.bytes_before

    @property
    def new_first_dirty_offset(self) -> int | None:
        """As the checkpoint has it now; None if it has no entry."""
        if self.results:
            return self.results[-1].first_dirty_offset
        return self.first_plan.log.cleaner_checkpoint

    def note(self) -> str:
        """Why nothing was done, or what else was."""
        if self.failed:
            return "failed, see above"
        words = [f"rolled ({self.first_plan.roll.cause})"] if self.rolled else []
        if not self.passes:
            words.append("; ".join(self.first_plan.compaction.reasons))
        unchanged = sum(staged.stats.bytes_kept for _, staged in self.passes)
        if unchanged:
            words.append(f"{human_bytes(unchanged)} not rewritten")
        reads = max((staged.stats.map_reads for _, staged in self.passes), default=1)
        if reads > 1:
            words.append(f"keys read {reads} times")
        return ", ".join(words)

    def as_row(self) -> tuple[object, ...]:
        """A row of the table at the end."""
        stats = [staged.stats for _, staged in self.passes]
        return (
            str(self.first_plan.log.partition),
            len(self.passes),
            self.bytes_before,
            self.bytes_after,
            sum(each.removed_superseded for each in stats),
            sum(each.removed_tombstones for each in stats),
            sum(each.removed_null_keys for each in stats),
            sum(each.removed_aborted + each.removed_markers for each in stats),
            self.new_first_dirty_offset,
            self.note(),
        )

    def as_object(self) -> dict[str, object]:
        """The result by the names of the oracle's ``clean``, and ours."""
        from logwright.maintain import lag_metrics  # noqa: PLC0415 -- compiled kernels

        log = self.first_plan.log
        passes: list[dict[str, object]] = [
            compaction_object(plan.compaction) | {"cleaned": True} | _stats_object(plan, staged)
            for plan, staged in self.passes
        ]
        last = self.plan if self.passes and self.plan is not self.passes[-1][0] else None
        if not self.passes:
            last = self.first_plan
        if last is not None:
            passes.append(compaction_object(last.compaction) | {"cleaned": False})
        dirty = self.new_first_dirty_offset
        return {
            "topicPartition": str(log.partition),
            "now": self.first_plan.now_ms,
            "passes": passes,
            "newFirstDirtyOffset": -1 if dirty is None else dirty,
            "logStartOffset": log.log_start_offset,
            "logEndOffset": log.log_end_offset,
            "cleaned": bool(self.passes),
            "rolled": self.rolled,
            "metrics": lag_metrics(self.results),
            "bytesBefore": self.bytes_before,
            "bytesAfter": self.bytes_after,
            "reasons": list(self.first_plan.compaction.reasons),
        }


_Built = tuple[Cleaning, "tuple[StagedCleaning, OutputFacts] | LogwrightError"]
"""A cleaning, and what became of its plan."""


def clean_pass(
    request: Request, cleanings: Sequence[Cleaning], failures: FailureLog, *, threads: int
) -> None:
    """One cleaning of each of these partitions. Effects: changes their logs.

    `threads`: that work on one log, without Spark.

    An error ends the way of its partition only; staged files that are not committed are removed.
    """
    from logwright import maintain  # noqa: PLC0415 -- numpy, compiled kernels: not for --help

    todo = [each for each in cleanings if each.plan.clean]
    _commit([(each, None) for each in cleanings if not each.plan.clean], failures)
    by_spark = request.engine == "spark"
    built = _built_by_spark(request, todo) if by_spark else _built_here(request, todo, threads)
    pending = {id(each): each for each in todo}
    try:
        for some in built:
            _judge_and_commit(some, failures)
            for cleaning, _ in some:
                del pending[id(cleaning)]
    finally:
        for cleaning in pending.values():
            maintain.discard(cleaning.plan)


def _built_here(
    request: Request, cleanings: Sequence[Cleaning], threads: int
) -> Iterator[list[_Built]]:
    """Build and examine in this process, small logs in groups. Effects: staged files."""
    from logwright import maintain  # noqa: PLC0415
    from logwright.compaction.runtime import Runtime, Throttle  # noqa: PLC0415
    from logwright.sweep.groups import SMALL_LOG_BYTES, Group, run_groups, together  # noqa: PLC0415

    if not cleanings:
        return

    def build(plan: CleanPlan, *, runtime: Runtime) -> tuple[StagedCleaning, OutputFacts]:
        if plan.compaction.total_bytes <= SMALL_LOG_BYTES:
            staged = maintain.build(plan, runtime=runtime)
        else:
            with request.output.progress(str(plan.log.partition)) as progress:
                staged = maintain.build(plan, progress=progress, runtime=runtime)
        return staged, maintain.examine(plan, staged, runtime=runtime)

    plans = [each.plan for each in cleanings]
    sizes = [plan.compaction.total_bytes for plan in plans]
    rate = min(plan.cleaner.io_max_bytes_per_second for plan in plans)
    groups = (
        Group(
            numbers=numbers,
            arguments=[(plans[number],) for number in numbers],
            small=sizes[numbers[0]] <= SMALL_LOG_BYTES,
            threads=1 if len(numbers) > 1 else threads,
        )
        for numbers in together(range(len(plans)), sizes)
    )
    for results in run_groups(build, groups, Throttle(rate)):
        yield [(cleanings[number], cast("Any", result)) for number, result in results]


def _built_by_spark(request: Request, cleanings: Sequence[Cleaning]) -> Iterator[list[_Built]]:
    """Build and examine all of them in one Spark job. Effects: a session; staged files."""
    if not cleanings:
        return
    from logwright.spark.session import local_context  # noqa: PLC0415 -- seconds
    from logwright.spark.sweep import clean_partitions  # noqa: PLC0415

    request.output.message("Starting Spark …")
    with local_context() as spark:
        results = list(clean_partitions([each.plan for each in cleanings], spark))
    yield list(zip(cleanings, results, strict=True))


def _judge_and_commit(built: Sequence[_Built], failures: FailureLog) -> None:
    from logwright import maintain  # noqa: PLC0415
    from logwright.checks.model import refusal  # noqa: PLC0415

    good: list[tuple[Cleaning, StagedCleaning | None]] = []
    for cleaning, result in built:
        if isinstance(result, LogwrightError):
            maintain.discard(cleaning.plan)
            cleaning.fail(failures, result)
            continue
        staged, facts = result
        if not facts.failed:
            good.append((cleaning, staged))
            continue
        maintain.discard(cleaning.plan)
        failed = (check.sentence for check in facts.failed)
        cleaning.fail(failures, refusal(cleaning.plan, failed))
    _commit(good, failures)


def _commit(
    cleanings: Sequence[tuple[Cleaning, StagedCleaning | None]], failures: FailureLog
) -> None:
    from logwright import maintain  # noqa: PLC0415

    work = [(cleaning.plan, staged) for cleaning, staged in cleanings]
    for (cleaning, staged), done in zip(cleanings, maintain.commit_many(work), strict=True):
        if isinstance(done.outcome, LogwrightError):
            maintain.discard(cleaning.plan)
            cleaning.fail(failures, done.outcome)
        else:
            cleaning.committed(staged, done.outcome)


def _stats_object(plan: CleanPlan, staged: StagedCleaning) -> dict[str, object]:
    """Kafka counts the bytes of segments that stay as written."""
    stats = staged.stats
    return {
        "newFirstDirtyOffset": staged.end_offset,
        "messagesRead": stats.records_read,
        "bytesRead": stats.bytes_read,
        "messagesWritten": stats.records_written,
        "bytesWritten": stats.bytes_written + stats.bytes_kept,
        "bytesNotRewritten": stats.bytes_kept,
        "mapMessages": stats.map_records,
        "elapsedSeconds": round(stats.map_seconds + stats.copy_seconds, 3),
        "elapsedIndexSeconds": round(stats.map_seconds, 3),
        "segmentsBefore": stats.segments_before,
        "segmentsAfter": stats.segments_after,
        "distinctKeys": stats.distinct_keys,
        "mapReads": stats.map_reads,
        "mapBytes": stats.map_bytes,
        "removedSuperseded": stats.removed_superseded,
        "removedTombstones": stats.removed_tombstones,
        "removedNullKeys": stats.removed_null_keys,
        "removedAborted": stats.removed_aborted,
        "removedMarkers": stats.removed_markers,
        "horizonsSet": stats.horizons_set,
        "batchesVerbatim": stats.batches_verbatim,
        "batchesRebuilt": stats.batches_rebuilt,
        "batchesDropped": stats.batches_dropped,
        "rolled": plan.roll.due,
    }
