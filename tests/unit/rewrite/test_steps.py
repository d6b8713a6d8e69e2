"""The swap's steps: their order, their names, what they keep of the files that they replace."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from logwright.errors import InvariantError
from logwright.format.deletions import parse_ledger
from logwright.format.names import TopicPartition
from logwright.rewrite.steps import swap_steps
from logwright.roll.plan import RollDecision
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.step import FileStep, FsyncDir, FsyncFile, Link, Rename, SetMtime, WriteFile
from logwright.units import Offset, TimestampMs
from tests.crash.filesystems import plain_files
from tests.crash.layouts import (
    EMPTIED_WITH_TAILS,
    LAYOUTS,
    MERGED,
    MODIFIED_NS,
    NOW_MS,
    ONE_SEGMENT,
    TAILS,
    TXNINDEX_VANISHES,
    Layout,
    picture,
)

T0 = TopicPartition("t", 0)


def phases(steps: tuple[FileStep, ...], directory: Path) -> list[list[FileStep]]:
    """The renames, links and removals between two fsyncs of the partition's directory."""
    phases_of: list[list[FileStep]] = [[]]
    for step in steps:
        if step == FsyncDir(directory):
            phases_of.append([])
        elif not isinstance(step, (FsyncDir, FsyncFile, SetMtime)):
            phases_of[-1].append(step)
    assert phases_of.pop() == []
    return phases_of


def renamed(phase: list[FileStep]) -> set[tuple[str, str]]:
    """(old name, new name) of a phase's renames."""
    return {(step.source.name, step.target.name) for step in phase if isinstance(step, Rename)}


def name(base: int, suffix: str) -> str:
    return f"{base:020d}{suffix}"


def test_order_for_a_merged_group(tmp_path: Path) -> None:
    """RECLINK, phase by phase, for four segments of which the last is inside the new range."""
    log_dir = tmp_path / "logs"
    steps = MERGED.build(log_dir)
    directory = log_dir / "t-0"
    r0, r1, r2, r3, r4, r5 = phases(steps, directory)
    kinds = (".log", ".index", ".timeindex")
    assert renamed(r0) == {(name(0, k), name(0, k) + ".cleaned") for k in kinds}
    links = {(step.source.name, step.target.name) for step in r0 if isinstance(step, Link)}
    assert links == {(name(0, k), name(0, k) + ".deleted") for k in kinds}
    assert renamed(r1) == {(name(0, k) + ".cleaned", name(0, k) + ".swap") for k in kinds}
    assert renamed(r2) == {
        (name(base, k), name(base, k) + ".deleted") for base in (55, 120, 173) for k in kinds
    }
    assert renamed(r3) == {(name(0, ".log.swap"), name(0, ".log"))}
    assert renamed(r4) == {(name(0, k) + ".swap", name(0, k)) for k in kinds[1:]}
    assert renamed(r5) == {
        (name(base, ".snapshot"), name(base, ".snapshot.deleted")) for base in (55, 120, 173)
    }


def test_tails_go_one_by_one(tmp_path: Path) -> None:
    """Each tail's log is durable before the next one's; their indexes wait for the new indexes."""
    log_dir = tmp_path / "logs"
    steps = EMPTIED_WITH_TAILS.build(log_dir)
    directory = log_dir / "t-0"
    between = phases(steps, directory)[2:-3]
    expected = [{(name(b, ".log"), name(b, ".log.deleted"))} for b in EMPTIED_WITH_TAILS.group[1:]]
    assert [renamed(phase) for phase in between] == expected
    indexes = renamed(phases(steps, directory)[-2])
    assert (name(13, ".index"), name(13, ".index.deleted")) in indexes
    assert len(indexes) == 2 + 2 * len(expected)


def test_transaction_index_that_vanishes_is_covered(tmp_path: Path) -> None:
    """An empty file takes its place before the commit point and goes in the last phase."""
    log_dir = tmp_path / "logs"
    steps = TXNINDEX_VANISHES.build(log_dir)
    empty = log_dir / "t-0" / name(0, ".txnindex.cleaned")
    old = log_dir / "t-0" / name(0, ".txnindex")
    assert WriteFile(empty, b"", like=old) in steps
    with RealFileSystem(log_dir) as fs:
        execute(steps, fs)
    assert not old.exists()
    assert old.with_name(old.name + ".deleted").read_bytes() == TXNINDEX_VANISHES.start[old.name]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_old_file_is_kept_under_a_recorded_name(tmp_path: Path, layout: Layout) -> None:
    """Each file that was replaced or retired is still there, and the ledger has its time."""
    log_dir = tmp_path / "logs"
    steps = layout.build(log_dir)
    with RealFileSystem(log_dir) as fs:
        execute(steps, fs)
    files = plain_files(log_dir / "t-0")
    gone = {n for n in layout.start if n not in layout.end or n in layout.fresh}
    deleted = {n for n in files if n.endswith(".deleted")}
    assert deleted == {f"{n}.deleted" for n in gone}
    assert all(files[f"{n}.deleted"] == layout.start[n] for n in gone)
    ledger = (log_dir / "t-0/.logwright/deletions.jsonl").read_bytes()
    assert {name: line.at_ms for name, line in parse_ledger(ledger).items()} == dict.fromkeys(
        deleted, NOW_MS
    )
    assert list(layout.staging(log_dir).iterdir()) == []


