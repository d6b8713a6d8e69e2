"""What `recover` does about files that Kafka's start reads, and when it writes the marker."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.format.checkpoints import parse_leader_epochs, parse_offset_checkpoint
from logwright.format.names import TopicPartition
from tests.ingested import Row, append, read_batches
from tests.log_builder import START_MS, LogBuilder
from tests.metadata_builder import MetadataBuilder, config, feature, partition, topic, uuid_text
from tests.property.accidents import write_old_log, write_unknown_log
from tests.unit.cli.conftest import Call

IDS = "version=1\nnode.id=1\ncluster.id=c\n"
MARKER = ".kafka_cleanshutdown"
T0 = TopicPartition("t", 0)
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
NOW = ("--yes", "--now", "1700000000000")


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log of three leader epochs in a directory that was not stopped cleanly."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.segment(2).batch(2, [("a", "3")])
    log.segment(3).batch(3, [("c", "4")])
    log.write()
    root = tmp_path / "logs"
    (root / "meta.properties").write_text(IDS)
    (root / MARKER).unlink()
    return root


@pytest.mark.parametrize("name", CHECKPOINTS)
@pytest.mark.parametrize("stopped", [True, False])
def test_a_malformed_checkpoint_is_replaced(
    call: Call, log_dir: Path, name: str, *, stopped: bool
) -> None:
    """After a clean stop too; a copy is kept, and what the loss means is said."""
    (log_dir / name).write_bytes(bytes(20))
    if stopped:
        (log_dir / MARKER).write_text("{}")
    answer = call("recover", log_dir, *NOW)
    assert 0 == answer.status, answer.err
    assert bytes(20) == (log_dir / f".logwright-damaged-{name}-1700000000000").read_bytes()
    parse_offset_checkpoint((log_dir / name).read_bytes(), log_dir / name)
    assert f"{name}: written without the unreadable entries" in answer.out
    assert (log_dir / MARKER).exists()


def test_a_dry_run_shows_a_checkpoint_and_changes_nothing(call: Call, log_dir: Path) -> None:
    """The file stays as it is."""
    (log_dir / CHECKPOINTS[0]).write_bytes(bytes(20))
    answer = call("recover", log_dir, "--dry-run")
    assert f"{CHECKPOINTS[0]}: written without" in answer.out
    assert bytes(20) == (log_dir / CHECKPOINTS[0]).read_bytes()


@pytest.mark.parametrize("content", [bytes(20), b"0\n1\n-1 5\n", b"1\n0\n"])
@pytest.mark.parametrize("stopped", [True, False])
def test_leader_epochs_are_taken_from_all_batches(
    call: Call, log_dir: Path, content: bytes, *, stopped: bool
) -> None:
    """Also of segments below the recovery point, and after a clean stop."""
    path = log_dir / "t-0/leader-epoch-checkpoint"
    (log_dir / CHECKPOINTS[0]).write_text("0\n1\nt 0 4\n")
    if stopped:
        (log_dir / MARKER).write_text("{}")
    path.write_bytes(content)
    assert 0 == call("recover", log_dir, *NOW).status
    epochs = parse_leader_epochs(path.read_bytes(), path)
    assert [(0, 0)] == [(one.epoch, one.start_offset) for one in epochs]


def test_malformed_leader_epochs_of_a_log_without_records(call: Call, tmp_path: Path) -> None:
    """What a broker cannot read is replaced where nothing is to be written into it, too."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0)
    log.write()
    (log.log_dir / "meta.properties").write_text(IDS)
    (log.log_dir / MARKER).unlink()
    path = log.directory / "leader-epoch-checkpoint"
    path.write_bytes(b"malformed")
    assert 0 == call("recover", log.log_dir, *NOW).status
    assert () == tuple(parse_leader_epochs(path.read_bytes(), path))


@pytest.mark.parametrize("name", ["lost+found", ".logwright", "x-y", "x-01"])
def test_a_directory_that_stops_a_broker(call: Call, log_dir: Path, name: str) -> None:
    """It is named, the logs are recovered, and there is no marker until it is away."""
    (log_dir / name).mkdir()
    answer = call("recover", log_dir, *NOW)
    assert 5 == answer.status
    assert f"{log_dir / name}: " in answer.err
    assert not (log_dir / MARKER).exists()
    for command in ("inspect", "verify"):
        assert str(log_dir / name) in call(command, log_dir).out
    (log_dir / name).rmdir()
    assert 0 == call("recover", log_dir, *NOW).status
    assert (log_dir / MARKER).exists()


