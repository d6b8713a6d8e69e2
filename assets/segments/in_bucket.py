"""Logs in a bucket in a sweep: each is swept by one call of a Spark task, which commits it.

1. The task makes the working copy, builds, reads the output back, and judges it by all checks, the
   policies' expectations and contracts included; only then it commits (`BucketSweep`).
2. What was read back comes with the result, also of a log that was refused. The step `quality`
   judges that by the same checks again, and records the evaluations; it can change nothing.
3. The id of the job is made of the run, of the run that it repeats, and of where the log ends. So a
   task that is run again, or a run that is executed again, finds the change that it made before.

Nothing here knows Dagster: the tasks import it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from logwright.assets.lib.verdict import Verdict
from logwright.assets.segments.values import contracts_of, value_verdict
from logwright.errors import LogwrightError, QualityError
from logwright.maintenance.maintain import Maintained
from logwright.maintenance.sweep import BucketSweep, Swept, sweep_in_task
from logwright.place.bucket import bucket_of, manifest_of
from logwright.place.model import Place, is_versioned
from logwright.sweep.model import LogWork, SweepState, planned
from logwright.units import TimestampMs

if TYPE_CHECKING:
    from logwright.batches.runtime import Runtime
    from logwright.config.policies import Policies
    from logwright.log.committed import HighWatermark
    from logwright.spark.sweep import SparkExecutor


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkInBucket(LogWork[Place]):
    """A log in a bucket that was swept.

    Attributes:
        values: the verdict on its values, if any were checked.
        refusal: why it was not committed; its facts are there, and the checks say the same.
    """

    values: Verdict | None = None
    refusal: LogwrightError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a log in its task.

    Attributes:
        done: what the sweep did; None if it was refused.
        examined: the log with what was built and read back, None if nothing was.
        values: the verdict on its values, if any were checked.
        refusal: why it was not committed.
    """

    done: Maintained[Swept] | None
    examined: LogWork | None
    values: Verdict | None
    refusal: LogwrightError | None = None


def sweep_and_judge(
    sweep: BucketSweep, policies: Policies, key: str, *, runtime: Runtime
) -> Outcome:
    """Sweep a log in a bucket, and commit it if it passes all checks. Runs in a task. Effects: see
    `BucketSweep.run`.

    Args:
        sweep: of the log.
        policies: thresholds, expectations and contracts.
        key: the log's partition key.
        runtime: as for `sweep_in_task`.

    Raises:
        LogwrightError: as `BucketSweep.run`, but for a failed check.
    """
    from logwright.assets.segments.judgement import judge  # noqa: PLC0415 -- pandera takes a second

    seen: list[tuple[LogWork, Verdict | None]] = []

    def judged(work: LogWork) -> LogWork:
        contracts = contracts_of(policies, work.partition.topic)
        values = value_verdict(work, contracts, runtime) if contracts else None
        seen[:] = [(work, values)]
        named = replace(work, key=key)
        state: SweepState[Place] = SweepState(works=(named,), now_ms=sweep.now_ms)
        by_key = {} if values is None else {key: values}
        judgement = judge(state, policies, by_key, storage=None, run_name=sweep.id)
        failure = judgement.failures.get(key)
        return work if failure is None else work.failed(failure)

    done: Maintained[Swept] | None = None
    refusal: LogwrightError | None = None
    try:
        done = sweep_in_task(sweep, judged, runtime=runtime)
    except QualityError as error:
        refusal = error.as_value()
    examined, values = seen[0] if seen else (None, None)
    return Outcome(done=done, examined=examined, values=values, refusal=refusal)


def sweep_those_in_buckets(
    state: SweepState[Place],
    policies: Policies,
    executor: SparkExecutor,
    *,
    run: str,
) -> SweepState[Place]:
    """Sweep the logs in buckets that are due, each whole. Effects: changes them.

    Args:
        state: planned.
        policies: see `sweep_and_judge`.
        executor: its tasks do it.
        run: the id of the first run of those that repeat each other.
    """
    there = [work for work in state.going_on if is_versioned(work.log_dir) and work.plan]
    known = {work.key: change for work in there if (change := _known(work, run)) is not None}
    before = [replace(work, version=known[work.key]) for work in there if work.key in known]
    due = [work for work in there if work.key not in known and work.changes]
    plans = [planned(work) for work in due]
    sweeps = [_sweep(work, state.now_ms, run, policies.high_watermark) for work in due]
    calls = [(sweep, policies, work.key) for sweep, work in zip(sweeps, due, strict=True)]
    ended: list[LogWork[Place]] = []
    for results in executor.call_planned(sweep_and_judge, calls, plans):
        for result in results:
            work = due[len(ended)]
            if isinstance(result, LogwrightError):
                ended.append(work.failed(result))
            else:
                ended.append(_ended(work, result))
    return state.with_works([*before, *ended])


def values_of(state: SweepState[Place]) -> dict[str, Verdict]:
    """Return log key → verdict on its values, of the logs in buckets that were swept."""
    return {work.key: work.values for work in _there(state) if work.values is not None}


def refused(state: SweepState[Place]) -> Mapping[str, LogwrightError]:
    """Return log key → why it was not committed, of the logs in buckets."""
    return {work.key: work.refusal for work in _there(state) if work.refusal is not None}


def _there(state: SweepState[Place]) -> Iterable[WorkInBucket]:
    return (work for work in state.going_on if isinstance(work, WorkInBucket))


def _job(work: LogWork[Place], run: str) -> str:
    return f"clean-{run}-{planned(work).log.log_end_offset}"


def _known(work: LogWork[Place], run: str) -> int | None:
    """Return the version that has the change that this run made before. Effects: none: the newest
    manifest was read for the plan.
    """
    manifest = manifest_of(work.log_dir, work.partition)
    return None if manifest is None else manifest.version_of(_job(work, run))


def _sweep(
    work: LogWork[Place], now_ms: TimestampMs, run: str, high_watermark: HighWatermark
) -> BucketSweep:
    plan = planned(work)
    return BucketSweep(
        url=bucket_of(work.log_dir).url,
        partition=work.partition,
        id=_job(work, run),
        scratch=None,
        now_ms=now_ms,
        config=plan.config,
        cleaner=plan.cleaner,
        options=plan.options,
        high_watermark=high_watermark,
    )


def _ended(work: LogWork[Place], outcome: Outcome) -> LogWork[Place]:
    """Return a log as its task left it, where it is."""
    last, version = outcome.examined, None
    if outcome.done is not None:
        version = outcome.done.version
        last = None if outcome.done.result is None else outcome.done.result.passes[-1]
    if last is None:  # another attempt has made the change, or it was refused before a check
        refused = work if outcome.refusal is None else work.failed(outcome.refusal)
        return replace(refused, version=version)
    swept: LogWork[Place] = last
    plan = planned(swept)
    return WorkInBucket(
        key=work.key,
        log_dir=work.log_dir,
        partition=work.partition,
        forecast_bytes=work.forecast_bytes,
        plan=plan._replace(log=plan.log._replace(log_dir=work.log_dir)),
        staged=last.staged,
        facts=last.facts,
        result=last.result,
        commit_seconds=last.commit_seconds,
        version=version,
        values=outcome.values,
        refusal=outcome.refusal,
    )
