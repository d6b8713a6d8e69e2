"""The rules of the platform, said plainly, for small logs: which settings a topic has, what is due.

Sources: KIP-58, KIP-354 and LogCleanerManager for what is dirty and due; `LogConfig.maxSegmentMs`
for the roll; UnifiedLog.deleteOldSegments for retention; docs/architecture.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from logwright.format.batch import RecordBatch, parse_batch, walk_batches
from tests.platform_sequences.world import Settings, World, checkpoint

DAY_MS = 86_400_000
KAFKAS: Settings = {
    "cleanup.policy": "delete",
    "min.cleanable.dirty.ratio": "0.5",
    "max.compaction.lag.ms": str(2**63 - 1),
    "min.compaction.lag.ms": "0",
    "segment.ms": str(7 * DAY_MS),
    "retention.ms": str(7 * DAY_MS),
    "retention.bytes": "-1",
    "delete.retention.ms": str(DAY_MS),
    "file.delete.delay.ms": "60000",
}
"""What Kafka has by default."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment on disk.

    Attributes:
        end: base offset of the next one; of the active one the log end offset.
        first_ms: largest timestamp of its first batch, -1 without a batch.
        newest_ms: its largest timestamp; without a batch when its file was changed.
    """

    base: int
    end: int
    bytes: int
    first_ms: int
    newest_ms: int


@dataclass(frozen=True, slots=True)
class Due:
    """What is due of a log.

    Attributes:
        rolls: its active segment rolls.
        cleans: it is compacted.
        first_dirty: where the dirty part begins; bound: where what can be cleaned ends.
        ratio: of the bytes that can be cleaned.
        deadline_ms: when `max.compaction.lag.ms` is exceeded, None if it never is.
    """

    rolls: bool
    cleans: bool
    first_dirty: int
    bound: int
    ratio: float
    deadline_ms: int | None

    @property
    def due(self) -> bool:
        """A sweep changes the log."""
        return self.rolls or self.cleans


def settings_of(world: World, name: str) -> Settings:
    """An entry with the topic's name wins over patterns, a later pattern over an earlier one, any
    entry over the defaults, and those over Kafka's.
    """
    topic = name.rpartition("-")[0]
    settings = {**KAFKAS, **world.defaults}
    for entry in world.entries:
        if entry.kind == "pattern" and re.fullmatch(entry.of, topic):
            settings |= entry.pairs
    for entry in world.entries:
        if entry.kind == "name" and entry.of == topic:
            settings |= entry.pairs
    return settings


def segments_of(directory: Path, end: int) -> list[Segment]:
    """The segments of a log, ascending. `end`: its log end offset."""
    paths = sorted(directory.glob("*.log"))
    bases = [int(path.stem) for path in paths]
    batches = [_batches(path) for path in paths]
    return [
        Segment(
            base=base,
            end=following,
            bytes=path.stat().st_size,
            first_ms=some[0].max_timestamp if some else -1,
            newest_ms=max(one.max_timestamp for one in some)
            if some
            else path.stat().st_mtime_ns // 1_000_000,
        )
        for path, base, following, some in zip(
            paths, bases, [*bases[1:], end], batches, strict=True
        )
    ]


def _batches(path: Path) -> list[RecordBatch]:
    content = path.read_bytes()
    spans = walk_batches(content)
    return [parse_batch(content[one.position : one.position + one.bytes]) for one in spans]


def due_of(world: World, name: str) -> Due:
    """What is due of a log, now."""
    log, settings, now = world.logs[name], settings_of(world, name), world.now
    segments = segments_of(world.directory(name), log.end)
    compacts = "compact" in settings["cleanup.policy"]
    lag_ms = int(settings["max.compaction.lag.ms"])
    active = segments[-1]
    most_ms = int(settings["segment.ms"])
    if compacts:
        most_ms = min(most_ms, lag_ms)
    rolls = active.bytes > 0 and now - active.first_ms > most_ms
    if not rolls:
        segments = segments[:-1]
    start = checkpoint(world).get(name, log.start)
    first_dirty = start if log.start <= start <= log.end else log.start
    dirty = [one for one in segments if one.end > first_dirty]
    bound = segments[-1].end if segments else active.base
    young = [one for one in dirty if now - one.newest_ms < int(settings["min.compaction.lag.ms"])]
    if young:
        bound = min(bound, young[0].base)
    bound = max(bound, first_dirty)
    clean_bytes = sum(one.bytes for one in segments if one.base < first_dirty)
    able_bytes = sum(one.bytes for one in dirty if one.base < bound)
    able_bytes = able_bytes if bound > first_dirty else 0
    ratio = able_bytes / (clean_bytes + able_bytes) if able_bytes else 0.0
    oldest = min((one.first_ms for one in dirty if one.first_ms > 0), default=None)
    late = oldest is not None and now - oldest > lag_ms
    above = ratio > float(settings["min.cleanable.dirty.ratio"])
    return Due(
        rolls=rolls,
        cleans=compacts and able_bytes > 0 and (above or late),
        first_dirty=first_dirty,
        bound=bound,
        ratio=ratio,
        deadline_ms=oldest + lag_ms + 1
        if compacts and oldest is not None and lag_ms < 2**63 - 1
        else None,
    )


def may_go(segments: list[Segment], settings: Settings, now: int) -> int:
    """How many of the oldest segments retention deletes."""
    if "delete" not in settings["cleanup.policy"]:
        return 0
    gone, limit = 0, int(settings["retention.bytes"])
    left = sum(segment.bytes for segment in segments)
    for segment in segments:
        if limit < 0 or left - segment.bytes < limit or _is_empty_active(segment, segments):
            break
        left -= segment.bytes
        gone += 1
    for segment in segments[gone:]:
        if now - segment.newest_ms <= int(settings["retention.ms"]) or _is_empty_active(
            segment, segments
        ):
            break
        gone += 1
    return gone


def _is_empty_active(segment: Segment, segments: list[Segment]) -> bool:
    return segment is segments[-1] and segment.bytes == 0