def test_a_link_to_a_strange_directory(call: Call, log_dir: Path) -> None:
    """A broker follows links, so it stops on this one as well."""
    (log_dir.parent / "elsewhere").mkdir()
    (log_dir / "backup").symlink_to(log_dir.parent / "elsewhere")
    answer = call("recover", log_dir, *NOW)
    assert 5 == answer.status
    assert f"{log_dir / 'backup'}: " in answer.err
    assert not (log_dir / MARKER).exists()
    (log_dir / "backup").unlink()
    assert 0 == call("recover", log_dir, *NOW).status
    assert (log_dir / MARKER).exists()


def loop(path: Path) -> None:
    path.symlink_to(path)


def dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nothing")


def link(path: Path) -> None:
    target = path.parent.parent / "target"
    target.write_text("0\n1\nt 0 2\n")
    path.symlink_to(target)


NO_FILES = (loop, dangling, link, os.mkfifo, Path.mkdir)


@pytest.mark.parametrize("name", [*CHECKPOINTS, MARKER])
@pytest.mark.parametrize("make", NO_FILES)
def test_a_checkpoint_that_is_no_file(
    call: Call, log_dir: Path, name: str, make: Callable[[Path], object]
) -> None:
    """A link, a directory or a FIFO is refused by name before anything changes, because what a
    broker would read there is not read; without it all goes well.
    """
    path = log_dir / name
    path.unlink(missing_ok=True)
    make(path)
    before = content_of(log_dir)
    answer = call("recover", log_dir, *NOW)
    assert 5 == answer.status, answer.err
    assert f"{path}: " in answer.err
    assert before == content_of(log_dir)
    remove(path)
    assert 0 == call("recover", log_dir, *NOW).status
    assert (log_dir / MARKER).exists()


@pytest.mark.parametrize("make", [loop, dangling, os.mkfifo])
def test_other_things_are_ignored(
    call: Call, log_dir: Path, make: Callable[[Path], object]
) -> None:
    """A broker looks at directories only; what leads to none does not stop it."""
    make(log_dir / "thing")
    assert 0 == call("recover", log_dir, *NOW).status
    assert (log_dir / MARKER).exists()


def content_of(log_dir: Path) -> dict[str, bytes]:
    """All regular files, but for what locks leave."""
    return {
        str(path): path.read_bytes()
        for path in sorted(log_dir.rglob("*"))
        if not path.is_symlink() and path.is_file() and "lock" not in path.name
    }


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()


def test_a_malformed_identity(call: Call, log_dir: Path) -> None:
    """Nothing else has these ids, so it is refused; what to write is said."""
    (log_dir / "meta.properties").write_bytes(bytes(30))
    answer = call("recover", log_dir, *NOW)
    assert 3 == answer.status
    assert "version=1, cluster.id and node.id" in answer.err
    assert not (log_dir / MARKER).exists()
    (log_dir / "meta.properties").write_text(IDS)
    assert 0 == call("recover", log_dir, *NOW).status


def write_metadata(log_dir: Path, node: int = 1) -> None:
    records = [feature("metadata.version", 20), topic("t", 7), partition(7, 0, [node])]
    MetadataBuilder(log_dir).segment(0, [*records, config(2, "t", "cleanup.policy", "compact")])


def test_a_topic_id_comes_from_the_metadata(call: Call, log_dir: Path) -> None:
    """If the cluster's metadata says that this node has a replica of the partition."""
    path = log_dir / "t-0/partition.metadata"
    path.write_bytes(b"")
    write_metadata(log_dir)
    answer = call("recover", log_dir, *NOW)
    assert 0 == answer.status, answer.err
    assert f"version: 0\ntopic_id: {uuid_text(7)}" == path.read_text()
    assert (log_dir / MARKER).exists()


def test_a_topic_id_is_not_guessed(call: Call, log_dir: Path) -> None:
    """A replica of another node is not this log: its id is not written."""
    (log_dir / "t-0/partition.metadata").write_bytes(b"")
    write_metadata(log_dir, node=2)
    answer = call("recover", log_dir, *NOW)
    assert 3 == answer.status
    assert "t-0/partition.metadata" in answer.err
    assert b"" == (log_dir / "t-0/partition.metadata").read_bytes()
    assert not (log_dir / MARKER).exists()


