"""A quorum is gone: two of three controllers are destroyed. What is left starts again."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import process, tree
from tests.e2e.quorum_cluster import BROKER, CLUSTER_ID, CONTROLLERS, QuorumCluster

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

GOAL_SECONDS = 60.0
RECORDS = [f"before-{number}" for number in range(100)]


def filled(cluster: QuorumCluster) -> None:
    """Topics, configs and records."""
    cluster.make_topic("orders", 3, retention_ms="7654321")
    cluster.make_topic("users", cleanup_policy="compact", min_compaction_lag_ms="4321")
    cluster.produce("users", RECORDS)


def rescue(*words: str | Path | int) -> list[dict[str, Any]]:
    """What the command says; it must succeed."""
    answer = process("quorum", *words, "--output", "json")
    assert 0 == answer.status, answer.out + answer.err
    return answer.lines


def verdict(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The object about all directories."""
    (found,) = [line for line in lines if "committedOffset" in line]
    return found


def serves_as_before(cluster: QuorumCluster) -> None:
    """All topics, settings and records are there, and it takes more."""
    cluster.wait_for_topics({"orders", "users"})
    assert "7654321" == cluster.config("orders", "retention.ms")
    assert "compact" == cluster.config("users", "cleanup.policy")
    assert "4321" == cluster.config("users", "min.compaction.lag.ms")
    cluster.produce("users", ["after"])
    assert [*RECORDS, "after"] == cluster.consume("users", len(RECORDS) + 1)
    cluster.make_topic("later")
    cluster.produce("later", ["x"])
    assert ["x"] == cluster.consume("later", 1)


def begin_again(cluster: QuorumCluster, node: int, directory: Path) -> None:
    """Start a controller from a new directory as the only voter, and the broker."""
    cluster.configure(node, directory, voters=(node,))
    cluster.configure(BROKER, cluster.log_dir(BROKER), voters=(node,))
    cluster.start(node)
    cluster.start(BROKER)


@pytest.mark.parametrize("dynamic", [True, False])
def test_one_controller_is_left(tmp_path: Path, dynamic: bool) -> None:
    """It becomes the only voter, serves within a minute, and gets company again."""
    with QuorumCluster(tmp_path, dynamic=dynamic) as cluster:
        filled(cluster)
        cluster.kill_all()
        for node in CONTROLLERS[1:]:
            shutil.rmtree(cluster.log_dir(node))
        survivor = cluster.log_dir(1)
        before, new = tree(survivor), tmp_path / "rescued-1"

        began = time.monotonic()
        *_, written = rescue(survivor, "--to", new, "--yes")
        begin_again(cluster, 1, new)
        cluster.wait_for_topics({"orders", "users"})
        seconds = time.monotonic() - began
        assert seconds < GOAL_SECONDS
        print(f"from the command to serving: {seconds:.1f} s")

        assert (CLUSTER_ID, 1) == (written["clusterId"], written["nodeId"])
        assert before == tree(survivor)
        serves_as_before(cluster)
        status = cluster.quorum("describe", "--status")
        epoch = re.search(r"^LeaderEpoch:\s+(\d+)$", status, re.MULTILINE)
        assert epoch is not None
        assert int(epoch[1]) > written["epoch"]
        assert [1] == voters(status)
        if dynamic:
            add_controllers(cluster)
        else:
            write_controllers(cluster, tmp_path)
        serves_on(cluster)


def voters(status: str) -> list[int]:
    """The ids in what ``kafka-metadata-quorum describe --status`` prints."""
    (line,) = re.findall(r"^CurrentVoters:\s+(.*)$", status, re.MULTILINE)
    return [one["id"] for one in json.loads(line)]


def add_controllers(cluster: QuorumCluster) -> None:
    """As the runbook says with kraft.version 1."""
    for node in CONTROLLERS[1:]:
        cluster.configure(node, cluster.log_dir(node), voters=(1,))
        words = ["--cluster-id", CLUSTER_ID, "--config", str(cluster.properties(node))]
        cluster.tool("kafka.tools.StorageTool", "format", "--no-initial-controllers", *words)
        cluster.start(node)
        add_controller(cluster, node)
    assert list(CONTROLLERS) == sorted(voters(cluster.quorum("describe", "--status")))


def add_controller(cluster: QuorumCluster, node: int) -> None:
    """Add one, once it has caught up."""
    deadline = time.monotonic() + 120
    while True:
        try:
            cluster.quorum("add-controller", config=node)
        except AssertionError:
            assert time.monotonic() < deadline, cluster.output()
            time.sleep(1)
        else:
            return


def write_controllers(cluster: QuorumCluster, work: Path) -> None:
    """As the runbook says with kraft.version 0: all get the same state."""
    cluster.kill(1)
    again = work / "rescued-1"
    for node in CONTROLLERS[1:]:
        new = work / f"rescued-{node}"
        rescue(again, "--to", new, "--node-id", node, "--yes")
        cluster.configure(node, new)
    third = work / "rescued-1-again"
    rescue(again, "--to", third, "--yes")
    cluster.configure(1, third)
    cluster.configure(BROKER, cluster.log_dir(BROKER))
    cluster.kill(BROKER)
    for node in (*CONTROLLERS, BROKER):
        cluster.start(node)
    cluster.wait_for_topics({"later"})
    assert list(CONTROLLERS) == sorted(voters(cluster.quorum("describe", "--status")))


def serves_on(cluster: QuorumCluster) -> None:
    """Without the controller that was left, too."""
    cluster.kill(1)
    cluster.make_topic("last")
    cluster.produce("last", ["y"])
    assert ["y"] == cluster.consume("last", 1)
