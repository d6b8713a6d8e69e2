"""Random quorums whose logs part from each other, as Raft allows (KIP-595): leaders that nobody
follows any more, elections, fetches, observers, a voter that was formatted again, a directory of
another cluster; and what was committed.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.quorum_worlds import (
    CLUSTER,
    METADATA,
    Batch,
    Member,
    State,
    Writer,
    damage,
    leader_change,
    write_directory,
    write_snapshot,
)

OBSERVERS: Final = (11, 12)
FOREIGNER: Final = 21
OTHER_CLUSTER: Final = "AAAAAAAAAAAAAAAAAAAAAA"

Log = list[Batch]
Place = tuple[int, int]
"""The epoch of a record and the offset after it: no two logs have different records before it."""


@dataclass
class Node:
    """A node.

    Attributes:
        epoch, leader: the newest that it knows; -1: it knows no leader.
    """

    node_id: int
    log: Log = field(default_factory=list)
    epoch: int = 0
    leader: int = -1

    @property
    def end(self) -> int:
        """Of its log."""
        return self.log[-1].end if self.log else 0

    @property
    def place(self) -> Place:
        """Of its last record."""
        return place_of(self.log)


@dataclass
class Lead:
    """A leader.

    Attributes:
        began: end offset of the first batch of its epoch.
        ends: of the voters' logs, as it knows them.
        committed: its high watermark, once it has one.
    """

    node: Node
    epoch: int
    began: int
    ends: dict[int, int]
    committed: int = 0


def place_of(log: Log) -> Place:
    """Of a log's last record."""
    return (log[-1].epoch, log[-1].end) if log else (0, 0)


def common(log: Log, other: Log) -> Log:
    """The batches that both begin with."""
    count = 0
    for a, b in zip(log, other, strict=False):
        if a is not b:
            break
        count += 1
    return log[:count]


def kinds(log: Log, start: int, end: int) -> Counter[str]:
    """How many records of each kind a log has in a range."""
    offsets = [(b.base + at, kind) for b in log for at, kind in enumerate(b.kinds)]
    return Counter(kind for offset, kind in offsets if start <= offset < end)


