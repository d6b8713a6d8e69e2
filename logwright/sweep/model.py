"""The logs that one sweep works on, as a value that goes from stage to stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, cast

from logwright.checks.model import OutputFacts
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.errors import InvariantError, LogwrightError
from logwright.format.names import TopicPartition
from logwright.place.model import AnyPlace, AnyPlace_co, Place, is_local
from logwright.retention.account import RetentionAccount
from logwright.retention.plan import RetentionPlan
from logwright.roll.plan import RollDecision
from logwright.state.model import Hold
from logwright.sweep.commit import CommitResult
from logwright.sweep.order import changes
from logwright.sweep.plan import Settings
from logwright.units import ByteCount, TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class Rolled:
    """A roll that was done by itself, before the cleaning.

    Attributes:
        decision: the plan's.
        log_bytes: ``.log`` bytes of the log; a roll leaves them.
        seconds: of the commit, with those that ran at the same time.
    """

    decision: RollDecision
    log_bytes: ByteCount
    seconds: float


class LogSettings(Protocol):
    """The settings by which logs are maintained, such as `DirectorySettings`."""

    def of(self, log_dir: Place, topic: str, /) -> Settings:
        """Return a topic's settings in a log directory. Raises LogwrightError."""

    def stray(self, log_dir: Place, partition: TopicPartition, /) -> str | None:
        """Return why a broker would not serve a partition from there. Raises LogwrightError."""


class RecoverySettings(LogSettings, Protocol):
    """What a recovery needs too."""

    def topic_id(self, log_dir: Place, partition: TopicPartition, /) -> str | None:
        """Return the id of a partition's topic, None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWork(Generic[AnyPlace_co]):
    """One log on its way through a sweep; without a parameter one that can be changed.

    Attributes:
        key: the caller's key of it, such as its partition key in Dagster.
        log_dir, partition: where it is.
        held: why it is skipped; it is neither planned nor failed then.
        recovered: what a recovery did before the cleaning; None if none was needed.
        forecast_bytes: what its cleaning was expected to free, None without a forecast.
        rolled: the roll that was done before `plan` was made; None if none was.
        plan: what was decided.
        staged: what was built, if something was to be cleaned.
        facts: what was read back from it.
        checked: name of each check → what it found, in words; from the gate before the swap.
        result: what the commit did.
        commit_seconds: how long that took, with the commits that ran at the same time.
        version: of a log in a bucket: the one that has the change; None if nothing was changed.
        retained: what the retention after the commit deleted.
        retention_account: what it looked at and left.
        failure: why it goes no further.
    """

    key: str
    log_dir: AnyPlace_co
    partition: TopicPartition
    held: Hold | None = None
    recovered: tuple[str, ...] | None = None
    forecast_bytes: int | None = None
    rolled: Rolled | None = None
    plan: CleanPlan[AnyPlace_co] | None = None
    staged: StagedCleaning | None = None
    facts: OutputFacts | None = None
    checked: Mapping[str, str] = field(default_factory=dict)
    result: CommitResult | None = None
    commit_seconds: float = 0.0
    version: int | None = None
    retained: RetentionPlan[AnyPlace_co] | None = None
    retention_account: RetentionAccount | None = None
    failure: LogwrightError | None = None

    @property
    def due(self) -> bool:
        """Whether the log is to be cleaned or rolled."""
        return self.plan is not None and (self.plan.clean or self.plan.roll.due)

    @property
    def changed(self) -> bool:
        """Whether the log is another one than before the sweep."""
        return (self.rolled, self.result, self.version) != (None, None, None)

    @property
    def in_order(self) -> bool:
        """Whether a sweep looked at the log and had nothing to change."""
        looked = self.plan is not None and self.held is None and self.failure is None
        return looked and not self.changed

    @property
    def changes(self) -> bool:
        """Whether a commit changes something; see `logwright.sweep.order.changes`."""
        return self.plan is not None and changes(self.plan)

    def failed(self, error: LogwrightError) -> LogWork[AnyPlace_co]:
        """Return the work with the error that ends it."""
        kept = error.after_recovery() if self.recovered else error
        return replace(self, failure=kept.as_value())


def planned(work: LogWork[AnyPlace]) -> CleanPlan[AnyPlace]:
    """Return the plan of a log that must have one."""
    if work.plan is None:
        raise InvariantError(f"{work.key} was not planned")
    return work.plan


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepState(Generic[AnyPlace]):
    """The logs of one sweep, and its clock."""

    works: tuple[LogWork[AnyPlace], ...]
    now_ms: TimestampMs

    @property
    def going_on(self) -> tuple[LogWork[AnyPlace], ...]:
        """The logs that have not failed."""
        return tuple(work for work in self.works if work.failure is None)

    @property
    def failures(self) -> dict[str, LogwrightError]:
        """Why logs failed, by key."""
        return {work.key: work.failure for work in self.works if work.failure is not None}

    def with_works(self, changed: Iterable[LogWork[AnyPlace]]) -> SweepState[AnyPlace]:
        """Return the state with some logs' work replaced, by key."""
        by_key = {work.key: work for work in changed}
        return replace(self, works=tuple(by_key.get(work.key, work) for work in self.works))

    def with_failures(self, failures: Mapping[str, LogwrightError]) -> SweepState[AnyPlace]:
        """Return the state with some logs marked as failed, by key."""
        return self.with_works(
            work.failed(failures[work.key]) for work in self.works if work.key in failures
        )


def local_part(state: SweepState[Place]) -> SweepState:
    """Return the logs of this machine: those that can be locked, and changed by file steps."""
    works = tuple(work for work in state.works if is_local(work.log_dir))
    return SweepState(works=cast("tuple[LogWork, ...]", works), now_ms=state.now_ms)


def with_forecast_bytes(
    state: SweepState[AnyPlace], forecasts: Mapping[str, int]
) -> SweepState[AnyPlace]:
    """Return the state with what each log's cleaning is expected to free, bytes by key."""
    return state.with_works(
        replace(work, forecast_bytes=forecasts[work.key])
        for work in state.works
        if work.key in forecasts
    )
