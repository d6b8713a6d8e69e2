"""Sweep one log in a bucket: clean it, and then delete by its retention, in a working copy.

All of it is one call, in whichever process: it reads and writes the bucket itself, and needs
nothing but the URL and room for one log. So a Spark task anywhere can make it, and one that is
killed is made again by another: the job has the same id, so a change that is in is found
(`logwright.bucket.commit`, rule 3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from logwright.bucket.agreement import limits_of
from logwright.bucket.store import Bucket
from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.locks import lock_log_dir
from logwright.maintenance.maintain import Maintained, Maintenance
from logwright.maintenance.scratch import own_temporary
from logwright.place.bucket import Session
from logwright.state.hold import end_quarantine
from logwright.sweep.clean import clean_logs, plan_again
from logwright.sweep.executor import LocalExecutor
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.retain import retain_compacted
from logwright.sweep.stages import judged, plan_all, to_clean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from logwright.batches.runtime import Runtime
    from logwright.compaction.model import CleaningOptions
    from logwright.format.names import TopicPartition
    from logwright.log.committed import HighWatermark
    from logwright.place.model import AnyPlace, Place
    from logwright.sweep.executor import Executor
    from logwright.sweep.stages import Judge
    from logwright.units import TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep did with one log.

    Attributes:
        passes: how each pass ended; the last one may only have been planned.
        retained: what retention deleted, None if it was not asked for or does not apply.
    """

    passes: tuple[LogWork, ...]
    retained: LogWork | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketSweep:
    """A sweep of one log in a bucket; `run` is all of it. It can be sent to another machine.

    Attributes:
        url: of the log directory.
        partition: whose log.
        id: of the job, see `Maintenance.id`.
        scratch: where working copies are made, on the machine that works; None: where its temporary
            files are.
        now_ms: the clock of all decisions.
        config, cleaner: the settings of the topic.
        options: as for any cleaning.
        high_watermark: what counts as committed.
        passes: the most cleanings, until nothing is cleanable.
        retains: apply retention afterwards, if the topic is compacted.
    """

    url: str
    partition: TopicPartition
    id: str
    scratch: Path | None
    now_ms: TimestampMs
    config: TopicConfig
    cleaner: CleanerConfig
    options: CleaningOptions
    high_watermark: HighWatermark
    passes: int = 1
    retains: bool = False

    def of(self, log_dir: Place, topic: str) -> tuple[TopicConfig, CleanerConfig]:
        """Return the topic's settings; see `LogSettings.of`."""
        del log_dir, topic
        return self.config, self.cleaner

    def stray(self, log_dir: Place, partition: TopicPartition) -> None:
        """Return that the log is not stray: a working copy has no metadata of its cluster."""
        del log_dir, partition

    def run(self, executor: Executor, judge: Judge = judged) -> Maintained[Swept] | None:
        """Sweep. Effects: changes the log, see `Maintenance.run`.

        Args:
            executor: builds and examines in this process, where the working copy is.
            judge: decides about what was examined, while the working copy is there.

        Raises:
            LogwrightError: the log failed, or as `Maintenance.run`. Nothing was changed.
        """
        bucket = Bucket.of(self.url)
        maintenance = Maintenance(
            bucket=bucket,
            partition=self.partition,
            operation="clean",
            id=self.id,
            scratch=own_temporary() if self.scratch is None else self.scratch,
            limits=limits_of(bucket),
            now_ms=self.now_ms,
            past_quarantine=self.options.force,
        )
        done = maintenance.run(lambda log_dir: self._sweep(log_dir, executor, judge))
        self.end_quarantine(done)
        return done

    def end_quarantine(self, done: Maintained[Swept] | None) -> None:
        """End the quarantine of the log if it was cleaned. Effects: the state of the log directory.

        Raises:
            LogwrightError: see `logwright.state.hold.end_quarantine`.
        """
        passes = () if done is None or done.result is None else done.result.passes
        if done is None or (done.version is None and not any(work.result for work in passes)):
            return
        only = frozenset((self.partition.directory_name,))
        end_quarantine(Session(Bucket.of(self.url), only=only).place, self.partition)

    def _sweep(self, log_dir: Path, executor: Executor, judge: Judge) -> Swept:
        """Sweep a working copy. Effects: changes it."""
        work = LogWork(key=str(self.partition), log_dir=log_dir, partition=self.partition)
        state = SweepState(works=(work,), now_ms=self.now_ms)
        with lock_log_dir(log_dir):
            state = plan_all(state, self, options=self.options, high_watermark=self.high_watermark)
            passes = self._passes(state, executor, judge)
            if not self.retains:
                return Swept(passes=passes)
            last = SweepState(works=(passes[-1],), now_ms=self.now_ms)
            retained = retain_compacted(
                last, self, high_watermark=self.high_watermark, force=self.options.force
            )
            return Swept(passes=passes, retained=next(iter(whole(retained)), None))

    def _passes(self, state: SweepState, executor: Executor, judge: Judge) -> tuple[LogWork, ...]:
        """Return how each pass ended."""
        passes = whole(state.works)
        if not passes[0].changes:
            return tuple(passes)
        for left in reversed(range(self.passes)):
            passes[-1:] = whole(clean_logs(state, executor, judge))
            if not left:
                break
            state = plan_again(
                passes[-1:], self, now_ms=self.now_ms, high_watermark=self.high_watermark
            )
            passes += whole(state.works)
            if not to_clean(state):
                break
        return tuple(passes)


def sweep_in_task(
    sweep: BucketSweep, judge: Judge = judged, *, runtime: Runtime
) -> Maintained[Swept] | None:
    """Sweep by a task of its own. Returns, effects and errors: see `BucketSweep.run`.

    Args:
        sweep, judge: see there.
        runtime: its threads and its rate are the task's share.
    """
    rate = runtime.throttle.bytes_per_second
    if rate < inf:
        own = sweep.cleaner.model_copy(update={"io_max_bytes_per_second": rate})
        sweep = replace(sweep, cleaner=own)
    return sweep.run(LocalExecutor(threads=runtime.threads), judge)


def whole(works: Iterable[LogWork[AnyPlace]]) -> list[LogWork[AnyPlace]]:
    """Return logs of which none failed.

    Raises:
        LogwrightError: of one that did.
    """
    ended = list(works)
    for work in ended:
        if work.failure is not None:
            raise work.failure
    return ended
