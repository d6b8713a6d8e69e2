"""A real broker starts with logs that the cluster's metadata does not give it, and with a damaged
metadata log: what `doctor` says before, and what the broker makes of the directories.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.format.batch import walk_batches
from tests.e2e.command import call, free_port
from tests.metadata_builder import uuid_text
from tests.oracle_runner import OracleFailed, run_oracle

pytestmark = [pytest.mark.oracle, pytest.mark.e2e]

METADATA = "__cluster_metadata-0"
Change = Callable[[Path], object]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directories of a broker with two topics that was stopped cleanly."""
    place = tmp_path_factory.mktemp("stray") / "broker"
    run_broker(place, "--create", "a", "--create", "b", "--seconds", "1")
    return place


def run_broker(place: Path, *words: str) -> None:
    """Start it, and stop it cleanly. Effects: those of a broker."""
    run_oracle("broker", "--dir", place, "--port", str(free_port()), *words)


def flip(path: Path) -> None:
    """Change a byte of the records in the middle: a wrong magic would stop a broker."""
    content = bytearray(path.read_bytes())
    ends = [span.position + span.bytes for span in walk_batches(bytes(content))]
    content[next(end for end in ends if end >= len(content) // 2) - 1] ^= 1
    path.write_bytes(content)


def of_metadata(name: str, content: bytes) -> Change:
    return lambda place: (place / "metadata" / METADATA / name).write_bytes(content)


STRAYS: dict[str, tuple[Change, str, str]] = {
    "no topic id": (
        lambda place: (place / "logs/a-0/partition.metadata").unlink(),
        "a-0",
        "no topic id",
    ),
    "an unknown topic id": (
        lambda place: (place / "logs/a-0/partition.metadata").write_text(
            f"version: 0\ntopic_id: {uuid_text(5)}"
        ),
        "a-0",
        "is unknown to the cluster",
    ),
    "a future log without a topic id": (
        lambda place: shutil.copytree(
            place / "logs/a-0",
            place / f"logs/a-0.{'a' * 32}-future",
            ignore=shutil.ignore_patterns("partition.metadata"),
        ),
        "a-0",
        "no topic id",
    ),
    "a partition that the topic has not": (
        lambda place: shutil.copytree(place / "logs/a-0", place / "logs/a-7"),
        "a-7",
        "the partition does not exist in its topic",
    ),
}
STOPS: dict[str, Change] = {
    "quorum-state": of_metadata("quorum-state", bytes(30)),
    "the newest snapshot": of_metadata(f"{10:020d}-{1:010d}.checkpoint", bytes(100)),
    "leader epochs": of_metadata("leader-epoch-checkpoint", bytes(20)),
    "a strange file": of_metadata("x.log", b""),
}


def copied(stopped: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stopped, tmp_path / "broker", copy_function=shutil.copy2)


def doctor(place: Path) -> tuple[int, str]:
    answer = call("doctor", place / "logs", "--metadata", place / "metadata" / METADATA)
    return answer.status, answer.out


def without_metadata(place: Path, tmp_path: Path) -> str:
    """What `doctor` says where there is no metadata log; a recovery names the same log."""
    logs = shutil.copytree(place / "logs", tmp_path / "alone/logs", copy_function=shutil.copy2)
    answer = call("doctor", logs)
    assert 0 == answer.status, answer.err
    assert "which logs it gives this broker: none is here" in answer.err
    assert ("sets 1 log aside" in answer.out) == ("Give the cluster's metadata log" in answer.out)
    recovered = call("recover", logs, "--yes")
    assert ("sets 1 log aside" in answer.out) == ("to -stray" in recovered.err), recovered.err
    return answer.out


def names(place: Path) -> list[str]:
    return sorted(path.name for path in (place / "logs").iterdir() if path.is_dir())


@pytest.mark.rotates(8)
@pytest.mark.parametrize("name", STRAYS)
def test_a_stray_log(name: str, stopped: Path, tmp_path: Path) -> None:
    """The broker starts, and renames the log that was named: without the cluster's metadata, too,
    if it has no topic id.
    """
    place = copied(stopped, tmp_path)
    assert (0, True) == (doctor(place)[0], "sets" not in doctor(place)[1])
    change, log, words = STRAYS[name]
    change(place)
    status, out = doctor(place)
    assert (0, True, True) == (status, words in out, "sets 1 log aside" in out), out
    assert ("no topic id" in words) == ("sets 1 log aside" in without_metadata(place, tmp_path))
    run_broker(place, "--seconds", "5")
    assert [log] == [one[: len(log)] for one in names(place) if one.endswith("-stray")]


@pytest.mark.rotates(8)
@pytest.mark.parametrize("name", STOPS)
def test_a_damaged_metadata_log(name: str, stopped: Path, tmp_path: Path) -> None:
    """The broker does not start."""
    place = copied(stopped, tmp_path)
    STOPS[name](place)
    assert 5 == doctor(place)[0]
    with pytest.raises((OracleFailed, ValueError)):
        run_broker(place, "--seconds", "1")


def test_a_metadata_log_that_is_cut(stopped: Path, tmp_path: Path) -> None:
    """The only controller forgets the topics: a broker starts, and sets all logs aside."""
    place = copied(stopped, tmp_path)
    flip(place / "metadata" / METADATA / f"{0:020d}.log")
    status, out = doctor(place)
    assert "the topics made since are not known" in out
    assert 11 == status
    run_broker(place, "--seconds", "5")
    assert 2 == sum(one.endswith("-stray") for one in names(place))
    assert os.path.lexists(place / "metadata" / METADATA)


def test_a_rescue_gives_the_topic_id_back(stopped: Path, tmp_path: Path) -> None:
    """Then the broker serves the log."""
    place = copied(stopped, tmp_path)
    path = place / "logs/a-0/partition.metadata"
    before = path.read_bytes()
    path.unlink()
    metadata = place / "metadata" / METADATA
    assert 0 == call("rescue", place / "logs", "--metadata", metadata, "--yes").status
    assert before.split() == path.read_bytes().split()
    run_broker(place, "--seconds", "5")
    assert ["a-0", "b-0"] == names(place)
