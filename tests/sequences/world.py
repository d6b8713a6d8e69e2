"""A log directory with several logs and a second directory, as they are on disk, and what the
model says of each log.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from logwright.config.topic import CleanerConfig, TopicConfig, parse_settings
from logwright.errors import StalePlan
from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import TopicPartition
from logwright.recovery.directory_plan import partitions_to_recover
from logwright.recovery.model import RecoveryOptions
from logwright.sweep.recover import recover_directory
from logwright.units import Offset, TimestampMs
from tests.differential.oracle_server import OracleServer
from tests.latest_rows import has_latest
from tests.log_builder import START_MS, LogBuilder
from tests.sequences.away import leave
from tests.sequences.content import Content, Row
from tests.sequences.old_segments import NOTHING_OLD, OldSegments, leave_out_new_files, write_old
from tests.sequences.reading import read_content
from tests.sequences.rich_logs import write_rich

COMPACTED: Final = "t-0"
TAKEN_IN: Final = "u-0"
RETAINED: Final = "d-0"
COPIED: Final = "a-0"
SECOND: Final = "t-1"
"""Another partition of the first log's topic."""
BOTH: Final = "e-0"
"""Its policy is compact and delete."""
NAMES: Final = (COMPACTED, TAKEN_IN, RETAINED, COPIED, SECOND, BOTH)
DELETE_RETENTION_MS: Final = 1_500
SHAPES: Final = 108
FIRST_OLD: Final = 48
"""From this shape on some logs begin with segments of message formats v0 and v1."""
FIRST_RICH: Final = 72
"""From this one on there are other logs (`rich_logs`), of which some are not all committed."""
MARKER: Final = ".kafka_cleanshutdown"
_META: Final = "version=1\ncluster.id=sequences\nnode.id=1\ndirectory.id={}\n"

_PAIRS: Final = {
    "cleanup.policy": "compact",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
    "segment.ms": "60000",
}
COMPACT: Final = tuple(
    parse_settings(_PAIRS | more) for more in ({}, {"internal.segment.bytes": "420"})
)
RETAINED_PAIRS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "max.compaction.lag.ms": "1",
}
DELETE: Final = parse_settings(RETAINED_PAIRS)
BOTH_PAIRS: Final = {**_PAIRS, "cleanup.policy": "compact,delete", "retention.ms": "-1"}
LAGS_MS: Final = (0, 0, 98_500, 99_997, 100_010, 103_000, 200_000)
"""Of ``min.compaction.lag.ms``: the records are about 100 seconds old at first."""
COMPACT_AND_DELETE: Final = tuple(
    parse_settings(BOTH_PAIRS | {"min.compaction.lag.ms": str(lag)}) for lag in LAGS_MS
)
APPENDED: Final = {**_PAIRS, "internal.segment.bytes": "420", "index.interval.bytes": "100"}


class Difference(AssertionError):
    """The disk is not what the model says."""


class RecoveryFails(Exception):
    """A recovery did not bring a log directory to a clean stop."""


def parsed(name: str) -> TopicPartition:
    """A partition by its name."""
    partition = TopicPartition.parse(name)
    assert partition is not None
    return partition


@dataclass(slots=True)
class Taking:
    """An ingest that was begun.

    Attributes:
        first: offset that its first row gets.
        present: how many of them are in the log.
    """

    identity: str
    rows: tuple[Row, ...]
    first: int
    present: int = 0


@dataclass(slots=True)
class Log:
    """One log.

    Attributes:
        content: as it is; None if there is no such log.
        where: the log directory that has it.
        before: by the clock of an operation that an undo brings back: its kind and the content.
        deleted: the content that an undo of the deletion brings back.
        taking: an ingest that is not complete.
        number: of the ingests so far.
        is_another: it was deleted, and an ingest began it again: other replicas have diverged.
    """

    content: Content | None
    where: Path
    before: dict[int, tuple[str, Content]] = field(default_factory=dict)
    deleted: Content | None = None
    taking: Taking | None = None
    number: int = 0
    is_another: bool = False


@dataclass(frozen=True, slots=True)
class Aside:
    """Something that a rescue set aside or kept under the name `target`; what an undo does."""

    path: Path
    target: Path
    content: bytes
    comes_back: bool


