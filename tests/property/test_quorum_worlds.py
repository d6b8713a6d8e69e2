"""Whatever is left of a quorum's directories, also of logs that part from each other: no more is
claimed than is there, nothing that was committed is left out, what is written is the state of one
log, and nothing that was given is changed.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from logwright.metadata.quorum import QUORUM_STATE
from logwright.metadata.read import META_PROPERTIES, read_metadata
from logwright.quorum.plan import EPOCH_MARGIN
from tests.e2e.command import Answer, call, tree
from tests.raft_worlds import (
    FOREIGNER,
    Log,
    Place,
    RaftWorld,
    common,
    kinds,
    make_world,
    place_of,
)

WORLDS = 300
NIGHTLY = 3_000
GROUPS = 10
REFUSED = {3, 5}


@pytest.mark.rotates(4)
@pytest.mark.parametrize("group", range(GROUPS))
def test_random_worlds(tmp_path: Path, group: int) -> None:
    """A part of them each."""
    outcomes = judged_worlds(
        range(group * WORLDS // GROUPS, (group + 1) * WORLDS // GROUPS), tmp_path
    )
    assert outcomes[0] > WORLDS // GROUPS // 4


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("group", range(GROUPS))
def test_many_worlds(tmp_path: Path, group: int, seed: int) -> None:
    """The same, with others each night."""
    first = seed * NIGHTLY + group * NIGHTLY // GROUPS
    outcomes = judged_worlds(range(first, first + NIGHTLY // GROUPS), tmp_path)
    assert outcomes[0] > NIGHTLY // GROUPS // 4


def test_worlds_have_what_is_particular(tmp_path: Path) -> None:
    """Logs part, of voters and observers; four voters, formatted again ones, other clusters."""
    seen: Counter[str] = Counter()
    for seed in range(60):
        world = make_world(random.Random(seed), tmp_path / str(seed))
        newest = max(map(place_of, world.logs.values()))
        parted = {n for n, log in world.logs.items() if not world.is_prefix(log, newest)}
        seen["a voter's log parts"] += bool(parted & set(world.voters))
        seen["an observer's log parts"] += bool(parted - set(world.voters))
        longer = [world.logs[n] for n in parted if place_of(world.logs[n])[1] > newest[1]]
        seen["a log of an older epoch is longer"] += bool(longer)
        seen["uncommitted"] += newest[1] > place_of(world.committed)[1]
        seen["four voters"] += len(world.voters) == 4
        seen["formatted again"] += bool(world.formatted)
        seen["another cluster"] += bool(world.foreign)
        seen["no damage"] += not world.damaged
    assert 8 == len(+seen), seen


def judged_worlds(seeds: range, scratch: Path) -> Counter[int]:
    """Judge these; how many there were of each exit status. Effects: works below `scratch`."""
    outcomes: Counter[int] = Counter()
    for seed in seeds:
        rng = random.Random(seed)
        root = scratch / str(seed)
        world = make_world(rng, root)
        nodes = sorted(rng.sample(sorted(world.logs), rng.randint(1, len(world.logs))))
        if set(nodes) <= world.foreign:
            nodes = list(world.voters)
        outcomes[check(world, root, nodes, seed)] += 1
    return outcomes


def check(world: RaftWorld, root: Path, nodes: list[int], seed: int) -> int:
    """Judge one world, and write a directory; the exit status."""
    dirs = [root / f"node-{node}" for node in nodes]
    before = {each: tree(each) for each in dirs}
    new = root / "new"
    options = ("--to", new, "--node-id", 1, "--endpoint", "CONTROLLER://h:1", "--yes")
    if not world.kraft_version:
        options = ("--to", new, "--node-id", 1, "--yes")
    answer = call("quorum", *dirs, *options, "--output", "json")
    case = Case(world, set(nodes), answer, f"seed {seed}, nodes {nodes}: {answer.out} {answer.err}")
    assert before == {each: tree(each) for each in dirs}, case.where
    assert new.exists() == (answer.status == 0), case.where
    case.require_lines()
    verdicts = [line for line in answer.lines if "committedOffset" in line]
    if any(map(case.is_of_no_log, verdicts)):
        return answer.status
    for judged in verdicts:
        case.require_no_more(judged)
        case.require_no_less(judged)
        case.require_left_out(judged)
        case.require_quorum(judged)
    if answer.status == 0:
        case.require_written(new, verdicts[0])
    else:
        case.require_reason(verdicts)
    return answer.status


@dataclass(frozen=True)
class Case:
    """A world, the directories that were given, and the answer."""

    world: RaftWorld
    nodes: set[int]
    answer: Answer
    where: str

    @property
    def whole(self) -> set[int]:
        """The given ones without damage."""
        return self.nodes - set(self.world.damaged) - self.world.foreign

    @property
    def is_damaged(self) -> bool:
        """Whether a given one is."""
        return bool(self.nodes & set(self.world.damaged))

    def line_of(self, node: int) -> dict[str, Any]:
        """What is said of one directory."""
        lines = [one for one in self.answer.lines if "notedEpoch" in one]
        (line,) = [one for one in lines if Path(one["logDir"]).name == f"node-{node}"]
        return line

    def is_of_no_log(self, judged: dict[str, Any]) -> bool:
        """Whether the state ends with another epoch than any log has there: possible only if both
        that epoch, which no CRC covers, and what the node noted were damaged.
        """
        if (judged["epoch"], judged["endOffset"]) in self.world.known:
            return False
        (node,) = [n for n in self.nodes if f"node-{n}" == Path(judged["source"]).name]
        assert QUORUM_STATE in self.world.damaged.get(node, ()), self.where
        return True

    def state_log(self, judged: dict[str, Any]) -> Log:
        """The log that ends where the state does: one of the logs that there were."""
        return self.world.known[judged["epoch"], judged["endOffset"]]

    def require_lines(self) -> None:
        """Each directory is shown, with the end of its log."""
        for node in self.nodes:
            line = self.line_of(node)
            if node in self.whole:
                shown = (line["epoch"] or 0, line["endOffset"] or 0)
                assert place_of(self.world.logs[node]) == shown, self.where

    def require_no_more(self, judged: dict[str, Any]) -> None:
        """Offsets, epoch and kinds are those of one log."""
        world, log, end = self.world, self.state_log(judged), judged["endOffset"]
        committed = judged["committedOffset"]
        assert committed <= min(end, place_of(world.committed)[1]), self.where
        uncertain = {kind["kind"]: kind["records"] for kind in judged["perhapsNotCommitted"]}
        assert dict(kinds(log, committed, end)) == uncertain, self.where
        state = world.states[judged["epoch"], end]
        shown = (judged["topics"], judged["partitions"])
        assert (len(state.topics), sum(state.topics.values())) == shown, self.where
        lost, given = judged["lostBefore"], [world.logs[node] for node in self.nodes]
        furthest = max(place_of(each)[1] for each in given)
        assert lost is None or end < lost <= furthest, self.where
        not_applied = Counter({one["kind"]: one["records"] for one in judged["notApplied"]})
        assert any(not_applied <= kinds(each, end, furthest) for each in given), self.where
        if not self.is_damaged:
            assert lost is None, self.where

    def require_no_less(self, judged: dict[str, Any]) -> None:
        """The state has all that was committed and that a directory without damage has, and is as
        new as the newest of these; of a majority of the voters all that was committed.
        """
        world, log = self.world, self.state_log(judged)
        for node in self.whole:
            assert place_of(world.logs[node]) <= place_of(log), self.where
            seen = common(world.logs[node], world.committed)
            assert common(log, seen) == seen, self.where
        remembering = self.whole & set(world.voters) - world.formatted
        if 2 * len(remembering) > len(world.voters):
            assert common(log, world.committed) == world.committed, self.where
        leaders = [world.members[n].epoch for n in self.whole if world.members[n].leader >= 0]
        newer = max((one for one in leaders if one > judged["epoch"]), default=0)
        assert (judged["newerLeaderEpoch"] or 0) >= newer, self.where
        if not self.is_damaged:
            assert (judged["newerLeaderEpoch"] or 0) == newer, self.where

    def require_left_out(self, judged: dict[str, Any]) -> None:
        """A directory is named if and only if its log parts from the state; unless it does so where
        the state is a snapshot.
        """
        world, place = self.world, (judged["epoch"], judged["endOffset"])
        named = {}
        for each in judged["leftOut"]:
            known: Place = (each["epoch"], each["endOffset"])
            assert not world.is_prefix(world.known[known], place), self.where
            named[Path(each["logDir"]).name] = known
        source = Path(judged["source"]).name
        (snapshot,) = [world.snapshots.get(n, 0) for n in self.nodes if f"node-{n}" == source]
        for node in self.whole:
            log = world.logs[node]
            if world.is_prefix(log, place):
                assert f"node-{node}" not in named, self.where
            elif place_of(log)[1] >= snapshot:
                assert place_of(log) == named[f"node-{node}"], self.where

    def require_quorum(self, judged: dict[str, Any]) -> None:
        """Voters without damage are a quorum if they are more than half: with kraft.version 1 not
        those that were formatted again.
        """
        world = self.world
        away = world.formatted if judged["kraftVersion"] else set()
        shown = set(judged["wholeVoters"])
        voters = set(world.voters) - away
        assert judged["hasQuorum"] == (2 * len(shown) > len(world.voters)), self.where
        if not self.is_damaged:
            assert set(world.voters) == set(judged["voters"]), self.where
            assert self.whole & voters == shown, self.where
        names = {name for node in self.nodes for name in world.damaged.get(node, ())}
        if META_PROPERTIES not in names:
            assert shown <= self.nodes & voters, self.where
            assert not judged["kraftVersion"] or self.whole & voters <= shown, self.where

    def require_written(self, new: Path, judged: dict[str, Any]) -> None:
        """The new directory has the state at the offset that was named, of a newer epoch."""
        metadata = read_metadata(new / "__cluster_metadata-0")
        state = self.world.states[judged["epoch"], judged["endOffset"]]
        assert judged["endOffset"] == metadata.end_offset, self.where
        topics = {name: len(each.partitions) for name, each in metadata.topics.items()}
        configs = {
            name: {key: entry.value for key, entry in pairs.items()}
            for name, pairs in metadata.topic_configs.items()
        }
        assert (state.topics, state.configs) == (topics, configs), self.where
        assert {"metadata.version": 25} == metadata.features, self.where
        noted = [self.world.members[node].epoch for node in self.whole]
        epoch = self.answer.lines[-1]["epoch"]
        assert epoch >= max(noted, default=0) + EPOCH_MARGIN, self.where
        if not self.is_damaged:
            assert epoch == max(noted) + EPOCH_MARGIN, self.where

    def require_reason(self, verdicts: list[dict[str, Any]]) -> None:
        """There is a reason: another cluster, a quorum, a damage, or a log that only begins."""
        assert self.answer.status in REFUSED, self.where
        assert self.answer.errors, self.where
        if FOREIGNER in self.nodes:
            assert not verdicts, self.where
            assert self.answer.status == 5, self.where
        elif not (verdicts and verdicts[0]["hasQuorum"]) and not self.is_damaged:
            newest = max(place_of(self.world.logs[node]) for node in self.nodes)
            log = self.world.known.get(newest, [])
            assert not any(one.values for one in log), self.where
