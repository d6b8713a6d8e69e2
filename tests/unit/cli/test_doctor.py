"""``logwright doctor``: what it says of a start, in words and as an exit status."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.log_builder import LogBuilder
from tests.property.accidents import META, write_unknown_log
from tests.running_dirs import running
from tests.unit.cli.conftest import Call

CHECKPOINT = "replication-offset-checkpoint"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log in a directory that a broker left cleanly."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.segment(2).batch(2, [("a", "3")]).batch(3, [("b", "4")])
    log.write(producers=True, high_watermark=4)
    (tmp_path / "logs/meta.properties").write_text(META)
    return tmp_path / "logs"


def content(log_dir: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}


def test_a_broker_starts(call: Call, log_dir: Path) -> None:
    """Nothing is found, nothing is changed."""
    before = content(log_dir)
    answer = call("doctor", log_dir)
    assert 0 == answer.status, answer.err
    assert [f"By its files a broker starts: 1 log in {log_dir}."] == answer.out.splitlines()
    assert "Not looked at: the cluster's metadata log, " in answer.err
    assert "free space" in call("doctor", log_dir, "--output", "json").lines[-1]["notLookedAt"]
    assert before == content(log_dir)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (CHECKPOINT, "Run `logwright recover`"),
        ("cleaner-offset-checkpoint", "Run `logwright recover`"),
        ("t-0/leader-epoch-checkpoint", "Run `logwright recover`"),
        ("t-0/partition.metadata", "copy the file from another partition"),
        ("meta.properties", "Restore it, or write it"),
    ],
)
def test_a_malformed_file_stops_it(call: Call, log_dir: Path, name: str, words: str) -> None:
    """It is named, with what to do."""
    (log_dir / name).write_bytes(bytes(20))
    answer = call("doctor", log_dir)
    assert 5 == answer.status
    finding, verdict = answer.out.splitlines()
    assert finding.startswith(f"does not start: {log_dir / name}: ")
    assert words in finding
    assert f"A broker does not start: 1 log in {log_dir}." == verdict


def test_what_it_names_is_enough(call: Call, log_dir: Path) -> None:
    """After `recover` a broker starts."""
    (log_dir / CHECKPOINT).write_bytes(bytes(20))
    (log_dir / "t-0/leader-epoch-checkpoint").write_bytes(b"x")
    assert 5 == call("doctor", log_dir).status
    assert 0 == call("recover", log_dir, "--yes").status
    assert 0 == call("doctor", log_dir).status


def test_what_a_start_loses(call: Call, log_dir: Path) -> None:
    """A torn tail after an unclean stop: how many bytes, from which offset; the status is 0."""
    (log_dir / ".kafka_cleanshutdown").unlink()
    (log_dir / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    path = max((log_dir / "t-0").glob("*.log"))
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-3])
    answer = call("doctor", log_dir, "--output", "json")
    assert 0 == answer.status
    *findings, verdict = answer.lines
    (lost,) = [each for each in findings if each["effect"] == "loses"]
    assert (str(path), 3) == (lost["path"], lost["firstOffset"])
    assert whole // 2 - 3 == lost["bytes"] == verdict["lostBytes"]
    assert (True, 1) == (verdict["starts"], verdict["logs"])
    assert "starts, and loses records" in call("doctor", log_dir).out
    assert "`logwright recover` before: it keeps what it cuts" in call("doctor", log_dir).out


def test_directories_together(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """One partition twice, another node, the same directory id, one that is not formatted."""
    other = tmp_path / "other"
    shutil.copytree(log_dir, other)
    answer = call("doctor", log_dir, other)
    assert 5 == answer.status
    assert "it has the same directory.id" in answer.out
    assert "is a log of the same partition" in answer.out
    shutil.rmtree(other / "t-0")
    (other / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=c\n")
    answer = call("doctor", log_dir, other)
    assert (5, True, True) == (
        answer.status,
        "it has another node.id" in answer.out,
        "it has another cluster.id" in answer.out,
    )
    (other / "meta.properties").unlink()
    assert "the directory is not formatted" in call("doctor", log_dir, other).out
    assert 2 == call("doctor", log_dir, log_dir).status


def test_what_cannot_be_judged(call: Call, log_dir: Path) -> None:
    """A log of an unknown format: not known is not the same as yes."""
    write_unknown_log(log_dir / "old-0")
    answer = call("doctor", log_dir)
    assert 4 == answer.status
    assert "not known: " in answer.out
    assert "Whether a broker starts is not known: 2 logs" in answer.out


def test_a_broker_that_runs(call: Call, log_dir: Path) -> None:
    """It has started."""
    with running(log_dir, {"t-0": 4}):
        answer = call("doctor", log_dir)
    assert 5 == answer.status
    assert "holds this lock" in answer.err
