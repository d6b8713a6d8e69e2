"""A purge of kept outputs may die anywhere: the log is untouched, and the next purge ends it."""

from __future__ import annotations

import contextlib
from itertools import count
from pathlib import Path

import pytest

from logwright.errors import UnreadableFile
from logwright.format.names import TopicPartition
from logwright.purge.commit import purge_partition
from logwright.purge.observe import list_partition
from logwright.purge.plan import PurgeResult, plan_purge
from logwright.steps.failed_output import FailedOutput
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.units import TimestampMs
from tests.crash.filesystems import Crash, CrashingFileSystem, plain_files

T0 = TopicPartition("t", 0)
BASE = f"{0:020d}"
DUE_MS = 1_760_000_600_000
NAMES = [
    FailedOutput(TimestampMs(due_at_ms), f"1760000000000-0123abcd-0000000{number}").name
    for number, due_at_ms in enumerate((DUE_MS, DUE_MS + 1))
]


def log_with_outputs(log_dir: Path) -> Path:
    """A log with two kept outputs of two files, that expire one after the other."""
    for name in NAMES:
        kept = log_dir / "t-0/.logwright/failed" / name
        kept.mkdir(parents=True)
        (kept / f"{BASE}.log").write_bytes(b"12345")
        (kept / f"{BASE}.index").write_bytes(b"")
    (log_dir / f"t-0/{BASE}.log").write_bytes(b"live")
    (log_dir / f"t-0/{BASE}.index").write_bytes(b"")
    return log_dir


def purge(log_dir: Path, now_ms: int) -> PurgeResult:
    return purge_partition(log_dir, T0, now_ms=TimestampMs(now_ms), file_delete_delay_ms=0)


def test_a_purge_removes_what_has_expired(tmp_path: Path) -> None:
    """At its time, and only it; the other is pending, with its size and time."""
    log_dir = log_with_outputs(tmp_path / "logs")
    kept = log_dir / "t-0/.logwright/failed"
    early = purge(log_dir, DUE_MS - 1)
    assert ((), 2) == (early.failed_outputs, len(early.pending))
    first = purge(log_dir, DUE_MS)
    assert (f"failed/{NAMES[0]}",) == first.failed_outputs
    assert 5 == first.removed_bytes
    (pending,) = first.pending
    assert (f"failed/{NAMES[1]}", 5, DUE_MS + 1) == (pending.name, pending.bytes, pending.due_at_ms)
    assert [NAMES[1]] == [path.name for path in kept.iterdir()]
    purge(log_dir, DUE_MS + 1)
    assert not kept.exists()


def test_a_purge_that_dies_anywhere(tmp_path: Path) -> None:
    """Nothing but expired outputs is touched, and the next purge removes what is left of them."""
    for stop in count(1):
        log_dir = log_with_outputs(tmp_path / f"logs-{stop}")
        live = plain_files(log_dir / "t-0")
        plan = plan_purge(
            list_partition(log_dir / "t-0"), now_ms=TimestampMs(DUE_MS), file_delete_delay_ms=0
        )
        died = True
        with RealFileSystem(log_dir) as real, contextlib.suppress(Crash):
            execute(plan.steps, CrashingFileSystem(real, crash_at=stop))
            died = False
        left = log_dir / "t-0/.logwright/failed" / NAMES[1]
        assert 2 == len(list(left.iterdir()))
        assert live == plain_files(log_dir / "t-0")
        purge(log_dir, DUE_MS)
        assert [left] == list(left.parent.iterdir())
        if not died:
            break
    assert stop > 4


def test_another_name_among_them_is_refused(tmp_path: Path) -> None:
    """Nobody but logwright writes there: a purge does not guess."""
    log_dir = log_with_outputs(tmp_path / "logs")
    other = log_dir / "t-0/.logwright/failed/mine"
    other.mkdir()
    with pytest.raises(UnreadableFile):
        purge(log_dir, DUE_MS)
    assert other.is_dir()
