"""``logwright move``: what it shows, what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from logwright.errors import QualityError
from logwright.locks import lock_partition
from logwright.move.build import ROUNDS
from logwright.state.file import STATE_FILE
from logwright.steps.filesystem import FileSystem
from tests.crash.filesystems import Crash
from tests.crash.moves import (
    NEIGHBOUR,
    T0,
    DyingFileSystem,
    Pair,
    Unsynced,
    entries_of,
    files_of,
    make_pair,
)
from tests.e2e.command import tree
from tests.ingested import Row, append, read_batches
from tests.unit.cli.conftest import Answer, Call

NOW = 1_770_000_000_000
JSON = ("--output", "json", "--now", NOW)


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_pair(tmp_path / "pair")


@pytest.fixture
def move(call: Call, pair: Pair) -> Call:
    def moved(*words: str | Path | int, to: Path | None = None) -> Answer:
        return call("move", pair.source, "t-0", "--to", to or pair.destination, *words, *JSON)

    return moved


def refused(
    answer: Answer, pair: Pair, before: dict[str, tuple[object, ...]], problem: str
) -> None:
    assert answer.status == 5, answer.err
    assert problem in answer.err
    after = tree(pair.root)
    assert before == after
    assert not (pair.source / STATE_FILE).exists()


def test_moves_everything(move: Call, pair: Pair) -> None:
    """Bytes, times, modes, checkpoints; the source is left to be deleted."""
    (pair.source / "t-0" / "partition.metadata").chmod(0o640)
    answer = move("--yes")
    assert answer.status == 0, answer.err
    (line,) = answer.lines
    assert ("moved", len(pair.files)) == (line["outcome"], line["files"])
    assert line["bytes"] == line["copiedBytes"] == sum(len(data) for data, _ in pair.files.values())
    pair.assert_moved()
    assert 0o640 == (pair.destination / "t-0/partition.metadata").stat().st_mode & 0o777
    (left,) = pair.source.glob("t-0.*-delete")
    assert files_of(left) == pair.files


def test_dry_run_shows_bytes_and_room(move: Call, pair: Pair) -> None:
    """And changes nothing."""
    before = tree(pair.root)
    (line,) = move("--dry-run").lines
    assert line["missingBytes"] == line["bytes"] > 0
    assert line["freeBytes"] > 0
    assert not line["resumes"]
    assert before == tree(pair.root)


def test_moving_again_is_no_error(move: Call, pair: Pair) -> None:
    """What is there already is there: nothing to do is exit status 0."""
    move("--yes")
    answer = move("--yes")
    assert (0, "finished") == (answer.status, answer.lines[0]["outcome"])
    pair.assert_moved()


def test_and_back(call: Call, move: Call, pair: Pair) -> None:
    """A log may be moved back; the directory that is to be deleted does not stand in the way."""
    move("--yes")
    answer = call("move", pair.destination, "t-0", "--to", pair.source, "--yes")
    assert answer.status == 0, answer.err
    assert files_of(pair.source / "t-0") == pair.files
    assert entries_of(pair.source) == pair.entries


def test_refuses_the_source_itself(move: Call, pair: Pair, tmp_path: Path) -> None:
    """Also by another path."""
    before = tree(pair.root)
    refused(move("--yes", to=pair.source), pair, before, "the destination is the source")
    (tmp_path / "link").symlink_to(pair.source)
    refused(move("--yes", to=tmp_path / "link"), pair, before, "the destination is the source")


def test_refuses_what_is_no_log_dir(move: Call, pair: Pair, tmp_path: Path) -> None:
    """A missing directory, one of other files, one inside the source."""
    before = tree(pair.root)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").touch()
    refused(move("--yes", to=tmp_path / "other"), pair, before, "not a log directory")
    refused(move("--yes", to=tmp_path / "none"), pair, before, "does not exist")
    inside = pair.source / "u-0"
    inside.mkdir()
    (inside / "meta.properties").write_text("version=1\n")
    answer = move("--yes", to=inside)
    assert (5, True) == (answer.status, "is inside the other" in answer.err)


def test_refuses_another_brokers_directory(move: Call, pair: Pair) -> None:
    """According to meta.properties."""
    path = pair.destination / "meta.properties"
    path.write_text(path.read_text().replace("node.id=1", "node.id=2"))
    refused(move("--yes"), pair, tree(pair.root), "another broker or cluster")


@pytest.mark.parametrize("name", ["t-0", "t-0.0123456789abcdef0123456789abcdef-future"])
def test_refuses_a_destination_that_has_it(move: Call, pair: Pair, name: str) -> None:
    """As current or as a broker's own future log."""
    (pair.destination / name).mkdir()
    before = tree(pair.root)
    problem = "already has this partition" if name == "t-0" else "another move"
    refused(move("--yes"), pair, before, problem)


