"""Locks exclude brokers and each other, and none is held on a file that lost its name."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logwright import locks
from logwright.errors import LogDirLocked, NotALogDir, UnreadableFile
from logwright.format.names import TopicPartition
from logwright.locks import (
    CHECKPOINTS_LOCK,
    Kind,
    is_held,
    lock_checkpoints,
    lock_log_dir,
    lock_partition,
)

T0 = TopicPartition("t", 0)
HOLDER = """
import sys
from pathlib import Path
from logwright.format.names import TopicPartition
from logwright.locks import lock_log_dir, lock_partition
what, path = sys.argv[1], Path(sys.argv[2])
lock = {
    "dir": lambda: lock_log_dir(path),
    "partition": lambda: lock_partition(path, TopicPartition("t", 0)),
}[what]()
with lock:
    print("locked", flush=True)
    sys.stdin.read(1)
"""


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    directory = tmp_path / "logs"
    (directory / "t-0").mkdir(parents=True)
    return directory


@contextmanager
def other_process(command: list[str]) -> Iterator[str]:
    """Run a program that says one line, then holds on until its input ends."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        try:
            yield it.stdout.readline().strip()
        finally:
            it.communicate(timeout=60)


def holder(what: str, path: Path) -> list[str]:
    return [sys.executable, "-c", HOLDER, what, str(path)]


def broker(log_dir: Path) -> list[str]:
    return ["java", str(Path(__file__).with_name("TryLock.java")), str(log_dir / ".lock")]


@pytest.mark.oracle
def test_running_broker_keeps_us_out(log_dir: Path) -> None:
    """A JVM's tryLock on `.lock` is seen; the error names the file, the process and what to do."""
    with other_process(broker(log_dir)) as answer:
        word, pid = answer.split()
        assert word == "locked"
        with pytest.raises(LogDirLocked) as caught, lock_log_dir(log_dir):
            pytest.fail("the lock was given")
    assert str(log_dir / ".lock") in str(caught.value)
    assert f"(process {pid})" in str(caught.value)
    assert "Stop the broker" in str(caught.value)
    with lock_log_dir(log_dir):
        pass


@pytest.mark.oracle
def test_we_keep_a_broker_out(log_dir: Path) -> None:
    """While we hold the directory, a JVM's tryLock on `.lock` is refused; afterwards it is not."""
    with lock_log_dir(log_dir):
        # Closing another descriptor of the file must not lose the lock, as a POSIX lock would be.
        (log_dir / ".lock").read_bytes()
        with other_process(broker(log_dir)) as answer:
            assert answer == "refused"
    with other_process(broker(log_dir)) as answer:
        assert answer.startswith("locked")


def test_several_of_ours_share_a_log_directory(log_dir: Path) -> None:
    """The lock on the log directory is shared, between processes and within one."""
    other = other_process(holder("dir", log_dir))
    with lock_log_dir(log_dir), lock_log_dir(log_dir), other as answer:
        assert answer == "locked"


def test_lock_file_is_left_and_can_be_opened_by_the_directorys_owner(log_dir: Path) -> None:
    """A broker that runs as the directory's owner can open the `.lock` that root made."""
    log_dir.chmod(0o750)
    if os.geteuid() == 0:
        os.chown(log_dir, 1234, 2345)
    with lock_log_dir(log_dir):
        pass
    status = (log_dir / ".lock").stat()
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert (status.st_uid, status.st_gid) == (log_dir.stat().st_uid, log_dir.stat().st_gid)


def test_existing_lock_file_is_left_as_it_is(log_dir: Path) -> None:
    """The presence of the file alone proves nothing."""
    (log_dir / ".lock").write_bytes(b"")
    inode = (log_dir / ".lock").stat().st_ino
    with lock_log_dir(log_dir):
        pass
    assert (log_dir / ".lock").stat().st_ino == inode


