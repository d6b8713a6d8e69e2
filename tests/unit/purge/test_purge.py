"""A purge removes what is due and worthless, in an order that no crash turns against the log."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from logwright.errors import LogDirLocked, NotALogDir, UncleanLogDir, UnreadableFile
from logwright.format.deletions import LEDGER, Origin, parse_ledger, serialize_retirement
from logwright.format.names import TopicPartition
from logwright.locks import lock_partition
from logwright.purge.commit import purge_partition
from logwright.purge.observe import PartitionListing, PlainFile, list_partition
from logwright.purge.plan import PurgeResult, plan_purge
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.step import FileStep, FsyncDir, Unlink
from logwright.units import ByteCount, TimestampMs
from tests.crash.filesystems import Crash, CrashingFileSystem, plain_files
from tests.crash.layouts import LAYOUTS, MERGED, NOW_MS, ONE_SEGMENT, Layout
from tests.fixtures import copy_before

T0 = TopicPartition("t", 0)
DELAY_MS = 60_000
BASE = f"{0:020d}"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "logs"
    work = directory / "t-0/.logwright"
    work.mkdir(parents=True)
    (directory / f"t-0/{BASE}.log").write_bytes(b"live")
    (directory / f"t-0/{BASE}.index").write_bytes(b"")
    return directory


def purge(log_dir: Path, now_ms: int = NOW_MS) -> PurgeResult:
    return purge_partition(log_dir, T0, now_ms=TimestampMs(now_ms), file_delete_delay_ms=DELAY_MS)


def retire(log_dir: Path, *names: str, at_ms: int | None) -> None:
    """Make retired files, with a record or without."""
    for name in names:
        (log_dir / "t-0" / name).write_bytes(b"12345")
    if at_ms is not None:
        with (log_dir / "t-0/.logwright" / LEDGER).open("ab") as ledger:
            ledger.write(serialize_retirement(names, at_ms=at_ms))


@pytest.mark.parametrize(
    ("delay_ms", "waited_ms", "force", "goes"),
    [
        (3 * DELAY_MS, 3 * DELAY_MS, False, True),
        (3 * DELAY_MS, 3 * DELAY_MS - 1, False, False),
        (3 * DELAY_MS, DELAY_MS, True, True),
        (3 * DELAY_MS, DELAY_MS - 1, True, False),
        (1, DELAY_MS - 1, False, False),
        (0, DELAY_MS, False, True),
    ],
)
def test_the_longer_delay_decides(
    log_dir: Path, delay_ms: int, waited_ms: int, force: bool, goes: bool
) -> None:
    """That of the settings that a file was retired with, or that of the purge; forced the latter.
    The compacted ledger has the delay still.
    """
    origin = Origin(operation="retain", id="x", delay_ms=delay_ms)
    ledger = log_dir / "t-0/.logwright" / LEDGER
    names = [f"{BASE}.log.deleted"]
    ledger.write_bytes(serialize_retirement(["gone.deleted", *names], at_ms=NOW_MS, origin=origin))
    (log_dir / "t-0" / names[0]).write_bytes(b"12345")
    result = purge_partition(
        log_dir,
        T0,
        now_ms=TimestampMs(NOW_MS + waited_ms),
        file_delete_delay_ms=DELAY_MS,
        force=force,
    )
    assert goes == (result.removed == tuple(names)) == (not (log_dir / "t-0" / names[0]).exists())
    if not goes:
        (pending,) = result.pending
        assert NOW_MS + (DELAY_MS if force else max(delay_ms, DELAY_MS)) == pending.due_at_ms
        assert NOW_MS + delay_ms == parse_ledger(ledger.read_bytes())[names[0]].not_before_ms
        assert result.account is not None
        assert {NOW_MS + delay_ms} == {
            file.not_before_ms for file in result.account.files if file.name == names[0]
        }


@pytest.mark.parametrize(("late_ms", "goes"), [(0, True), (1, True), (-1, False)])
def test_record_decides_at_or_before(log_dir: Path, late_ms: int, goes: bool) -> None:
    """Due is what was retired at or before now - file.delete.delay.ms, by the command's clock."""
    at_ms = NOW_MS - DELAY_MS - late_ms
    retire(log_dir, f"{BASE}.log.deleted", f"{BASE}.snapshot.deleted", at_ms=at_ms)
    result = purge(log_dir)
    assert (log_dir / f"t-0/{BASE}.log.deleted").exists() is not goes
    assert (log_dir / f"t-0/{BASE}.snapshot.deleted").exists() is not goes
    if goes:
        assert result.removed == (f"{BASE}.log.deleted", f"{BASE}.snapshot.deleted")
        assert (result.removed_bytes, result.pending) == (10, ())
        assert not (log_dir / "t-0/.logwright").exists()
    else:
        assert result.removed == ()
        assert [one.due_at_ms for one in result.pending] == [at_ms + DELAY_MS] * 2
    assert (log_dir / f"t-0/{BASE}.log").read_bytes() == b"live"


