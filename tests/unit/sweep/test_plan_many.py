"""The plans of many partitions are the plans of each."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from logwright.compaction.model import CleaningOptions, CleanPlan
from logwright.config.topic import CleanerConfig, TopicConfig, parse_settings
from logwright.errors import CorruptIndex, LogDirLocked, LogwrightError, NotALogDir, PolicyError
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions
from logwright.sweep.plan import Outcome, plan_cleaning, plan_cleanings
from logwright.units import TimestampMs
from tests.log_builder import START_MS, LogBuilder

REPOSITORY = Path(__file__).parents[3]
PARTITIONS = 131
NOW_MS = TimestampMs(START_MS + 10_000)
OPTIONS = CleaningOptions()


def logs(log_dir: Path) -> tuple[TopicPartition, ...]:
    """Of one to four segments, the last of them empty."""
    for number in range(PARTITIONS):
        builder = LogBuilder(log_dir, f"t-{number}")
        for base in range(number % 4):
            builder.segment(base).batch(base, [("a", str(number))])
        builder.segment(number % 4)
        builder.write()
    return tuple(list_partitions(log_dir))


def settings(topic: str) -> tuple[TopicConfig, CleanerConfig]:
    if topic == "wrong":
        raise PolicyError("these settings are wrong.", remedy="Others.")
    return parse_settings({"cleanup.policy": "compact"})


def plan_many(log_dir: Path, partitions: Sequence[TopicPartition]) -> list[Outcome]:
    return plan_cleanings(
        log_dir, partitions, settings, now_ms=NOW_MS, options=OPTIONS, high_watermark="checkpoint"
    )


def plan_each(log_dir: Path, partition: TopicPartition) -> Outcome:
    try:
        return plan_cleaning(
            log_dir,
            partition,
            settings(partition.topic),
            now_ms=NOW_MS,
            options=OPTIONS,
            high_watermark="checkpoint",
        )
    except LogwrightError as error:
        return error


def comparable(outcome: Outcome) -> object:
    if isinstance(outcome, CleanPlan):
        return outcome._replace(plan_id="", planned_ns=0)
    return type(outcome), str(outcome)


def test_they_are_as_planned_one_by_one(tmp_path: Path) -> None:
    """In the partitions' order; what is wrong with one is where its plan would be."""
    partitions = [*logs(tmp_path), TopicPartition("gone", 0), TopicPartition("wrong", 0)]
    (tmp_path / "replication-offset-checkpoint").write_text("0\n2\nt 3 2\nt 7 3\n")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\nt 7 1\n")
    (tmp_path / "t-2" / f"{0:020d}.timeindex").write_bytes(b"short")
    (tmp_path / "t-30" / f"{0:020d}.log.swap").touch()
    (tmp_path / "t-31" / ".logwright").mkdir()
    together = plan_many(tmp_path, partitions)
    assert [comparable(plan_each(tmp_path, one)) for one in partitions] == [
        comparable(plan) for plan in together
    ]
    assert isinstance(together[partitions.index(TopicPartition("t", 2))], CorruptIndex)
    assert 4 == sum(isinstance(one, LogwrightError) for one in together)
    plans = [one for one in together if isinstance(one, CleanPlan)]
    assert len(plans) == len({plan.plan_id for plan in plans})


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    """Neither of a log that was planned nor of one that was refused."""
    partitions = logs(tmp_path)
    (tmp_path / "t-2" / f"{0:020d}.timeindex").write_bytes(b"short")
    before = len(list(Path("/proc/self/fd").iterdir()))
    plan_many(tmp_path, partitions)
    assert before == len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_is_planned_under_a_broker(tmp_path: Path) -> None:
    """It is said once, not of each partition; a lock file that nobody holds does not matter."""
    partitions = logs(tmp_path)
    with (tmp_path / ".lock").open("w") as file:
        exclusive = struct.pack("hhqqi0q", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, exclusive)
        with pytest.raises(LogDirLocked):
            plan_many(tmp_path, partitions)
    assert all(isinstance(one, CleanPlan) for one in plan_many(tmp_path, partitions))


def test_a_missing_log_dir(tmp_path: Path) -> None:
    """It is said once, even if there is nothing to plan."""
    with pytest.raises(NotALogDir):
        plan_many(tmp_path / "gone", ())
