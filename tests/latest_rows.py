"""The latest state of a log as a plain dictionary over its decoded records, and the rows of
`read_latest` in the same form.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logwright.batches.runtime import Runtime
from logwright.config.topic import CleanerConfig
from logwright.errors import PointNotHeld
from logwright.format.batch import parse_batch, walk_batches
from logwright.format.names import TopicPartition
from logwright.format.record import read_records
from logwright.latest.model import LatestCounts, LatestPlan
from logwright.latest.plan import plan_latest
from logwright.latest.read import read_latest
from logwright.log.load import observe
from tests.sequences.content import Content, Row
from tests.sequences.reading import read_content

COLUMNS = ("key", "value", "offset", "timestamp", "headers")

State = tuple[tuple[Any, ...], ...]
"""Key, value, offset, timestamp in ms and headers of each row, ascending by offset."""


def state_of(rows: Iterable[Row], *, tombstones: bool = False) -> State:
    """The newest of these rows of each key."""
    newest = {row.key: row for row in rows if row.key is not None}
    kept = sorted(newest.values(), key=lambda row: row.offset)
    return tuple(
        (row.key, row.value, row.offset, row.timestamp_ms, row.headers)
        for row in kept
        if tombstones or row.value is not None
    )


def replayed(
    content: Content, *, start: int = 0, end: int | None = None, tombstones: bool = False
) -> State:
    """What a consumer of committed records in [start, end) knows in the end."""
    rows = (
        row
        for row in content.committed()
        if row.offset >= start and (end is None or row.offset < end)
    )
    return state_of(rows, tombstones=tombstones)


def read_state(
    plan: LatestPlan,
    *,
    tombstones: bool = False,
    threads: int = 1,
    batch_rows: int = 1000,
    counts: LatestCounts | None = None,
) -> State:
    """The same by `read_latest`. Effects: reads the log."""
    rows: list[tuple[Any, ...]] = []
    for batch in read_latest(
        plan,
        columns=COLUMNS,
        tombstones=tombstones,
        runtime=Runtime(threads=threads),
        batch_rows=batch_rows,
        counts=counts,
    ):
        times = batch.column("timestamp").cast("int64").to_pylist()
        for row, time in zip(batch.drop_columns("timestamp").to_pylist(), times, strict=True):
            headers = tuple((each["key"].encode(), each["value"]) for each in row["headers"] or ())
            rows.append((row["key"], row["value"], row["offset"], time // 1000, headers))
    return tuple(rows)


def plan_of(
    log_dir: Path, name: str, *, cleaner: CleanerConfig | None = None, **point: int
) -> LatestPlan:
    """A plan for a partition by its name, all of it committed. Effects: reads the log."""
    partition = TopicPartition.parse(name)
    assert partition is not None
    log = observe(log_dir, partition, high_watermark="end")
    return plan_latest(log, cleaner=cleaner or CleanerConfig(), **point)


def stable_offset(log_dir: Path, name: str) -> int:
    """The last stable offset of a log, all of it committed. Effects: reads it."""
    partition = TopicPartition.parse(name)
    assert partition is not None
    return observe(log_dir, partition, high_watermark="end").last_stable_offset


def has_latest(log_dir: Path, name: str, content: Content) -> bool:
    """Whether the latest state that is read of a log is that of a content. Effects: reads."""
    state = read_state(plan_of(log_dir, name), tombstones=True)
    return state == replayed(content, tombstones=True)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """A batch as it is in the log: its offsets, and (offset, timestamp) of its records, of markers
    too.
    """

    base_offset: int
    last_offset: int
    records: tuple[tuple[int, int], ...]


def batches_of(log_dir: Path, name: str) -> list[Batch]:
    """All batches of a log. Effects: reads it."""
    batches = []
    for path in sorted(path for path in (log_dir / name).glob("*.log") if path.stem.isdigit()):
        data = path.read_bytes()
        for span in walk_batches(data):
            batch = parse_batch(data, span.position)
            records = read_records(batch, data[span.position : span.position + span.bytes])
            batches.append(
                Batch(
                    base_offset=batch.base_offset,
                    last_offset=batch.last_offset,
                    records=tuple((one.offset, one.timestamp_ms) for one in records),
                )
            )
    return batches


@dataclass(frozen=True, kw_only=True)
class PastStates:
    """Compares the states of a log as of points in the past with replays.

    Attributes:
        stable: last stable offset, at least the log start offset.
        checkpoint: of the cleaner.
    """

    log_dir: Path
    name: str
    content: Content
    batches: list[Batch]
    stable: int
    checkpoint: int | None

    @classmethod
    def of(cls, log_dir: Path, name: str) -> PastStates:
        """Of a log. Effects: reads it."""
        partition = TopicPartition.parse(name)
        assert partition is not None
        log = observe(log_dir, partition, high_watermark="end")
        return cls(
            log_dir=log_dir,
            name=name,
            content=read_content(log_dir, name),
            batches=batches_of(log_dir, name),
            stable=max(log.log_start_offset, log.last_stable_offset),
            checkpoint=log.cleaner_checkpoint,
        )

    def compare(self, draw: random.Random, *, count: int) -> int:
        """Compare at this number of random places; return how many points were held."""
        return sum(self._compare_offsets(draw) + self._compare_time(draw) for _ in range(count))

    def _compare_offsets(self, draw: random.Random) -> int:
        content = self.content
        end = draw.randint(content.start, self.stable)
        start = draw.randint(content.start, end)
        since = plan_of(self.log_dir, self.name, start_offset=start)
        expected = replayed(content, start=start, end=self.stable, tombstones=True)
        assert expected == read_state(since, tombstones=True)
        held = 0
        for first in (content.start, start):
            try:
                plan = plan_of(self.log_dir, self.name, start_offset=first, end_offset=end)
            except PointNotHeld:
                assert end == content.start or not self._is_whole(first, end)
                continue
            self._require_held(first, end)
            expected = replayed(content, start=first, end=end, tombstones=True)
            assert expected == read_state(plan, tombstones=True)
            held += 1
        return held

    def _compare_time(self, draw: random.Random) -> int:
        times = [time for batch in self.batches for _, time in batch.records] or [0]
        time_ms = draw.choice(times) + draw.choice((-1, 0, 0, 1))
        later = (
            offset
            for batch in self.batches
            for offset, time in batch.records
            if time > time_ms and offset >= self.content.start
        )
        end = min(next(later, self.stable), self.stable)
        try:
            plan = plan_of(self.log_dir, self.name, end_timestamp_ms=time_ms)
        except PointNotHeld:
            start = self.content.start
            assert end == start or not self._is_whole(start, end)
            return 0
        assert end == plan.end_offset
        self._require_held(self.content.start, end)
        assert replayed(self.content, end=end) == read_state(plan)
        return 1

    def _require_held(self, start: int, end: int) -> None:
        """What a cleaning can have removed is above the point, or is not missing."""
        if end == self.stable or self._has_all(start, end):
            return
        assert self.checkpoint is not None
        assert self.checkpoint <= end
        assert self._has_all(max(start, self.checkpoint), end)

    def _has_all(self, start: int, end: int) -> bool:
        """Whether each offset in [start, end) has a record."""
        there = {offset for batch in self.batches for offset, _ in batch.records}
        return all(offset in there for offset in range(start, end))

    def _is_whole(self, start: int, end: int) -> bool:
        """Whether all offsets of the batches with offsets in [start, end) have a record."""
        inside = [b for b in self.batches if b.last_offset >= start and b.base_offset < end]
        first = min([start, *(batch.base_offset for batch in inside)])
        return self._has_all(first, max([end, *(batch.last_offset + 1 for batch in inside)]))