@pytest.mark.parametrize("late_ms", [0, -1])
def test_record_counts_not_the_files_times(log_dir: Path, late_ms: int) -> None:
    """A recorded file's own times play no part, whether they are later or earlier."""
    retire(log_dir, f"{BASE}.log.deleted", at_ms=NOW_MS - DELAY_MS - late_ms)
    os.utime(log_dir / f"t-0/{BASE}.log.deleted", ns=(0, 0))
    assert bool(purge(log_dir).removed) == (late_ms == 0)


def test_file_without_a_record_counts_by_the_later_of_its_times(log_dir: Path) -> None:
    """A rename changes the change time; a file that Kafka retired has no other witness."""
    retire(log_dir, f"{BASE}.log.deleted", at_ms=None)
    path = log_dir / f"t-0/{BASE}.log.deleted"
    os.utime(path, ns=(0, 0))
    changed_ms = path.stat().st_ctime_ns // 1_000_000
    result = purge(log_dir, changed_ms + DELAY_MS - 1)
    assert [one.due_at_ms for one in result.pending] == [changed_ms + DELAY_MS]
    assert purge(log_dir, changed_ms + DELAY_MS).removed == (path.name,)


def test_modification_in_the_future_counts_too(log_dir: Path) -> None:
    """The later of both times is the safe one."""
    retire(log_dir, f"{BASE}.log.deleted", at_ms=None)
    future_ms = 4_000_000_000_000
    os.utime(log_dir / f"t-0/{BASE}.log.deleted", ns=(0, future_ms * 1_000_000))
    assert purge(log_dir, future_ms + DELAY_MS - 1).removed == ()
    assert purge(log_dir, future_ms + DELAY_MS).removed != ()


def test_second_names_are_purged_too(log_dir: Path) -> None:
    """`NAME.N.deleted` is a retired file like the first one, with a time of its own."""
    retire(log_dir, f"{BASE}.log.deleted", at_ms=NOW_MS - DELAY_MS)
    retire(log_dir, f"{BASE}.log.1.deleted", at_ms=NOW_MS)
    assert purge(log_dir).removed == (f"{BASE}.log.deleted",)
    assert purge(log_dir, NOW_MS + DELAY_MS).removed == (f"{BASE}.log.1.deleted",)


def test_ledger_keeps_the_records_of_what_is_left(log_dir: Path) -> None:
    """Records of files that are gone do not pile up, the others keep their times."""
    retire(log_dir, "a.deleted", "b.deleted", at_ms=NOW_MS - DELAY_MS)
    retire(log_dir, "c.deleted", at_ms=NOW_MS)
    retire(log_dir, "b.deleted", at_ms=NOW_MS + 5)
    ledger = log_dir / "t-0/.logwright" / LEDGER
    ledger.chmod(0o600)
    purge(log_dir)
    recorded = parse_ledger(ledger.read_bytes())
    times = {name: line.at_ms for name, line in recorded.items()}
    assert {"c.deleted": NOW_MS, "b.deleted": NOW_MS + 5} == times
    content = ledger.read_bytes()
    inode = ledger.stat().st_ino
    purge(log_dir)
    assert (ledger.read_bytes(), ledger.stat().st_ino) == (content, inode)


def test_metadata_snapshot_is_left_alone(log_dir: Path) -> None:
    """Kafka's loader keeps `.checkpoint.deleted`, which belongs to KRaft."""
    retire(log_dir, f"{BASE}-0000000001.checkpoint.deleted", at_ms=0)
    assert purge(log_dir).removed == ()


def test_shared_bytes_are_not_counted_as_freed(log_dir: Path) -> None:
    """A file that has another name still takes its space."""
    os.link(log_dir / f"t-0/{BASE}.log", log_dir / f"t-0/{BASE}.log.deleted")
    with (log_dir / "t-0/.logwright" / LEDGER).open("wb") as ledger:
        ledger.write(serialize_retirement([f"{BASE}.log.deleted"], at_ms=0))
    result = purge(log_dir)
    assert (result.removed, result.removed_bytes) == ((f"{BASE}.log.deleted",), 0)
    assert (log_dir / f"t-0/{BASE}.log").read_bytes() == b"live"


def listing(*names: str) -> PartitionListing:
    files = tuple(
        PlainFile(name=name, bytes=ByteCount(1), links=1, touched_ms=0) for name in sorted(names)
    )
    return PartitionListing(
        directory=Path("/logs/t-0"), files=files, ledger=None, staging=(), has_staging=False
    )


