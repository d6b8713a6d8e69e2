"""What an error says of a broker, and what it says to do, is true of Kafka's own loader.

`tests/tidy/test_remedies.py` has the list of all such texts, and the test of each.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest

from logwright.errors import CorruptProducerSnapshot
from logwright.format.snapshot import parse_snapshot
from tests.differential.oracle_server import OracleServer, shared
from tests.e2e.command import Answer, call
from tests.fixtures import copy_before
from tests.log_builder import START_MS, LogBuilder
from tests.property.accidents import write_old_log

pytestmark = pytest.mark.oracle

MARKER = ".kafka_cleanshutdown"
IDS = b"version=1\nnode.id=1\ncluster.id=Y2x1c3RlcmNsdXN0ZXJjbA\n"
NOW_MS = START_MS + 1_000_000


@pytest.fixture
def server() -> OracleServer:
    """Of the oldest Kafka, or that of `--kafka`."""
    return shared()


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Three segments of a log that was stopped cleanly."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.segment(2).batch(2, [("a", "3")]).batch(3, [("c", "4")])
    log.segment(4).batch(4, [("c", "5")]).batch(5, [("a", "6")])
    log.write(producers=True)
    (tmp_path / "logs/meta.properties").write_bytes(IDS)
    return tmp_path / "logs"


def start(server: OracleServer, log_dir: Path) -> dict[str, dict[str, int]]:
    """The offsets of each log that Kafka has loaded."""
    logs: dict[str, dict[str, int]] = server.boot(log_dir, NOW_MS)["logs"]
    return logs


def starts(server: OracleServer, log_dir: Path) -> bool:
    return "bootFailed" not in server.boot(log_dir, NOW_MS)


def clean(log_dir: Path, *words: str) -> Answer:
    policy = ("--config", "cleanup.policy=compact", "--force", "--now", str(NOW_MS))
    return call("clean", log_dir, "--yes", *policy, *words)


def recover(log_dir: Path, *words: str) -> Answer:
    return call("recover", log_dir, "--yes", "--now", str(NOW_MS), *words)


@pytest.mark.parametrize("name", ["recovery-point", "log-start", "replication", "cleaner"])
def test_a_malformed_checkpoint(server: OracleServer, log_dir: Path, name: str) -> None:
    """A broker does not start with it; `recover` writes a new one."""
    path = next(iter(log_dir.glob(f"{name}-offset-checkpoint")), None)
    path = path or log_dir / f"{name}-offset-checkpoint"
    path.write_bytes(bytes(20))
    assert "run `logwright recover`" in clean(log_dir).err
    copy = log_dir.with_name("copy")
    shutil.copytree(log_dir, copy)
    assert not starts(server, copy)
    assert 0 == recover(log_dir).status
    assert starts(server, log_dir)
    assert 0 == clean(log_dir).status


def test_malformed_leader_epochs(server: OracleServer, log_dir: Path) -> None:
    """A broker does not start with them; `recover` takes them from the batches."""
    (log_dir / "t-0/leader-epoch-checkpoint").write_bytes(bytes(20))
    copy = log_dir.with_name("copy")
    shutil.copytree(log_dir, copy)
    assert not starts(server, copy)
    assert 0 == recover(log_dir).status
    assert starts(server, log_dir)


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_a_wrong_index(server: OracleServer, log_dir: Path, suffix: str) -> None:
    """Without the .index a broker builds both indexes of a segment again, as `recover` does."""
    path = log_dir / f"t-0/{2:020d}{suffix}"
    path.write_bytes(path.read_bytes() + b"x")
    assert "`logwright recover` rebuilds the indexes" in clean(log_dir).err
    broker = log_dir.with_name("broker")
    shutil.copytree(log_dir, broker)
    for index in (".index", ".timeindex"):
        (broker / f"t-0/{2:020d}{index}").unlink()
    assert starts(server, broker)
    assert 0 == call("verify", broker, "t-0").status
    assert 0 == recover(log_dir).status
    assert 0 == call("verify", log_dir, "t-0").status


def test_a_malformed_snapshot(server: OracleServer, tmp_path: Path) -> None:
    """A broker deletes it and takes the producers from an older one and the batches."""
    log_dir = copy_before("idempotent-2-written-again", tmp_path)
    (log_dir / "meta.properties").write_bytes(IDS)
    last = max((log_dir / "t-0").glob("*.snapshot"))
    whole = last.read_bytes()
    last.write_bytes(whole[:-1])
    with pytest.raises(CorruptProducerSnapshot, match="deletes such a snapshot"):
        parse_snapshot(last.read_bytes(), last)
    assert starts(server, log_dir)
    producers = {one.producer_id for one in parse_snapshot(whole, last)}
    assert producers == {one.producer_id for one in parse_snapshot(last.read_bytes(), last)}


def test_an_unclean_directory(server: OracleServer, log_dir: Path) -> None:
    """A broker that starts and stops on it leaves it clean, and so does `recover`."""
    (log_dir / MARKER).unlink()
    (log_dir / f"t-0/{0:020d}.timeindex").unlink()
    broker = log_dir.with_name("broker")
    shutil.copytree(log_dir, broker)
    assert starts(server, broker)
    assert (broker / MARKER).exists()
    assert 0 == clean(broker).status
    assert 0 == recover(log_dir).status
    assert 0 == clean(log_dir).status


@pytest.mark.parametrize("name", ["x.log", "x.snapshot", "x.index"])
def test_a_file_that_no_broker_writes(server: OracleServer, log_dir: Path, name: str) -> None:
    """A broker fails on it; every command says to move it away, and then all work."""
    (log_dir / "t-0" / name).write_bytes(b"")
    copy = log_dir.with_name("copy")
    shutil.copytree(log_dir, copy)
    assert not starts(server, copy)
    assert "Move the file away" in call("inspect", log_dir, "--output", "json").out
    assert "Move it away" in clean(log_dir).err
    (log_dir / MARKER).unlink(missing_ok=True)
    assert "Move it away" in recover(log_dir).err
    (log_dir / "t-0" / name).unlink()
    assert 0 == recover(log_dir).status
    assert starts(server, log_dir)


def test_a_log_that_ends_below_its_start(server: OracleServer, log_dir: Path) -> None:
    """A broker drops the whole log, so the entry or the log is to be restored."""
    path = log_dir / "log-start-offset-checkpoint"
    path.write_text("0\n1\nt 0 77\n")
    assert "A broker would drop the whole log" in call("plan", log_dir).err
    copy = log_dir.with_name("copy")
    shutil.copytree(log_dir, copy)
    started = start(server, copy)["t-0"]
    assert (77, 77) == (started["startOffset"], started["endOffset"])
    path.write_text("0\n0\n")
    assert 6 == start(server, log_dir)["t-0"]["endOffset"]


def test_a_bad_tail(server: OracleServer, log_dir: Path) -> None:
    """A broker without the marker cuts before the first bad batch, as `recover` does."""
    log = log_dir / f"t-0/{4:020d}.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    assert "cuts the log before the first bad batch" in clean(log_dir).err
    broker = log_dir.with_name("broker")
    shutil.copytree(log_dir, broker)
    (broker / MARKER).unlink()
    assert 5 == start(server, broker)["t-0"]["endOffset"]
    assert 0 == recover(log_dir).status
    assert 5 == start(server, log_dir)["t-0"]["endOffset"]


def test_zeros_after_a_clean_stop(server: OracleServer, log_dir: Path) -> None:
    """Kafka's loading fails on them; `recover` without --like-kafka cuts them."""
    with (log_dir / f"t-0/{4:020d}.log").open("ab") as file:
        file.write(bytes(100))
    copy = log_dir.with_name("copy")
    shutil.copytree(log_dir, copy)
    assert not starts(server, copy)
    assert "recover it without --like-kafka" in recover(log_dir, "--like-kafka").err
    assert 0 == recover(log_dir).status
    assert starts(server, log_dir)


