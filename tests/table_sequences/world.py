"""A topic's log directory, its table, and what the rows must be: a dictionary over what was
appended, which no cleaning changes.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from logwright.config.table import Unique
from logwright.config.topic import parse_settings
from logwright.erasure.erase.commit import erase_partition
from logwright.format.checkpoints import parse_offset_checkpoint, serialize_offset_checkpoint
from logwright.format.names import (
    HIGH_WATERMARK_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    TopicPartition,
)
from logwright.log.checkpoints import CHECKPOINT_FILES
from logwright.log.topic_id import read_topic_id
from logwright.move.commit import move_partition
from logwright.place.files import open_partition_dir
from logwright.purge.commit import purge_partition
from logwright.sweep.build import build
from logwright.sweep.commit import commit
from logwright.tables.merge import MergeLimits
from logwright.tables.topic import LocatedTable
from logwright.units import TimestampMs
from tests.differential.kafka_cleaner import KafkaCleaner
from tests.erasing import PlainKeys
from tests.log_builder import LogBuilder, SegmentBuilder
from tests.plans import forced_plan
from tests.table_rows import Rows
from tests.table_schemas import Schemas, record
from tests.table_world import place

KEYS: Final = 30
MOST_PARTITIONS: Final = 4
HOUR_MS: Final = 3_600_000
_SETTINGS: Final = {"cleanup.policy": "compact", "segment.ms": str(1 << 60)}
_RETENTIONS: Final = ("0", "1", str(HOUR_MS), str(24 * HOUR_MS))
"""Of tombstones: another one in each cleaning, as an operator may change it."""
_CLEANER: Final = "cleaner-offset-checkpoint"
_START: Final = "log-start-offset-checkpoint"
_ENDS_OF_LOGS: Final = (RECOVERY_POINT_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
_IDS_APART: Final = 10
"""A registry has schemas of other topics, too."""
_IDS: Final = "AAAAAAAAAAAAAAAAAAAAA{}"

_ENDS: Final[tuple[Literal["commit", "abort"] | None, ...]] = (None, None, "commit", "abort")
"""How the transaction of a batch ends; None: it is of none."""
_PRODUCER: Final = 7
_FILES: Final = (".log", ".index", ".timeindex", ".txnindex")

Record = tuple[int, str, str | None, int]
"""Offset, key, value, timestamp."""


@dataclass(slots=True)
class Partition:
    """One partition's log.

    Attributes:
        where: the log directory that has it.
        history: what was appended, without what was cut off, erased, or is below the start; with
            the tombstones that are below it, if they count in the whole topic.
        start: its log start offset; end: its log end offset.
        cleaned_to: a cleaning may have removed records below this offset.
        held: the table has read it up to here.
        is_cut: it was cut off since.
    """

    where: Path
    history: list[Record] = field(default_factory=list)
    start: int = 0
    end: int = 0
    cleaned_to: int = 0
    held: int = 0
    is_cut: bool = False

    def newest(self, below: int = 1 << 62) -> dict[str, Record]:
        """The newest record of each key, of those below an offset."""
        return {one[1]: one for one in self.history if one[0] < below}


@dataclass(slots=True)
class World:
    """Everything.

    Attributes:
        unique: where a key has one row.
        topic_id: of the topic, counted up when it is made again.
        erased: keys whose records were erased, and which no later record has.
        erases: records were erased since the last update.
        unread: partition, key and offset of tombstones that count in the whole topic, and that may
            be gone since before an update could read them: nobody can know of them.
        bucket: the table is in a bucket, which is a directory of this machine.
        orphans: files of killed updates that no version named: in a bucket they stay for 7 days.
        schemas: of the values; None: they are texts. Each has the field of the one before it, and
            one more.
        schema: number of the newest one.
        written: partition and offset → number of the schema.
        has_refs: another program has made branches or tags, which keep versions.
        undo: what takes back the last act for which an update is refused; None: there is nothing.
    """

    root: Path
    form: str
    mode: str
    keep_ms: int
    buckets: int
    now: int
    kafka: KafkaCleaner | None = None
    unique: Unique = "partition"
    topic_id: int = 0
    logs: dict[int, Partition] = field(default_factory=dict)
    erased: set[str] = field(default_factory=set)
    erases: bool = False
    unread: set[tuple[int, str, int]] = field(default_factory=set)
    bucket: bool = False
    orphans: set[str] = field(default_factory=set)
    schemas: Schemas | None = None
    schema: int = 0
    written: dict[tuple[int, int], int] = field(default_factory=dict)
    has_refs: bool = False
    undo: Callable[[], object] | None = None

    @property
    def table(self) -> Path:
        """The table's directory."""
        return self.root / "tables" / "t"

    @property
    def quarantine(self) -> Path:
        """Its quarantine table's."""
        return self.root / "tables" / "t_quarantine"

    def add_schema(self) -> None:
        """A newer schema, which records have from now on."""
        assert self.schemas is not None
        fields = [
            {"name": f"f{number}", "type": "string", "default": f"d{number}"}
            for number in range(1, self.schema + 1)
        ]
        self.schema += 1
        newest = record({"name": "value", "type": "string"}, *fields)
        self.schemas.add(_IDS_APART * self.schema, newest)

    def written_value(
        self, place: tuple[int, int], value: str | None, draw: random.Random
    ) -> str | bytes | None:
        """What a record at a partition and offset has; a producer may be one of before."""
        if self.schemas is None or value is None:
            return value
        number = self.schema if draw.random() < 0.8 else draw.randint(1, self.schema)
        self.written[place] = number
        more = {f"f{each}": f"{value}.{each}" for each in range(1, number)}
        return self.schemas.value(_IDS_APART * number, value=value, **more)

    def more_of(self, place: tuple[int, int], value: str, columns: Sequence[int]) -> list[str]:
        """What a row must have in columns of newer schemas."""
        number = self.written.get(place, 0)
        return [f"{value}.{each}" if each < number else f"d{each}" for each in columns]

    def place(self, small_bytes: int, files: int) -> LocatedTable:
        """The table, with limits that delete rows of small files too."""
        values = {"format": "registry", "schemas": str(self.root / "schemas")}
        where = place(
            self.form,
            f"file://{self.table}" if self.bucket else self.table,
            buckets=self.buckets,
            keep_versions_ms=self.keep_ms,
            update_mode=self.mode,
            unique=self.unique,
            value={"format": "binary"} if self.schemas is None else values,
        )
        limits = MergeLimits(small_bytes=small_bytes, files=files, deleted_share=0.6)
        return LocatedTable(topic="t", table=where.table, catalog={}, base=self.root, limits=limits)

    def expected(self) -> Rows:
        """The rows that the table must have."""
        heads = [
            (time, offset, number, key, value)
            for number, log in self.logs.items()
            for offset, key, value, time in log.newest().values()
        ]
        if self.unique == "topic":
            heads = list({head[3]: head for head in sorted(heads)}.values())
        return sorted(
            (number, offset, key.encode(), value.encode())
            for _, offset, number, key, value in heads
            if value is not None
        )

    def unknown(self) -> set[bytes]:
        """The keys of which nobody can know the state: see `unread`."""
        newest = {number: log.newest() for number, log in self.logs.items()}
        return {
            key.encode()
            for number, key, offset in self.unread
            if newest[number].get(key, (None,))[0] == offset
        }

    def note_unread(self, *, in_doubt: bool) -> None:
        """Note which tombstones an update cannot read any more. `in_doubt`: nor know by what the
        table has.
        """
        for number, log in self.logs.items():
            known = log.newest(log.held)
            for key, (offset, _, value, time) in log.newest().items():
                if value is not None or offset >= max(log.cleaned_to, log.start):
                    continue
                is_read = offset < log.held
                before = known.get(key)
                if before is not None and not self.erases and before[0] >= log.start:
                    # A row that is gone counts as deleted, with its own timestamp: the tombstone
                    # may have been late, so that another partition's record is newer.
                    its_own = min((before[3], before[0], number), (time, offset, number))
                    is_read |= before[2] is not None and all(
                        its_own > (newest[key][3], newest[key][0], each)
                        for each, newest in self._newest_of_others(number)
                        if key in newest
                    )
                # What an erasure took out is unknown: the table knows what the logs have.
                if in_doubt or self.erases or not is_read:
                    self.unread.add((number, key, offset))

    def _newest_of_others(self, number: int) -> list[tuple[int, dict[str, Record]]]:
        return [(each, log.newest()) for each, log in self.logs.items() if each != number]

    def note_read(self) -> None:
        """Note that the table has read all logs."""
        self.erases = False
        for log in self.logs.values():
            log.held, log.is_cut = log.end, False


