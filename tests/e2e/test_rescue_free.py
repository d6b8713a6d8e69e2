"""``logwright rescue --free`` on a real file system that is full to the last byte."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from logwright.config.topic import CleanerConfig, TopicConfig
from logwright.errors import DiskFull, LogDirLocked, UnreadableFile
from logwright.format.names import BROKER_LOCK, TopicPartition
from logwright.locks import lock_log_dir
from logwright.rescue.free_groups import compact, compaction_plan
from logwright.rescue.free_look import first_due, space_of
from logwright.rescue.free_run import alone
from logwright.units import TimestampMs
from tests.e2e.command import call, tree
from tests.e2e.test_full_disk import Disk, disk
from tests.latest_rows import replayed
from tests.log_builder import START_MS, LogBuilder
from tests.sequences.reading import read_content

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


def test_a_small_active_segment_stays(full: Disk) -> None:
    """All segments are due, and more is asked for than they have: a roll would take more than it
    frees.
    """
    answer = call("rescue", full.log_dir, "--free", 1 << 20, "--yes", *DELETES, *EXPIRED, *LATER)
    assert 5 == answer.status
    assert [SEGMENTS * 10] == bases(full)
    assert SEGMENTS * SEGMENT_BYTES == free_bytes(full)


@pytest.mark.parametrize("pages", [0, 4, 9])
def test_an_active_segment_is_rolled_where_there_is_room(full: Disk, pages: int) -> None:
    """Without room it stays, whole, and the answer says why; with some it goes."""
    shutil.rmtree(full.log_dir / "t-0")
    full.free()
    log = LogBuilder(full.log_dir)
    log.segment(0).batch(0, [(f"k{n}", "v" * 4096) for n in range(20)])
    log.write()
    full.fill(pages)
    size = 15 * 4096
    answer = call("rescue", full.log_dir, "--free", size, "--yes", *DELETES, *EXPIRED, *LATER)
    if pages < 8:
        assert 5 == answer.status
        assert [0] == bases(full)
        assert f"to roll it takes 32768 bytes, and {pages * 4096} are free" in answer.out
        assert pages * 4096 == free_bytes(full)
    else:
        assert 0 == answer.status, answer.err
        assert [20] == bases(full)
        assert size <= free_bytes(full)


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
    assert 2 == other.status
    assert SEGMENTS + 1 == len(bases(full))
    answer = call(*call_it, *keeps, "--tighter-retention", "t=retention.bytes:1")
    assert 0 == answer.status, answer.err
    assert list(range(10, 121, 10)) == bases(full)


def test_a_compaction_waits_for_its_room(full: Disk) -> None:
    """Without room it is not begun; with room for some segments a second time, and not for all, it
    goes as far as it is needed.
    """
    words = ("rescue", full.log_dir, "--free", 20 * 4096, "--yes", *COMPACTS, *LATER)
    refused = call(*words)
    assert 5 == refused.status
    assert "not compacted to its end" in refused.err
    assert SEGMENTS + 1 == len(bases(full))
    before = read_content(full.log_dir, "t-0")
    full.fill(20)
    assert 0 == call(*words, "--free", 32 * 4096).status
    assert SEGMENTS > len(bases(full))
    after = read_content(full.log_dir, "t-0")
    assert len(after.rows) < len(before.rows)
    assert replayed(before) == replayed(after)
    assert [] == list(full.log_dir.rglob("*.deleted"))
    assert not (full.log_dir / "t-0" / ".logwright").exists()
    assert 32 * 4096 <= free_bytes(full)


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


def test_a_stray_log_goes_only_by_name(full: Disk) -> None:
    """Two stray logs: the one that is named goes, before any record; the other one stays."""
    full.free()
    strays = [full.log_dir / f"s-{number}.{'b' * 32}-stray" for number in (0, 1)]
    for stray in strays:
        stray.mkdir()
        (stray / f"{0:020}.log").write_bytes(bytes(8192))
    full.fill(0)
    words = ("rescue", full.log_dir, "--yes", *DELETES, "--config", "retention.ms=-1", *LATER)
    assert 5 == call(*words, "--free", 8192).status
    assert [True, True] == [stray.is_dir() for stray in strays]
    answer = call(*words, "--free", 8192, "--stray", strays[1].name, *EXPIRED)
    assert 0 == answer.status, answer.err
    assert [True, False] == [stray.is_dir() for stray in strays]
    assert SEGMENTS + 1 == len(bases(full))
    assert 8192 == free_bytes(full)


def test_a_name_that_is_no_stray_log_is_left(full: Disk) -> None:
    """The name of a log, of a way out of the directory, of a link to a directory elsewhere."""
    outside = full.log_dir.parent / f"o-0.{'c' * 32}-stray"
    outside.mkdir()
    (outside / f"{0:020}.log").touch()
    link = full.log_dir / f"l-0.{'d' * 32}-stray"
    link.symlink_to(Path("..", outside.name))  # a long target would need a page
    for name in ("t-0", f"../{outside.name}", link.name, outside.name):
        words = ("rescue", full.log_dir, "--free", 4096, "--yes", "--stray", name)
        answer = call(*words, *DELETES, "--config", "retention.ms=-1", *LATER)
        assert answer.status, name
        assert SEGMENTS + 1 == len(bases(full)), name
        assert (outside / f"{0:020}.log").exists(), name
        assert link.is_symlink(), name


def test_files_that_a_process_has_open_free_nothing(full: Disk) -> None:
    """One segment shows it: no other record goes for it. What was retired goes before, and shows
    it without any record.
    """
    words = ("rescue", full.log_dir, "--yes", *DELETES, *EXPIRED, *LATER)
    with ExitStack() as opened:
        for path in (full.log_dir / "t-0").iterdir():
            opened.enter_context(path.open("rb"))
        answer = call(*words, "--free", 6 * SEGMENT_BYTES)
        assert DiskFull.exit_status == answer.status
        assert f"{SEGMENT_BYTES} bytes were removed, and 0 became free" in answer.err
        assert list(range(10, 121, 10)) == bases(full)
        full.free()
        retired = full.log_dir / "t-0" / f"{7:020}.log.deleted"
        retired.write_bytes(bytes(8192))
        full.fill(0)
        opened.enter_context(retired.open("rb"))
        answer = call(*words, "--free", 6 * SEGMENT_BYTES)
        assert "8192 bytes were removed, and 0 became free" in answer.err
        assert not retired.exists()
        assert list(range(10, 121, 10)) == bases(full)
    answer = call(*words, "--free", 6 * SEGMENT_BYTES)
    assert 0 == answer.status, answer.err


def test_files_with_another_name_free_nothing(full: Disk) -> None:
    """The two oldest segments are linked elsewhere: they count 0 bytes, and more segments go."""
    full.free()
    copies = full.log_dir.parent / "copies"
    copies.mkdir()
    for path in (full.log_dir / "t-0").glob("*"):
        if path.name[:20] in {f"{0:020}", f"{10:020}"}:
            (copies / path.name).hardlink_to(path)
    kept = {path: path.read_bytes() for path in copies.iterdir()}
    full.fill(0)
    words = ("rescue", full.log_dir, "--free", SEGMENT_BYTES, "--yes", *DELETES, *EXPIRED, *LATER)
    plan = call(*words, "--dry-run")
    (row,) = plan.lines
    assert (SEGMENTS - 2) * SEGMENT_BYTES == row["bytesAtMost"]
    assert len(kept) == row["linkedFiles"]
    answer = call(*words)
    assert 0 == answer.status, answer.err
    assert list(range(30, 121, 10)) == bases(full)
    assert SEGMENT_BYTES == free_bytes(full)
    assert kept == {path: path.read_bytes() for path in copies.iterdir()}


def test_log_directories_of_one_file_system(full: Disk) -> None:
    """What costs nothing in the second directory goes before records of the first one, and both
    together free what was asked for, once.
    """
    full.free()
    other = LogBuilder(full.log_dir.parent / "other", "u-0")
    for base in range(4):
        other.segment(base).batch(base, [("k", "v")])
    other.segment(4).batch(4, [("k", "new")], timestamps=[START_MS + 86_400_000])
    other.write()
    retired = other.directory / f"{7:020}.log.deleted"
    retired.write_bytes(bytes(4 * 4096))
    full.fill(0)
    call_it = ("rescue", full.log_dir, other.log_dir, "--yes", *DELETES, *EXPIRED, *LATER)
    answer = call(*call_it, "--free", 4 * 4096)
    assert 0 == answer.status, answer.err
    assert not retired.exists()
    assert SEGMENTS + 1 == len(bases(full))
    assert 5 == len(list(other.directory.glob("*.log")))
    assert 4 * 4096 == free_bytes(full)
    answer = call(*call_it, "--free", 1 << 20)
    assert 5 == answer.status
    (last,) = (line for line in answer.lines if "askedBytes" in line)
    assert free_bytes(full) == last["freeBytes"]
    assert [SEGMENTS * 10] == bases(full)
    assert [4] == [int(path.stem) for path in other.directory.glob("*.log")]


def test_a_log_without_room_is_tried_again_when_there_is_some(full: Disk) -> None:
    """The first log keeps more than there is room for; the second one keeps little, and makes the
    room.
    """
    full.free()
    shutil.rmtree(full.log_dir / "t-0")
    first = LogBuilder(full.log_dir, "a-0")
    first.segment(0).batch(0, [("j", "v" * 10_000)]).batch(1, [("k", "v" * 30_000)])
    first.segments[-1].batch(2, [("j", "1")])
    first.segment(3).batch(3, [("z", "new")])
    first.write()
    second = LogBuilder(full.log_dir, "b-0")
    for base in (0, 1):
        second.segment(base).batch(base, [("k", "v" * 50_000)])
    second.segment(2).batch(2, [("k", "1")])
    second.segment(3).batch(3, [("z", "new")])
    second.write()
    full.fill(22)
    words = ("rescue", full.log_dir, "--free", 1 << 20, "--yes", "--reserve", 0, *COMPACTS, *LATER)
    answer = call(*words)
    assert 5 == answer.status
    done = [Path(line["path"]).name for line in answer.lines if "done" in line]
    assert ["a-0", "b-0", "a-0"] == done
    assert "a-0: not compacted to its end" in answer.err
    assert [1, 2, 3] == [row.offset for row in read_content(full.log_dir, "a-0").rows]
    assert [2, 3] == [row.offset for row in read_content(full.log_dir, "b-0").rows]
    assert b"a 0 3" in (full.log_dir / "cleaner-offset-checkpoint").read_bytes()


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""
"""Holds a lock as a JVM does, until its standard input ends."""


@contextmanager
def held_by_another_process(path: Path) -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert b"held\n" == holder.stdout.readline()
        yield
        holder.stdin.close()


@pytest.fixture
def without_inodes(tmp_path: Path) -> Iterator[Path]:
    """A log directory with two retired files and no `.lock`, where no file can be made."""
    with disk(tmp_path, "size=1m,nr_inodes=200") as made:
        log = LogBuilder(made.log_dir.parent / "logs")
        log.segment(0).batch(0, [("k", "v")])
        log.write()
        for base in (7, 8):
            (log.directory / f"{base:020}.log.deleted").write_bytes(bytes(4096))
        for number in range(os.statvfs(made.log_dir).f_favail):
            (made.log_dir / f"filler-{number}").touch()
        yield log.log_dir


def test_one_retired_file_makes_room_for_the_lock(without_inodes: Path) -> None:
    """It goes, and nothing else; then the directory is locked."""
    retired = without_inodes / "t-0" / f"{7:020}.log.deleted"
    before = tree(without_inodes)
    with alone(without_inodes, lambda: retired):
        assert (without_inodes / BROKER_LOCK).is_file()
        with pytest.raises(LogDirLocked), lock_log_dir(without_inodes):
            pass
    del before[str(retired.relative_to(without_inodes))]
    assert before == tree(without_inodes)


def test_only_what_is_due_makes_room_for_a_step_of_due_files(without_inodes: Path) -> None:
    """Until the delay is over none goes, then the first one."""
    first = without_inodes / "t-0" / f"{7:020}.log.deleted"
    of, retired_ms = (without_inodes, TopicPartition("t", 0)), first.stat().st_ctime_ns // 1_000_000
    early, late = (TimestampMs(retired_ms + more) for more in (30_000, 90_000))
    assert first_due(*of, now_ms=early, delay_ms=60_000) is None
    assert first == first_due(*of, now_ms=late, delay_ms=60_000)
    assert first == first_due(*of, now_ms=early, delay_ms=0)


def test_no_room_for_the_lock_and_nothing_retired(without_inodes: Path) -> None:
    """Nothing is removed, and no lock is made."""
    before = tree(without_inodes)
    with pytest.raises(DiskFull, match="no room for a lock"), alone(without_inodes, lambda: None):
        pass
    assert before == tree(without_inodes)
    assert not (without_inodes / BROKER_LOCK).exists()


def test_a_full_disk_without_a_lock_is_freed(without_inodes: Path) -> None:
    """By the command: a retired file goes first, without a lock, then the other one."""
    words = ("rescue", without_inodes, "--free", 1 << 20, "--yes", *DELETES, *LATER)
    keeps = ("--config", "retention.ms=-1")
    answer = call(*words, *keeps)
    assert 5 == answer.status  # there are no more bytes than those of the two
    assert [] == list(without_inodes.rglob("*.deleted"))
    assert (without_inodes / BROKER_LOCK).is_file()
    assert [0] == [int(path.stem) for path in (without_inodes / "t-0").glob("*.log")]


@pytest.mark.parametrize("kind", ["held", "link", "dangling", "directory"])
def test_a_lock_that_is_not_ours_to_take(tmp_path: Path, kind: str) -> None:
    """Somebody works there, or it is not a file: no retired file goes, and no link is followed."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("k", "v")])
    log.write()
    lock, elsewhere = log.log_dir / BROKER_LOCK, tmp_path / "elsewhere"
    if kind == "link":
        elsewhere.touch()
    if kind in {"link", "dangling"}:
        lock.symlink_to(elsewhere)
    if kind == "directory":
        lock.mkdir()
    before = tree(tmp_path)

    def first() -> Path | None:
        pytest.fail("it looks for a file to remove")

    if kind == "held":
        with (
            held_by_another_process(lock),
            pytest.raises(LogDirLocked),
            alone(log.log_dir, first),
        ):
            pass
    else:
        with pytest.raises(UnreadableFile), alone(log.log_dir, first):
            pass
    assert before == tree(tmp_path)
    assert elsewhere.exists() == (kind == "link")


