"""A log directory, its policies and its clock, and what of each log the model knows."""

from __future__ import annotations

import json
import os
import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from logwright.format.checkpoints import parse_offset_checkpoint, serialize_offset_checkpoint
from logwright.format.names import TopicPartition
from logwright.resources.clock import NOW_VARIABLE
from logwright.state.model import Pause
from logwright.state.store import change_state
from logwright.units import TimestampMs
from tests.log_builder import LogBuilder, SegmentBuilder

START_MS: Final = 1_760_000_000_000
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
MARKER: Final = ".kafka_cleanshutdown"
CLEANER: Final = "cleaner-offset-checkpoint"
TOPICS: Final = ("orders", "users", "events")
KEYS: Final = 8
KEY: Final = "a-key-nobody-may-see-"
VALUE: Final = "a-value-nobody-may-see-"
OWNER: Final = "ops"

Settings = dict[str, str]


@dataclass(frozen=True, slots=True)
class Record:
    """One record."""

    offset: int
    key: str
    value: str | None
    time_ms: int


@dataclass(frozen=True, slots=True)
class Cleaning:
    """A cleaning that was done, or begun.

    Attributes:
        end: offset that it cleans up to.
        horizon_ms: when the tombstones may go that it has come upon.
    """

    at_ms: int
    end: int
    horizon_ms: int


@dataclass(frozen=True, slots=True)
class Corruption:
    """A byte of a segment that is not what it was."""

    path: Path
    position: int


@dataclass(slots=True)
class Log:
    """One log.

    Attributes:
        records: all that were appended, but for those that retention has deleted.
        start: log start offset.
        cleanings: what may have removed records.
        clean: the cleaner's checkpoint when it was looked at last.
    """

    records: list[Record] = field(default_factory=list)
    start: int = 0
    end: int = 0
    cleanings: list[Cleaning] = field(default_factory=list)
    clean: int = 0
    corruption: Corruption | None = None


@dataclass(slots=True)
class Entry:
    """An entry of the policies' topics: of one topic, or of a pattern."""

    kind: str
    of: str
    pairs: Settings


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Of a log: how often it failed, and when it is tried again."""

    failures: int
    retry_ms: int


@dataclass(slots=True)
class World:
    """Everything but Dagster.

    Attributes:
        limits: of the policies' sweep.
        broken: the policies cannot be read.
        away: the log directory is not mounted.
        paused: log → when its pause ends; of logs that are gone, too.
        quarantined: log → its quarantine, likewise.
        doubtful: logs that a killed run may have left in between: what is due of them is not known.
    """

    root: Path
    now: int = START_MS
    logs: dict[str, Log] = field(default_factory=dict)
    defaults: Settings = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    limits: Settings = field(default_factory=dict)
    broken: bool = False
    away: bool = False
    paused: dict[str, int] = field(default_factory=dict)
    quarantined: dict[str, Quarantine] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)

    @property
    def log_dir(self) -> Path:
        """The log directory."""
        return self.root / "kafka-logs"

    @property
    def policies(self) -> Path:
        """The directory of the policies."""
        return self.root / "policies"

    @property
    def is_clean(self) -> bool:
        """The broker stopped cleanly."""
        return (self.log_dir / MARKER).exists()

    def directory(self, name: str) -> Path:
        """Of a log."""
        return self.log_dir / name

    def is_paused(self, name: str) -> bool:
        """Nobody works on the log."""
        return self.now < self.paused.get(name, 0)

    def is_held(self, name: str) -> bool:
        """The log is paused, or in quarantine."""
        retry_ms = self.quarantined[name].retry_ms if name in self.quarantined else 0
        return self.is_paused(name) or self.now < retry_ms

    def can_append(self, name: str) -> bool:
        """A broker would append, without a recovery before."""
        return self.is_clean and name not in self.doubtful

    def pass_time(self, ms: int) -> None:
        """The clock moves. Effects: the environment."""
        self.now += ms
        os.environ[NOW_VARIABLE] = str(self.now)

    def write_policies(self) -> None:
        """Write the policies as they are. Effects: their file."""
        document = {
            "version": 1,
            "high_watermark": "end",
            "defaults": self.defaults,
            "topics": [{one.kind: one.of, **one.pairs} for one in self.entries],
            "sweep": self.limits,
            # A few records that are compressed in another way may be larger.
            "expectations": {"max_growth_share": 9.0},
        }
        text = "version: [" if self.broken else json.dumps(document)
        (self.policies / "policies.yml").write_text(text)


def parsed(name: str) -> TopicPartition:
    """A partition by its name."""
    partition = TopicPartition.parse(name)
    assert partition is not None
    return partition


def drawn_settings(draw: random.Random) -> Settings:
    """Some settings of a topic."""
    choices: dict[str, tuple[object, ...]] = {
        "cleanup.policy": ("compact", "compact", "compact", "delete", "compact,delete"),
        "min.cleanable.dirty.ratio": (0.05, 0.5, 0.5, 0.9),
        "max.compaction.lag.ms": (None, HOUR_MS, 3 * HOUR_MS),
        "min.compaction.lag.ms": (None, None, 10 * MINUTE_MS),
        "segment.ms": (None, HOUR_MS, 30 * HOUR_MS),
        "retention.ms": (None, 2 * HOUR_MS, 20 * HOUR_MS),
        "retention.bytes": (None, None, 1500),
        "delete.retention.ms": (None, 0, HOUR_MS),
        "file.delete.delay.ms": (None, MINUTE_MS, 2 * HOUR_MS),
    }
    picked = {name: draw.choice(some) for name, some in choices.items()}
    return {name: str(value) for name, value in picked.items() if value is not None}


def change_settings(world: World, draw: random.Random) -> None:
    """The policies change: a topic's entry, a pattern, or the limits of a sweep."""
    kind = draw.choice(["name", "name", "pattern", "fewer", "limits", "limits"])
    if kind == "limits":
        limits = {"max_logs": draw.choice(["1", "2"]), "max_runs": draw.choice(["1", "2"])}
        world.limits = dict(draw.sample(sorted(limits.items()), draw.randint(0, 2)))
    elif kind == "fewer":
        world.entries = [one for one in world.entries if draw.random() < 0.6]
    elif kind == "pattern":
        pattern = draw.choice(["orders|users", "u.*", ".*s", "no-such-.*"])
        pairs = drawn_settings(draw)
        some = draw.sample(sorted(pairs), draw.randint(1, len(pairs)))
        world.entries.append(Entry("pattern", pattern, {name: pairs[name] for name in some}))
    else:
        topic = draw.choice(TOPICS)
        world.entries = [one for one in world.entries if (one.kind, one.of) != ("name", topic)]
        world.entries.append(Entry("name", topic, drawn_settings(draw)))
    world.write_policies()