@dataclass(slots=True)
class World:
    """Everything.

    Attributes:
        now: the clock, ms.
        maybe: what logs may be, where something was interrupted: none is None.
        moving: a log whose move may be open.
        left: by log the operation that was interrupted, whose leftovers may still be there.
        kafka: answers for Kafka's own code; None where it is not asked.
        seen: what Kafka's consumers got, if it loaded the directory just now.
        damaged: what keeps a broker from starting, and its content: a rescue is not done.
        undoing: what an undo of rescues makes of what is set aside, as long as it is not done.
        sealed: by the name that a file is kept under, what had its place after that rescue.
    """

    root: Path
    now: int
    logs: dict[str, Log]
    maybe: dict[str, tuple[Content | None, ...]] = field(default_factory=dict)
    moving: str | None = None
    left: dict[str, str] = field(default_factory=dict)
    kafka: OracleServer | None = None
    seen: dict[str, Content] | None = None
    damaged: list[tuple[Path, bytes]] = field(default_factory=list)
    undoing: list[Aside] | None = None
    sealed: dict[Path, tuple[int, int, int] | None] = field(default_factory=dict)

    @property
    def first(self) -> Path:
        """The log directory that has all logs at first."""
        return self.root / "a"

    @property
    def second(self) -> Path:
        """The one that logs are moved to."""
        return self.root / "b"

    @property
    def clock(self) -> TimestampMs:
        """The clock, as commands take it."""
        return TimestampMs(self.now)

    def expect(self, name: str, contents: Iterable[Content | None]) -> None:
        """What a log may be from now on, in addition to what it may have been."""
        known = self.maybe.get(name, ())
        self.maybe[name] = tuple(dict.fromkeys((*known, *contents)))


def settings_of(name: str, choice: int = 0) -> tuple[TopicConfig, CleanerConfig]:
    """A log's settings; some have smaller segments than others, or a lag."""
    if name == BOTH:
        return COMPACT_AND_DELETE[choice % len(COMPACT_AND_DELETE)]
    return DELETE if name == RETAINED else COMPACT[choice % len(COMPACT)]


def repair(world: World) -> None:
    """What every command does first: recover what a crash left, in both directories.

    Raises:
        RecoveryFails: it fails.
        StalePlan: another command did it meanwhile.
    """
    for log_dir in (world.first, world.second):
        present = [parsed(name) for name in NAMES if (log_dir / name).is_dir()]
        damaged = partitions_to_recover(log_dir, present)
        if not damaged and (log_dir / MARKER).exists():
            continue
        result = recover_directory(
            log_dir,
            damaged,
            lambda topic: settings_of(f"{topic}-0")[0],
            now_ms=world.clock,
            options=RecoveryOptions(),
        )
        stale = [one for one in result.failures.values() if isinstance(one, StalePlan)]
        if stale and len(stale) == len(result.failures):
            raise stale[0]
        if result.failures:
            raise RecoveryFails(f"the recovery fails: {result.failures}")
        if not result.clean and world.moving is None:
            raise RecoveryFails(f"a recovery of {log_dir.name} leaves no clean shutdown")


def compare(world: World) -> None:
    """Hold the disk against the model, and take over what it turns out to be.

    Raises:
        Difference: it is nothing that it may be.
    """
    for name, log in world.logs.items():
        allowed = world.maybe.get(name, (log.content,))
        places = [one for one in (world.first, world.second) if (one / name / ".").is_dir()]
        places = [one for one in places if any((one / name).glob("*.log"))]
        if len(places) > 1:
            raise Difference(f"{name} is there twice")
        content = read_content(places[0], name) if places else None
        matches = [one for one in allowed if _same(one, content)]
        if not matches:
            raise Difference(f"{name}: {_described(content)}, allowed: {_sketch(allowed, content)}")
        match = matches[0]
        if match not in (None, log.content) and not has_latest(places[0], name, match):
            raise Difference(f"{name}: its latest state is not that of {_described(match)}")
        if world.seen is not None and (content is not None) == (name in world.seen):
            _compare_with_kafka(name, match, world.seen.get(name))
        _note_taken(log, match)
        log.content = match
        if places and places[0] != log.where:
            log.where = places[0]
            log.before.clear()
    world.maybe.clear()
    world.left.clear()
    world.seen = None