def test_record_is_durable_before_the_directory_changes(tmp_path: Path) -> None:
    """No file is ever found under a `.deleted` name that was given without a record."""
    log_dir = tmp_path / "logs"
    steps = MERGED.build(log_dir)
    work = log_dir / "t-0/.logwright"
    first = next(at for at, step in enumerate(steps) if isinstance(step, (Rename, Link)))
    assert steps.index(FsyncDir(work)) < first
    assert steps.index(FsyncFile(work / "deletions.jsonl")) < steps.index(FsyncDir(work))


def test_earlier_deletion_is_not_overwritten(tmp_path: Path) -> None:
    """A base that is cleaned again before the purge gets a second name."""
    log_dir = tmp_path / "logs"
    ONE_SEGMENT.build(log_dir)
    earlier = log_dir / "t-0" / name(235, ".log.deleted")
    earlier.write_bytes(b"earlier")
    with RealFileSystem(log_dir) as fs:
        execute(ONE_SEGMENT.steps(log_dir), fs)
    assert earlier.read_bytes() == b"earlier"
    second = log_dir / "t-0" / name(235, ".log.1.deleted")
    assert second.read_bytes() == ONE_SEGMENT.start[name(235, ".log")]


def test_mode_owner_and_times_are_kept(tmp_path: Path) -> None:
    """The cleaned files look like those that they replace; times are the last source segment's."""
    log_dir = tmp_path / "logs"
    ONE_SEGMENT.build(log_dir)
    kinds = {".log": 0o640, ".index": 0o600, ".timeindex": 0o660}
    for kind, mode in kinds.items():
        path = log_dir / "t-0" / name(235, kind)
        path.chmod(mode)
        if os.geteuid() == 0:
            os.chown(path, 1234, 2345)
        (ONE_SEGMENT.staging(log_dir) / name(235, kind)).chmod(0o666)
    owner = (log_dir / "t-0" / name(235, ".log")).stat().st_uid
    with RealFileSystem(log_dir) as fs:
        execute(ONE_SEGMENT.steps(log_dir), fs)
    for kind, mode in kinds.items():
        status = (log_dir / "t-0" / name(235, kind)).stat()
        assert (stat.S_IMODE(status.st_mode), status.st_uid) == (mode, owner)
        assert status.st_mtime_ns == MODIFIED_NS


def test_source_that_was_rolled_in_this_commit_is_retired_whole(tmp_path: Path) -> None:
    """A time index that only the roll made is not left without its log."""
    log_dir = tmp_path / "logs"
    layout = MERGED
    layout.build(log_dir)
    gone = log_dir / "t-0" / name(173, ".timeindex")
    gone.unlink()
    for base in (231, 291, 354, 403, 465, 528, 590):  # 173 is the active segment
        for kind in (".log", ".index", ".timeindex"):
            (log_dir / "t-0" / name(base, kind)).unlink()
    log = picture(log_dir, layout.partition)
    decision = RollDecision(
        cause="time", new_base_offset=Offset(231), due_at_ms=None, reason="for this test"
    )
    rolled = decision.applied_to(log)
    steps = swap_steps(rolled, layout.staged, layout.staging(log_dir), now_ms=NOW_MS)
    assert Rename(str(gone), f"{gone}.deleted") in steps


@pytest.mark.parametrize(
    "change",
    [
        {"source_base_offsets": ()},
        {"source_base_offsets": (Offset(0), Offset(120))},
        {"source_base_offsets": (Offset(55), Offset(120))},
        {"source_base_offsets": (Offset(0), Offset(7))},
        {"next_offset": Offset(232)},
        {"base_offset": Offset(590), "source_base_offsets": (Offset(590),)},
    ],
)
def test_group_that_is_none_is_our_fault(tmp_path: Path, change: dict[str, object]) -> None:
    """Sources are a run of sealed segments, and the new content lies in their range."""
    log_dir = tmp_path / "logs"
    MERGED.build(log_dir)
    log = picture(log_dir, MERGED.partition)
    staged = MERGED.staged._replace(**change)  # type: ignore[arg-type]
    with pytest.raises(InvariantError):
        swap_steps(log, staged, MERGED.staging(log_dir), now_ms=NOW_MS)


@pytest.mark.parametrize("suffix", [".log.swap", ".index.cleaned"])
def test_swap_does_not_begin_on_leftovers(tmp_path: Path, suffix: str) -> None:
    """With another swap open, Kafka's loader would delete what lies between."""
    log_dir = tmp_path / "logs"
    TAILS.build(log_dir)
    (log_dir / "t-0" / name(26, suffix)).write_bytes(b"")
    with pytest.raises(InvariantError):
        TAILS.steps(log_dir)


def test_clock_is_the_commands(tmp_path: Path) -> None:
    """The ledger has the time that was given, not the machine's."""
    log_dir = tmp_path / "logs"
    ONE_SEGMENT.build(log_dir)
    log = picture(log_dir, ONE_SEGMENT.partition)
    staging = ONE_SEGMENT.staging(log_dir)
    steps = swap_steps(
        log, ONE_SEGMENT.staged, staging, now_ms=TimestampMs(77), file_delete_delay_ms=5
    )
    with RealFileSystem(log_dir) as fs:
        execute(steps, fs)
    ledger = (log_dir / "t-0/.logwright/deletions.jsonl").read_bytes()
    assert {(77, 82)} == {
        (line.at_ms, line.not_before_ms) for line in parse_ledger(ledger).values()
    }