@pytest.mark.parametrize("more", [(), ("--high-watermark", "end")])
def test_what_lies_beyond_the_high_watermark_supersedes_nothing(
    tmp_path: Path, more: tuple[str, ...]
) -> None:
    """A broker that died of a full disk may truncate it. Of a log without an entry all counts as
    committed, and that is said.
    """
    value = "x" * 20_000
    for name in ("t-0", "u-0"):
        log = LogBuilder(tmp_path / "logs", name)
        log.segment(0).batch(0, [("k", f"first{value}")]).batch(1, [("z", value)])
        log.segment(2).batch(2, [("k", f"second{value}")])
        log.segment(3).batch(3, [("end", "x")])
        log.write()
    recorded = tmp_path / "logs/replication-offset-checkpoint"
    recorded.write_text("0\n1\nt 0 2\n")
    words = ("rescue", tmp_path / "logs", "--free", "1000TiB", "--yes", *COMPACTS, *more, *LATER)
    answer = call(*words)
    assert DiskFull.exit_status == answer.status
    note = "No high watermark is on record of 1 log (u-0): all of them counts as committed."
    assert (not more) == (note in answer.err)
    first = b"first" in (tmp_path / "logs/t-0" / f"{0:020}.log").read_bytes()
    assert (not more) == first
    assert b"first" not in (tmp_path / "logs/u-0" / f"{0:020}.log").read_bytes()