def _compare_with_kafka(name: str, model: Content | None, seen: Content | None) -> None:
    """Hold what Kafka's consumers got against the model.

    Raises:
        Difference: it is something else.
    """
    if model is None or seen is None:
        return
    committed = tuple(row for row in seen.rows if row.outcome == "committed")
    known = dict(seen.producers)
    same = (
        (model.start, model.end) == (seen.start, seen.end)
        and [_plain_row(row) for row in model.uncommitted()] == [_plain_row(r) for r in seen.rows]
        and [_plain_row(row) for row in model.committed()] == [_plain_row(r) for r in committed]
        and all(known.get(producer, -2) == last for producer, last in model.producers)
    )
    if not same:
        raise Difference(f"{name}: Kafka sees {_described(seen)}, model: {_described(model)}")


def _plain_row(row: Row) -> Row:
    return replace(row, outcome="none", horizon_ms=None)


def _note_taken(log: Log, now: Content | None) -> None:
    """How many rows of an interrupted ingest are in the log as it turns out to be."""
    taking = log.taking
    if taking is None or now is None:
        return
    more = now.from_(0 if log.content is None else log.content.end)
    for row, wanted in zip(more, taking.rows[taking.present :], strict=False):
        if (row.value, row.timestamp_ms) != (wanted.value, wanted.timestamp_ms):
            break
        taking.present += 1


def _same(model: Content | None, content: Content | None) -> bool:
    if model is None or content is None:
        return model is None and content is None
    known = dict(content.producers)
    return (
        model.start == content.start
        and model.end == content.end
        and model.uncommitted() == content.uncommitted()
        and model.committed() == content.committed()
        and all(known.get(producer, -2) == last for producer, last in model.producers)
    )


def _described(content: Content | None) -> str:
    if content is None:
        return "no log"
    rows = [f"{r.offset}{'' if r.value else 'x'}{r.outcome[0]}" for r in content.uncommitted()]
    horizons = {r.offset: r.horizon_ms for r in content.uncommitted() if r.horizon_ms}
    return f"[{content.start},{content.end}) {' '.join(rows)} {horizons or ''} {content.producers}"


def _sketch(allowed: tuple[Content | None, ...], content: Content | None) -> str:
    """The nearest few."""
    rows = set(content.uncommitted()) if content else set()
    ranked = sorted(
        allowed, key=lambda one: len(rows ^ set(one.uncommitted())) if one else len(rows)
    )
    return " | ".join(_described(one) for one in ranked[:3]) + f" ({len(allowed)} in all)"


def template(shape: int, root: Path) -> World:
    """A log directory as a broker left it, and its second one. Effects: makes them.

    The first log has transactions: committed, aborted, over several segments, in some an open one;
    tombstones, null keys, compressed batches. The second may not be there. The third may have a log
    start offset, as after a DeleteRecords.
    """
    rnd = random.Random(shape)
    first = root / "a"
    logs = {}
    is_old = FIRST_OLD <= shape < FIRST_RICH
    builder = LogBuilder(first, COMPACTED)
    old = write_old(builder, rnd, compacted=True) if is_old else NOTHING_OLD
    content = _transactional(builder, rnd, old)
    _written(builder, old, rnd)
    logs[COMPACTED] = Log(content, first)
    ends = {COMPACTED: content.end}
    for name in (RETAINED, TAKEN_IN):
        if name == TAKEN_IN and rnd.random() < 0.5:
            logs[name] = Log(None, first)
            continue
        aside = root / "aside"
        builder = LogBuilder(aside, name)
        some = is_old and rnd.random() < 0.7
        rows = write_old(builder, rnd, compacted=False) if some else NOTHING_OLD
        is_rich = name == RETAINED and shape >= FIRST_RICH and rnd.random() < 0.5
        content = write_rich(builder, rnd) if is_rich else _plain(builder, rnd, rows)
        _written(builder, rows, rnd)
        (aside / name).rename(first / name)
        shutil.rmtree(aside)
        if name == RETAINED and not is_rich and rnd.random() < 0.5:
            content = replace(content, start=rnd.randrange(content.end))
        logs[name] = Log(content, first)
        ends[name] = content.end
    watermarks = dict(ends)
    logs |= {name: Log(None, first) for name in (COPIED, SECOND, BOTH)}
    for name in (SECOND, BOTH) if shape >= FIRST_RICH else ():
        content = _rich(root / "aside", first, name, rnd)
        logs[name] = Log(content, first)
        ends[name] = content.end
        watermarks[name] = rnd.choice((content.end, rnd.randint(0, content.end)))
    retained = logs[RETAINED].content
    assert retained is not None
    checkpoints = {
        "recovery-point": ends,
        "replication": watermarks,
        "log-start": {RETAINED: retained.start} if retained.start else {},
        "cleaner": {COMPACTED: old.first_dirty} if is_old else {},
    }
    (root / "b").mkdir()
    _write_directory(first, "A", checkpoints)
    _write_directory(root / "b", "B", {kind: {} for kind in checkpoints})
    leave(root, first / COMPACTED)
    return World(root=root, now=START_MS + 100_000, logs=logs)