def test_meta_properties(server: OracleServer, log_dir: Path) -> None:
    """What the remedy says to write is enough for a broker."""
    path = log_dir / "meta.properties"
    path.write_bytes(bytes(30))
    (log_dir / MARKER).unlink()
    error = recover(log_dir).err
    assert re.search(r"write it: version=1, cluster.id and node.id", error)
    path.write_text("version=1\ncluster.id=Y2x1c3RlcmNsdXN0ZXJjbA\nnode.id=1\n")
    assert 0 == recover(log_dir).status
    assert starts(server, log_dir)


@pytest.mark.parametrize("way", ["copy", "remove"])
def test_partition_metadata(server: OracleServer, log_dir: Path, way: str) -> None:
    """The file of another partition of the topic, or none: a broker starts with both."""
    path = log_dir / "t-0/partition.metadata"
    path.write_bytes(b"")
    (log_dir / MARKER).unlink()
    assert "copy the file from another partition of the topic, or remove it" in recover(log_dir).err
    if way == "copy":
        path.write_text("version: 0\ntopic_id: YWJjZGVmZ2hpamtsbW5vcA")
    else:
        path.unlink()
    assert 0 == recover(log_dir).status
    assert starts(server, log_dir)


@pytest.mark.parametrize("name", ["lost+found", "backup", "x-y"])
def test_a_strange_directory(server: OracleServer, log_dir: Path, name: str) -> None:
    """Removed or moved away, it stops nobody."""
    (log_dir / name).mkdir()
    (log_dir / MARKER).unlink()
    assert re.search("rmdir|Move it out of the log directory", recover(log_dir).err)
    os.rename(log_dir / name, log_dir.with_name("away"))  # noqa: PTH104
    assert 0 == recover(log_dir).status
    assert starts(server, log_dir)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_format(server: OracleServer, log_dir: Path, magic: int) -> None:
    """A broker loads what is left of it, and of the log next to it."""
    write_old_log(log_dir / "old-0", magic)
    (log_dir / MARKER).unlink()
    assert 0 == recover(log_dir).status
    assert 0 == clean(log_dir, "t-0").status
    assert (log_dir / MARKER).exists()
    started = start(server, log_dir)
    assert (40, 6) == (started["old-0"]["endOffset"], started["t-0"]["endOffset"])
    assert 0 == call("verify", log_dir, "t-0").status


def test_a_symlink(server: OracleServer, log_dir: Path, tmp_path: Path) -> None:
    """A broker follows it; the directory itself in its place is handled here too."""
    shutil.copytree(log_dir / "t-0", tmp_path / "away")
    (log_dir / "s-0").symlink_to(tmp_path / "away")
    (log_dir / MARKER).unlink()
    assert "move the directory itself here" in recover(log_dir).err
    assert 0 == clean(log_dir, "t-0").status
    assert starts(server, log_dir)
    (log_dir / "s-0").unlink()
    shutil.move(tmp_path / "away", log_dir / "s-0")
    (log_dir / MARKER).unlink(missing_ok=True)
    assert 0 == recover(log_dir).status
    assert starts(server, log_dir)
