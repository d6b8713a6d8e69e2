"""A fleet as a value: the plan of each log, why logs are skipped, and the directories' space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from logwright.compaction.model import ReadablePlan
from logwright.errors import LogwrightError
from logwright.place.model import Place, is_versioned
from logwright.state.model import Hold
from logwright.sweep.model import LogWork
from logwright.times import duration
from logwright.units import TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySpace:
    """The space of one log directory.

    Attributes:
        name: of the directory, as partition keys have it.
        total_bytes, free_bytes: of its file system, free for users other than root; -1 if unknown,
            and in a bucket.
        retired_bytes: what a purge will free: files with the suffix ``.deleted``, and deleted logs.
            0 while a broker runs, which removes its own.
        retired_due_bytes: the part of them whose ``file.delete.delay.ms`` has passed.
        problem: why it cannot be listed; empty if it can.
        running: a broker has it open: its logs are shown up to their high watermarks.
        high_watermark_ms: when the broker recorded these last, ms since the epoch; -1 if it has
            not, or does not run.
    """

    name: str
    log_dir: Place
    total_bytes: int = -1
    free_bytes: int = -1
    retired_bytes: int = 0
    retired_due_bytes: int = 0
    problem: str = ""
    running: bool = False
    high_watermark_ms: int = -1

    @property
    def has_disk(self) -> bool:
        """It is on a file system, which can be full; a bucket is not."""
        return not is_versioned(self.log_dir)

    @property
    def free_share(self) -> float:
        """Free bytes / total bytes; 1.0 if unknown."""
        return self.free_bytes / self.total_bytes if self.total_bytes > 0 else 1.0

    def broker(self, now_ms: int) -> str:
        """Return that a broker runs, and how old its high watermarks are; empty if none does."""
        if not self.running:
            return ""
        if self.high_watermark_ms < 0:
            return "running, no high watermark yet"
        return f"running, high watermark {duration(max(now_ms - self.high_watermark_ms, 0))} old"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All logs at one moment.

    Attributes:
        works: each log with its plan, or with why there is none.
        held: why logs are paused or in quarantine, or why that is not known, by key.
        spaces: of each log directory.
        uncleanable: log directory → Kafka's metrics of what cannot be cleaned; a directory whose
            state cannot be read is missing.
    """

    now_ms: TimestampMs
    works: tuple[LogWork[Place], ...]
    held: Mapping[str, Hold | LogwrightError] = field(default_factory=dict)
    spaces: tuple[DirectorySpace, ...] = ()
    uncleanable: Mapping[Place, Mapping[str, int]] = field(default_factory=dict)

    @property
    def plans(self) -> tuple[tuple[LogWork[Place], ReadablePlan], ...]:
        """The logs that could be planned."""
        return tuple((work, work.plan) for work in self.works if work.plan is not None)

    @property
    def cleanable_plans(self) -> tuple[ReadablePlan, ...]:
        """The plans of the compacted logs that are not in quarantine and have data."""
        held = {
            key
            for key, hold in self.held.items()
            if isinstance(hold, Hold) and hold.kind == "quarantined"
        }
        return tuple(
            plan
            for work, plan in self.plans
            if plan.config.compact and work.key not in held and plan.compaction.total_bytes > 0
        )
