"""`inspect` and `dump`: what is there, also where nothing else would work; nothing changes."""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path

import pytest

from tests.fixtures import case_dir, copy_before, dump_lines
from tests.unit.cli.conftest import Call


def snapshot(directory: Path) -> dict[str, tuple[int, int]]:
    """Path → size and modification time of everything below a directory."""
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(directory.rglob("*"))
    }


@pytest.mark.parametrize("name", ["basic-none", "basic-zstd", "txn-1-mixed", "odd-records"])
@pytest.mark.parametrize("named", [True, False])
def test_dump_is_kafkas(call: Call, name: str, named: bool) -> None:
    """The lines of `dump` are those of Kafka's own readers."""
    answer = call("dump", case_dir(name) / "before", *(["t-0"] if named else []))
    assert answer.status == 0
    assert answer.lines == dump_lines(name, "before")


def test_dump_of_several_partitions_names_them(call: Call) -> None:
    """Without TOPIC-N all partitions are dumped, each line with its own."""
    log_dir = case_dir("real-broker") / "before"
    answer = call("dump", log_dir)
    assert answer.status == 0
    found = {line["topicPartition"] for line in answer.lines}
    assert found == {path.name for path in log_dir.iterdir() if path.is_dir()}
    one = min(found)
    own = [
        {key: value for key, value in line.items() if key != "topicPartition"}
        for line in answer.lines
        if line["topicPartition"] == one
    ]
    assert own == call("dump", log_dir, one).lines


def test_inspect_a_whole_log(call: Call, tmp_path: Path) -> None:
    """Segments with sizes, offsets and checkpoints; nothing is changed by looking."""
    log_dir = copy_before("basic-none", tmp_path)
    before = snapshot(log_dir)
    answer = call("inspect", log_dir, "--output", "json")
    assert answer.status == 0
    whole, partition = answer.lines
    assert (whole["partitions"], whole["cleanShutdown"], whole["lockedBy"]) == (1, True, None)
    bases = [segment["baseOffset"] for segment in partition["segments"]]
    assert bases == [0, 77, 155, 235, 318, 401, 482]
    assert partition["segments"][0] == {
        "baseOffset": 0,
        "logBytes": 7653,
        "indexBytes": 32,
        "timeindexBytes": 60,
        "txnindexBytes": None,
        "modifiedMs": 1760000015502,
    }
    assert (partition["logEndOffset"], partition["problem"]) == (500, None)
    assert partition["snapshots"][-1] == 500
    assert before == snapshot(log_dir)
    text = call("inspect", log_dir).out
    assert "7653" in text
    assert "2025-10-09 08:53:35.502Z" in text


@pytest.mark.parametrize(
    ("name", "leftover"),
    [("crash-cleaned", ".cleaned"), ("crash-swap", ".swap"), ("crash-deleted", ".deleted")],
)
def test_inspect_an_unclean_log(call: Call, name: str, leftover: str) -> None:
    """Leftovers of a crash are shown, with why other commands refuse; that is no failure."""
    answer = call("inspect", case_dir(name) / "before", "--output", "json")
    assert answer.status == 0
    whole, partition = answer.lines
    assert whole["cleanShutdown"] is False
    assert any(name.endswith(leftover) for name in partition["leftovers"])
    assert ".kafka_cleanshutdown" in partition["problem"]


def test_inspect_shows_a_brokers_lock(call: Call, tmp_path: Path) -> None:
    """A lock such as a broker holds on `.lock` is shown; without one the file is left alone."""
    log_dir = copy_before("basic-none", tmp_path)
    lock = log_dir / ".lock"
    with lock.open("w") as file:
        exclusive = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, exclusive)
        answer = call("inspect", log_dir, "--output", "json")
    assert answer.status == 0
    assert "broker" in answer.lines[0]["lockedBy"]
    assert call("inspect", log_dir, "--output", "json").lines[0]["lockedBy"] is None
    assert lock.exists()


def test_one_bad_partition_does_not_hide_the_others(call: Call, tmp_path: Path) -> None:
    """The others are shown; the exit status is that of the error."""
    log_dir = copy_before("basic-none", tmp_path)
    (log_dir / "a-0").symlink_to(log_dir / "t-0")
    answer = call("inspect", log_dir, "--output", "json")
    assert answer.status == 5
    assert "a-0" in answer.err
    error, good = answer.lines[1:]
    assert (error["topicPartition"], error["error"], error["exitStatus"]) == (
        "a-0",
        "UnreadableFile",
        5,
    )
    assert good["topicPartition"] == "t-0"
