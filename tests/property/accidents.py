"""Small log directories of Kafka's own logs, and what accidents do to their roots and files."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests import fixtures
from tests.metadata_builder import MetadataBuilder, config, feature, partition, topic, uuid_text
from tests.old_formats import Message, message, v2_batch, write_random_log
from tests.property.mutations import mutate

CASES = (
    "basic-none",
    "basic-gzip",
    "gap-huge-1",
    "idempotent-2-written-again",
    "leader-epochs",
    "odd-records",
    "txn-1-mixed",
    "txn-ongoing",
)
NOW_MS = 1_760_100_000_000
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
MARKER = ".kafka_cleanshutdown"
META = (
    "version=1\nnode.id=1\ncluster.id=Y2x1c3RlcmNsdXN0ZXJjbA\ndirectory.id=YWJjZGVmZ2hpamtsbW5vcA\n"
)
STRANGERS = (
    *("lost+found", ".logwright", "backup", "x-y", "-1", "a-00", "x 1", "..-x", "x-99999999999"),
    *("x-delete", "x-1-stray", "x-1.a.b-future", ".lock.d", "replication-offset-checkpoint.tmp"),
)


@dataclass(kw_only=True)
class World:
    """One damaged directory.

    Attributes:
        root: that `recover` works on.
        whole: as it was before the damage.
        logs: its partition directories' names, with the topic id.
        done: names of the damages.
        restored: segments that were restored from `whole`; with their content before if Kafka is
            said to refuse it.
        missing: logs of which segments are not there.
        by_hand: what makes a copy of the root one that Kafka loads, as an operator would do it.
    """

    root: Path
    whole: Path
    logs: dict[str, str]
    done: list[str] = field(default_factory=list)
    restored: dict[Path, bytes] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    by_hand: list[Callable[[Path], None]] = field(default_factory=list)


OLD_LOG = "o-0"
"""A log of an old message format."""
METADATA_LOG = "__cluster_metadata-0"


def write_old_log(directory: Path, magic: int) -> None:
    """A log of message format v0 or v1."""
    directory.mkdir()
    content = b"".join(
        message(magic, offset, Message(b"k%d" % (offset % 3), b"v%d" % offset, 1_600_000_000_000))
        for offset in range(40)
    )
    (directory / f"{0:020d}.log").write_bytes(content)
    for suffix in (".index", ".timeindex"):
        (directory / f"{0:020d}{suffix}").write_bytes(b"")


def write_unknown_log(directory: Path) -> None:
    """A log of a format that is not known: v2 with another magic, which no CRC covers."""
    directory.mkdir()
    batch = bytearray(v2_batch([0, 1], [Message(b"k", b"v", 1), Message(b"l", b"w", 2)], 0))
    batch[16] = 3
    (directory / f"{0:020d}.log").write_bytes(batch)
    for suffix in (".index", ".timeindex"):
        (directory / f"{0:020d}{suffix}").write_bytes(b"")


def make(random: Random, scratch: Path) -> World:
    """A directory of Kafka's own logs, as a broker stopped or left it."""
    root, whole = scratch / "root", scratch / "whole"
    root.mkdir()
    names = random.sample(["a-0", "a-1", "b-0", "c-7"], random.randint(1, 4))
    ids = {name: uuid_text(ord(name[0]) * 1000) for name in names}
    entries: dict[str, dict[str, int]] = {one: {} for one in CHECKPOINTS}
    for name in names:
        case = fixtures.case_dir(random.choice(CASES)) / "before"
        shutil.copytree(case / "t-0", root / name, copy_function=shutil.copy2)
        (root / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {ids[name]}")
        for checkpoint in CHECKPOINTS:
            path = case / checkpoint
            rows = path.read_text().splitlines()[2:] if path.exists() else []
            if rows:
                entries[checkpoint][name] = int(rows[0].split()[2])
    for checkpoint, offset in entries.items():
        write_offsets(root / checkpoint, offset)
    (root / "meta.properties").write_text(META)
    if random.random() < 0.5:
        write_metadata(root, names)
    if random.random() < 0.7:
        (root / MARKER).write_text('{"version":0,"brokerEpoch":7}')
    if random.random() < 0.2:
        write_random_log(random, root, OLD_LOG, indexed=random.random() < 0.5)
        (root / OLD_LOG / "partition.metadata").write_text(
            f"version: 0\ntopic_id: {uuid_text(ord(OLD_LOG[0]) * 1000)}"
        )
        if (root / METADATA_LOG).exists():
            shutil.rmtree(root / METADATA_LOG)
            write_metadata(root, [*names, OLD_LOG])
    shutil.copytree(root, whole, copy_function=shutil.copy2)
    return World(root=root, whole=whole, logs=ids)


def write_offsets(path: Path, entries: dict[str, int]) -> None:
    rows = [f"{name.rsplit('-', 1)[0]} {name[-1]} {at}" for name, at in entries.items()]
    path.write_text("".join(f"{row}\n" for row in ("0", str(len(rows)), *rows)))


def write_metadata(root: Path, names: list[str]) -> None:
    topics = {name[0] for name in names}
    records = [feature("metadata.version", 20)]
    records += [topic(one, ord(one) * 1000) for one in topics]
    records += [partition(ord(name[0]) * 1000, int(name[-1]), [1]) for name in names]
    records += [config(2, one, "cleanup.policy", "compact") for one in topics]
    MetadataBuilder(root).segment(0, records)


def copy_over(source: Path, path: Path) -> None:
    rewrite(path, source.read_bytes())


def rewrite(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def garbled(content: bytes, random: Random) -> bytes:
    """A small text file after an accident."""
    lines = content.splitlines(keepends=True) or [b""]
    at = random.randrange(len(content)) if content else 0
    swapped = bytes([random.choice((0, 32, 45, 48, 57, 10, 120, 255))])
    tail = random.choice((b"x\n", b"\0\0\0", b"a 0 5\n", b"\xff\xfe 0 1\n"))
    ways = (
        bytes(len(content) or 5),
        b"",
        content[:at],
        random.randbytes(random.randrange(1, 60)),
        content + tail,
        content.replace(b"\n", b"\r\n"),
        b"".join((b"1\n", *lines[1:])),
        b"".join(random.sample(lines, len(lines))),
        content + lines[-1],
        content[:at] + swapped + content[at + 1 :],
        content[:at] + swapped + content[at + 1 :],
    )
    return random.choice(ways)


def damage_checkpoint(world: World, random: Random) -> None:
    """One of the four, garbled, with odd entries, or gone."""
    name = random.choice(CHECKPOINTS)
    path = world.root / name
    world.done.append(name)
    if random.random() < 0.1:
        path.unlink(missing_ok=True)
        return
    if random.random() < 0.2:
        path.unlink(missing_ok=True)
        offsets = (-5, 0, 10, 10**6, 2**62)
        write_offsets(path, {one: random.choice(offsets) for one in [*world.logs, "zz-3"]})
        return
    rewrite(path, garbled(path.read_bytes() if path.exists() else b"0\n0\n", random))


def damage_identity(world: World, random: Random) -> None:
    """meta.properties."""
    world.done.append("meta.properties")
    rewrite(world.root / "meta.properties", garbled(META.encode(), random))
    world.by_hand.append(lambda root: rewrite(root / "meta.properties", META.encode()))


def damage_topic_id(world: World, random: Random) -> None:
    """partition.metadata of a log."""
    name = random.choice(sorted(world.logs))
    world.done.append(f"{name}/partition.metadata")
    path = world.root / name / "partition.metadata"
    whole = path.read_bytes() if path.exists() else b""
    rewrite(path, garbled(whole, random))
    world.by_hand.append(lambda root: (root / name / "partition.metadata").unlink(missing_ok=True))


def damage_epochs(world: World, random: Random) -> None:
    """leader-epoch-checkpoint of a log."""
    name = random.choice(sorted(world.logs))
    world.done.append(f"{name}/leader-epoch-checkpoint")
    path = world.root / name / "leader-epoch-checkpoint"
    rewrite(path, garbled(path.read_bytes() if path.exists() else b"0\n1\n0 0\n", random))
    epochs = "leader-epoch-checkpoint"
    world.by_hand.append(lambda root: (root / name / epochs).unlink(missing_ok=True))


def damage_directories(world: World, random: Random) -> None:
    """A directory that no broker makes."""
    name = random.choice(STRANGERS)
    world.done.append(name)
    (world.root / name).mkdir(exist_ok=True)
    if name != "lost+found" and random.random() < 0.5:
        (world.root / name / "00000000000000000000.log").write_bytes(b"")
    world.by_hand.append(lambda root: shutil.rmtree(root / name, ignore_errors=True))


def damage_log(world: World, random: Random) -> None:
    """A segment, index or snapshot; a log is damaged by a crash, so there is no marker."""
    name = random.choice(sorted(world.logs))
    world.done.append(f"{name}: files")
    directory = world.root / name
    (world.root / MARKER).unlink(missing_ok=True)
    files = sorted(directory.iterdir())
    path = random.choice(files)
    if path.suffix == ".log":
        rewrite(path, mutate(path.read_bytes(), random))
    elif path.suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
        if random.random() < 0.5:
            path.unlink()
        else:
            content = path.read_bytes()
            ways = [bytes(len(content)), content[:7], b"", content + b"x"]
            if path.suffix == ".index" and content:
                ways.append(content[:-1] + bytes([content[-1] ^ 8]))
            rewrite(path, random.choice(ways))
    elif random.random() < 0.3:
        (directory / random.choice(("x.log", "7.snapshot", "a.index"))).write_bytes(b"")
        world.by_hand.append(
            lambda root: (
                [
                    (root / name / file).unlink(missing_ok=True)
                    for file in ("x.log", "7.snapshot", "a.index")
                ]
                and None
            )
        )


def damage_missing(world: World, random: Random) -> None:
    """Segments are not there: a copy left them out, or a disk lost them."""
    name = random.choice(sorted(world.logs))
    directory = world.root / name
    stems = sorted(path.stem for path in directory.glob("*.log"))
    if not stems:
        return
    first = random.choice((len(stems) - 1, 0, random.randrange(len(stems))))
    gone = random.choice((stems, stems[first:], stems[first : first + 1]))
    indexes = (".index", ".timeindex", ".txnindex")
    suffixes = random.choice(((".log",), (".log", *indexes), (".log", *indexes, ".snapshot")))
    for stem in gone:
        for suffix in suffixes:
            (directory / f"{stem}{suffix}").unlink(missing_ok=True)
    world.missing.add(name)
    world.done.append(f"{name}: {len(gone)} of {len(stems)} segments, {suffixes}")
    if random.random() < 0.3:
        (world.root / MARKER).unlink(missing_ok=True)


DAMAGES = (
    *(damage_missing,) * 4,
    *(damage_checkpoint,) * 4,
    *(damage_log,) * 3,
    damage_identity,
    *(damage_topic_id,) * 2,
    *(damage_epochs,) * 2,
    *(damage_directories,) * 2,
)
