"""Which log directories of a fleet are judged, with which others, and what is said of the rest."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logwright.fleet.starts import IN_A_BUCKET, RUNS, DirectoryStart, judge_starts
from logwright.place.named import place_of
from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder
from tests.metadata_builder import uuid_text
from tests.property.accidents import META
from tests.running_dirs import running

NOW_MS = TimestampMs(START_MS + 3_600_000)


def formatted(log_dir: Path, *, directory_id: str = "", node: int = 1) -> LogBuilder:
    """A log directory of a node, cleanly shut down, with a log of two segments."""
    log = LogBuilder(log_dir)
    log.segment(0).batch(0, [("a", "1"), ("b", "1")])
    log.segment(2).batch(2, [("a", "2")])
    log.write()
    meta = META.replace("node.id=1", f"node.id={node}")
    if directory_id:
        meta = meta.replace("YWJjZGVmZ2hpamtsbW5vcA", directory_id)
    (log_dir / "meta.properties").write_text(meta)
    (log.directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {uuid_text(5)}")
    return log


def starts(**log_dirs: Path) -> dict[str, DirectoryStart]:
    return {one.name: one for one in judge_starts(log_dirs, now_ms=NOW_MS)}


def test_a_directory_as_a_broker_leaves_it(tmp_path: Path) -> None:
    """It starts; without meta.properties it does not."""
    log = formatted(tmp_path / "a")
    start = starts(a=log.log_dir)["a"]
    assert ("starts", False, "") == (start.outcome, start.does_harm, start.why)
    (log.log_dir / "meta.properties").unlink()
    start = starts(a=log.log_dir)["a"]
    assert ("does not start", True) == (start.outcome, start.does_harm)


def test_a_loss_is_no_start(tmp_path: Path) -> None:
    """After a crash a start cuts what is torn, with the records in it."""
    log = formatted(tmp_path / "a")
    (log.log_dir / ".kafka_cleanshutdown").unlink()
    path = log.directory / f"{2:020}.log"
    path.write_bytes(path.read_bytes()[:-3])
    start = starts(a=log.log_dir)["a"]
    assert ("starts, and loses records", True) == (start.outcome, start.does_harm)
    lost = [one for one in start.findings if one.effect == "loses"]
    assert [(path, 2)] == [(one.path, one.first_offset) for one in lost]


def test_a_running_broker_is_not_judged(tmp_path: Path) -> None:
    """Nor are the other directories of its node; those of another node are."""
    log = formatted(tmp_path / "a")
    other = formatted(tmp_path / "b", directory_id="b3RoZXItZGlyZWN0b3J5LQ")
    third = formatted(tmp_path / "c", node=2)
    with running(log.log_dir, {"t-0": 3}):
        judged = starts(a=log.log_dir, b=other.log_dir, c=third.log_dir)
    assert [("not judged", RUNS)] * 2 == [(judged[n].outcome, judged[n].why) for n in "ab"]
    assert "starts" == judged["c"].outcome


def test_a_bucket_and_what_is_gone(tmp_path: Path) -> None:
    """The first is not judged, and the second is not known; neither starts."""
    bucket, gone = judge_starts(
        {"b": place_of("s3://archive/b"), "g": tmp_path / "gone"}, now_ms=NOW_MS
    )
    assert ("not judged", IN_A_BUCKET, False) == (bucket.outcome, bucket.why, bucket.failed)
    assert ("not known", True) == (gone.outcome, gone.failed)
    assert str(tmp_path / "gone") in gone.why


@pytest.mark.parametrize(("node", "outcome"), [(1, "does not start"), (2, "starts")])
def test_directories_of_one_node_are_judged_together(
    tmp_path: Path, node: int, outcome: str
) -> None:
    """A log in two of them stops a start; replicas of two nodes do not."""
    log = formatted(tmp_path / "a")
    other = formatted(tmp_path / "b", node=node, directory_id="b3RoZXItZGlyZWN0b3J5LQ")
    judged = starts(a=log.log_dir, b=other.log_dir)
    assert [outcome] * 2 == [judged[name].outcome for name in "ab"]
    shutil.rmtree(other.directory)
    judged = starts(a=log.log_dir, b=other.log_dir)
    assert ["starts"] * 2 == [judged[name].outcome for name in "ab"]
