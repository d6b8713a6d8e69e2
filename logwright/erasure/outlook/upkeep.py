"""How a log is maintained: what the outlook is based on. Pure.

Besides the runs that do what is due there may be sweeps for deadlines: the sensor
``erasure_deadlines`` requests one of a log with records of a stored request that would be late.
Whether that sensor runs is known from the policies only (``erasure.deadline_sweeps``); where they
do not say so, no sweep is counted on.

A record whose key has a tombstone goes in two cleanings: the first removes the record and gives the
tombstone its delete horizon, ``delete.retention.ms`` later (KIP-534); one after that removes the
tombstone. What a cleaning replaces is gone ``file.delete.delay.ms`` after it. So, counted back from
the deadline:

    first sweep at deadline - delete.retention.ms - file.delete.delay.ms - 2 margins
    second sweep at deadline - file.delete.delay.ms - 1 margin

and after the second again and again, each `SWEEP_AGAIN_MS`. A log is swept at the times of every
deadline of what is left in it. Deadlines are rounded down to a full margin: those within one margin
share their sweeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from logwright.units import INT64_MAX

if TYPE_CHECKING:
    from logwright.config.erasure import ErasureSettings
    from logwright.config.topic import TopicConfig

PLATFORM_INTERVAL_MS: Final = 300_000
"""Within this time the platform's maintenance does what is due: the interval of the sensor
`purge_due`."""
SWEEP_AGAIN_MS: Final = 15 * 60 * 1000


class SweepTimes(NamedTuple):
    """When a log must be swept for its deadline, ms since the epoch."""

    first_ms: int
    second_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Upkeep:
    """How a log is maintained.

    Attributes:
        run_interval_ms: the longest time between two runs.
        forced: runs clean whatever the ratio and the lag say (``clean --force``).
        cleans: the log is compacted, and nothing holds its cleanings back.
        retains: retention works on it.
        appends_continue: records of other keys are appended all the time. After its last foreseen
            cleaning a log is then cleaned again ``max.compaction.lag.ms`` after any time, or, with
            `forced` runs, once its active segment is rolled.
        margin_ms: of the sweeps for deadlines; None: it is not known that there are any, or
            something holds the log.
        deadline_ms: the deadline whose sweeps are counted on, None: none.
        alone_until_ms: from when on the log may be swept for another deadline: after that what
            would be due may not be.
    """

    run_interval_ms: int = 0
    forced: bool = False
    cleans: bool = True
    retains: bool = True
    appends_continue: bool = False
    margin_ms: int | None = None
    deadline_ms: int | None = None
    alone_until_ms: int = INT64_MAX

    @classmethod
    def of_policies(cls, erasure: ErasureSettings) -> Self:
        """Return the upkeep by a platform's policies; without a store they say nothing."""
        if erasure.store is None:
            return cls()
        return cls(
            run_interval_ms=PLATFORM_INTERVAL_MS,
            appends_continue=erasure.appends_continue,
            margin_ms=erasure.margin_ms if erasure.deadline_sweeps else None,
        )

    def sweep_times(self, config: TopicConfig) -> SweepTimes | None:
        """Return when the log is swept for its deadline, None: never, or not known."""
        if self.margin_ms is None or self.deadline_ms is None:
            return None
        return sweep_times(self.deadline_ms, config, margin_ms=self.margin_ms)


def sweep_times(deadline_ms: int, config: TopicConfig, *, margin_ms: int) -> SweepTimes:
    """Return the two times, not below 0."""
    deadline_ms -= deadline_ms % max(margin_ms, 1)
    second_ms = max(deadline_ms - config.file_delete_delay_ms - margin_ms, 0)
    return SweepTimes(max(second_ms - config.delete_retention_ms - margin_ms, 0), second_ms)


def next_sweep_ms(times: SweepTimes, requested_ms: int) -> int:
    """Return when a log is swept for its deadline after a sweep that was requested at this time."""
    for at_ms in times:
        if requested_ms < at_ms:
            return at_ms
    return requested_ms + SWEEP_AGAIN_MS
