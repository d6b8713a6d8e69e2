"""Future, stray and deleted logs of a directory that was not stopped cleanly."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logwright.cli.output import human_bytes
from tests.fixtures import copy_before, settings
from tests.log_builder import LogBuilder
from tests.unit.cli.conftest import Call

MARKER = ".kafka_cleanshutdown"
UNIQUE = "0123456789abcdef0123456789abcdef"
CASE = "torn-tail"
TORN = f"{152:020d}.log"
WHOLE_BYTES = 3047


def unclean(tmp_path: Path, mark: str, case: str = CASE) -> tuple[Path, Path]:
    """(the log directory, a copy of its log under this mark)."""
    log_dir = copy_before(case, tmp_path)
    marked = log_dir / f"t-0.{UNIQUE}-{mark}"
    shutil.copytree(log_dir / "t-0", marked, copy_function=shutil.copy2)
    return log_dir, marked


@pytest.mark.parametrize(
    ("mark", "recovered"), [("future", True), ("stray", True), ("delete", False)]
)
def test_one_of_them_keeps_no_directory_unclean(
    call: Call, tmp_path: Path, mark: str, *, recovered: bool
) -> None:
    """Future and stray logs are recovered, a deleted one is skipped; other commands run then."""
    log_dir, marked = unclean(tmp_path, mark)
    torn = (marked / TORN).stat().st_size
    answer = call("recover", log_dir, *settings(CASE), "--yes", "--now", "7")
    assert 0 == answer.status, answer.err
    assert (log_dir / MARKER).exists()
    assert (WHOLE_BYTES if recovered else torn) == (marked / TORN).stat().st_size
    kept = marked / ".logwright" / "cut" / "7-0" / f"{TORN}.from-{WHOLE_BYTES}"
    assert recovered == kept.exists()
    assert recovered == (f"{marked.name}: cut {TORN}" in answer.out)
    assert 0 == call("verify", log_dir).status


def test_a_future_log_next_to_the_current_one(call: Call, tmp_path: Path) -> None:
    """It is shorter while it is filled: the checkpoints say nothing of it. It is erased, too."""
    log_dir, keys = tmp_path / "logs", tmp_path / "keys"
    keys.write_text("ann\n")
    future = f"t-0.{UNIQUE}-future"
    for name, count in ((future, 1), ("t-0", 4)):
        log = LogBuilder(log_dir)
        log.segment(0).batch(0, [(key, "v") for key in ("ann", "b", "c", "d")[:count]])
        log.write(producers=True)
        log.directory.rename(log_dir / name)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (log_dir / name).write_text("0\n1\nt 0 4\n")
    words = ("--keys", keys, "--yes", "--now-and-for-good", "--config", "cleanup.policy=compact")
    answer = call("erase", log_dir, *words)
    assert 0 == answer.status, answer.err
    logs = sorted(log_dir.glob("t-0*/*.log"))
    assert 2 == len({path.parent for path in logs})
    assert not any(b"ann" in path.read_bytes() for path in logs)


def test_a_command_recovers_them_first(call: Call, tmp_path: Path) -> None:
    """Without `recover` being called, as it does with partitions."""
    log_dir, marked = unclean(tmp_path, "future")
    answer = call("clean", log_dir, *settings(CASE), "--yes", "--config", "cleanup.policy=compact")
    assert 0 == answer.status, answer.err
    assert WHOLE_BYTES == (marked / TORN).stat().st_size
    assert (log_dir / MARKER).exists()


def test_their_loss_must_be_accepted(call: Call, tmp_path: Path) -> None:
    """One that would lose segments keeps the directory unclean, until --accept-loss is given."""
    log_dir, marked = unclean(tmp_path, "stray", "bad-crc-sealed")
    shutil.rmtree(log_dir / "t-0")
    words = ("recover", log_dir, *settings("bad-crc-sealed"), "--yes", "--now", "7")
    refused = call(*words)
    assert 5 == refused.status
    assert marked.name in refused.err
    assert "--accept-loss" in refused.err
    assert not (log_dir / MARKER).exists()
    accepted = call(*words, "--accept-loss")
    assert 0 == accepted.status, accepted.err
    assert (log_dir / MARKER).exists()
    assert (marked / ".logwright" / "cut" / "7-0" / f"{37:020d}.log").exists()


@pytest.mark.parametrize(
    ("mark", "current", "own"),
    [("future", False, True), ("future", True, False), ("stray", False, False)],
)
def test_whose_the_checkpoints_entries_are(
    call: Call, tmp_path: Path, mark: str, *, current: bool, own: bool
) -> None:
    """A future log's without the current log; never a stray's, which would lose its records."""
    log_dir, marked = unclean(tmp_path, mark)
    if not current:
        shutil.rmtree(log_dir / "t-0")
    start = log_dir / "log-start-offset-checkpoint"
    start.write_text("0\n1\nt 0 160\n")
    before = start.read_bytes()
    answer = call("recover", log_dir, *settings(CASE), "--yes", "--now", "7")
    assert 0 == answer.status, answer.err
    assert before == start.read_bytes()
    points = (log_dir / "recovery-point-offset-checkpoint").read_text()
    assert (own or current) == ("t 0 182" in points)
    assert WHOLE_BYTES == (marked / TORN).stat().st_size


def test_a_move_of_ours_is_left_alone(call: Call, tmp_path: Path) -> None:
    """A future log's directory without any file of a log: nothing is made in it."""
    log_dir = copy_before(CASE, tmp_path)
    copy = log_dir / f"u-0.{UNIQUE}-future" / ".logwright" / "copy"
    copy.mkdir(parents=True)
    (copy / TORN).write_bytes(b"half")
    assert 0 == call("recover", log_dir, *settings(CASE), "--yes").status
    assert (log_dir / MARKER).exists()
    assert [".logwright"] == [path.name for path in copy.parents[1].iterdir()]
    assert b"half" == (copy / TORN).read_bytes()


def test_one_named_partition_does_not_speak_for_them(call: Call, tmp_path: Path) -> None:
    """With the only partition named they are recovered too; with one of two they are left out."""
    log_dir, marked = unclean(tmp_path, "future")
    shutil.copytree(log_dir / "t-0", log_dir / "u-0", copy_function=shutil.copy2)
    answer = call("recover", log_dir, "t-0", *settings(CASE), "--yes")
    assert f"left out: u-0, {marked.name}" in answer.err
    assert not (log_dir / MARKER).exists()


@pytest.mark.parametrize("mark", ["future", "stray", "delete"])
def test_inspect_shows_them(call: Call, tmp_path: Path, mark: str) -> None:
    """With what they are and the bytes of their files."""
    log_dir, marked = unclean(tmp_path, mark)
    size = sum(path.stat().st_size for path in marked.iterdir())
    lines = call("inspect", log_dir, "--output", "json").lines
    (shown,) = [line for line in lines if "mark" in line]
    assert {
        "directory": marked.name,
        "mark": mark,
        "topicPartition": "t-0",
        "bytes": size,
    } == shown
    assert f"{mark} log: {marked.name}, {size} bytes" in call("inspect", log_dir, "--verbose").out
    text = call("inspect", log_dir).out
    (row,) = [line for line in text.splitlines() if f" {mark} log" in line]
    assert row.startswith("t-0 ")
    assert f" {human_bytes(size)} " in row
    assert ("purge" in row) == (mark == "delete")