def planned(*names: str) -> tuple[FileStep, ...]:
    plan = plan_purge(listing(*names), now_ms=TimestampMs(0), file_delete_delay_ms=DELAY_MS)
    return (*plan.steps, *plan.ledger)


def test_guard_goes_after_what_it_guards() -> None:
    """`.swap` files are durably gone before their `.cleaned` goes: nothing looks committed."""
    steps = planned(
        f"{BASE}.log", f"{BASE}.log.swap", f"{BASE}.index.cleaned", f"{BASE}.timeindex.cleaned"
    )
    root = Path("/logs/t-0")
    assert steps == (
        Unlink(root / f"{BASE}.log.swap"),
        FsyncDir(root),
        Unlink(root / f"{BASE}.index.cleaned"),
        Unlink(root / f"{BASE}.timeindex.cleaned"),
        FsyncDir(root),
    )


@pytest.mark.parametrize(
    "names",
    [
        (f"{BASE}.log", f"{BASE}.log.swap"),
        (f"{BASE}.log", f"{BASE}.index.swap"),
        (f"{BASE}.log.swap", f"{BASE}.index.cleaned"),
        (f"{BASE}.log", f"{5:020d}.log", f"{BASE}.log.cleaned", f"{5:020d}.log.swap"),
        (f"{BASE}.log", f"{5:020d}.log.cleaned", f"{BASE}.log.swap"),
        (f"{BASE}.log.cleaned", f"{5:020d}.log.swap"),
        ("x.swap",),
        ("x.cleaned", f"{BASE}.log", f"{BASE}.log.swap"),
    ],
    ids=[
        "bare",
        "index",
        "no old log",
        "lower guard",
        "higher guard",
        "no log at all",
        "strange",
        "strange guard",
    ],
)
def test_swap_that_a_recovery_may_need_stops_everything(names: tuple[str, ...]) -> None:
    """Such a file may be all that is left of its records."""
    with pytest.raises(UncleanLogDir) as caught:
        planned(*names, "due.deleted")
    assert caught.value.path is not None
    assert caught.value.path.name.endswith(".swap")
    assert caught.value.remedy


def test_indexes_without_a_log_go(log_dir: Path) -> None:
    """A roll that was interrupted leaves them; Kafka's loader removes them too."""
    orphans = [f"{7:020d}{kind}" for kind in (".index", ".timeindex", ".snapshot.tmp")]
    for orphan in orphans:
        (log_dir / "t-0" / orphan).write_bytes(b"")
    assert purge(log_dir).leftovers == tuple(sorted(orphans))
    assert sorted(plain_files(log_dir / "t-0")) == [f"{BASE}.index", f"{BASE}.log"]


def test_staging_of_dead_plans_goes(log_dir: Path) -> None:
    """Nobody holds them: their plans are over, whatever they had built."""
    staging = log_dir / "t-0/.logwright/staging"
    (staging / "dead/deeper").mkdir(parents=True)
    (staging / "dead/a.log").write_bytes(b"1")
    (staging / "dead/deeper/b.log").write_bytes(b"1")
    nobodys = f"{NOW_MS}-00000000-00000000"
    (staging / nobodys).mkdir()
    assert purge(log_dir).staging == (nobodys, "dead")
    assert not (log_dir / "t-0/.logwright").exists()


@pytest.mark.parametrize("layout", [MERGED, ONE_SEGMENT, *LAYOUTS[6:8]], ids=str)
def test_after_a_crash_in_a_swap(tmp_path: Path, layout: Layout) -> None:
    """Before the commit point a purge gives the old log back; then it refuses, or is not needed."""
    count = len(layout.build(tmp_path / "plan"))
    outcomes = []
    for number in range(1, count + 2):
        log_dir = tmp_path / f"logs-{number}"
        steps = layout.build(log_dir)
        with RealFileSystem(log_dir) as real, contextlib.suppress(Crash):
            execute(steps, CrashingFileSystem(real, crash_at=number))
        before = plain_files(log_dir / "t-0")
        try:
            purge(log_dir, NOW_MS + DELAY_MS)
        except UncleanLogDir:
            assert plain_files(log_dir / "t-0") == before
            outcomes.append("refused")
            continue
        after = plain_files(log_dir / "t-0")
        assert after in (layout.start, layout.end, without_snapshots(layout)) or only_r5(
            after, layout
        )
        outcomes.append("old" if after == layout.start else "new")
        assert not (log_dir / "t-0/.logwright").exists()
    order = ["old", "refused", "new"]
    assert outcomes == sorted(outcomes, key=order.index)
    assert set(outcomes) == set(order)


def without_snapshots(layout: Layout) -> dict[str, bytes]:
    """The end of a swap before R5: snapshots of vanished bases are still there."""
    kept = {n: data for n, data in layout.start.items() if n.endswith(".snapshot")}
    return {**layout.end, **kept}


