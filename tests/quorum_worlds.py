"""Random metadata logs of a quorum, of which all is known: three nodes, each with a part of the log
and snapshots of it, and damages.
"""

from __future__ import annotations

import json
import random
from collections import Counter
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
VOTERS: Final = tuple(
    Voter(
        node_id=node,
        directory_id=uuid_text(1000 + node),
        endpoints=(Endpoint("CONTROLLER", f"host-{node}", 9093),),
        min_version=0,
        max_version=1,
    )
    for node in NODES
)


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
    """A log and what was done with it.

    Attributes:
        committed: the true high watermark.
        ends: of each node's log.
        damaged: the nodes whose files were damaged.
    """

    kraft_version: int
    log: list[Batch] = field(default_factory=list)
    states: dict[int, State] = field(default_factory=dict)
    committed: int = 0
    ends: dict[int, int] = field(default_factory=dict)
    damaged: set[int] = field(default_factory=set)

    @property
    def end(self) -> int:
        """The end of the log."""
        return self.log[-1].end

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record before an offset."""
        return next(one.epoch for one in self.log if one.base < offset <= one.end)

    def kinds(self, start: int, end: int) -> Counter[str]:
        """How many records of each kind lie in a range."""
        offsets = [(b.base + at, kind) for b in self.log for at, kind in enumerate(b.kinds)]
        return Counter(kind for offset, kind in offsets if start <= offset < end)


def with_epoch(content: bytes, epoch: int) -> bytes:
    """The batch with this epoch, which the CRC does not cover."""
    return content[:12] + epoch.to_bytes(4, "big") + content[16:]


def control_batch(base: int, controls: list[tuple[ControlType, bytes]], epoch: int) -> Batch:
    """A control batch."""
    pairs = [(serialize_control_key(kind), value) for kind, value in controls]
    content = SegmentBuilder(base).batch(base, pairs, extra_attributes=CONTROL).content
    return Batch(base, epoch, with_epoch(content, epoch), (), ("control",) * len(controls))


class _Model:
    """The state, by rules of its own."""

    def __init__(self) -> None:
        self.topics: dict[int, tuple[str, int]] = {}
        self.configs: dict[str, dict[str, str]] = {}

    def copy(self) -> _Model:
        other = _Model()
        other.topics = dict(self.topics)
        other.configs = {name: dict(pairs) for name, pairs in self.configs.items()}
        return other

    def state(self) -> State:
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


def make_world(rng: random.Random, root: Path) -> World:
    """Write the directories ``node-1`` to ``node-3``."""
    world = World(kraft_version=rng.randrange(2))
    models = _make_log(rng, world)
    proved = [
        before.end
        for before, after in zip(world.log, world.log[1:], strict=False)
        if before.kinds[0] == "control" and after.kinds[0] != "control"
    ]
    ends = [one.end for one in world.log if one.end >= proved[-1]]
    world.committed = rng.choice(ends)
    for node in NODES:
        _write_random_node(rng, world, models, root / f"node-{node}", node)
    for node in NODES:
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            if damage(rng, root / f"node-{node}"):
                world.damaged.add(node)
    return world


def make_log(rng: random.Random, *, kraft_version: int) -> World:
    """A log that no node has yet."""
    world = World(kraft_version=kraft_version)
    _make_log(rng, world)
    return world


def _make_log(rng: random.Random, world: World) -> dict[int, _Model]:
    """Make the batches; the model at each batch's end."""
    writer = _Writer(rng)
    models: dict[int, _Model] = {}
    base = 0

    def add(batch: Batch) -> None:
        nonlocal base
        world.log.append(batch)
        base = batch.end
        models[base] = writer.model.copy()
        world.states[base] = writer.model.state()

    for epoch in sorted(rng.sample(range(1, 9), rng.randint(1, 4))):
        controls = [(ControlType.LEADER_CHANGE, b"\x00" * 9)]
        if base == 0 and world.kraft_version:
            controls += [
                (ControlType.KRAFT_VERSION, serialize_kraft_version(1)),
                (ControlType.KRAFT_VOTERS, serialize_voters(VOTERS)),
            ]
        add(control_batch(base, controls, epoch))
        is_first = len(world.log) == 1
        for number in range(rng.randrange(1 if is_first else 0, 25)):
            changes = [(feature("metadata.version", 25), "FeatureLevelRecord")]
            changes = [*(changes if is_first and number == 0 else []), *writer.changes()]
            values, kinds = zip(*changes, strict=True)
            (content,) = batches(base, list(values))
            add(Batch(base, epoch, with_epoch(content, epoch), values, kinds))
    return models


