"""``logwright doctor``: what it says of a start, in words and as an exit status."""

from __future__ import annotations

import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.log_builder import LogBuilder
from tests.metadata_builder import (
    MetadataBuilder,
    feature,
    int32s,
    partition,
    partition_change,
    topic,
    uuid_text,
)
from tests.property.accidents import META, write_unknown_log
from tests.rights import NOBODY, mounting
from tests.running_dirs import running
from tests.unit.cli.conftest import Call

LOGWRIGHT = Path(sys.executable).with_name("logwright")
CHECKPOINT = "replication-offset-checkpoint"


def left_cleanly(log_dir: Path) -> Path:
    """A log in a directory that a broker left cleanly."""
    log = LogBuilder(log_dir)
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.segment(2).batch(2, [("a", "3")]).batch(3, [("b", "4")])
    log.write(producers=True, high_watermark=4)
    (log_dir / "meta.properties").write_text(META)
    (log.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(5)}")
    return log_dir


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return left_cleanly(tmp_path / "logs")


def content(log_dir: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}


def test_a_broker_starts(call: Call, log_dir: Path) -> None:
    """Nothing is found, nothing is changed."""
    before = content(log_dir)
    answer = call("doctor", log_dir)
    assert 0 == answer.status, answer.err
    assert [f"By its files a broker starts: 1 log in {log_dir}."] == answer.out.splitlines()
    assert "Not looked at: the cluster's metadata log and which logs it gives" in answer.err
    last = call("doctor", log_dir, "--output", "json").lines[-1]
    assert "the broker's own settings and its JVM" in last["notLookedAt"]
    (space,) = last["space"]
    assert space["freeBytes"] > space["neededBytes"] > 0
    assert "the start needs about" in answer.err
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
    """A torn tail after an unclean stop: how many bytes, from which offset."""
    (log_dir / ".kafka_cleanshutdown").unlink()
    (log_dir / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    path = max((log_dir / "t-0").glob("*.log"))
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-3])
    answer = call("doctor", log_dir, "--output", "json")
    assert 11 == answer.status
    *findings, verdict = answer.lines
    missing, lost = [each for each in findings if each["effect"] == "loses"]
    assert (3, missing["offsets"]) == (missing["firstOffset"], verdict["missingOffsets"])
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


def test_rights(call: Call, log_dir: Path) -> None:
    """Another user may not read the log; root may, and is not asked instead of it."""
    path = log_dir / "t-0" / f"{0:020d}.log"
    for each in (log_dir, *log_dir.rglob("*")):
        each.chmod(0o777)
    path.chmod(0o600)
    answer = call("doctor", log_dir, "--user", str(NOBODY))
    assert 5 == answer.status
    assert f"does not start: {path}: the user " in answer.out
    assert "may not read and write it" in answer.out
    assert f"chown -R {pwd.getpwuid(NOBODY).pw_name} {path}`" in answer.out
    assert 0 == call("doctor", log_dir, "--user", "root").status
    assert "there is no user no-such-user" in call("doctor", log_dir, "--user", "no-such-user").err


def write_topic_id(log_dir: Path, number: int) -> None:
    """Of t, that is `number` in the metadata."""
    text = f"version: 0\ntopic_id: {uuid_text(number)}"
    (log_dir / "t-0/partition.metadata").write_text(text)


def test_what_the_metadata_gives(call: Call, log_dir: Path) -> None:
    """A log of a topic that is not known, of another one, without an id, and of another node."""
    builder = MetadataBuilder(log_dir)
    builder.segment(0, [topic("t", 5), partition(5, 0, [1]), topic("u", 6)])
    write_topic_id(log_dir, 5)
    answer = call("doctor", log_dir)
    assert 0 == answer.status
    assert f"By its files a broker starts: 1 log in {log_dir}." == answer.out.strip()
    assert "which logs" not in answer.err
    for number, words in ((7, "is unknown to the cluster"), (6, "belongs to the topic u")):
        write_topic_id(log_dir, number)
        answer = call("doctor", log_dir)
        assert 0 == answer.status
        assert f"starts, and sets a log aside: {log_dir / 't-0'}: " in answer.out
        assert words in answer.out
        assert "By its files a broker starts, and sets 1 log aside" in answer.out
    (log_dir / "t-0/partition.metadata").unlink()
    assert "no topic id" in call("doctor", log_dir).out
    write_topic_id(log_dir, 5)
    other_node = META.replace("node.id=1", "node.id=2")
    (log_dir / "meta.properties").write_text(other_node)
    assert "node 2 has no replica of it" in call("doctor", log_dir).out