def make_world(seed: int, root: Path) -> World:
    """The world of a seed. Effects: makes its directories."""
    draw = random.Random(seed)
    world = World(root=root)
    world.log_dir.mkdir(parents=True)
    world.policies.mkdir()
    (world.log_dir / MARKER).write_text('{"version":0,"brokerEpoch":0}')
    world.defaults = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.5"}
    world.entries = [Entry("name", topic, drawn_settings(draw)) for topic in TOPICS]
    world.pass_time(0)
    world.write_policies()
    for _ in range(draw.randint(2, 3)):
        appear(world, draw)
    return world


def appear(world: World, draw: random.Random) -> None:
    """A log is there that was not, with some segments."""
    name = f"{draw.choice(TOPICS)}-{draw.choice([0, 0, 1, 10])}"
    if name in world.logs:
        return
    world.logs[name] = Log()
    for _ in range(draw.randint(1, 3)):
        _add_segment(world, name, draw)


def roll(world: World, draw: random.Random) -> None:
    """A broker rolls a log and appends."""
    some = [name for name in sorted(world.logs) if world.can_append(name)]
    if some:
        _add_segment(world, draw.choice(some), draw)


def grow(world: World, draw: random.Random) -> None:
    """A broker appends to logs."""
    for name in sorted(world.logs):
        if draw.random() < 0.7 and world.can_append(name):
            _append(world, name, draw)


def _append(world: World, name: str, draw: random.Random) -> None:
    """Records at the end of the active segment, as after a clean stop of the broker."""
    log = world.logs[name]
    active = max(world.directory(name).glob("*.log"))
    base = int(active.stem)
    made = LogBuilder(world.root / "made", name)
    segment = made.segment(base, modified_ms=world.now)
    _add_batches(world, log, segment, draw)
    made.write()
    with active.open("ab") as file:
        file.write(segment.content)
    # An index of few bytes has no entry but the last of the time index, which is the newest.
    source = made.directory / f"{base:020d}.timeindex"
    shutil.copy2(source, active.with_suffix(".timeindex"))
    os.utime(active, ns=(world.now * 1_000_000,) * 2)
    shutil.rmtree(made.log_dir)


def _add_segment(world: World, name: str, draw: random.Random) -> None:
    """A new active segment with records. Effects: makes its files."""
    log, directory = world.logs[name], world.directory(name)
    made = LogBuilder(world.root / "made", name)
    _add_batches(world, log, made.segment(log.end, modified_ms=world.now), draw)
    made.write()
    directory.mkdir(exist_ok=True)
    for path in sorted(made.directory.iterdir()):
        path.replace(directory / path.name)
    shutil.rmtree(made.log_dir)


