"""The active controller is that of the newest epoch that any node has noted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from logwright.config.cluster import Cluster
from logwright.metadata.find import METADATA_DIRECTORY
from logwright.metadata.quorum import QUORUM_STATE
from logwright.rolling.controller import local_controller
from logwright.rolling.model import ActiveController


def cluster(**more: object) -> Cluster:
    brokers = [{"id": broker, "log_dirs": [f"empty-{broker}", f"{broker}"]} for broker in (1, 2, 3)]
    given = {"version": "1", "bootstrap_servers": ["localhost:1"], "state": "state"}
    commands = {"stop": "true", "start": "true", "maintain": ["clean"]}
    return Cluster.model_validate({**given, **commands, "brokers": brokers, **more})


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two log directories of each broker."""
    for broker in (1, 2, 3):
        (tmp_path / f"empty-{broker}").mkdir()
        (tmp_path / f"{broker}").mkdir()
    return tmp_path


def note(directory: Path, broker: int, epoch: int, leader: int) -> None:
    metadata = directory / f"{broker}" / METADATA_DIRECTORY
    metadata.mkdir()
    text = json.dumps({"leaderEpoch": epoch, "leaderId": leader})
    (metadata / QUORUM_STATE).write_text(text)


def test_the_newest_epoch_counts(directory: Path) -> None:
    """A node that was isolated has noted an older one."""
    note(directory, 1, 4, 1)
    note(directory, 2, 6, 3)
    note(directory, 3, 5, 2)
    assert 3 == local_controller(cluster(), directory).node


def test_an_epoch_without_a_leader(directory: Path) -> None:
    """An election is going on."""
    note(directory, 1, 4, 1)
    note(directory, 2, 5, -1)
    expected = ActiveController(problem="none is elected")
    assert expected == local_controller(cluster(), directory)


def test_why_it_is_not_known(directory: Path) -> None:
    """No node has noted one; a file cannot be read, of which the others make up for."""
    why = "no log directory of the file has a quorum-state"
    assert ActiveController(problem=why) == local_controller(cluster(), directory)
    assert ActiveController(problem=why) == local_controller(cluster(run_with="env"), directory)
    note(directory, 1, 4, 1)
    damaged = directory / "1" / METADATA_DIRECTORY / QUORUM_STATE
    damaged.write_text("{")
    expected = ActiveController(problem="is not the state of a quorum")
    assert expected == local_controller(cluster(), directory)
    note(directory, 2, 4, 1)
    assert 1 == local_controller(cluster(), directory).node