class Quorum:
    """Nodes that elect, append and fetch.

    Attributes:
        writers: by place, from where a leader continues whose log ends there.
        logs: by place, the log up to there.
        committed: what was committed so far.
    """

    def __init__(self, rng: random.Random, voters: Sequence[int], *, kraft_version: int) -> None:
        self.rng = rng
        self.voters = voters
        self.kraft_version = kraft_version
        self.nodes = {each: Node(each) for each in (*voters, *OBSERVERS)}
        self.leads: list[Lead] = []
        self.writers: dict[Place, Writer] = {(0, 0): Writer(rng)}
        self.logs: dict[Place, Log] = {}
        self.committed: Log = []

    def run(self) -> None:
        """Until something was committed, and then for some time."""
        left = self.rng.randint(5, 70)
        while left:
            self.step()
            left -= bool(self.committed)

    def step(self) -> None:
        """One election, append or fetch."""
        leads = [each for each in self.leads if each.node.epoch == each.epoch]
        choice = self.rng.random()
        if not leads or choice < 0.06:
            self._elect()
            return
        lead = self.rng.choice((leads[-1], self.rng.choice(leads)))
        if choice < 0.45:
            self._append(lead)
        else:
            self._fetch(self.rng.choice(list(self.nodes.values())), lead)

    def _elect(self) -> None:
        """A voter becomes a candidate, and some others hear of it."""
        candidate = self.nodes[self.rng.choice(self.voters)]
        epoch = max(each.epoch for each in self.nodes.values()) + self.rng.choice((1, 1, 1, 2))
        others = [self.nodes[each] for each in self.voters if each != candidate.node_id]
        heard = self.rng.sample(others, self.rng.randint(0, len(others)))
        votes = 1 + sum(candidate.place >= each.place for each in heard)
        for each in (candidate, *heard):
            each.epoch, each.leader = epoch, -1
        if 2 * votes <= len(self.voters):
            return
        candidate.leader = candidate.node_id
        writer = self.writers[candidate.place].copy()
        named = self.voters if self.kraft_version else ()
        self._add(candidate, leader_change(candidate.end, epoch, named), writer)
        ends = dict.fromkeys(self.voters, 0) | {candidate.node_id: candidate.end}
        self.leads.append(Lead(candidate, epoch, candidate.end, ends))
        self._commit(self.leads[-1])

    def _append(self, lead: Lead) -> None:
        """A leader writes once the first batch of its epoch is committed."""
        if lead.committed < lead.began:
            return
        writer = self.writers[lead.node.place].copy()
        self._add(lead.node, writer.batch(lead.node.end, lead.epoch), writer)
        lead.ends[lead.node.node_id] = lead.node.end
        self._commit(lead)

    def _add(self, node: Node, batch: Batch, writer: Writer) -> None:
        node.log.append(batch)
        self.writers[node.place] = writer
        self.logs[node.place] = list(node.log)

    def _fetch(self, node: Node, lead: Lead) -> None:
        """A node truncates its log to what the leader's has, and gets more of it."""
        if node is lead.node or node.epoch > lead.epoch:
            return
        node.epoch, node.leader = lead.epoch, lead.node.node_id
        same = common(node.log, lead.node.log)
        missing = lead.node.log[len(same) :]
        node.log = same + missing[: self.rng.choice((1, 2, 5, len(missing)))]
        if node.node_id in self.voters:
            lead.ends[node.node_id] = node.end
            self._commit(lead)

    def _commit(self, lead: Lead) -> None:
        """Committed is what a majority of the voters has, once that is of the leader's epoch."""
        high = sorted(lead.ends.values())[(len(self.voters) - 1) // 2]
        if high < lead.began:
            return
        lead.committed = high
        known = [each for each in lead.node.log if each.end <= high]
        assert common(self.committed, known) == min(self.committed, known, key=len)
        self.committed = max(self.committed, known, key=len)


@dataclass
class RaftWorld:
    """Directories, and all that is known of them.

    Attributes:
        logs: by node, as it was before damages.
        known: by place, the log up to there, of all that there ever were.
        states: by place, what the metadata says there.
        formatted: voters that were formatted again.
        foreign: nodes of another cluster.
        damaged: by node the names of files that were damaged.
        snapshots: by node, the end of its newest one.
    """

    kraft_version: int
    voters: tuple[int, ...]
    committed: Log
    logs: dict[int, Log]
    known: dict[Place, Log]
    states: dict[Place, State]
    members: dict[int, Member]
    formatted: set[int] = field(default_factory=set)
    foreign: set[int] = field(default_factory=set)
    damaged: dict[int, set[str]] = field(default_factory=dict)
    snapshots: dict[int, int] = field(default_factory=dict)

    def is_prefix(self, log: Log, place: Place) -> bool:
        """Whether the log that ends at a place begins with this one."""
        return common(log, self.known[place]) == log


def make_world(rng: random.Random, root: Path) -> RaftWorld:
    """Write the directories ``node-1`` and so on; some are damaged."""
    voters = tuple(range(1, rng.choice((3, 3, 4)) + 1))
    quorum = Quorum(rng, voters, kraft_version=rng.randrange(2))
    quorum.run()
    world = _world(quorum)
    if rng.random() < 0.25:
        _format_again(rng, quorum, world)
    if rng.random() < 0.1:
        node = rng.choice(voters)
        world.logs[FOREIGNER] = world.logs[node]
        world.members[FOREIGNER] = Member(
            node=node, directory=3000, epoch=99, leader=node, cluster=OTHER_CLUSTER
        )
        world.foreign.add(FOREIGNER)
    for node in world.logs:
        _write(rng, quorum, world, root / f"node-{node}", node)
    if rng.random() < 0.5:
        for node in set(world.logs) - world.foreign:
            for _ in range(rng.choice((0, 1, 1, 2, 3))):
                path = damage(rng, root / f"node-{node}")
                if path is not None:
                    world.damaged.setdefault(node, set()).add(path.name)
    return world


def _world(quorum: Quorum) -> RaftWorld:
    members = {
        each.node_id: Member(
            node=each.node_id,
            directory=1000 + each.node_id,
            epoch=each.epoch,
            leader=each.leader,
            voters=quorum.voters,
            kraft_version=quorum.kraft_version,
            cluster=CLUSTER,
        )
        for each in quorum.nodes.values()
    }
    return RaftWorld(
        kraft_version=quorum.kraft_version,
        voters=tuple(quorum.voters),
        committed=quorum.committed,
        logs={each.node_id: each.log for each in quorum.nodes.values()},
        known=quorum.logs,
        states={place: writer.model.state() for place, writer in quorum.writers.items()},
        members=members,
    )


def _format_again(rng: random.Random, quorum: Quorum, world: RaftWorld) -> None:
    """A voter has a new directory, and has fetched a part of a leader's log, or nothing."""
    node = rng.choice(world.voters)
    log = rng.choice([each for each in world.logs.values() if each])
    end = rng.randint(0, log[-1].end)
    world.logs[node] = [each for each in log if each.end <= end]
    epoch = max(each.epoch for each in quorum.nodes.values())
    world.members[node] = Member(
        node=node,
        directory=2000 + node,
        epoch=epoch,
        leader=-1,
        voters=world.voters,
        kraft_version=world.kraft_version,
    )
    world.formatted.add(node)


def _write(rng: random.Random, quorum: Quorum, world: RaftWorld, log_dir: Path, node: int) -> None:
    """Write a log in segments, with snapshots of what is committed; it may begin at one."""
    log, member = world.logs[node], world.members[node]
    possible = [
        each
        for each in common(log, world.committed)
        if quorum.writers[each.epoch, each.end].pending is None
    ]
    taken = rng.sample(possible, min(len(possible), rng.randrange(3)))
    snapshots = sorted(taken, key=lambda one: one.end)
    start = snapshots[0].end if snapshots and rng.random() < 0.5 else 0
    own = [each for each in log if each.base >= start]
    rolls = [each.base for each in own[1:] if rng.random() < 0.1]
    write_directory(log_dir, member, own, (start, *rolls))
    for each in snapshots:
        model = quorum.writers[each.epoch, each.end].model
        write_snapshot(log_dir / METADATA, model, member, each.end, each.epoch)
        world.snapshots[node] = each.end
