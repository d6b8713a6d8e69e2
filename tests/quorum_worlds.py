"""Random metadata logs, directories that have a part of one with snapshots, and damages."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from logwright.format.batch import CONTROL
from logwright.format.control import ControlType, serialize_control_key
from logwright.quorum.control import serialize_kraft_version, serialize_voters
from logwright.quorum.model import Endpoint, Voter
from tests.log_builder import SegmentBuilder
from tests.metadata_builder import (
    ABORT,
    BEGIN,
    END,
    NO_OP,
    batches,
    config,
    feature,
    partition,
    remove_topic,
    topic,
    uuid_text,
)

METADATA: Final = "__cluster_metadata-0"
CLUSTER: Final = "MkU3OEVBNTcwNTJENDM2Qk"
NODES: Final = (1, 2, 3)


def voter(node: int) -> Voter:
    """A member of the quorum."""
    return Voter(
        node_id=node,
        directory_id=uuid_text(1000 + node),
        endpoints=(Endpoint("CONTROLLER", f"host-{node}", 9093),),
        min_version=0,
        max_version=1,
    )


VOTERS: Final = tuple(voter(node) for node in NODES)


@dataclass(frozen=True)
class State:
    """What the metadata says: partitions and settings of each topic."""

    topics: dict[str, int]
    configs: dict[str, dict[str, str]]


@dataclass
class Batch:
    """One batch of the log.

    Attributes:
        values: of records; () of a control batch.
        kinds: of each record.
    """

    base: int
    epoch: int
    content: bytes
    values: tuple[bytes, ...]
    kinds: tuple[str, ...]

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.base + len(self.kinds)


@dataclass
class World:
    """A log."""

    kraft_version: int
    log: list[Batch] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The end of the log."""
        return self.log[-1].end


def with_epoch(content: bytes, epoch: int) -> bytes:
    """The batch with this epoch, which the CRC does not cover."""
    return content[:12] + epoch.to_bytes(4, "big") + content[16:]


def control_batch(base: int, controls: list[tuple[ControlType, bytes]], epoch: int) -> Batch:
    """A control batch."""
    pairs = [(serialize_control_key(kind), value) for kind, value in controls]
    content = SegmentBuilder(base).batch(base, pairs, extra_attributes=CONTROL).content
    return Batch(base, epoch, with_epoch(content, epoch), (), ("control",) * len(controls))


class Model:
    """The state, by rules of its own."""

    def __init__(self) -> None:
        self.topics: dict[int, tuple[str, int]] = {}
        self.configs: dict[str, dict[str, str]] = {}

    def copy(self) -> Model:
        """One of its own."""
        other = Model()
        other.topics = dict(self.topics)
        other.configs = {name: dict(pairs) for name, pairs in self.configs.items()}
        return other

    def state(self) -> State:
        """What it says."""
        configs = {name: dict(pairs) for name, pairs in self.configs.items() if pairs}
        return State(dict(self.topics.values()), configs)

    def values(self) -> list[bytes]:
        """The records of a snapshot."""
        values = [feature("metadata.version", 25)]
        for number, (name, partitions) in self.topics.items():
            values.append(topic(name, number))
            values += [partition(number, at, [11]) for at in range(partitions)]
        values += [
            config(2, name, key, text)
            for name, pairs in self.configs.items()
            for key, text in pairs.items()
        ]
        return values


def make_log(rng: random.Random, *, kraft_version: int) -> World:
    """A log of some epochs that no node has yet."""
    world = World(kraft_version=kraft_version)
    writer = Writer(rng)
    for epoch in sorted(rng.sample(range(1, 9), rng.randint(1, 4))):
        base = world.log[-1].end if world.log else 0
        world.log.append(leader_change(base, epoch, NODES if kraft_version else ()))
        for _ in range(rng.randrange(0 if base else 1, 25)):
            world.log.append(writer.batch(world.log[-1].end, epoch))
    return world


def quorum_controls(voters: Sequence[int]) -> list[tuple[ControlType, bytes]]:
    """The control records that name the quorum, with kraft.version 1."""
    named = tuple(voter(node) for node in voters)
    return [
        (ControlType.KRAFT_VERSION, serialize_kraft_version(1)),
        (ControlType.KRAFT_VOTERS, serialize_voters(named)),
    ]


def leader_change(base: int, epoch: int, voters: Sequence[int] = ()) -> Batch:
    """The first batch of an epoch; at the beginning of a log it may name the voters."""
    more = quorum_controls(voters) if base == 0 and voters else []
    return control_batch(base, [(ControlType.LEADER_CHANGE, b"\x00" * 9), *more], epoch)


