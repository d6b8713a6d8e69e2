"""`inspect` and `dump`: what is there, also where nothing else would work; nothing changes."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import struct
from pathlib import Path

import pytest

from logwright.cli.output import human_bytes
from tests.fixtures import case_dir, copy_before, dump_lines, settings
from tests.unit.cli.conftest import Answer, Call


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
    partitions = {line["topicPartition"] for line in answer.lines}
    assert partitions == {path.name for path in log_dir.iterdir() if path.is_dir()}
    partition = min(partitions)
    own = [
        {key: value for key, value in line.items() if key != "topicPartition"}
        for line in answer.lines
        if line["topicPartition"] == partition
    ]
    assert own == call("dump", log_dir, partition).lines


def test_inspect_names_the_active_controller(call: Call, tmp_path: Path) -> None:
    """As the node has noted it next to its metadata log; that this cannot be read stops nothing."""
    log_dir = copy_before("basic-none", tmp_path)
    metadata = log_dir / "__cluster_metadata-0"
    assert call("inspect", log_dir, "--output", "json").lines[0]["quorumLeader"] is None
    metadata.mkdir()
    for leader, named in ((3, "node 3"), (-1, "none is elected")):
        (metadata / "quorum-state").write_text(f'{{"leaderEpoch": 7, "leaderId": {leader}}}')
        (whole, *_) = call("inspect", log_dir, "--output", "json").lines
        expected = {"epoch": 7, "leader": leader if leader >= 0 else None}
        assert expected == whole["quorumLeader"]
        assert f"  active controller: {named}, epoch 7\n" in call("inspect", log_dir).out
    (metadata / "quorum-state").write_text("{")
    answer = call("inspect", log_dir)
    assert (0, True) == (answer.status, "The active controller is not known" in answer.err)


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
    text = call("inspect", log_dir, "--verbose").out
    assert "7653" in text
    assert "2025-10-09 08:53:35.502Z" in text


def row(answer: Answer, name: str) -> str:
    """The line of a log in a table, with single blanks."""
    (line,) = [line for line in answer.out.splitlines() if line.startswith(f"{name} ")]
    return re.sub(" +", " ", line)


def test_inspect_says_a_line_a_log(call: Call, tmp_path: Path) -> None:
    """Policy, segments, size in units, offsets and the last write; the date only of another day."""
    log_dir = copy_before("basic-none", tmp_path)
    other = call("inspect", log_dir, "--now", 1760100000000)
    assert "t-0 unknown 7 47.8 KiB 0..500 2025-10-09 08:54" == row(other, "t-0")
    same = call("inspect", log_dir, "--config", "cleanup.policy=compact", "--now", 1760003686229)
    assert "t-0 compact 7 47.8 KiB 0..500 08:54" == row(same, "t-0")
    assert "times are UTC, now is 2025-10-09 09:54" in same.out
    assert 5 == len(same.out.splitlines())


def test_inspect_sums_up_retired_files(call: Call, tmp_path: Path) -> None:
    """How many, their bytes, and from when on a purge removes them; --verbose has their names."""
    log_dir = copy_before("basic-none", tmp_path)
    now = 1760003686229
    words = (log_dir, *settings("basic-none"), "--config", "file.delete.delay.ms=3600000")
    assert 0 == call("clean", *words, "--yes", "--now", now).status
    files = list((log_dir / "t-0").glob("*.deleted"))
    size = f"{len(files)} files, {human_bytes(sum(path.stat().st_size for path in files))}"
    shown = call("inspect", *words, "--now", now + 60_000)
    assert row(shown, "t-0").endswith(f" {size}, purged from 10:54")
    assert ".deleted" not in shown.out
    late = call("inspect", *words, "--now", now + 3_600_000)
    assert row(late, "t-0").endswith(f" {size}, purge due since 10:54")
    verbose = call("inspect", *words, "--now", now, "--verbose").out
    assert all(path.name in verbose for path in files)


def test_inspect_without_settings_still_shows_what_is_there(call: Call, tmp_path: Path) -> None:
    """Metadata that cannot be read: the reason on stderr, no policy and no time of a purge."""
    log_dir = copy_before("basic-none", tmp_path)
    (log_dir / "meta.properties").write_bytes(b"node.id=x\n")
    (log_dir / "t-0" / f"{7:020d}.log.deleted").write_bytes(b"0123456789")
    answer = call("inspect", log_dir, "--now", 1760100000000)
    assert 0 == answer.status
    assert "Settings cannot be read" in answer.err
    expected = "t-0 ? 7 47.8 KiB 0..500 2025-10-09 08:54 1 file, 10 B, retired"
    assert expected == row(answer, "t-0")


def test_long_names_do_not_widen_a_table(call: Call, tmp_path: Path) -> None:
    """The middle of a long name is left out, unless two logs would then have one name."""
    log_dir = copy_before("basic-none", tmp_path)
    name = f"{'a' * 120}-{'b' * 120}-12"
    (log_dir / "t-0").rename(log_dir / name)
    for command in ("inspect", "plan"):
        text = call(command, log_dir, "--config", "cleanup.policy=compact").out
        assert f"\n{'a' * 21}…{'b' * 19}-12 " in text
        assert name in call(command, log_dir, "--verbose").out
    shutil.copytree(log_dir / name, log_dir / name.replace("-b", "-cb"))
    assert name in call("inspect", log_dir).out


@pytest.mark.parametrize(
    ("name", "leftover"),
    [("crash-cleaned", ".cleaned"), ("crash-swap", ".swap"), ("crash-deleted", ".deleted")],
)
def test_inspect_an_unclean_log(call: Call, name: str, leftover: str) -> None:
    """Leftovers of a crash are shown, with why other commands refuse; that is not a failure."""
    shown = row(call("inspect", case_dir(name) / "before"), "t-0")
    assert "needs recovery" in shown
    assert ("purged" if leftover == ".deleted" else "unfinished") in shown.replace(
        "purge ", "purged "
    )
    answer = call("inspect", case_dir(name) / "before", "--output", "json")
    assert answer.status == 0
    whole, partition = answer.lines
    assert whole["cleanShutdown"] is False
    assert any(name.endswith(leftover) for name in partition["leftovers"])
    assert ".kafka_cleanshutdown" in partition["problem"]


def test_inspect_shows_a_brokers_lock(call: Call, tmp_path: Path) -> None:
    """A lock such as a broker holds on `.lock` is shown; without one the file is skipped."""
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
