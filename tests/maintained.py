"""A log that is maintained along a simulated clock, by the engine and by the sensor of deadlines.

And small random logs whose times are full seconds: something can be due only then, or 1 ms later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from logwright.compaction.model import CleaningOptions
from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.erasure.outlook.countdown import LogCountdown
from logwright.erasure.outlook.upkeep import SweepTimes
from logwright.format.names import TopicPartition
from logwright.pipelines.erasure.due import choose_erasures
from logwright.purge.commit import purge_partition
from logwright.retention.commit import plan_retention_of
from logwright.sweep.clean import clean_logs
from logwright.sweep.executor import LocalExecutor
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.plan import plan_cleaning
from logwright.sweep.retain import retain
from logwright.units import TimestampMs
from tests.found import plain_records
from tests.log_builder import START_MS, LogBuilder, SegmentBuilder

SECOND_MS = 1_000
KEYS = ("planted-alice", "planted-bob", "planted-carol", "x", "y")


@dataclass(slots=True, kw_only=True)
class Maintained:
    """One log, and what maintains it.

    Attributes:
        settings: of its topic.
        look: what remains at a time for the sensor, None: nothing; with when it must be swept.
        gone: offset of a record → the first time at which no file had it.
    """

    log_dir: Path
    partition: TopicPartition
    settings: tuple[TopicConfig, CleanerConfig]
    look: Callable[[int], tuple[LogCountdown, frozenset[SweepTimes]] | None] | None = None
    gone: dict[int, int] = field(default_factory=dict)
    _requested: dict[str, int] = field(default_factory=dict)

    def until_gone(self, times: Iterable[int]) -> None:
        """Do all that is due at each of these times, ms. Effects: changes the log."""
        there, stamp = self.offsets(), self._stamp()
        for now_ms in times:
            self._run(now_ms, force=self._is_swept(now_ms))
            changed = False
            while (after := self._stamp()) != stamp:  # runs follow each other at once
                stamp, changed = after, True
                self._run(now_ms, force=False)
            if changed:
                left = self.offsets()
                self.gone |= dict.fromkeys(there - left, now_ms)
                there &= left

    def offsets(self) -> set[int]:
        """The offsets of the records that any file has. Effects: reads all files."""
        return {row.offset for path in self._logs() for row in plain_records(path.read_bytes())}

    def _stamp(self) -> list[tuple[Path, int]]:
        return [(path, path.stat().st_ino) for path in self._logs()]

    def _logs(self) -> list[Path]:
        return sorted(path for path in self.log_dir.rglob("0*.log*") if path.is_file())

    def _is_swept(self, now_ms: int) -> bool:
        remains = None if self.look is None else self.look(now_ms)
        if remains is None:
            return False
        row, times = remains
        choice = choose_erasures(
            [("t-0", row, times)],
            self._requested,
            now_ms=now_ms,
            in_flight=frozenset(),
            held={},
        )
        self._requested |= dict.fromkeys(choice.logs, now_ms)
        return bool(choice.logs)

    def _run(self, now_ms: int, *, force: bool) -> None:
        place, config, now = (self.log_dir, self.partition), self.settings[0], TimestampMs(now_ms)
        options = CleaningOptions(force=force, roll=force)
        plan = plan_cleaning(
            *place, self.settings, now_ms=now, options=options, high_watermark="end"
        )
        if plan.clean or plan.roll.due:
            work = LogWork(key="t-0", log_dir=self.log_dir, partition=self.partition, plan=plan)
            (work,) = clean_logs(SweepState(works=(work,), now_ms=now), LocalExecutor())
            assert work.failure is None, work.failure
        retention = plan_retention_of(*place, config, now_ms=now, high_watermark="end")
        if retention.deleted:
            retain(retention)
        purge_partition(*place, now_ms=now, file_delete_delay_ms=config.file_delete_delay_ms)


def draw_log(log_dir: Path, draw: random.Random) -> LogBuilder:
    """Write a log of a few keys with tombstones, horizons, transactions, codecs, a checkpoint."""
    log = LogBuilder(log_dir)
    at, second = 0, 0
    for _ in range(draw.randint(1, 4)):
        segment = log.segment(at)
        for _ in range(draw.randint(1, 3)):
            at = _draw_batch(segment, at, START_MS + second * SECOND_MS, draw)
            second += draw.randrange(4)
    checkpoint = draw.choice((None, None, log.segments[-1].base_offset))
    return log.write(cleaner_checkpoint=checkpoint, producers=True)


def _draw_batch(segment: SegmentBuilder, at: int, time_ms: int, draw: random.Random) -> int:
    count = draw.randint(1, 4)
    pairs = [
        (draw.choice(KEYS), None if draw.random() < 0.35 else "v" * draw.randrange(1, 60))
        for _ in range(count)
    ]
    transactional = draw.random() < 0.2
    horizon_ms = time_ms + draw.randrange(1, 40) * SECOND_MS if draw.random() < 0.2 else None
    segment.batch(
        at,
        pairs,
        timestamps=[time_ms] * count,
        codec=draw.choice((0, 0, 1, 4)),
        horizon_ms=horizon_ms,
        producer_id=7 if transactional else -1,
        transactional=transactional,
    )
    if transactional and draw.random() < 0.9:  # others stay open
        segment.marker(at + count, 7, draw.choice(("abort", "commit")))
        return at + count + 1
    return at + count


def draw_settings(draw: random.Random, policy: str) -> dict[str, str]:
    """Settings of a topic, in full seconds."""

    def seconds(*choices: int) -> str:
        return str(draw.choice(choices) * SECOND_MS)

    never = str((1 << 63) - 1)
    return {
        "cleanup.policy": policy,
        "segment.ms": seconds(2, 10, 500),
        "max.compaction.lag.ms": draw.choice((never, seconds(12, 20, 30))),
        "min.compaction.lag.ms": seconds(0, 0, 5, 11),
        "min.cleanable.dirty.ratio": draw.choice(("0", "0.5", "1")),
        "delete.retention.ms": seconds(0, 3, 15),
        "file.delete.delay.ms": seconds(0, 1, 5),
        "retention.ms": draw.choice(("-1", seconds(10, 25))),
        "retention.bytes": draw.choice(("-1", "-1", "300")),
    }
