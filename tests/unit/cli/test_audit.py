"""`audit`, and `clean --coordinate-with`: exit statuses, output, usage."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.running import watermark
from tests import metadata_builder as records
from tests.metadata_builder import MetadataBuilder
from tests.replicas import DELETE_RETENTION_MS
from tests.running_dirs import running
from tests.unit.audit.histories import HISTORIES, Pair, diverged
from tests.unit.cli.conftest import Call

PLANTED = "secret"
"""All keys and values begin with it."""
COMPACT = (
    *("--config", "cleanup.policy=compact", "--config", "segment.ms=1152921504606846976"),
    *("--config", f"delete.retention.ms={DELETE_RETENTION_MS}"),
)


def pair_after(root: Path, name: str = "replica away for longer than delete.retention.ms") -> Pair:
    """Two replicas after one of the published scenarios."""
    pair = Pair.new(root, "logwright")
    HISTORIES[name][0](pair)
    pair.fetch()
    return pair


def test_healthy_replicas(call: Call, tmp_path: Path) -> None:
    """Exit status 0, and what each serves."""
    pair = Pair.new(tmp_path, "coordinated")
    pair.writer.batch(("secret-person", "secret-here"))
    pair.send()
    pair.fetch()
    pair.writer.batch(("secret-person", "secret-here"))
    pair.send()
    answer = call("audit", pair.leader.log_dir, pair.follower.log_dir)
    assert answer.status == 0
    assert "1 partitions compared, no faults found." in answer.out
    answer = call("audit", pair.leader.log_dir, pair.follower.log_dir, "--output", "json")
    (comparison,) = answer.lines
    assert ({}, [], [], []) == tuple(
        comparison[name] for name in ("faults", "findings", "lacking", "brokersNotGiven")
    )
    assert [(0, 2, 0), (0, 1, 1)] == [
        (replica["logStartOffset"], replica["logEndOffset"], replica["lag"])
        for replica in comparison["replicas"]
    ]


@pytest.mark.parametrize("name", HISTORIES)
def test_a_fault_is_told_without_its_key(call: Call, tmp_path: Path, name: str) -> None:
    """Exit status 3; offsets and directories, in text and as JSON."""
    pair = pair_after(tmp_path, name)
    kind = HISTORIES[name][1]
    words = ("audit", pair.leader.log_dir, pair.follower.log_dir, "--topic", "t")
    answer = call(*words)
    assert answer.status == 3
    (line,) = [line for line in answer.out.splitlines() if line.startswith(f"t-0: {kind}: ")]
    assert str(pair.follower.log_dir) in line
    as_json = call(*words, "--output", "json")
    assert as_json.status == 3
    (comparison,) = as_json.lines
    assert {kind: 1} == comparison["faults"]
    (finding,) = comparison["findings"]
    assert str(pair.follower.log_dir) == finding["logDir"]
    assert "read_committed" in finding["isolationLevels"]
    assert PLANTED in pair.follower.batches()[0].decode(errors="replace")
    assert PLANTED not in answer.out + answer.err + as_json.out + as_json.err


def test_diverged_replicas(call: Call, tmp_path: Path) -> None:
    """They are reported, and not cleaned together."""
    pair = Pair.new(tmp_path, "logwright")
    diverged(pair)
    leader, follower = pair.leader.log_dir, pair.follower.log_dir
    assert call("audit", leader, follower).status == 3
    words = ("clean", leader, "--force", "--yes", *COMPACT, "--coordinate-with", follower)
    answer = call(*words)
    assert answer.status == 5
    assert "the replicas have diverged" in answer.err


def test_a_coordinated_clean(call: Call, tmp_path: Path) -> None:
    """The plan says what stays; the tombstone of a replica that is away stays."""
    pair = Pair.new(tmp_path, "coordinated")
    pair.writer.batch(("secret-person", "secret-here"))
    pair.send()
    pair.fetch()
    pair.writer.batch(("secret-person", None))
    for number in range(3):
        pair.fill()
        now = pair.now_ms + number * 100_000
        words = ("clean", pair.leader.log_dir, "--force", *COMPACT, "--now", now)
        words += ("--coordinate-with", pair.follower.log_dir)
        planned = call(*words, "--dry-run")
        assert "tombstones and markers stay from the lowest clean offset 0 of all" in planned.out
        done = call(*words, "--yes", "--output", "json")
        assert done.status == 0
        assert [0] == [one["removedTombstones"] for one in done.lines[0]["passes"]]
    pair.fetch()
    assert call("audit", pair.leader.log_dir, pair.follower.log_dir).status == 0


def test_coordinated_with_a_replica_whose_broker_runs(call: Call, tmp_path: Path) -> None:
    """As with one that is stopped, up to its high watermark; nothing is written there."""
    pair = Pair.new(tmp_path, "coordinated")
    pair.writer.batch(("secret-person", "secret-here"))
    pair.send()
    pair.fetch()
    pair.writer.batch(("secret-person", None))
    pair.fill()
    leader, follower = pair.leader.log_dir, pair.follower.log_dir
    words = ("clean", leader, "--force", *COMPACT, "--now", pair.now_ms)
    words += ("--coordinate-with", follower)
    with running(follower, {"t-0": 1}):
        before = {path: path.stat().st_mtime_ns for path in follower.rglob("*")}
        planned = call(*words, "--dry-run")
        assert "tombstones and markers stay from the lowest clean offset 0 of all" in planned.out
        done = call(*words, "--yes", "--output", "json")
        assert before == {path: path.stat().st_mtime_ns for path in follower.rglob("*")}
    assert (0, [0]) == (done.status, [one["removedTombstones"] for one in done.lines[0]["passes"]])
    pair.fetch()
    assert call("audit", leader, follower).status == 0


def test_a_running_replica_that_cannot_be_read_is_named(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its broker records no high watermark: the partition is not cleaned."""
    monkeypatch.setattr(watermark, "PATIENCE_SECONDS", 0.2)
    pair = pair_after(tmp_path)
    pair.fill()
    leader, follower = pair.leader.log_dir, pair.follower.log_dir
    words = ("clean", leader, "--force", "--yes", *COMPACT, "--coordinate-with", follower)
    before = pair.leader.batches()
    with running(follower, {}):
        answer = call(*words)
    assert answer.status == 5
    assert "write its high watermarks: it has no entry of this log" in answer.err
    assert str(follower) in answer.err
    assert before == pair.leader.batches()