def test_refuses_an_unclean_source(move: Call, pair: Pair) -> None:
    """In a destination that was stopped cleanly, no broker would repair it."""
    (pair.source / ".kafka_cleanshutdown").unlink()
    refused(move("--yes"), pair, tree(pair.root), "not stopped cleanly")


@pytest.mark.parametrize("kind", ["link", "directory", "fifo"])
def test_refuses_what_is_no_file(move: Call, pair: Pair, kind: str) -> None:
    """It would be lost with the source."""
    path = pair.source / "t-0" / "odd"
    if kind == "link":
        path.symlink_to("partition.metadata")
    elif kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(path)
    refused(move("--yes"), pair, tree(pair.root), "expected a regular file")


def test_refuses_malformed_checkpoints_before_anything(move: Call, pair: Pair) -> None:
    """Of either side."""
    (pair.destination / "cleaner-offset-checkpoint").write_text("0\n7\n")
    answer = move("--yes")
    assert (3, "CorruptCheckpoint") == (answer.status, answer.lines[0]["error"])
    assert [pair.source / "t-0"] == pair.current()
    assert not (pair.source / STATE_FILE).exists()


def test_refuses_what_is_paused_or_held(call: Call, move: Call, pair: Pair) -> None:
    """By an operator, or by a process that works on it."""
    call("pause", pair.source, "t-0", "--reason", "x", "--owner", "ops", "--yes", "--now", NOW)
    answer = move("--yes")
    assert (5, "Paused") == (answer.status, answer.lines[0]["error"])
    assert "paused by ops" in answer.err
    call("resume", pair.source, "--yes")
    with lock_partition(pair.source, T0):
        assert "LogDirLocked" == move("--yes").lines[0]["error"]
    assert move("--yes").status == 0


def test_quarantine_goes_along(call: Call, move: Call, pair: Pair) -> None:
    """As Kafka's mark of an uncleanable partition does."""
    call("quarantine", pair.source, "t-0", "--set", "odd", "--yes", "--now", NOW)
    assert move("--yes").status == 0
    (line,) = call("quarantine", pair.destination, *JSON).lines
    assert "odd" == line["quarantine"]["problem"]
    assert not (pair.source / STATE_FILE).exists()


def test_open_move_is_told_of(call: Call, move: Call, pair: Pair, tmp_path: Path) -> None:
    """By plan and pause, and by a move to somewhere else; --abandon ends it."""
    with pytest.raises(Crash):
        pair.move(lambda disk: DyingFileSystem(Unsynced(disk), crash_at=40))
    for command in ("plan", "pause"):
        answer = call(command, pair.source, "--now", NOW)
        assert f"an unfinished move to {pair.destination}" in answer.err + answer.out
    other = make_pair(tmp_path / "other").destination
    answer = move("--yes", to=other)
    assert (5, True) == (answer.status, "there is an unfinished move" in answer.err)
    assert move("--dry-run").lines[0]["resumes"]
    answer = call("move", pair.source, "t-0", "--abandon", "--yes", *JSON)
    assert (0, "abandoned") == (answer.status, answer.lines[0]["outcome"])
    assert not (pair.source / STATE_FILE).exists()
    assert [pair.source / "t-0"] == pair.current()
    again = call("move", pair.source, "t-0", "--abandon", "--yes")
    assert (5, True) == (again.status, "no move of t-0 is open" in again.err)