class _Writer:
    """Makes random records, and keeps the model."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.model = _Model()
        self.pending: _Model | None = None
        self.next_topic = 1

    def changes(self) -> list[tuple[bytes, str]]:
        """Records of a batch, and their kinds."""
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

    def _end(self, pending: _Model) -> tuple[bytes, str]:
        self.pending = None
        if self.rng.random() < 0.5:
            return (ABORT, "AbortTransactionRecord")
        self.model = pending
        return (END, "EndTransactionRecord")

    def _create(self, target: _Model) -> list[tuple[bytes, str]]:
        number, self.next_topic = self.next_topic, self.next_topic + 1
        name, partitions = f"t{number}", self.rng.randint(1, 4)
        target.topics[number] = (name, partitions)
        made = [(partition(number, at, [11]), "PartitionRecord") for at in range(partitions)]
        return [(topic(name, number), "TopicRecord"), *made]

    def _set(self, target: _Model) -> tuple[bytes, str]:
        name = self.rng.choice(list(target.topics.values()))[0]
        key, text = self.rng.choice(("retention.ms", "segment.ms")), str(self.rng.randrange(1000))
        target.configs.setdefault(name, {})[key] = text
        return (config(2, name, key, text), "ConfigRecord")

    def _remove(self, target: _Model) -> tuple[bytes, str]:
        gone = self.rng.choice(list(target.topics))
        target.configs.pop(target.topics.pop(gone)[0], None)
        return (remove_topic(gone), "RemoveTopicRecord")


def _write_random_node(
    rng: random.Random, world: World, models: dict[int, _Model], log_dir: Path, node: int
) -> None:
    """Write a part of the log, in segments, with snapshots."""
    ends = [one.end for one in world.log]
    end = world.end if node == 1 else rng.choice(ends[len(ends) // 2 :])
    world.ends[node] = end
    own = [one for one in world.log if one.end <= end]
    possible = [
        batch.end for batch in own if batch.end <= world.committed and _is_settled(world, batch.end)
    ]
    snapshots = sorted(rng.sample(possible, min(len(possible), rng.randrange(3))))
    start = snapshots[0] if snapshots and rng.random() < 0.5 else 0
    own = [one for one in own if one.base >= start]
    rolls = [one.base for one in own[1:] if rng.random() < 0.1]
    write_node(world, log_dir, node, own, rolls)
    for at in snapshots:
        _write_snapshot(world, models[at], log_dir / METADATA, at)


def write_node(
    world: World,
    log_dir: Path,
    node: int,
    log: list[Batch],
    rolls: Sequence[int] = (),
) -> None:
    """Write the directory of a node; `rolls`: base offsets of the segments after the first."""
    directory = log_dir / METADATA
    directory.mkdir(parents=True)
    segments = dict.fromkeys((log[0].base if log else world.ends[node], *rolls), b"")
    for batch in log:
        segments[max(base for base in segments if base <= batch.base)] += batch.content
    for base, content in segments.items():
        (directory / f"{base:020d}.log").write_bytes(content)
    epoch = world.log[-1].epoch if node == 1 or not log else log[-1].epoch
    note: dict[str, object] = {"leaderId": 1, "leaderEpoch": epoch, "votedId": -1}
    if world.kraft_version:
        note |= {"votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA", "data_version": 1}
    else:
        note |= {"clusterId": "", "appliedOffset": 0, "data_version": 0}
        note |= {"currentVoters": [{"voterId": each} for each in NODES]}
    (directory / "quorum-state").write_text(json.dumps(note, separators=(",", ":")))
    (log_dir / "meta.properties").write_text(
        f"version=1\ncluster.id={CLUSTER}\nnode.id={node}\ndirectory.id={uuid_text(1000 + node)}\n"
    )


def _is_settled(world: World, end: int) -> bool:
    """No transaction is open there: Kafka makes no snapshot in one."""
    kinds = [kind for one in world.log if one.end <= end for kind in one.kinds]
    last = [kind for kind in kinds if kind.endswith("TransactionRecord")]
    return not last or last[-1] != "BeginTransactionRecord"


def _write_snapshot(world: World, model: _Model, directory: Path, end: int) -> None:
    controls = [(ControlType.SNAPSHOT_HEADER, b"\x00" * 11)]
    if world.kraft_version:
        controls += [
            (ControlType.KRAFT_VERSION, serialize_kraft_version(1)),
            (ControlType.KRAFT_VOTERS, serialize_voters(VOTERS)),
        ]
    epoch = world.epoch_before(end)
    values = model.values()
    head = control_batch(0, controls, epoch)
    (content,) = batches(head.end, values)
    foot = control_batch(
        head.end + len(values), [(ControlType.SNAPSHOT_FOOTER, b"\x00" * 3)], epoch
    )
    path = directory / f"{end:020d}-{epoch:010d}.checkpoint"
    path.write_bytes(head.content + with_epoch(content, epoch) + foot.content)


def damage(rng: random.Random, log_dir: Path) -> bool:
    """Damage a file; whether anything changed."""
    files = sorted(path for path in log_dir.rglob("*") if path.is_file())
    weights = [5 if path.suffix in {".log", ".checkpoint"} else 1 for path in files]
    (path,) = rng.choices(files, weights)
    content = bytearray(path.read_bytes())
    how = rng.randrange(5)
    if how == 0 and path.suffix == ".checkpoint":
        path.unlink()
        return True
    if how == 1 and path.suffix == ".log" and rng.random() < 0.5:
        path.unlink()
        return True
    if not content:
        return False
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
    return changed
