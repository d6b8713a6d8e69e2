"""A purge leaves what a plan that is alive has staged, whoever purges; a dead plan's goes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import pytest

from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.errors import StalePlan
from logwright.format.names import TopicPartition
from logwright.ingest.appender import Appender
from logwright.ingest.commit import commit_append
from logwright.ingest.model import AppendPlan
from logwright.live_plans import end_plan, hold_plan, new_plan_id, plan_is_alive
from logwright.purge import commit as purge_run
from logwright.purge.commit import purge_partition
from logwright.purge.observe import PartitionListing, list_partition
from logwright.rewrite.staging import discard_staging
from logwright.sweep.build import build
from logwright.sweep.commit import commit
from logwright.units import TimestampMs
from tests.descriptors import opened_below
from tests.ingested import Row, arrow, planned
from tests.log_builder import LogBuilder
from tests.plans import forced_plan

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = TimestampMs(1_760_000_100_000)
LOCKS = ".logwright-plans-*.lock"
PURGE = """
import sys
from pathlib import Path
from logwright.format.names import TopicPartition
from logwright.purge.commit import purge_partition
root = Path(sys.argv[1])
result = purge_partition(root, TopicPartition("t", 0), now_ms=0, file_delete_delay_ms=0)
print(len(result.staging))
"""
BUILD = """
import sys
from pathlib import Path
from tests.unit.staging.test_live_plans import plan_of
from logwright.sweep.build import build
staged = build(plan_of(Path(sys.argv[1])))
print("built", flush=True)
sys.stdin.read(1)
"""


def write_log(root: Path, partition: int = 0) -> Path:
    log = LogBuilder(root, partition=f"t-{partition}")
    log.segment(0).batch(0, [("a", "1"), ("b", "2"), ("a", "3")])
    log.segment(3).batch(3, [("a", "4")])
    log.segment(4)
    log.write()
    return root


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_log(tmp_path / "logs")


def plan_of(log_dir: Path, partition: TopicPartition = T0) -> CleanPlan:
    return forced_plan(log_dir, partition, {"cleanup.policy": "compact"}, now_ms=NOW_MS)


def purged_here(log_dir: Path) -> int:
    """How many staging directories a purge by this process removes."""
    return len(purge_partition(log_dir, T0, now_ms=NOW_MS, file_delete_delay_ms=0).staging)


def purged_by_another(log_dir: Path) -> int:
    """The same by another process."""
    command = [sys.executable, "-c", PURGE, str(log_dir)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


PURGES = pytest.mark.parametrize("purged", [purged_here, purged_by_another])


@PURGES
def test_purge_between_build_and_commit(log_dir: Path, purged: Callable[[Path], int]) -> None:
    """What is staged stays, the commit succeeds, and no lock file is left."""
    plan = plan_of(log_dir)
    staged = build(plan)
    assert purged(log_dir) == 0
    assert 1 == commit(plan, staged).segments_swapped
    assert list(log_dir.glob(LOCKS)) == []
    assert purged(log_dir) == 0


def test_build_that_begins_and_one_that_ends_during_a_purge(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The purge has looked: what appears stays, and a missing file does not count as an error."""
    dead = log_dir / "t-0/.logwright/staging" / new_plan_id(NOW_MS)
    dead.mkdir(parents=True)
    built: list[tuple[CleanPlan, StagedCleaning]] = []

    def looked(directory: Path) -> PartitionListing:
        listing = list_partition(directory)
        plan = plan_of(log_dir)
        built.append((plan, build(plan)))
        dead.rmdir()
        return listing

    monkeypatch.setattr(purge_run, "list_partition", looked)
    assert purged_here(log_dir) == 1
    assert 1 == commit(*built[0]).segments_swapped


@PURGES
def test_plan_that_was_discarded_is_over(log_dir: Path, purged: Callable[[Path], int]) -> None:
    """Its lock file goes; a file restored under its name is a dead plan's."""
    plan = plan_of(log_dir)
    staged = build(plan)
    discard_staging(plan)
    assert list(log_dir.glob(LOCKS)) == []
    staged.directory.mkdir(parents=True)
    assert purged(log_dir) == 1


def test_a_build_is_done_again_after_its_worker_was_killed(log_dir: Path) -> None:
    """As Spark does with a task whose executor is lost: what the first one has staged goes, and
    what it still writes has no name.
    """
    plan = plan_of(log_dir)
    first = build(plan)
    before = {path.name: path.read_bytes() for path in first.directory.iterdir()}
    left = next(path for path in first.directory.iterdir() if path.suffix == ".log")
    with left.open("r+b") as late:
        again = build(plan)
        late.write(b"late")
    assert first.directory == again.directory
    assert before == {path.name: path.read_bytes() for path in again.directory.iterdir()}
    commit(plan, again)


def test_commit_that_failed_ends_the_plan(log_dir: Path) -> None:
    """It is not tried again: what is staged may go."""
    plan = plan_of(log_dir)
    staged = build(plan)
    (log_dir / f"t-0/{3:020d}.log").touch()
    with pytest.raises(StalePlan):
        commit(plan, staged)
    assert list(log_dir.glob(LOCKS)) == []
    assert purged_by_another(log_dir) == 1