def test_a_directory_that_lacks_the_partition(call: Call, tmp_path: Path) -> None:
    """It is named, and does not count: one replica alone is compared with nothing."""
    pair = pair_after(tmp_path / "logs")
    empty = tmp_path / "logs" / "broker-3"
    empty.mkdir()
    (empty / "log-start-offset-checkpoint").write_text("0\n0\n")
    answer = call("audit", pair.leader.log_dir, empty)
    assert answer.status == 5
    assert f"t-0: {empty} has no replica" in answer.out
    comparison, _ = call("audit", pair.leader.log_dir, empty, "--output", "json").lines
    assert [str(empty)] == comparison["lacking"]


def test_a_directory_is_no_replica_of_itself(call: Call, tmp_path: Path) -> None:
    """It would bound nothing."""
    pair = pair_after(tmp_path)
    leader = pair.leader.log_dir
    words = ("clean", leader, "--force", "--yes", *COMPACT, "--coordinate-with", leader)
    pair.fill()
    answer = call(*words)
    assert answer.status == 5
    assert "cannot be coordinated with itself" in answer.err


@pytest.mark.parametrize("count", [0, 1])
def test_two_directories_are_needed(call: Call, tmp_path: Path, count: int) -> None:
    """Each once."""
    assert call("audit", *[tmp_path] * count).status == 2
    assert call("audit", tmp_path, tmp_path).status == 2


def test_a_topic_that_is_not_there(call: Call, tmp_path: Path) -> None:
    """It is refused."""
    pair = pair_after(tmp_path)
    answer = call("audit", pair.leader.log_dir, pair.follower.log_dir, "--topic", "u")
    assert answer.status == 5


def test_a_broker_whose_replica_is_not_given(call: Call, tmp_path: Path) -> None:
    """The metadata has it: the partition is not cleaned, and the audit names the broker."""
    pair = pair_after(tmp_path)
    both = (pair.leader.log_dir, pair.follower.log_dir)
    for node, log_dir in enumerate(both, start=1):
        (log_dir / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={node}\n")
    metadata = MetadataBuilder(pair.leader.log_dir)
    metadata.segment(0, [records.topic("t", 1), records.partition(1, 0, [1, 2, 3])])
    pair.fill()
    before = pair.leader.batches()
    words = ("clean", both[0], "--force", "--yes", *COMPACT, "--coordinate-with", both[1])
    answer = call(*words)
    assert answer.status == 5
    assert "no directory of it is given: 3." in answer.err
    assert before == pair.leader.batches()
    assert "broker 3 has a replica" in call("audit", *both).out
    assert call(*words, "--no-metadata").status == 0
    assert before != pair.leader.batches()


def test_nothing_compared_is_no_success(call: Call, tmp_path: Path) -> None:
    """A high watermark that nothing recorded leaves nothing to compare, and so do directories
    without a common partition.
    """
    pair = Pair.new(tmp_path, "coordinated")
    pair.writer.batch(("secret-person", "secret-here"))
    pair.send()
    pair.fetch()
    words = ("audit", pair.leader.log_dir, pair.follower.log_dir)
    for replica in (pair.leader, pair.follower):
        (replica.log_dir / "replication-offset-checkpoint").unlink(missing_ok=True)
    answer = call(*words, "--high-watermark", "checkpoint")
    assert answer.status == 5
    assert "no high watermark" in answer.err
    assert "no faults" not in answer.out
    (pair.follower.log_dir / "t-0").rename(pair.follower.log_dir / "t-1")
    answer = call(*words)
    assert answer.status == 5
    assert "nothing was compared" in answer.err