def test_lock_on_a_deleted_file_is_taken_anew(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that stops deletes `.lock` after we opened it: we lock the file with the name."""
    path = log_dir / ".lock"
    path.write_bytes(b"")
    real: Callable[..., bool] = locks.try_lock
    seen: list[int] = []

    def broker_stops_meanwhile(file: int, kind: Kind) -> bool:
        if not seen:
            path.unlink()
        seen.append(os.fstat(file).st_ino)
        return real(file, kind)

    monkeypatch.setattr(locks, "try_lock", broker_stops_meanwhile)
    with lock_log_dir(log_dir):
        assert len(seen) == 2
        assert path.stat().st_ino == seen[1]
        with path.open("r+b") as file, pytest.raises(BlockingIOError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_lock_file_that_somebody_makes_meanwhile_is_the_one(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our looking for it and our making it: theirs is locked, with the mode it has."""
    path = log_dir / ".lock"
    make = locks._make

    def others_first(directory: int, name: str) -> int:
        path.touch(mode=0o600)
        return make(directory, name)

    monkeypatch.setattr(locks, "_make", others_first)
    with lock_log_dir(log_dir):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with path.open("r+b") as file, pytest.raises(BlockingIOError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_renamed_directory_is_not_the_one_that_has_its_name(
    log_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one has the partition's name when we have locked: that one is locked instead."""
    real: Callable[..., bool] = locks.try_lock
    renamed = log_dir / f"t-0.{'0' * 32}-delete"

    def deleted_meanwhile(file: int, kind: Kind) -> bool:
        if not renamed.exists():
            (log_dir / "t-0").rename(renamed)
            (log_dir / "t-0").mkdir()
        return real(file, kind)

    monkeypatch.setattr(locks, "try_lock", deleted_meanwhile)
    with lock_partition(log_dir, T0):
        assert (log_dir / "t-0/.logwright/lock").exists()
        assert list(renamed.iterdir()) == []
        with pytest.raises(LogDirLocked), lock_partition(log_dir, T0):
            pytest.fail("the lock was given")
    assert list((log_dir / "t-0").iterdir()) == []


def test_file_that_never_stays_is_given_up(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trying again has an end."""
    monkeypatch.setattr(locks, "is_named", lambda *_: False)
    with pytest.raises(LogDirLocked, match="does not stay"), lock_log_dir(log_dir):
        pytest.fail("the lock was given")


@pytest.mark.parametrize("make", ["link", "fifo", "directory"])
@pytest.mark.timeout(10)
def test_lock_that_is_no_file_is_refused(log_dir: Path, tmp_path: Path, make: str) -> None:
    """No lock is taken through a symbolic link, and opening a FIFO does not hang."""
    path = log_dir / ".lock"
    if make == "link":
        (tmp_path / "canary").write_bytes(b"")
        path.symlink_to(tmp_path / "canary")
    elif make == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
    with pytest.raises(UnreadableFile) as caught, lock_log_dir(log_dir):
        pytest.fail("the lock was given")
    assert caught.value.path == path


def test_no_log_directory(tmp_path: Path) -> None:
    """A missing directory is said to be one."""
    with pytest.raises(NotALogDir), lock_log_dir(tmp_path / "none"):
        pytest.fail("the lock was given")


def test_one_process_at_a_time_on_a_partition(log_dir: Path) -> None:
    """The partition's lock is exclusive between processes, and free again when they end."""
    with other_process(holder("partition", log_dir)) as answer:
        assert answer == "locked"
        with pytest.raises(LogDirLocked) as caught, lock_partition(log_dir, T0):
            pytest.fail("the lock was given")
    assert caught.value.path == log_dir / "t-0/.logwright/lock"
    assert caught.value.remedy
    with lock_partition(log_dir, T0):
        pass


def test_killed_process_leaves_no_lock(log_dir: Path) -> None:
    """The kernel frees the lock of a process that was killed; its lock file does no harm."""
    with subprocess.Popen(
        holder("partition", log_dir), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as it:
        assert it.stdout is not None
        assert it.stdout.readline().strip() == "locked"
        it.kill()
        it.wait()
    assert (log_dir / "t-0/.logwright/lock").exists()
    with lock_partition(log_dir, T0):
        pass


def test_one_thread_at_a_time_on_a_partition(log_dir: Path) -> None:
    """The lock is exclusive between threads of one process too."""
    refused: list[bool] = []

    def try_it() -> None:
        try:
            with lock_partition(log_dir, T0):
                refused.append(False)
        except LogDirLocked:
            refused.append(True)

    with lock_partition(log_dir, T0):
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    assert refused == [True]
    try_it()
    assert refused == [True, False]


def test_partitions_are_independent(log_dir: Path) -> None:
    """Two partitions of one directory are worked on at the same time."""
    (log_dir / "t-1").mkdir()
    with lock_partition(log_dir, T0), lock_partition(log_dir, TopicPartition("t", 1)):
        pass


def test_work_directory_is_private_and_goes_when_empty(log_dir: Path) -> None:
    """`.logwright` has mode 0700 and the partition's owner, and is not left without need."""
    if os.geteuid() == 0:
        os.chown(log_dir / "t-0", 1234, 2345)
    work = log_dir / "t-0/.logwright"
    old = os.umask(0)
    try:
        with lock_partition(log_dir, T0):
            status = work.stat()
            assert stat.S_IMODE(status.st_mode) == 0o700
            assert status.st_uid == (log_dir / "t-0").stat().st_uid
    finally:
        os.umask(old)
    assert not work.exists()
    with lock_partition(log_dir, T0):
        (work / "deletions.jsonl").write_bytes(b"")
    assert [path.name for path in work.iterdir()] == ["deletions.jsonl"]


def test_threads_in_a_race_never_hold_a_partition_together(log_dir: Path) -> None:
    """Locks that are taken while the lock file and its directory come and go stay exclusive."""
    inside: list[int] = []
    together: list[int] = []
    taken: list[int] = []

    def work(number: int) -> None:
        while len(taken) < 300:
            try:
                with lock_partition(log_dir, T0):
                    inside.append(number)
                    if len(inside) > 1:
                        together.append(number)
                    taken.append(number)
                    inside.remove(number)
            except LogDirLocked:
                continue

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == []
    assert len(taken) >= 300


@pytest.mark.parametrize("where", ["t-0", "t-0/.logwright"])
def test_symbolic_link_on_the_way_is_refused(log_dir: Path, tmp_path: Path, where: str) -> None:
    """Neither the partition nor its work directory may be a link to somewhere else."""
    canary = tmp_path / "canary"
    canary.mkdir()
    if where == "t-0":
        (log_dir / "t-0").rmdir()
    (log_dir / where).symlink_to(canary)
    with pytest.raises(UnreadableFile), lock_partition(log_dir, T0):
        pytest.fail("the lock was given")
    assert list(canary.iterdir()) == []


def test_checkpoint_lock_waits_for_its_turn(log_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two who rewrite the shared checkpoint files do it one after the other."""
    order: list[str] = []
    entered = threading.Event()

    def second() -> None:
        entered.wait()
        with lock_checkpoints(log_dir):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with lock_checkpoints(log_dir):
        entered.set()
        thread.join(timeout=0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert not (log_dir / CHECKPOINTS_LOCK).exists()
    monkeypatch.setattr(locks, "CHECKPOINTS_WAIT_SECONDS", 0.0)
    refused = pytest.raises(LogDirLocked, match="too long")
    with lock_checkpoints(log_dir), refused, lock_checkpoints(log_dir):
        pytest.fail("the lock was given")


def test_a_held_lock_is_seen(tmp_path: Path) -> None:
    """A shared one too, which keeps a broker from starting; looking takes none, and makes none."""
    assert not is_held(tmp_path)
    assert [] == list(tmp_path.iterdir())
    with lock_log_dir(tmp_path):
        assert is_held(tmp_path)
    assert not is_held(tmp_path)