def test_process_has_one_lock_file_for_a_log_directory(log_dir: Path) -> None:
    """However many plans are alive in it; it goes with the last one."""
    write_log(log_dir, 1)
    plans = [plan_of(log_dir, one) for one in (T0, T1)]
    assert 0 == opened_locks(log_dir)
    built = [(plan, build(plan)) for plan in plans]
    assert 1 == opened_locks(log_dir)
    assert len(list(log_dir.glob(LOCKS))) == 1
    commit(*built[1])
    assert purged_by_another(log_dir) == 0
    commit(*built[0])
    assert list(log_dir.glob(LOCKS)) == []
    assert 0 == opened_locks(log_dir)


def opened_locks(log_dir: Path) -> int:
    """How many descriptors of this process are open on lock files of plans."""
    return sum(path.match(LOCKS) for path in opened_below(log_dir))


@contextmanager
def building_process(log_dir: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has built and waits."""
    command = [sys.executable, "-c", BUILD, str(log_dir)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "built\n"
        try:
            yield process
        finally:
            process.kill()


def test_plan_of_a_process_that_was_killed_is_dead(log_dir: Path) -> None:
    """Until then it is alive; a purge removes the lock file too."""
    with building_process(log_dir) as process:
        assert purged_here(log_dir) == 0
        assert len(list(log_dir.glob(LOCKS))) == 1
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        assert len(list(log_dir.glob(LOCKS))) == 1
        assert purged_here(log_dir) == 1
    assert list(log_dir.glob(LOCKS)) == []
    assert not (log_dir / "t-0/.logwright").exists()


def test_lock_file_of_a_dead_process_goes_with_the_next_build(log_dir: Path) -> None:
    """Also one that had staged nothing, for which no purge looks."""
    dead = log_dir / ".logwright-plans-0123abcd.lock"
    dead.touch()
    (log_dir / ".logwright-plans-mine.lock").touch()
    plan = plan_of(log_dir)
    build(plan)
    assert not dead.exists()
    discard_staging(plan)
    assert [log_dir / ".logwright-plans-mine.lock"] == list(log_dir.glob(LOCKS))


def test_plan_that_a_worker_builds_lives_with_its_driver(log_dir: Path) -> None:
    """The worker is gone when the driver commits."""
    plan = plan_of(log_dir)
    hold_plan(log_dir, plan.plan_id)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as workers:
        staged: StagedCleaning = workers.submit(build, plan).result()
    assert purged_by_another(log_dir) == 0
    assert 1 == commit(plan, staged).segments_swapped
    assert list(log_dir.glob(LOCKS)) == []


def in_fork(act: Callable[[], object]) -> None:
    child = os.fork()  # noqa: TID251 -- what a forked process makes of plans is the question
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def test_forked_process_ends_no_plan_of_its_parent(log_dir: Path) -> None:
    """It commits plans for its parent; the others stay alive."""
    plan = plan_of(log_dir)
    staged = build(plan)
    in_fork(lambda: end_plan(log_dir, plan.plan_id))
    assert plan_is_alive(log_dir, plan.plan_id)
    assert purged_by_another(log_dir) == 0
    commit(plan, staged)


def test_forked_process_has_plans_of_its_own(log_dir: Path) -> None:
    """Under another token: its end is not its parent's."""
    plan = plan_of(log_dir)
    build(plan)
    told = log_dir / "told"

    def plan_and_hold() -> None:
        own = new_plan_id(NOW_MS)
        hold_plan(log_dir, own)
        told.write_text(own)

    in_fork(plan_and_hold)
    assert told.read_text().split("-")[1] != plan.plan_id.split("-")[1]
    assert not plan_is_alive(log_dir, told.read_text())
    assert plan_is_alive(log_dir, plan.plan_id)
    discard_staging(plan)


def test_removed_log_directory_is_let_go(tmp_path: Path) -> None:
    """A plan that nobody ended, in a directory that is gone, keeps no descriptor for ever."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(3):
        root = tmp_path / str(number)
        root.mkdir()
        hold_plan(root, new_plan_id(NOW_MS))
        for file in root.iterdir():
            file.unlink()
        root.rmdir()
    assert before + 1 == len(list(Path("/proc/self/fd").iterdir()))


@PURGES
def test_purge_while_records_are_staged(log_dir: Path, purged: Callable[[Path], int]) -> None:
    """An append's output is skipped like a cleaning's."""
    rows: list[Row] = [(b"k", b"v", [], int(NOW_MS))]
    (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    plan = planned(log_dir, {}, now_ms=NOW_MS)
    assert isinstance(plan, AppendPlan)
    appender = Appender(plan)
    assert purged(log_dir) == 0
    appender.add(arrow(rows))
    staged = appender.finish()
    assert purged(log_dir) == 0
    assert 1 == commit_append(plan, staged).records
    assert list(log_dir.glob(LOCKS)) == []
