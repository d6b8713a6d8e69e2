"""While output is built and judged no broker can start; a log whose broker runs drops out."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from logwright.config.policies import Policies
from logwright.config.sources import DirectorySettings
from logwright.errors import LogDirLocked
from logwright.format.names import TopicPartition
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.recover import recover
from logwright.sweep.stages import brokers_kept_out
from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan

EXCLUSIVE = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def a_work(log_dir: Path) -> LogWork:
    builder = LogBuilder(log_dir)
    builder.segment(0).batch(0, [("a", "1"), ("a", "2")])
    builder.segment(2)
    builder.write()
    plan = forced_plan(
        builder.log_dir, builder.partition, {"cleanup.policy": "compact"}, now_ms=START_MS
    )
    return LogWork(key=log_dir.name, log_dir=log_dir, partition=builder.partition, plan=plan)


@contextmanager
def a_running_broker(log_dir: Path) -> Iterator[None]:
    """What a broker holds: an exclusive lock on ``.lock``."""
    with (log_dir / ".lock").open("w") as file:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, EXCLUSIVE)
        yield


def test_logs_of_a_running_broker_drop_out(tmp_path: Path) -> None:
    """The others continue."""
    here, there = a_work(tmp_path / "here"), a_work(tmp_path / "there")
    failed: list[LogWork] = []
    with a_running_broker(tmp_path / "there"), brokers_kept_out([here, there], failed) as works:
        assert ["here"] == [work.key for work in works]
    assert ["there"] == [work.key for work in failed]
    assert isinstance(failed[0].failure, LogDirLocked)


def test_a_broker_cannot_start_meanwhile(tmp_path: Path) -> None:
    """Its lock is refused while ours is held, and free afterwards."""
    work = a_work(tmp_path / "here")
    with brokers_kept_out([work], []), pytest.raises(BlockingIOError):
        a_running_broker(tmp_path / "here").__enter__()
    with a_running_broker(tmp_path / "here"):
        pass


def test_a_log_that_cannot_be_recovered_stops_no_other(tmp_path: Path) -> None:
    """One directory has a directory where a segment should be, one has no segment."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1")])
    builder.write()
    (builder.log_dir / "u-0" / f"{0:020d}.log").mkdir(parents=True)
    (builder.log_dir / "v-0").mkdir()
    works = [
        LogWork(key=name, log_dir=builder.log_dir, partition=TopicPartition(name, 0))
        for name in ("t", "u", "v")
    ]
    state = SweepState(works=tuple(works), now_ms=TimestampMs(START_MS))
    recovered = recover(state, DirectorySettings(Policies()))
    assert ["u"] == list(recovered.failures)
    assert ["v"] == [work.key for work in recovered.works if work.recovered is not None]
    assert (builder.log_dir / "v-0" / f"{0:020d}.log").exists()
