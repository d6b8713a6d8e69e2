"""Appends that stop midway, and what is done to their logs afterwards."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from logwright.config.topic import parse_settings
from logwright.errors import DiskFull, StepFailed
from logwright.format.names import TopicPartition
from logwright.ingest import commit as ingest_run
from logwright.ingest.commit import commit_append, stage_append
from logwright.ingest.model import Appended, AppendOptions
from logwright.recovery.directory_plan import partitions_to_recover
from logwright.recovery.model import RecoveryOptions
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.step import AnyPath
from logwright.sweep.build import build
from logwright.sweep.commit import commit
from logwright.sweep.recover import recover_directory
from logwright.units import TimestampMs
from tests.ingested import Row, arrow, planned, read_batches
from tests.log_builder import LogBuilder
from tests.plans import forced_plan

NOW = 1_760_000_100_000
DAY = 86_400_000
PAIRS = {"cleanup.policy": "compact", "segment.ms": str(DAY), "internal.segment.bytes": "3000"}
T, U = TopicPartition("t", 0), TopicPartition("u", 0)
ROWS: list[Row] = [(b"k%d" % n, b"new" + b"y" * 96, [], NOW) for n in range(40)]
CHECKPOINT = "recovery-point-offset-checkpoint"
JOURNAL = ".logwright/ingest.json"


def two_logs(log_dir: Path) -> Path:
    """Twenty keys in the active segment, and another log, stopped cleanly. Effects: writes them."""
    other = LogBuilder(log_dir, "w-0")
    other.segment(0).batch(0, [("a", "1")])
    other.write(producers=True)
    log = LogBuilder(log_dir)
    segment = log.segment(0)
    for number in range(20):
        segment.batch(number, [(f"k{number}", "old")])
    log.write(producers=True)
    for name in (CHECKPOINT, "replication-offset-checkpoint"):
        (log.log_dir / name).write_bytes(b"0\n1\nt 0 20\n")
    return log.log_dir


class Stopping(RealFileSystem):
    """Every call fails from the one on that touches such a path."""

    def __init__(self, root: Path, wanted: Callable[[str], bool]) -> None:
        super().__init__(root)
        self._wanted = wanted
        self._failed = False

    def _stop(self, path: object) -> None:
        self._failed = self._failed or self._wanted(str(path))
        if self._failed:
            raise OSError(errno.ENOSPC, "No space left on device")

    def write_file(self, path: AnyPath, content: bytes, *, like: AnyPath | None) -> None:
        """Effects: see `RealFileSystem`."""
        self._stop(path)
        super().write_file(path, content, like=like)

    def append(self, path: AnyPath, content: bytes, *, create: bool) -> None:
        """Effects: see `RealFileSystem`."""
        self._stop(path)
        super().append(path, content, create=create)

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        """Effects: see `RealFileSystem`."""
        self._stop(target)
        super().rename(source, target)


def ingest(
    log_dir: Path, partition: TopicPartition, ingest_id: str, rows: list[Row] = ROWS
) -> Appended:
    plan = planned(
        log_dir,
        PAIRS,
        now_ms=NOW,
        ingest_id=ingest_id,
        options=AppendOptions(batch_bytes=600),
        partition=partition,
    )
    if isinstance(plan, Appended):
        return plan
    return commit_append(plan, stage_append(plan, [arrow(rows)]))


def stop_at(
    log_dir: Path,
    partition: TopicPartition,
    ingest_id: str,
    wanted: str,
    patch: pytest.MonkeyPatch,
    *,
    rows: list[Row] = ROWS,
) -> None:
    """An append that fails where it touches a path that ends so."""
    with Stopping(log_dir, lambda path: path.endswith(wanted)) as files, patch.context() as patched:
        patched.setattr(ingest_run, "RealFileSystem", lambda _: nullcontext(files))
        with pytest.raises((DiskFull, StepFailed)):
            ingest(log_dir, partition, ingest_id, rows)


def values(log_dir: Path, partition: str = "t-0") -> dict[bytes | None, bytes | None]:
    """The last value of each key."""
    batches = read_batches(log_dir, partition=partition)
    return {record.key: record.value for batch in batches for record in batch.records}


def recover(log_dir: Path, *, like_kafka: bool = False) -> None:
    config, _ = parse_settings(PAIRS)
    result = recover_directory(
        log_dir,
        partitions_to_recover(log_dir, []),
        lambda _: config,
        now_ms=TimestampMs(NOW),
        options=RecoveryOptions(like_kafka=like_kafka),
    )
    assert result.clean


def clean(log_dir: Path) -> None:
    plan = forced_plan(log_dir, T, PAIRS, now_ms=NOW + 10 * DAY)
    commit(plan, build(plan))


APPENDED = {key: value for key, value, _, _ in ROWS}