class Writer:
    """Makes random records, and keeps the model; the first batch has the metadata.version."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.model = Model()
        self.pending: Model | None = None
        self.next_topic = 1
        self.has_begun = False

    def copy(self) -> Writer:
        """Another one, from the same state on."""
        other = Writer(self.rng)
        other.model = self.model.copy()
        other.pending = None if self.pending is None else self.pending.copy()
        other.next_topic, other.has_begun = self.next_topic, self.has_begun
        return other

    def batch(self, base: int, epoch: int) -> Batch:
        """A batch with some changes."""
        first = [] if self.has_begun else [(feature("metadata.version", 25), "FeatureLevelRecord")]
        self.has_begun = True
        values, kinds = zip(*first, *self._changes(), strict=True)
        return Batch(base, epoch, with_epoch(batches(base, values)[0], epoch), values, kinds)

    def _changes(self) -> list[tuple[bytes, str]]:
        """Records, and their kinds."""
        target = self.model if self.pending is None else self.pending
        choice = self.rng.random()
        if choice < 0.15:
            return [(NO_OP, "NoOpRecord")]
        if choice < 0.25 and self.pending is None:
            self.pending = self.model.copy()
            return [(BEGIN, "BeginTransactionRecord")]
        if choice < 0.4 and self.pending is not None:
            return [self._end(self.pending)]
        if choice < 0.6 or not target.topics:
            return self._create(target)
        return [self._set(target) if choice < 0.9 else self._remove(target)]

    def _end(self, pending: Model) -> tuple[bytes, str]:
        self.pending = None
        if self.rng.random() < 0.5:
            return (ABORT, "AbortTransactionRecord")
        self.model = pending
        return (END, "EndTransactionRecord")

    def _create(self, target: Model) -> list[tuple[bytes, str]]:
        number, self.next_topic = self.next_topic, self.next_topic + 1
        name, partitions = f"t{number}", self.rng.randint(1, 4)
        target.topics[number] = (name, partitions)
        made = [(partition(number, at, [11]), "PartitionRecord") for at in range(partitions)]
        return [(topic(name, number), "TopicRecord"), *made]

    def _set(self, target: Model) -> tuple[bytes, str]:
        name = self.rng.choice(list(target.topics.values()))[0]
        key, text = self.rng.choice(("retention.ms", "segment.ms")), str(self.rng.randrange(1000))
        target.configs.setdefault(name, {})[key] = text
        return (config(2, name, key, text), "ConfigRecord")

    def _remove(self, target: Model) -> tuple[bytes, str]:
        gone = self.rng.choice(list(target.topics))
        target.configs.pop(target.topics.pop(gone)[0], None)
        return (remove_topic(gone), "RemoveTopicRecord")


@dataclass(frozen=True, kw_only=True)
class Member:
    """What a directory's files say of its node.

    Attributes:
        directory: the number of its directory id.
        epoch, leader: as it has noted them; -1: it knows no leader.
        voters: node ids.
    """

    node: int
    directory: int
    epoch: int
    leader: int
    voters: Sequence[int] = NODES
    kraft_version: int = 0
    cluster: str = CLUSTER


def write_node(world: World, log_dir: Path, node: int, log: list[Batch]) -> None:
    """Write the directory of a node that has this part of a world's log."""
    epoch = world.log[-1].epoch if node == 1 or not log else log[-1].epoch
    kraft_version = world.kraft_version
    member = Member(
        node=node, directory=1000 + node, epoch=epoch, leader=1, kraft_version=kraft_version
    )
    write_directory(log_dir, member, log, (log[0].base,))


def write_directory(
    log_dir: Path, member: Member, log: list[Batch], bases: Sequence[int] = (0,)
) -> None:
    """Write a directory; `bases`: base offsets of its segments."""
    directory = log_dir / METADATA
    directory.mkdir(parents=True)
    segments = dict.fromkeys(bases, b"")
    for batch in log:
        segments[max(base for base in segments if base <= batch.base)] += batch.content
    for base, content in segments.items():
        (directory / f"{base:020d}.log").write_bytes(content)
    note: dict[str, object] = {
        "leaderId": member.leader,
        "leaderEpoch": member.epoch,
        "votedId": -1,
    }
    if member.kraft_version:
        note |= {"votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA", "data_version": 1}
    else:
        note |= {"clusterId": "", "appliedOffset": 0, "data_version": 0}
        note |= {"currentVoters": [{"voterId": each} for each in member.voters]}
    (directory / "quorum-state").write_text(json.dumps(note, separators=(",", ":")))
    (log_dir / "meta.properties").write_text(
        f"version=1\ncluster.id={member.cluster}\nnode.id={member.node}\n"
        f"directory.id={uuid_text(member.directory)}\n"
    )


def write_snapshot(directory: Path, model: Model, member: Member, end: int, epoch: int) -> None:
    """Write the snapshot of a state that ends with a record of this epoch."""
    controls = [(ControlType.SNAPSHOT_HEADER, b"\x00" * 11)]
    if member.kraft_version:
        controls += quorum_controls(member.voters)
    head = control_batch(0, controls, epoch)
    values = model.values()
    (content,) = batches(head.end, values)
    foot = control_batch(
        head.end + len(values), [(ControlType.SNAPSHOT_FOOTER, b"\x00" * 3)], epoch
    )
    path = directory / f"{end:020d}-{epoch:010d}.checkpoint"
    path.write_bytes(head.content + with_epoch(content, epoch) + foot.content)


def damage(rng: random.Random, log_dir: Path) -> Path | None:
    """Damage a file; which, None if nothing changed."""
    files = sorted(path for path in log_dir.rglob("*") if path.is_file())
    weights = [5 if path.suffix in {".log", ".checkpoint"} else 1 for path in files]
    (path,) = rng.choices(files, weights)
    content = bytearray(path.read_bytes())
    how = rng.randrange(5)
    if how == 0 and path.suffix == ".checkpoint":
        path.unlink()
        return path
    if how == 1 and path.suffix == ".log" and rng.random() < 0.5:
        path.unlink()
        return path
    if not content:
        return None
    at = rng.randrange(len(content))
    if how == 2:
        del content[at:]
    elif how == 3:
        size = min(rng.randint(1, 200), len(content) - at)
        content[at : at + size] = bytes(size)
    else:
        content[at] ^= 1 << rng.randrange(8)
    changed = bytes(content) != path.read_bytes()
    path.write_bytes(content)
    return path if changed else None
