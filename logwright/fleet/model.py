"""A fleet as a value: the plan of each log, why logs are skipped, and the directories' space."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from logwright.compaction.model import CleanPlan
from logwright.errors import LogwrightError
from logwright.state.model import Hold
from logwright.sweep.model import LogWork
from logwright.units import TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySpace:
    """The space of one log directory.

    Attributes:
        name: of the directory, as partition keys have it.
        total_bytes, free_bytes: of its file system, free for users other than root; -1 if unknown.
        retired_bytes: what a purge will free: files with the suffix ``.deleted``, and deleted logs.
        retired_due_bytes: the part of them whose ``file.delete.delay.ms`` has passed.
        problem: why it cannot be listed; empty if it can.
    """

    name: str
    log_dir: Path
    total_bytes: int = -1
    free_bytes: int = -1
    retired_bytes: int = 0
    retired_due_bytes: int = 0
    problem: str = ""

    @property
    def free_share(self) -> float:
        """Free bytes / total bytes; 1.0 if unknown."""
        return self.free_bytes / self.total_bytes if self.total_bytes > 0 else 1.0


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
    works: tuple[LogWork, ...]
    held: Mapping[str, Hold | LogwrightError] = field(default_factory=dict)
    spaces: tuple[DirectorySpace, ...] = ()
    uncleanable: Mapping[Path, Mapping[str, int]] = field(default_factory=dict)

    @property
    def plans(self) -> tuple[tuple[LogWork, CleanPlan], ...]:
        """The logs that could be planned."""
        return tuple((work, work.plan) for work in self.works if work.plan is not None)

    @property
    def cleanable_plans(self) -> tuple[CleanPlan, ...]:
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
