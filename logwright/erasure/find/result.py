"""What a search is given, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from logwright.erasure.find.model import Finding
from logwright.format.names import TopicPartition
from logwright.log.model import PartitionLog

if TYPE_CHECKING:
    from logwright.config.broker import BrokerConfig
    from logwright.config.topic import CleanerConfig, TopicConfig
    from logwright.observe import HighWatermark


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a log directory.

    Attributes:
        of_topic: a topic's settings.
        broker: the broker's own.
        now_ms: the clock, ms since the epoch.
        high_watermark: what counts as committed.
        run_interval_ms: the longest time between two runs of maintenance.
        forced: runs clean whatever the ratio and the lag say.
        appends_continue: see `logwright.erasure.forecast.Upkeep`.
    """

    of_topic: Callable[[str], tuple[TopicConfig, CleanerConfig]]
    broker: BrokerConfig
    now_ms: int
    high_watermark: HighWatermark
    run_interval_ms: int = 0
    forced: bool = False
    appends_continue: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsearched:
    """A file, or a part of one, that could not be searched.

    Attributes:
        path: relative to the directory.
        position, bytes: of the part; 0 and -1 for the whole file.
        problem: why.
    """

    partition: TopicPartition
    path: str
    position: int
    bytes: int
    problem: str

    def as_finding(self) -> Finding:
        """Return it as a finding of no request: any key may be in it."""
        return Finding(
            request=-1,
            topic=self.partition.topic,
            partition=self.partition.partition,
            path=self.path,
            place="unreadable",
            offset=-1,
            batch_position=self.position,
            kind="live",
            rule="",
            gone_by_ms=None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveHits:
    """The records of a live log that were found.

    Attributes:
        log: as it was observed.
        hits: HIT[n]. batches: BATCH[m]. markers: int64[k, 3], of the whole log.
    """

    log: PartitionLog
    hits: NDArray[np.void]
    batches: NDArray[np.void]
    markers: NDArray[np.int64]


@dataclass(slots=True, kw_only=True)
class Found:
    """The result for one directory.

    Attributes:
        directory: as given.
        findings: sorted by path and offset.
        unsearched: what could not be searched.
        undecided: log → why its settings or its state are not known: what removes its records is
            not known either.
        live: the live logs with findings.
        files, bytes: that were searched.
    """

    directory: Path
    findings: list[Finding] = field(default_factory=list)
    unsearched: list[Unsearched] = field(default_factory=list)
    undecided: dict[TopicPartition, str] = field(default_factory=dict)
    live: dict[TopicPartition, LiveHits] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0


def findings_of(found: Iterable[Found]) -> list[Finding]:
    """Return the findings of some directories, those of unsearched files included."""
    return [
        finding
        for one in found
        for finding in (*one.findings, *(each.as_finding() for each in one.unsearched))
    ]