def _rich(aside: Path, log_dir: Path, name: str, rnd: random.Random) -> Content:
    """Make a log of `rich_logs` in a log directory. Effects: as said."""
    builder = LogBuilder(aside, name)
    content = write_rich(builder, rnd)
    builder.write(producers=True, index_interval=90)
    (aside / name).rename(log_dir / name)
    shutil.rmtree(aside)
    return content


def _write_directory(
    log_dir: Path, letter: str, checkpoints: Mapping[str, Mapping[str, int]]
) -> None:
    """Write what is next to the logs of a directory that was stopped cleanly."""
    (log_dir / "meta.properties").write_text(_META.format("D" + letter * 21))
    (log_dir / MARKER).write_text('{"version":0,"brokerEpoch":0}')
    for file, offsets in checkpoints.items():
        entries = {parsed(one): Offset(offset) for one, offset in offsets.items()}
        path = log_dir / f"{file}-offset-checkpoint"
        path.write_bytes(serialize_offset_checkpoint(entries))


def _written(builder: LogBuilder, old: OldSegments, rnd: random.Random) -> None:
    builder.write(producers=True, index_interval=90)
    if old.rows and rnd.random() < 0.5:
        leave_out_new_files(builder.directory, old)


def _row(offset: int, key: str | None, value: str | None) -> Row:
    return Row(
        offset=offset,
        key=None if key is None else key.encode(),
        value=None if value is None else value.encode(),
        timestamp_ms=START_MS + offset,
    )


def _transactional(builder: LogBuilder, rnd: random.Random, old: OldSegments) -> Content:
    rows = [*old.rows]
    offset, producer = old.end, 7
    producers: dict[int, int] = {}
    undecided: dict[int, list[int]] = {}
    count = rnd.randint(3, 6)
    for number in range(count):
        segment = builder.segment(offset)
        for _ in range(rnd.randint(1, 4)):
            kind = rnd.random()
            if kind < 0.3:
                producer += 1
                key = rnd.choice("abcdef")
                segment.batch(
                    offset,
                    [(key, f"T{offset}")],
                    producer_id=producer,
                    transactional=True,
                    sequence=0,
                )
                undecided[producer] = [len(rows)]
                rows.append(replace(_row(offset, key, f"T{offset}"), outcome="open"))
                producers[producer] = 0
                offset += 1
            elif kind < 0.55 and undecided:
                chosen = rnd.choice(sorted(undecided))
                end = rnd.choice(("abort", "commit"))
                segment.marker(offset, chosen, end)
                for at in undecided.pop(chosen):
                    rows[at] = replace(
                        rows[at], outcome="aborted" if end == "abort" else "committed"
                    )
                offset += 1
            else:
                pairs = [
                    (
                        None if rnd.random() < 0.05 else rnd.choice("abcdef"),
                        None if rnd.random() < 0.2 else f"v{offset + n}",
                    )
                    for n in range(rnd.randint(1, 3))
                ]
                segment.batch(offset, pairs, codec=rnd.choice((0, 0, 0, 3, 4)))
                rows += [_row(offset + n, *pair) for n, pair in enumerate(pairs)]
                offset += len(pairs)
        if number == count - 2 and rnd.random() < 0.8:
            for late in sorted(undecided):
                segment.marker(offset, late, "abort")
                for at in undecided.pop(late):
                    rows[at] = replace(rows[at], outcome="aborted")
                offset += 1
    return Content(rows=tuple(rows), end=offset, producers=tuple(sorted(producers.items())))


def _plain(builder: LogBuilder, rnd: random.Random, old: OldSegments) -> Content:
    rows, offset = [*old.rows], old.end
    for _ in range(0 if rows and rnd.random() < 0.3 else rnd.randint(2, 5)):
        segment = builder.segment(offset)
        for _ in range(rnd.randint(1, 3)):
            pairs = [(rnd.choice("abcdef"), f"v{offset + n}") for n in range(rnd.randint(1, 3))]
            segment.batch(offset, pairs)
            rows += [_row(offset + n, *pair) for n, pair in enumerate(pairs)]
            offset += len(pairs)
    return Content(rows=tuple(rows), end=offset)
