"""The places of a log directory in which a person's records may lie. Each function makes one."""

from __future__ import annotations

import gzip
import os
import random
import socket
from collections.abc import Callable
from typing import Final

import pyarrow as pa
import zstandard

from logwright.ingest.schema import SCHEMA
from tests import metadata_builder as records
from tests.log_builder import START_MS, LogBuilder
from tests.metadata_builder import MetadataBuilder
from tests.worlds.content import (
    add_batches,
    damaged,
    draw_pairs,
    draw_share,
    log_bytes,
    old_format,
    write,
)
from tests.worlds.copies import bucket, hidden, left
from tests.worlds.plain_records import read_all
from tests.worlds.requests import CUSTOMERS, LONG, ORDERS
from tests.worlds.world import NOW_MS, TOPIC_IDS, Table, World, short

ID: Final = "0123456789abcdef0123456789abcdef"
_NAME: Final = "00000000000000000000"


def live_log(world: World, draw: random.Random) -> None:
    """A live log of several segments."""
    topic = draw.choice((CUSTOMERS, CUSTOMERS, CUSTOMERS, ORDERS, ORDERS, LONG))
    number = next(n for n in range(9) if (topic, n) not in world.ends)
    log = LogBuilder(world.first, f"{topic}-{number}")
    offset, share = 0, draw_share(draw)
    for _ in range(draw.randint(1, 3)):
        segment = log.segment(offset)
        offset = add_batches(segment, draw, offset, share=share, count=draw.randint(1, 2))
    log.write(producers=True)
    (log.directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    if draw.random() < 0.8:
        metadata = f"version: 0\ntopic_id: {records.uuid_text(TOPIC_IDS[topic])}"
        (log.directory / "partition.metadata").write_text(metadata)
    world.ends[topic, number] = offset
    world.note(f"live {short([log.directory.name])}, {len(log.segments)} segments")


def _some_log(world: World, draw: random.Random) -> str:
    """The directory of a live log; one is made if there is none."""
    if not world.ends:
        live_log(world, draw)
    topic, number = draw.choice(sorted(world.ends))
    return f"{topic}-{number}"


def _plant(world: World, name: str, content: bytes) -> None:
    write(world.first / name, content)
    world.note(f"{short([name])}: {len(content)} bytes")


def retired(world: World, draw: random.Random) -> None:
    """A segment that a compaction has replaced, or is about to."""
    end = draw.choice((".log.deleted", ".log.cleaned", ".log.swap", ".log.deleted"))
    _plant(world, f"{_some_log(world, draw)}/{_NAME}{end}", log_bytes(draw))


def marked(world: World, draw: random.Random) -> None:
    """A deleted, stray or future log, also of a topic whose name is cut."""
    topic = draw.choice((CUSTOMERS, ORDERS, LONG))
    end = f".{ID}-{draw.choice(('delete', 'delete', 'stray', 'future'))}"
    name = f"{topic}-{draw.choice((0, 7))}"[: 255 - len(end)] + end
    _plant(world, f"{name}/{_NAME}.log", log_bytes(draw))


def work(world: World, draw: random.Random) -> None:
    """Output of logwright's that is staged, has failed, or was cut."""
    log = _some_log(world, draw)
    plan = f"{START_MS}-{ID[:8]}-{ID[8:16]}"
    place = draw.choice((f"staging/{plan}", f"failed/{NOW_MS + 1}.{plan}", f"cut/{plan}"))
    _plant(world, f"{log}/.logwright/{place}/{_NAME}.log", log_bytes(draw))


def spool(world: World, draw: random.Random) -> None:
    """Rows that a write by Spark has left."""
    pairs = [
        (key.encode() if isinstance(key, str) else key, value.encode() if value else None)
        for key, value in draw_pairs(draw, share=draw_share(draw))
        if not isinstance(value, bytes)
    ]
    columns = {name: [None] * len(pairs) for name in SCHEMA.names}
    columns["key"] = [key for key, _ in pairs]  # type: ignore[misc]  # a column of bytes
    columns["value"] = [value for _, value in pairs]  # type: ignore[misc]  # as above
    table = pa.table({name: pa.array(columns[name], SCHEMA.field(name).type) for name in columns})
    name = f".logwright-write-{ID[:6]}"
    with pa.ipc.new_file(str(world.first / name), table.schema) as sink:
        sink.write_table(table)
    world.note(f"{name}: {len(pairs)} rows")


def elsewhere(world: World, draw: random.Random) -> None:
    """A log under a name, or in a directory, that Kafka does not have."""
    log = _some_log(world, draw)
    names = (
        *(f"backup/{_NAME}.log", f"old/{CUSTOMERS}-backup/{_NAME}.log", f"{log}/{_NAME}.log.bak"),
        *(f"{log}/old/{_NAME}.log", f"{log}/{_NAME}.index.cleaned", f"{log}/.logwright/x.tmp"),
        *(f"remote-log-index-cache/{_NAME}.log", ".logwright-anything", f"{log}/core.1"),
        *(f"{log}/.logwright/copy.json", f"{log}/{_NAME}.index.5.deleted", "backup.tar"),
        *(f"{log}/leader-epoch-checkpoint.tmp", f"{log}/00000000000000000009.snapshot"),
        *("remote-log-index-cache/sub/x.log", "lost+found/#1234", f"{log}/.logwright/lock.tmp"),
    )
    _plant(world, draw.choice(names), log_bytes(draw))


def packed(world: World, draw: random.Random) -> None:
    """A compressed copy of a log."""
    content = log_bytes(draw)
    log = _some_log(world, draw)
    if draw.random() < 0.5:
        _plant(world, f"{log}/{_NAME}.log.gz", gzip.compress(content))
    else:
        _plant(world, f"{log}/{_NAME}.log.zst", zstandard.ZstdCompressor().compress(content))


def text(world: World, draw: random.Random) -> None:
    """A file that somebody has written, with a person or without."""
    names = ("notes.txt", f"{_some_log(world, draw)}/README", "backup/list.csv")
    lines = [
        str(key) if isinstance(key, str) else (key or b"-").decode(errors="replace")
        for key, _ in draw_pairs(draw)
    ]
    _plant(world, draw.choice(names), "\n".join(lines).encode())


def broken(world: World, draw: random.Random) -> None:
    """A log of which not all can be read."""
    name = draw.choice((f"backup/{_NAME}.log", f"{CUSTOMERS}-7.{ID}-stray/{_NAME}.log"))
    name = draw.choice((name, f"{_some_log(world, draw)}/{_NAME}.log.deleted"))
    _plant(world, name, damaged(draw, log_bytes(draw)))


def broken_live(world: World, draw: random.Random) -> None:
    """A live segment of which not all can be read."""
    directory = world.first / _some_log(world, draw)
    paths = sorted(one for one in directory.glob("*.log") if one.lstat().st_size)
    paths = [one for one in paths if one.is_file() and not one.is_symlink()]
    path = draw.choice(paths)
    path.write_bytes(damaged(draw, path.read_bytes()))
    if read_all(path.read_bytes())[1]:
        world.lacking.add(directory.name.rpartition("-")[0])
    world.note(f"{short([directory.name])}/{path.name} is damaged")


def old(world: World, draw: random.Random) -> None:
    """Messages of Kafka before 0.11."""
    place = draw.choice(("backup", f"{ORDERS}-8", f"{CUSTOMERS}-7.{ID}-stray"))
    _plant(world, f"{place}/{_NAME}.log", old_format(draw, draw.randrange(2)))


def unreadable(world: World, draw: random.Random) -> None:
    """A link or a socket where a file should be."""
    name = draw.choice((f"{_some_log(world, draw)}/{_NAME}9.log", "backup", f"{ORDERS}-9", "x.log"))
    path = world.first / name
    if os.path.lexists(path):
        return
    if draw.random() < 0.8:
        path.symlink_to(world.root / "nowhere")
    else:
        with socket.socket(socket.AF_UNIX) as bound:
            short_name = world.root / "s"
            bound.bind(str(short_name))
            short_name.rename(path)
    world.note(f"{short([name])}: a link or a socket")


def remote_cache(world: World, draw: random.Random) -> None:
    """Indexes of remote segments, as a broker keeps them: no records."""
    for end in ("index", "timeindex"):
        write(world.first / "remote-log-index-cache" / f"{_NAME}_{'x' * 22}.{end}", bytes(24))
    world.note("indexes of remote segments")
    draw.random()


def tiered(world: World, draw: random.Random) -> None:
    """A log whose first segments are in remote storage only."""
    if (ORDERS, 5) in world.ends:
        return
    log = LogBuilder(world.first, f"{ORDERS}-5")
    segment = log.segment(50)
    world.ends[ORDERS, 5] = add_batches(segment, draw, 50, share=draw_share(draw), count=1)
    log.write(producers=True)
    (log.directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    world.starts[ORDERS, 5] = 0
    world.note(f"{ORDERS}-5 begins at 0, its first local segment at 50")


def metadata(world: World, draw: random.Random) -> None:
    """The cluster's metadata: replicas here, or on other brokers, too."""
    if world.replicas:
        return
    if not world.ends:
        live_log(world, draw)
    values, remote = [], draw.random() < 0.3
    for number, topic in enumerate(sorted({topic for topic, _ in world.ends}), start=1):
        brokers = draw.choice(((1,), (1,), (1, 2)))
        partitions = sorted(n for name, n in world.ends if name == topic)
        if draw.random() < 0.15:
            partitions.append(6)
        identity = TOPIC_IDS[topic]
        values.append(records.topic(topic, identity))
        values += [records.partition(identity, one, brokers) for one in partitions]
        if remote and number == 1:
            values.append(records.config(2, topic, "remote.storage.enable", "true"))
            world.tiered.add(topic)
        world.replicas[topic] = dict.fromkeys(partitions, brokers)
    MetadataBuilder(world.first).segment(0, values)
    world.note(f"metadata: {world.replicas}, tiered {sorted(world.tiered)}")


def archive(world: World, draw: random.Random) -> None:
    """A copy of a log, given as an archive."""
    root = world.root / f"archive{len(world.archives)}"
    name = draw.choice((f"{CUSTOMERS}-0", f"{ORDERS}-0"))
    write(root / name / f"{_NAME}.log", log_bytes(draw))
    if draw.random() < 0.15:
        write(root / name / f"{_NAME}5.log", damaged(draw, log_bytes(draw)))
    world.archives.append(root)
    world.note(f"archive of {name}")


def second(world: World, draw: random.Random) -> None:
    """The other directory of the broker is given, too, with a log."""
    if world.other in world.live:
        return
    log = LogBuilder(world.other, f"{CUSTOMERS}-4")
    add_batches(log.segment(0), draw, 0, share=draw_share(draw), count=1)
    log.write(producers=True)
    (log.directory / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    world.live.append(world.other)
    world.note(f"second directory, {CUSTOMERS}-4")


def table(world: World, draw: random.Random) -> None:
    """A table of the latest state; the first act makes it."""
    form = draw.choice(("parquet", "parquet", "delta", "iceberg"))
    topic = _some_log(world, draw).rpartition("-")[0]
    path = world.root / f"table{len(world.tables)}"
    given = draw.random() < 0.8
    world.tables.append(Table(topic, form, path, draw.choice((0, 0, 604_800_000)), given))
    world.note(f"{form} table of {short([topic])}, {'given' if given else 'not given'}")


PLACES: Final[dict[str, tuple[int, Callable[[World, random.Random], None]]]] = {
    "live": (12, live_log),
    "retired": (4, retired),
    "marked": (5, marked),
    "work": (4, work),
    "spool": (3, spool),
    "elsewhere": (6, elsewhere),
    "packed": (1, packed),
    "text": (2, text),
    "broken": (3, broken),
    "broken live": (1, broken_live),
    "old": (1, old),
    "unreadable": (2, unreadable),
    "remote cache": (1, remote_cache),
    "tiered": (1, tiered),
    "metadata": (4, metadata),
    "archive": (3, archive),
    "second": (3, second),
    "table": (6, table),
    "hidden": (3, hidden),
    "bucket": (3, bucket),
    "left": (2, left),
}
"""By name: how often, and what makes it."""