def only_r5(files: dict[str, bytes], layout: Layout) -> bool:
    """Whether all but R5's files is as at the end."""
    extra = {n: data for n, data in files.items() if n not in layout.end}
    same = {n: data for n, data in files.items() if n in layout.end} == layout.end
    return same and all(n.endswith(".snapshot") or data == b"" for n, data in extra.items())


@pytest.mark.parametrize(
    ("case", "refused"),
    [
        ("crash-cleaned", False),
        ("crash-deleted", False),
        ("crash-swap", True),
        ("crash-swap-all-deleted", True),
        ("crash-swap-half-deleted", True),
        ("crash-swap-some-deleted", True),
        ("crash-swap-half-final", True),
        ("crash-swap-half-named", False),
        ("crash-swap-and-cleaned", True),
        ("crash-cleaned-and-swap", True),
    ],
)
def test_on_the_leftovers_of_kafkas_own_crashes(tmp_path: Path, case: str, refused: bool) -> None:
    """What Kafka left is removed where that is provably safe, and nothing is touched elsewhere."""
    log_dir = copy_before(case, tmp_path)
    before = plain_files(log_dir / "t-0")
    far_ms = 4_000_000_000_000
    if refused:
        with pytest.raises(UncleanLogDir):
            purge(log_dir, far_ms)
        assert plain_files(log_dir / "t-0") == before
    else:
        purge(log_dir, far_ms)
        worthless = (".cleaned", ".swap", ".deleted")
        kept = {n: data for n, data in before.items() if not n.endswith(worthless)}
        assert plain_files(log_dir / "t-0") == kept


def test_crash_in_a_purge_is_made_good_by_the_next(log_dir: Path) -> None:
    """A purge may be stopped anywhere and run again."""
    for stop in range(1, 20):
        retire(log_dir, f"{BASE}.log.deleted", at_ms=0)
        (log_dir / f"t-0/{BASE}.log.swap").write_bytes(b"s")
        (log_dir / f"t-0/{BASE}.index.cleaned").write_bytes(b"c")
        listed = list_partition(log_dir / "t-0")
        plan = plan_purge(listed, now_ms=NOW_MS, file_delete_delay_ms=DELAY_MS)
        with RealFileSystem(log_dir) as real, contextlib.suppress(Crash):
            execute((*plan.steps, *plan.ledger), CrashingFileSystem(real, crash_at=stop))
        purge(log_dir)
        assert sorted(plain_files(log_dir / "t-0")) == [f"{BASE}.index", f"{BASE}.log"]
        (log_dir / "t-0/.logwright").mkdir(exist_ok=True)


@pytest.mark.parametrize("name", [f"{BASE}.log.deleted", f"{BASE}.log.cleaned"])
@pytest.mark.parametrize("make", ["link", "fifo", "directory"])
def test_what_is_no_file_is_refused(log_dir: Path, tmp_path: Path, name: str, make: str) -> None:
    """A purge follows no link and removes nothing but regular files."""
    path = log_dir / "t-0" / name
    if make == "link":
        (tmp_path / "canary").write_bytes(b"canary")
        path.symlink_to(tmp_path / "canary")
    elif make == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(UnreadableFile) as caught:
        purge(log_dir)
    assert caught.value.path == path
    assert os.path.lexists(path)


@pytest.mark.parametrize("where", ["staging/x", "staging/plan/x", "deletions.jsonl"])
def test_link_in_the_work_directory_is_refused(log_dir: Path, tmp_path: Path, where: str) -> None:
    """Nothing outside the log directory is read or removed."""
    canary = tmp_path / "canary"
    canary.mkdir()
    (canary / "x").write_bytes(b"canary")
    path = log_dir / "t-0/.logwright" / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(canary)
    with pytest.raises(UnreadableFile):
        purge(log_dir)
    assert (canary / "x").read_bytes() == b"canary"


def test_locked_partition_is_not_purged(log_dir: Path) -> None:
    """A purge waits its turn like every other change."""
    retire(log_dir, f"{BASE}.log.deleted", at_ms=0)
    with lock_partition(log_dir, T0), pytest.raises(LogDirLocked):
        purge(log_dir)
    assert (log_dir / f"t-0/{BASE}.log.deleted").exists()


def test_missing_partition(tmp_path: Path) -> None:
    """There is nothing to list."""
    with pytest.raises(NotALogDir):
        list_partition(tmp_path / "t-0")


def test_staging_that_a_dying_build_left_empty_goes(log_dir: Path) -> None:
    """It made the common directory and not yet its own."""
    staging = log_dir / "t-0/.logwright/staging"
    staging.mkdir()
    purge(log_dir)
    assert not staging.exists()