def form_of(seed: int, *, bucket: bool) -> str:
    """The format of a seed."""
    return "delta" if bucket else ("parquet", "delta", "iceberg")[seed % 3]


def has_schemas(seed: int) -> bool:
    """Whether the values of a seed are of schemas."""
    return seed % 4 == 1


def make_world(
    seed: int,
    root: Path,
    kafka: KafkaCleaner | None,
    unique: Unique | None = None,
    *,
    bucket: bool = False,
) -> World:
    """The world of a seed, with a topic that has records. Effects: makes its directories."""
    draw = random.Random(seed)
    form = form_of(seed, bucket=bucket)
    world = World(
        root=root,
        form=form,
        mode=draw.choice(["merge-on-read", "merge-on-read", "copy-on-write"]),
        keep_ms=draw.choice([0, 1, 1, 24 * HOUR_MS]),
        buckets=draw.randint(1, 3),
        now=1_760_000_000_000,
        kafka=kafka,
        bucket=bucket,
    )
    if has_schemas(seed):
        world.schemas = Schemas(root)
        world.add_schema()
    (root / "tables").mkdir(parents=True)
    for name in ("a", "b"):
        (root / name).mkdir()
        (root / name / "meta.properties").write_text(
            f"version=1\ncluster.id=c\nnode.id=1\ndirectory.id={name * 21}w\n"
        )
        (root / name / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
    count = draw.randint(1, 2)
    drawn: Unique = draw.choice(["partition", "partition", "topic"])
    world.unique = unique or drawn
    if world.unique == "topic":
        count = draw.randint(count, 2)
        world.keep_ms = draw.choice([0, 1, 24 * HOUR_MS, 24 * HOUR_MS])  # then records come late
    for number in range(count):
        _create(world, number, draw)
    return world


def _create(world: World, number: int, draw: random.Random) -> None:
    """Make a partition with some records. Effects: as said."""
    log_dir = world.root / "a"
    made = world.root / "made"
    builder = LogBuilder(made, f"t-{number}")
    builder.segment(0)
    builder.write()
    shutil.move(builder.directory, log_dir / f"t-{number}")
    shutil.rmtree(made)
    id_text = f"version: 0\ntopic_id: {_IDS.format('QgwA'[world.topic_id % 4])}"
    (log_dir / f"t-{number}" / "partition.metadata").write_text(id_text)
    world.logs[number] = Partition(log_dir)
    _append(world, number, draw, draw.randint(1, 60))


def _append(world: World, number: int, draw: random.Random, count: int) -> None:
    """Append records in a segment of their own, as after a roll. Effects: makes its files."""
    log = world.logs[number]
    made = world.root / "made"
    builder = LogBuilder(made, f"t-{number}")
    segment = builder.segment(log.end, modified_ms=world.now)
    size = draw.choice([1, 5, 20])
    for start in range(0, count, size):
        _add_batch(world, number, segment, draw, min(size, count - start))
    builder.write(producers=True)
    for path in builder.directory.iterdir():
        if path.suffix in _FILES:
            shutil.move(path, log.where / f"t-{number}" / path.name)
    shutil.rmtree(made)


def _add_batch(
    world: World, number: int, segment: SegmentBuilder, draw: random.Random, count: int
) -> None:
    """Append a batch, perhaps as a transaction that ends with it."""
    log = world.logs[number]
    records: list[Record] = []
    may_be_late = world.unique == "topic" and world.keep_ms > HOUR_MS
    time = world.now - (draw.choice([0, 0, 1, HOUR_MS, 20 * HOUR_MS]) if may_be_late else 0)
    for offset in range(log.end, log.end + count):
        key = f"key-{draw.randrange(KEYS):02}"
        value = None if draw.random() < 0.25 else f"v{offset}-{draw.randrange(100)}"
        if world.schemas is not None and offset == 0:  # of tombstones alone no schema is known
            value = "v0"
        records.append((offset, key, value, time))
    ends = draw.choice(_ENDS)
    if world.schemas is not None and log.end == 0:
        ends = None
    segment.batch(
        log.end,
        [
            (key, world.written_value((number, offset), value, draw))
            for offset, key, value, _ in records
        ],
        timestamps=[time] * count,
        codec=draw.choice([0, 0, 4]),
        producer_id=-1 if ends is None else _PRODUCER,
        sequence=-1 if ends is None else log.end,
        transactional=ends is not None,
    )
    log.end += count
    if ends is not None:
        segment.marker(log.end, _PRODUCER, ends)
        log.end += 1
    if ends != "abort":
        log.history += records
        world.erased -= {one[1] for one in records}


def append(world: World, draw: random.Random) -> None:
    """Some records, to some partitions."""
    for number in list(world.logs):
        if draw.random() < 0.8:
            _append(world, number, draw, draw.choice([1, 3, 30, 60]))


def clean(world: World, draw: random.Random) -> None:
    """Compact some partition several times, by logwright or by Kafka's own cleaner."""
    number = draw.choice(list(world.logs))
    log = world.logs[number]
    whole_topic = world.unique == "topic"
    if whole_topic and log.is_cut:  # then it may look like a cleaning
        return
    by_kafka = world.kafka is not None and draw.random() < 0.5
    pairs = _SETTINGS | {"delete.retention.ms": draw.choice(_RETENTIONS)}
    for _ in range(draw.randint(1, 3)):
        world.now += draw.choice([10, HOUR_MS])
        _append(world, number, draw, 1)  # the active segment is not cleaned
        if by_kafka:
            _by_kafka(world, number, pairs)
        else:
            plan = forced_plan(log.where, _partition(number), pairs, now_ms=world.now)
            if plan.clean or plan.roll.due:
                commit(plan, build(plan) if plan.clean else None)
    purge_partition(
        log.where,
        _partition(number),
        now_ms=TimestampMs(world.now + HOUR_MS),
        file_delete_delay_ms=1,
    )
    log.cleaned_to = log.end
    if draw.random() < 0.1 and not whole_topic:  # a copy without it
        (log.where / _CLEANER).unlink(missing_ok=True)


def _by_kafka(world: World, number: int, pairs: dict[str, str]) -> None:
    assert world.kafka is not None
    config = [f"{name}={value}" for name, value in pairs.items()]
    world.kafka.clean(
        *("--log-dir", str(world.logs[number].where), "--topic-partition", f"t-{number}"),
        *("--now", str(world.now), "--high-watermark", "end", "--dedupe-buffer", str(1 << 20)),
        *("--passes", "1", "--producer-id-expiration-ms", "86400000", "--config", *config),
    )


def cut(world: World, draw: random.Random) -> None:
    """Cut a partition's log off, above what was cleaned, and let it grow again or not."""
    number = draw.choice(list(world.logs))
    log = world.logs[number]
    bases = [base for base in _bases(log, number) if base >= max(log.cleaned_to, 1)]
    if not bases:
        return
    base = draw.choice(bases)
    for path in (log.where / f"t-{number}").iterdir():
        if path.stem.isdecimal() and int(path.stem) >= base:
            path.unlink()
    log.history = [one for one in log.history if one[0] < base]
    log.end, log.is_cut = base, True
    for name in _ENDS_OF_LOGS:  # as a broker that truncates
        _set_checkpoint(log.where / name, number, None)
    _append(world, number, draw, draw.randint(1, 40))


def move_start(world: World, draw: random.Random) -> None:
    """Retention deletes the oldest segments of a partition."""
    number = draw.choice(list(world.logs))
    log = world.logs[number]
    bases = _bases(log, number)
    if len(bases) < 3:
        return
    start = bases[1]
    for path in (log.where / f"t-{number}").iterdir():
        if path.stem.isdecimal() and int(path.stem) < start:
            path.unlink()
    _set_checkpoint(log.where / _START, number, start)
    newest = log.newest() if world.unique == "topic" else {}
    log.history = [
        record
        for record in log.history
        if record[0] >= start or (record[2] is None and newest.get(record[1]) == record)
    ]
    log.start = start


def make_again(world: World, draw: random.Random) -> None:
    """The topic is deleted, and made again with as many partitions."""
    world.topic_id += 1
    world.erased.clear()
    world.unread.clear()
    for number, log in list(world.logs.items()):
        shutil.rmtree(log.where / f"t-{number}")
        for name in CHECKPOINT_FILES:
            for log_dir in (world.root / "a", world.root / "b"):
                _set_checkpoint(log_dir / name, number, None)
        _create(world, number, draw)


def newer_schema(world: World, draw: random.Random) -> None:
    """Producers get a newer schema."""
    world.add_schema()
    append(world, draw)


def grow(world: World, draw: random.Random) -> None:
    """The topic gets one more partition, with records of keys that others have, too."""
    if len(world.logs) < MOST_PARTITIONS:
        _create(world, len(world.logs), draw)


def erase(world: World, draw: random.Random) -> None:
    """Erase the records of a key at once, in all partitions."""
    world.erases = True
    key = f"key-{draw.randrange(KEYS):02}"
    pairs = parse_settings(_SETTINGS)
    for number, log in world.logs.items():
        done = erase_partition(
            log.where,
            _partition(number),
            pairs,
            PlainKeys([key.encode()]),
            now_ms=TimestampMs(world.now),
        )
        log.history = [one for one in log.history if one[1] != key]
        if done.segments:  # else no record was in the log: what the table has goes by age
            world.erased.add(key)


def move(world: World, draw: random.Random) -> None:
    """Move a partition to the other log directory."""
    number = draw.choice(list(world.logs))
    log = world.logs[number]
    destination = world.root / ("b" if log.where.name == "a" else "a")
    move_partition(
        log.where,
        _partition(number),
        destination,
        now_ms=TimestampMs(world.now),
        progress=lambda *_: None,
    )
    log.where = destination


def topic_id_of(log: Partition, number: int) -> str | None:
    """As the partition's directory has it."""
    with open_partition_dir(log.where, _partition(number)) as directory:
        return read_topic_id(directory)


def _partition(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def _bases(log: Partition, number: int) -> list[int]:
    return sorted(int(path.stem) for path in (log.where / f"t-{number}").glob("*.log"))


def _set_checkpoint(path: Path, number: int, offset: int | None) -> None:
    known = parse_offset_checkpoint(path.read_bytes(), path) if path.exists() else {}
    entries = {one: at for one, at in known.items() if one != _partition(number)}
    if offset is not None:
        entries[_partition(number)] = offset
    path.write_bytes(serialize_offset_checkpoint(entries))
