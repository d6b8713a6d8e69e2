"""Records that a log directory does not have."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logwright.errors import PreconditionError
from logwright.format.names import TopicPartition
from logwright.log.inventory import NO_PARTITION
from logwright.metadata.read import read_metadata
from logwright.spark.kafka_log_options import Pruning, read_options
from logwright.spark.kafka_log_plan import plan_read
from tests.e2e.command import call
from tests.found import find, settings
from tests.log_builder import LogBuilder, SegmentBuilder
from tests.tiers import unpacked

REMOTE = {"plain", "shortened", "tx", "zstd-by-producer"}


@pytest.fixture(name="tier")
def _tier(tmp_path: Path) -> Path:
    """A log directory and its metadata, as a broker with remote storage left them."""
    return unpacked("zstd-encrypted", tmp_path).root


def test_a_tier_of_a_real_broker(tier: Path) -> None:
    """Each topic with remote segments is named, that of a deleted one is not; so are the offsets
    before the first local segment.
    """
    named = find(tier / "logs", [b"nobody"]).unsearched
    assert REMOTE == {one.partition.topic for one in named if not one.path}
    assert {"plain-0", "plain-1", "shortened-0", "tx-0", "zstd-by-producer-0"} == {
        part.path for part in named if part.path
    }
    (part,) = [one for one in named if one.path == "shortened-0"]
    assert "offsets 192 to 280 are in remote storage, or lost" == part.problem


def test_the_metadata_is_enough(tier: Path) -> None:
    """Without the events and without a start offset, by the topic's config."""
    (tier / "logs/log-start-offset-checkpoint").unlink()
    for path in (tier / "logs").glob("__remote_log_metadata-*/*.log"):
        path.write_bytes(b"")
    named = find(tier / "logs", [b"nobody"]).unsearched
    assert all("offsets are missing" in one.problem for one in named)
    metadata = read_metadata(tier / "metadata/__cluster_metadata-0")
    known = replace(settings({"cleanup.policy": "delete"}), metadata=metadata)
    result = find(tier / "logs", [b"nobody"], known)
    assert REMOTE == {one.partition.topic for one in result.unsearched if not one.path}
    assert REMOTE <= result.topics


def test_the_commands(tier: Path) -> None:
    """`find` does not end with 0, a certificate is not "gone", and kafka-log reads nothing in
    silence.
    """
    (tier / "keys").write_text("nobody\n")
    (tier / "secret").write_text("s" * 64)
    (tier / "secret").chmod(0o600)
    words = ("--keys", tier / "keys", "--secret", tier / "secret", "--topic", "plain")
    answer = call("find", tier / "logs", *words)
    assert 9 == answer.status
    assert "plain: its remote segments were not searched" in answer.out
    assert 0 == call("certificate", "--new-key", tier / "key").status
    out = ("--signing-key", tier / "key", "--out", tier / "c.json")
    answer = call("certificate", tier / "logs", *words, *out, "--output", "json")
    assert (6, {"not proved": 1}) == (answer.status, answer.lines[-1]["requests"])
    options = read_options({"path": str(tier / "logs"), "subscribe": "plain"})
    with pytest.raises(PreconditionError, match="remote storage, or lost"):
        plan_read(options, Pruning())
    local = {"startingOffsets": '{"plain": {"0": 281, "1": 280}}'}
    options = read_options({"path": str(tier / "logs"), "subscribe": "plain"} | local)
    assert plan_read(options, Pruning())


def test_a_log_that_begins_later(tmp_path: Path) -> None:
    """Its first offsets are not there. A retired file, or one that is to replace a segment, does
    not show that they all are.
    """
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(5).batch(5, [("a", "x")])
    builder.write(log_start=3)
    (part,) = find(tmp_path / "logs", [b"nobody"]).unsearched
    assert (TopicPartition("t", 0), "t-0") == (part.partition, part.path)
    assert "offsets 3 to 4 are in remote storage, or lost" == part.problem
    for suffix in (".log.deleted", ".log.swap"):
        content = SegmentBuilder(3).batch(3, [("b", "x")]).content
        (tmp_path / f"logs/t-0/{3:020d}{suffix}").write_bytes(content)
    assert [part] == find(tmp_path / "logs", [b"nobody"]).unsearched


def test_a_log_that_begins_with_its_first_segment(tmp_path: Path) -> None:
    """Nothing is elsewhere."""
    for start in (None, 5, 6):
        builder = LogBuilder(tmp_path / f"logs-{start}")
        builder.segment(5).batch(5, [("a", "x"), ("b", "y")])
        builder.write(log_start=start)
        assert [] == find(tmp_path / f"logs-{start}", [b"nobody"]).unsearched


def test_events_that_cannot_be_read(tier: Path) -> None:
    """A damaged batch, or an event of another kind: no topic is known to be without remote
    segments.
    """
    logs = (tier / "logs").glob("__remote_log_metadata-*/*.log")
    path = max(logs, key=lambda one: one.stat().st_size)
    whole = path.read_bytes()
    for damaged in (whole[:-1] + bytes([whole[-1] ^ 1]), whole[:-5]):
        path.write_bytes(damaged)
        named = find(tier / "logs", [b"nobody"]).unsearched
        assert any(
            part.partition == NO_PARTITION and "the remote segments are not known" in part.problem
            for part in named
        )
    path.write_bytes(SegmentBuilder(0).batch(0, [("k", b"\x00\x09\x00" + b"x" * 60)]).content)
    assert "not known" in " ".join(one.problem for one in find(tier / "logs", [b"n"]).unsearched)


@pytest.mark.parametrize("content", [b"\0" * 30, b"0\nx\n"])
def test_start_offsets_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    """Then nobody knows whether a log has offsets elsewhere."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(5).batch(5, [("a", "x")])
    builder.write(log_start=3)
    (tmp_path / "logs/log-start-offset-checkpoint").write_bytes(content)
    named = find(tmp_path / "logs", [b"nobody"]).unsearched
    assert any("where the logs start is not known" in one.problem for one in named)


def test_a_log_without_a_segment(tmp_path: Path) -> None:
    """Its records are elsewhere, if it has a log start offset."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(5).batch(5, [("a", "x")])
    builder.write(log_start=5)
    for path in (tmp_path / "logs/t-0").glob("*.log"):
        path.unlink()
    (part,) = [one for one in find(tmp_path / "logs", [b"nobody"]).unsearched if one.path == "t-0"]
    assert ("t", "no segment; offsets from 5 on are in remote storage, or lost") == (
        part.partition.topic,
        part.problem,
    )