@pytest.mark.parametrize("eligible", [0, 1])
def test_a_replica_that_leads_whatever_it_lacks(
    call: Call, log_dir: Path, tmp_path: Path, eligible: int
) -> None:
    """The only one in sync of two, that loses its end, or its whole log; not with eligible leader
    replicas. A recovery that cuts nothing has no reason to say it.
    """
    level = [feature("eligible.leader.replicas.version", 1)] * eligible
    alone = partition_change(5, 0, {0: int32s([1])})
    MetadataBuilder(log_dir).segment(0, [topic("t", 5), partition(5, 0, [1, 2]), alone, *level])
    write_topic_id(log_dir, 5)
    sentence = "t-0: by the cluster's metadata this is the only replica in sync, and the"
    assert sentence not in call("doctor", log_dir).out
    segment = log_dir / "t-0" / f"{2:020d}.log"
    segment.write_bytes(segment.read_bytes()[:-5])
    answer = call("doctor", log_dir)
    assert (11, not eligible) == (answer.status, sentence in answer.out)
    assert ("leave this one stopped, and stop the others" in answer.out) == (not eligible)
    recovered = call("recover", log_dir, "--yes")
    assert (0, not eligible) == (recovered.status, sentence in recovered.out), recovered.err
    assert sentence not in call("recover", log_dir, "--yes").out
    aside = call("rescue", log_dir, "--set-aside", log_dir / "t-0", "--dry-run")
    deleted = call("delete", log_dir, "t-0", "--yes")
    assert 0 == deleted.status, deleted.err
    for answer in (aside, deleted):  # a log that is empty lacks all
        assert (sentence in answer.err) == (not eligible)


def test_the_metadata_log(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """Damaged, without a quorum's state, twice, in another directory."""
    builder = MetadataBuilder(log_dir)
    builder.segment(0, [topic("t", 5)], [partition(5, 0, [1])])
    write_topic_id(log_dir, 5)
    state = builder.path / "quorum-state"
    state.write_bytes(bytes(20))
    answer = call("doctor", log_dir)
    assert 5 == answer.status
    assert f"does not start: {state}: " in answer.out
    state.unlink()
    snapshot = builder.path / f"{1:020d}-{1:010d}.checkpoint"
    snapshot.write_bytes(bytes(100))
    answer = call("doctor", log_dir)
    assert (5, True) == (answer.status, f"does not start: {snapshot}: " in answer.out)
    snapshot.unlink()
    shutil.copytree(log_dir, tmp_path / "other")
    shutil.rmtree(tmp_path / "other/t-0")
    identity = META.replace("directory.id=YWJj", "directory.id=YYJj")
    (tmp_path / "other/meta.properties").write_text(identity)
    answer = call("doctor", log_dir, tmp_path / "other")
    assert (4, True) == (answer.status, "is a metadata log, too" in answer.out), answer.out
    shutil.rmtree(builder.path)
    answer = call("doctor", log_dir, tmp_path / "other")
    assert 0 == answer.status
    assert "whether metadata.log.dir, or else the first of log.dirs, is" in answer.err
    content = bytearray((tmp_path / "other/__cluster_metadata-0" / f"{0:020d}.log").read_bytes())
    content[70] ^= 1
    (tmp_path / "other/__cluster_metadata-0" / f"{0:020d}.log").write_bytes(content)
    answer = call("doctor", log_dir, tmp_path / "other")
    assert "the topics made since are not known" in answer.out
    assert "its metadata log could not be read" in answer.err


@pytest.mark.needs_rights("mounting")
def test_a_full_file_system(log_dir: Path) -> None:
    """Nothing is free: a broker cannot write its checkpoints."""
    words = mounting()
    assert words is not None
    script = (
        'mkdir "$0/full" && mount -t tmpfs -o size=1m none "$0/full" && cp -r "$1" "$0/full/logs"'
        ' && cat /dev/zero > "$0/full/fill" 2>/dev/null; "$2" doctor "$0/full/logs"'
    )
    command = [*words, "sh", "-c", script, log_dir.parent, log_dir, LOGWRIGHT]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 5 == ended.returncode, ended.stderr
    assert "its file system has 0 bytes free, and the start needs about" in ended.stdout
