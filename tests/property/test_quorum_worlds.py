"""Whatever is damaged of a quorum's directories: no more is claimed than is there, what is written
has exactly that state, and nothing that was given is changed.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from logwright.metadata.read import read_metadata
from tests.e2e.command import Answer, call, tree
from tests.quorum_worlds import NODES, World, make_world

WORLDS = 300
GROUPS = 10
STATUSES = {0, 3, 5}


@pytest.mark.rotates(4)
@pytest.mark.parametrize("group", range(GROUPS))
def test_random_worlds(tmp_path: Path, group: int) -> None:
    """A part of them each."""
    outcomes: Counter[int] = Counter()
    for seed in range(group * WORLDS // GROUPS, (group + 1) * WORLDS // GROUPS):
        rng = random.Random(seed)
        root = tmp_path / str(seed)
        world = make_world(rng, root)
        nodes = sorted(rng.sample(NODES, rng.randint(1, 3)))
        outcomes[check(world, root, nodes, seed)] += 1
    assert outcomes[0] > WORLDS // GROUPS // 3


def check(world: World, root: Path, nodes: list[int], seed: int) -> int:
    """Judge one world, and write a directory; the exit status."""
    dirs = [root / f"node-{node}" for node in nodes]
    before = {each: tree(each) for each in dirs}
    new = root / "new"
    options = ("--to", new, "--node-id", 1, "--endpoint", "CONTROLLER://h:1", "--yes")
    if not world.kraft_version:
        options = ("--to", new, "--node-id", 1, "--yes")
    answer = call("quorum", *dirs, *options, "--output", "json")
    where = f"seed {seed}, nodes {nodes}: {answer.out} {answer.err}"
    assert before == {each: tree(each) for each in dirs}, where
    verdicts = [line for line in answer.lines if "committedOffset" in line]
    for each in verdicts:
        no_more_than_there_is(world, each, where)
        no_less_than_is_whole(world, each, nodes, where)
    assert new.exists() == (answer.status == 0), where
    if answer.status == 0:
        written_state(world, new, verdicts[0], where)
    else:
        refused(world, answer, verdicts, nodes, where)
    return answer.status


def refused(
    world: World, answer: Answer, verdicts: list[Any], nodes: list[int], where: str
) -> None:
    """There is a reason: a quorum, or a damage."""
    assert answer.status in STATUSES, where
    assert answer.errors, where
    if verdicts and verdicts[0]["hasQuorum"]:
        whole = set(verdicts[0]["wholeVoters"])
        assert whole <= set(nodes), where
        assert 2 * len(whole) > len(NODES), where
    else:
        assert world.damaged & set(nodes), where


def no_more_than_there_is(world: World, judged: dict[str, Any], where: str) -> None:
    """Offsets, epoch and kinds are those of the log."""
    end, committed = judged["endOffset"], judged["committedOffset"]
    assert end in world.states, where
    assert end <= world.end, where
    assert world.epoch_before(end) == judged["epoch"], where
    assert committed <= world.committed, where
    uncertain = {kind["kind"]: kind["records"] for kind in judged["perhapsNotCommitted"]}
    assert dict(world.kinds(committed, end)) == uncertain, where
    state = world.states[end]
    assert (len(state.topics), sum(state.topics.values())) == (
        judged["topics"],
        judged["partitions"],
    )
    lost = judged["lostBefore"]
    assert lost is None or end < lost <= world.end, where
    there = world.kinds(end, world.end)
    for kind in judged["notApplied"]:
        assert kind["records"] <= there[kind["kind"]], where


def no_less_than_is_whole(
    world: World, judged: dict[str, Any], nodes: list[int], where: str
) -> None:
    """The state of a directory without damage is not left out."""
    whole = [world.ends[node] for node in nodes if node not in world.damaged]
    assert judged["endOffset"] >= max(whole, default=0), where


def written_state(world: World, new: Path, judged: dict[str, Any], where: str) -> None:
    """The new directory has the state at the offset that was named."""
    metadata = read_metadata(new / "__cluster_metadata-0")
    state = world.states[judged["endOffset"]]
    assert judged["endOffset"] == metadata.end_offset, where
    topics = {name: len(each.partitions) for name, each in metadata.topics.items()}
    configs = {
        name: {key: entry.value for key, entry in pairs.items()}
        for name, pairs in metadata.topic_configs.items()
    }
    assert (state.topics, state.configs) == (topics, configs), where
    assert {"metadata.version": 25} == metadata.features, where
