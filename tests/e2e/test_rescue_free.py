"""``logwright rescue --free`` on a real file system that is full to the last byte."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.errors import DiskFull
from logwright.rescue.free_look import compaction_plan, space_of
from logwright.rescue.free_run import alone, compact
from logwright.units import TimestampMs
from tests.e2e.command import call
from tests.e2e.test_full_disk import Disk, disk
from tests.log_builder import START_MS, LogBuilder

pytestmark = [pytest.mark.e2e, pytest.mark.crash, pytest.mark.needs_rights("mounting")]

DELETES = ("--no-metadata", "--config", "cleanup.policy=delete")
COMPACTS = ("--no-metadata", "--config", "cleanup.policy=compact")
EXPIRED = ("--config", "retention.ms=1000")
LATER = ("--now", START_MS + 86_400_000, "--output", "json")
SEGMENTS = 12
SEGMENT_BYTES = 2 * 4096
"""A page of the log, and one of its time index; the offset index is empty."""


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Disk]:
    """A disk of 1 MiB without a free page. `t-0` has 12 sealed segments with the same ten keys."""
    with disk(tmp_path, "size=1m") as made:
        logs = made.log_dir.parent / "logs"
        log = LogBuilder(logs)
        for base in range(0, SEGMENTS * 10, 10):
            log.segment(base).batch(base, [(f"k{n}", f"{base}" * 50) for n in range(10)])
        log.segment(SEGMENTS * 10).batch(SEGMENTS * 10, [("z", "new")])
        log.write()
        done = Disk(log_dir=logs)
        done.fill(0)
        yield done


def bases(made: Disk) -> list[int]:
    return sorted(int(path.stem) for path in (made.log_dir / "t-0").glob("*.log"))


def free_bytes(made: Disk) -> int:
    return space_of(made.log_dir).free


def test_retention_frees_what_was_asked_and_no_more(full: Disk) -> None:
    """With no byte free: the oldest segments go, as many as are needed."""
    size = 4 * SEGMENT_BYTES
    answer = call("rescue", full.log_dir, "--free", size, "--yes", *DELETES, *EXPIRED, *LATER)
    assert 0 == answer.status, answer.err
    assert size == free_bytes(full)
    assert list(range(40, 121, 10)) == bases(full)
    assert {
        "askedBytes": size,
        "freeBytes": size,
        "freeBytesBefore": 0,
        "reached": True,
    }.items() <= (answer.lines[-1].items())
    assert [] == list(full.log_dir.rglob("*.deleted"))
    assert not (full.log_dir / "t-0" / ".logwright").exists()


def test_the_active_segment_stays(full: Disk) -> None:
    """All segments are due, and more is asked for than they have: a roll would need room."""
    answer = call("rescue", full.log_dir, "--free", 1 << 20, "--yes", *DELETES, *EXPIRED, *LATER)
    assert 5 == answer.status
    assert [SEGMENTS * 10] == bases(full)
    assert SEGMENTS * SEGMENT_BYTES == free_bytes(full)


def test_dry_run_changes_nothing(full: Disk) -> None:
    answer = call("rescue", full.log_dir, "--free", 4096, "--dry-run", *DELETES, *EXPIRED, *LATER)
    assert 0 == answer.status, answer.err
    assert [("retention", True)] == [(row["step"], row["needed"]) for row in answer.lines]
    assert SEGMENTS + 1 == len(bases(full))
    assert 0 == free_bytes(full)


def test_retired_files_go_before_records(full: Disk) -> None:
    """Their delay is not over; nothing that a consumer reads goes."""
    full.free()
    retired = full.log_dir / "t-0" / f"{7:020}.log.deleted"
    retired.write_bytes(bytes(8192))
    full.fill(0)
    answer = call("rescue", full.log_dir, "--free", 8192, "--yes", *DELETES, *EXPIRED, *LATER)
    assert 0 == answer.status, answer.err
    assert not retired.exists()
    assert SEGMENTS + 1 == len(bases(full))
    assert 8192 == free_bytes(full)


def test_a_tighter_retention_only_by_name(full: Disk) -> None:
    """Nothing is due: exit status 5 and all is there, until the topic is named."""
    call_it = ("rescue", full.log_dir, "--free", 8192, "--yes", *DELETES, *LATER)
    keeps = ("--config", "retention.ms=-1")
    refused = call(*call_it, *keeps)
    assert 5 == refused.status, refused.err
    assert SEGMENTS + 1 == len(bases(full))
    other = call(*call_it, *keeps, "--tighter-retention", "other=retention.bytes:1")
    assert 5 == other.status
    assert SEGMENTS + 1 == len(bases(full))
    answer = call(*call_it, *keeps, "--tighter-retention", "t=retention.bytes:1")
    assert 0 == answer.status, answer.err
    assert list(range(10, 121, 10)) == bases(full)


def test_a_compaction_waits_for_its_room(full: Disk) -> None:
    """Without room it is not begun; with room for what is left of one group, and not for all
    segments, the newest record of each key stays.
    """
    words = ("rescue", full.log_dir, "--free", 20 * 4096, "--yes", *COMPACTS, *LATER)
    refused = call(*words)
    assert 5 == refused.status
    assert "not compacted to its end" in refused.err
    assert SEGMENTS + 1 == len(bases(full))
    full.fill(20)
    assert 0 == call(*words, "--free", 40 * 4096).status
    assert [0, 120] == bases(full)
    assert [] == list(full.log_dir.rglob("*.deleted"))
    assert not (full.log_dir / "t-0" / ".logwright").exists()
    assert 40 * 4096 <= free_bytes(full)


def test_a_compaction_that_finds_the_disk_full_leaves_the_log(full: Disk) -> None:
    """What it staged is removed."""
    full.fill(0)
    log = LogBuilder(full.log_dir)
    plan = compaction_plan(
        full.log_dir,
        log.partition,
        (TopicConfig(cleanup_policy=("compact",)), CleanerConfig()),
        now_ms=TimestampMs(START_MS + 86_400_000),
        high_watermark="end",
    )
    assert plan is not None
    before = {path: path.read_bytes() for path in log.directory.glob("0*")}
    with alone(full.log_dir) as files, pytest.raises(DiskFull):
        compact(plan, files, room=1 << 20, goes=lambda _: True, at_worst=lambda: None)
    assert before == {path: path.read_bytes() for path in log.directory.glob("0*")}
    assert not (log.directory / ".logwright").exists()
    assert 0 == free_bytes(full)