def _add_batches(world: World, log: Log, segment: SegmentBuilder, draw: random.Random) -> None:
    codec = draw.choice([0, 0, 4])
    for _ in range(draw.randint(1, 3)):
        count = draw.choice([1, 4, 12])
        some = []
        for offset in range(log.end, log.end + count):
            key = f"{KEY}{draw.randrange(KEYS)}"
            value = None if draw.random() < 0.2 else f"{VALUE}{offset}"
            some.append(Record(offset, key, value, world.now))
        segment.batch(
            log.end,
            [(one.key, one.value) for one in some],
            timestamps=[one.time_ms for one in some],
            codec=codec,
        )
        log.records += some
        log.end += count


def disappear(world: World, draw: random.Random) -> None:
    """A log is gone, as a broker deletes it: with its entries in the checkpoints."""
    if len(world.logs) < 2:
        return
    name = draw.choice(sorted(world.logs))
    shutil.rmtree(world.directory(name))
    del world.logs[name]
    world.doubtful.discard(name)
    for path in world.log_dir.glob("*-offset-checkpoint"):
        entries = parse_offset_checkpoint(path.read_bytes(), path)
        left = {partition: at for partition, at in entries.items() if str(partition) != name}
        path.write_bytes(serialize_offset_checkpoint(left))


def checkpoint(world: World) -> dict[str, int]:
    """The cleaner's checkpoint, by log."""
    path = world.log_dir / CLEANER
    known = parse_offset_checkpoint(path.read_bytes(), path) if path.exists() else {}
    return {str(partition): int(offset) for partition, offset in known.items()}


def corrupt(world: World, draw: random.Random) -> None:
    """A bit of a record that is not cleaned yet is not what it was."""
    some = sorted(world.logs.keys() - world.doubtful)
    if not world.is_clean or not some:
        return
    name = draw.choice(some)
    log, directory = world.logs[name], world.directory(name)
    sealed = sorted(directory.glob("*.log"))[:-1]
    dirty = [one for one in sealed if int(one.stem) >= checkpoint(world).get(name, 0)]
    dirty = [one for one in dirty if one.stat().st_size]
    if log.corruption is not None or not dirty:
        return
    log.corruption = Corruption(draw.choice(dirty), 61 + 12)
    _flip(log.corruption)


def repair(world: World, _: random.Random) -> None:
    """What was corrupt is as it was, from another replica."""
    for log in world.logs.values():
        if log.corruption is not None:
            _flip(log.corruption)
            log.corruption = None


def _flip(corruption: Corruption) -> None:
    """Change a bit of a segment, in a new file with the same times. Effects: its file."""
    path = corruption.path
    if not path.exists():  # it was deleted, as a whole, by its age
        return
    stat = path.stat()
    content = bytearray(path.read_bytes())
    content[corruption.position] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(stat.st_mtime_ns, stat.st_mtime_ns))


def pause(world: World, draw: random.Random) -> None:
    """An operator pauses a log."""
    if not world.logs:
        return
    name = draw.choice(sorted(world.logs))
    until_ms = world.now + draw.choice([MINUTE_MS, HOUR_MS, 30 * HOUR_MS])
    wanted = Pause(
        owner=OWNER,
        reason="a disk is replaced",
        since_ms=TimestampMs(world.now),
        expires_at_ms=TimestampMs(until_ms),
    )
    change_state(world.log_dir, parsed(name), lambda now: now.with_pause(wanted))
    world.paused[name] = until_ms


def resume(world: World, _: random.Random) -> None:
    """An operator resumes all logs."""
    for name in world.paused:
        change_state(world.log_dir, parsed(name), lambda now: now.without_pauses(OWNER))
    world.paused.clear()


def move_away(world: World, draw: random.Random) -> None:
    """The log directory is not mounted, or mounted again; the policies are not readable, or are."""
    if draw.random() < 0.5 or world.broken:
        world.broken = not world.broken
        world.write_policies()
    else:
        world.away = not world.away
        names = (world.log_dir, world.root / "away")
        names[not world.away].rename(names[world.away])


def crash(world: World, draw: random.Random) -> None:
    """A broker did not stop cleanly: without its marker, perhaps with a part of a batch."""
    if any(log.corruption for log in world.logs.values()) or not world.logs or world.doubtful:
        return
    (world.log_dir / MARKER).unlink(missing_ok=True)
    if draw.random() < 0.6:
        active = max(world.directory(draw.choice(sorted(world.logs))).glob("*.log"))
        with active.open("ab") as file:
            file.write(bytes(7))