def test_neighbours_do_not_stand_in_the_way(move: Call, pair: Pair) -> None:
    """Work on another partition of the same directory excludes nobody."""
    (pair.source / "u-3").mkdir()
    with lock_partition(pair.source, NEIGHBOUR):
        assert move("--yes").status == 0


def test_usage(call: Call, pair: Pair) -> None:
    """Partitions are named; one of --to and --abandon; somebody to ask."""
    to = ("--to", pair.destination)
    assert call("move", pair.source, *to, "--yes").status == 2
    assert call("move", pair.source, "t-0", *to, "--abandon", "--yes").status == 2
    assert call("move", pair.source, "t-0", *to).status == 2
    answer = call("move", pair.source, "t-9", *to, "--yes")
    assert (5, True) == (answer.status, "no such partition" in answer.err)
    assert [pair.source / "t-0"] == pair.current()


def test_long_topics(call: Call, pair: Pair) -> None:
    """Names of 249 characters, whose marked names would be too long."""
    long = "x" * 249
    (pair.source / "t-0").rename(pair.source / f"{long}-0")
    answer = call("move", pair.source, f"{long}-0", "--to", pair.destination, "--yes", *JSON)
    assert answer.status == 0, answer.err
    assert files_of(pair.destination / f"{long}-0") == pair.files


def test_ingests_go_along(tmp_path: Path, call: Call) -> None:
    """An input that the partition has is not appended again where it was moved to."""
    source, destination = tmp_path / "a", tmp_path / "b"
    for log_dir in (source, destination):
        log_dir.mkdir()
        (log_dir / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
        (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
    rows: list[Row] = [(b"k", b"v", [], 1_760_000_000_000)]
    append(source, rows, {}, now_ms=1_760_000_000_000)
    call("move", source, "t-0", "--to", destination, "--yes")
    assert append(destination, rows, {}, now_ms=1_760_000_000_001).repeated
    assert 1 == len(read_batches(destination))


class Flipping(Unsynced):
    """A disk that gives other bytes back than it took, of one file, as often as it says."""

    def __init__(self, inner: FileSystem, name: str, times: int) -> None:
        super().__init__(inner)
        self._name = name
        self.times = times

    def copy_range(self, source: Path, target: Path, start_bytes: int, length_bytes: int) -> None:
        """As the real one, and then another byte."""
        self.inner.copy_range(source, target, start_bytes, length_bytes)
        if Path(target).name == self._name and self.times:
            self.times -= 1
            with Path(target).open("r+b") as file:
                file.seek(start_bytes)
                (first,) = file.read(1)
                file.seek(start_bytes)
                file.write(bytes([first ^ 1]))


@pytest.mark.parametrize("times", [1, ROUNDS - 1, ROUNDS])
def test_a_copy_with_other_bytes_is_refused(pair: Pair, times: int) -> None:
    """It is copied again; if it still has other bytes, the source stays the current log."""
    name = max(name for name, (data, _) in pair.files.items() if name.endswith(".log") and data)
    if times < ROUNDS:
        pair.move(lambda inner: Flipping(inner, name, times))
        pair.assert_moved()
        return
    with pytest.raises(QualityError, match=f"the copy of {name} has other bytes"):
        pair.move(lambda inner: Flipping(inner, name, times))
    assert [pair.source / "t-0"] == pair.current()
    assert pair.files == files_of(pair.source / "t-0")


def test_takes_an_empty_directory(move: Call, pair: Pair, tmp_path: Path) -> None:
    """As one that was just added to log.dirs; what a broker then needs is said before, and after a
    formatted one nothing is.
    """
    new = tmp_path / "new"
    new.mkdir()
    needed = f"{new} is not formatted: a broker starts on it only after"
    assert needed in move("--dry-run", to=new).err
    answer = move("--yes", to=new)
    assert 0 == answer.status, answer.err
    assert needed in answer.err
    assert (new / "t-0").is_dir()


def test_a_formatted_directory_needs_nothing(move: Call, pair: Pair) -> None:
    """So nothing is said of it."""
    assert "not formatted" not in move("--dry-run", to=pair.destination).err