def test_a_cut_lowers_the_cleaners_checkpoint(call: Call, log_dir: Path) -> None:
    """What is appended after the cut is dirty, not clean by an entry of the log before."""
    (log_dir / CHECKPOINTS[3]).write_text("0\n2\nt 0 4\nu 0 9\n")
    log = log_dir / f"t-0/{3:020d}.log"
    log.write_bytes(log.read_bytes()[:-1])
    assert 0 == call("recover", log_dir, *NOW).status
    entries = parse_offset_checkpoint((log_dir / CHECKPOINTS[3]).read_bytes(), log)
    assert {T0: 3, TopicPartition("u", 0): 9} == entries


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_format_is_recovered(call: Call, log_dir: Path, magic: int) -> None:
    """As any other log: it is read, and cleaned into format v2."""
    write_old_log(log_dir / "old-0", magic)
    (log_dir / MARKER).unlink(missing_ok=True)
    assert 0 == call("recover", log_dir, *NOW).status
    assert (log_dir / MARKER).exists()
    assert "old-0: no problems found" in call("verify", log_dir).out
    assert 0 == call("roll", log_dir, "old-0", *NOW, "--force").status
    compact = ("--config", "cleanup.policy=compact", "--force")
    assert 0 == call("clean", log_dir, "old-0", *NOW, *compact).status
    dumped = [json.loads(line) for line in call("dump", log_dir, "old-0").out.splitlines()]
    batches = [line for line in dumped if line["type"] == "batch"]
    assert {2} == {batch["magic"] for batch in batches}
    assert [37, 38, 39] == [each["offset"] for batch in batches for each in batch["records"]]


def test_an_unknown_format_does_not_stop_the_others(call: Call, log_dir: Path) -> None:
    """It is named in one line by each command, and the other log is maintained."""
    write_unknown_log(log_dir / "old-0")
    answer = call("recover", log_dir, *NOW)
    assert 4 == answer.status
    assert 1 == answer.err.count("magic 3 is unknown")
    assert not (log_dir / MARKER).exists()
    verified = call("verify", log_dir)
    assert (4, 1) == (verified.status, verified.err.count("magic 3 is unknown"))
    assert "t-0: no problems found\n" == verified.out
    assert "0..4" in call("inspect", log_dir).out
    compact = ("--config", "cleanup.policy=compact", "--force")
    cleaned = call("clean", log_dir, *NOW, *compact)
    assert (4, 1) == (cleaned.status, cleaned.err.count("Error: old-0"))
    assert 0 == call("clean", log_dir, "t-0", *NOW, *compact).status
    assert 0 == call("retain", log_dir, "t-0", *NOW, "--config", "cleanup.policy=delete").status


def test_a_symlink_does_not_stop_the_others(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """It is named, and the log next to it is maintained."""
    (tmp_path / "away").mkdir()
    (log_dir / "s-0").symlink_to(tmp_path / "away")
    assert 5 == call("recover", log_dir, *NOW).status
    cleaned = call("clean", log_dir, "t-0", *NOW, "--config", "cleanup.policy=compact", "--force")
    assert 0 == cleaned.status, cleaned.err


def test_a_recovered_log_that_changed_is_not_trusted(call: Call, log_dir: Path) -> None:
    """The record that it was recovered holds only for the same files."""
    write_unknown_log(log_dir / "old-0")
    assert 4 == call("recover", log_dir, *NOW).status
    assert "needs recovery" not in call("inspect", log_dir, "t-0").out
    with (log_dir / f"t-0/{3:020d}.log").open("ab") as file:
        file.write(b"x")
    assert "needs recovery" in call("inspect", log_dir, "t-0").out


@pytest.mark.parametrize("undone", [False, True])
def test_what_is_appended_after_a_cut_is_cleaned(
    call: Call, tmp_path: Path, *, undone: bool
) -> None:
    """A log that was clean up to its end is cut, and grows above that end again: no record of a
    superseded key stays. Undoing the cleaning and cleaning again leaves the same.
    """
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.segment(2).batch(2, [("c", "3")]).batch(3, [("d", "4")])
    log.write(producers=True)
    log_dir = tmp_path / "logs"
    (log_dir / CHECKPOINTS[3]).write_text("0\n1\nt 0 4\n")
    active = log_dir / f"t-0/{2:020d}.log"
    active.write_bytes(active.read_bytes()[:-1])
    (log_dir / MARKER).unlink()
    assert 0 == call("recover", log_dir, *NOW).status
    pairs = {"segment.bytes": "1048576", "cleanup.policy": "compact"}
    for number in range(3):
        rows: list[Row] = [(b"k", b"%d" % number, [], START_MS)] * 3
        append(log_dir, rows, pairs, now_ms=START_MS + number, ingest_id=str(number))
    words = ("--config", "cleanup.policy=compact", "--config", "min.cleanable.dirty.ratio=0")
    words = (*words, "--config", "segment.ms=1", "--yes", "--now", str(START_MS + 10_000_000))
    assert 0 == call("clean", log_dir, *words).status
    if undone:
        assert 0 == call("undo", log_dir, "t-0", "--yes").status
        assert 0 == call("clean", log_dir, *words).status
    offsets = [
        record.offset
        for batch in read_batches(log_dir)
        for record in batch.records
        if record.key == b"k"
    ]
    assert [11] == offsets
    assert 0 == call("verify", log_dir).status
