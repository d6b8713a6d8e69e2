"""An erasure takes the records of some keys out of a log, and leaves all else as it is."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from logwright.config.topic import parse_settings
from logwright.erasure.erase.commit import (
    build_and_check,
    commit_erasure,
    erase_partition,
    plan_erasure_of,
)
from logwright.errors import CannotUndo
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions
from logwright.recovery.directory_plan import partitions_to_recover
from logwright.recovery.model import RecoveryOptions
from logwright.sweep.build import build
from logwright.sweep.commit import commit
from logwright.sweep.recover import recover_directory
from logwright.undo.observe import plan_undo_of
from logwright.units import TimestampMs
from logwright.verify.partition import verify_partition
from tests.erasing import (
    PlainKeys,
    bytes_anywhere,
    keys_in,
    logs_of,
    require_erased,
    settings_of_case,
)
from tests.fixtures import CASES, copy_before, description
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan

T0 = TopicPartition("t", 0)
NOW = TimestampMs(START_MS + 10_000)
COMPACT = {"cleanup.policy": "compact", "delete.retention.ms": "1000"}


def stamp(path: Path) -> tuple[int, int, int, int]:
    """What a change of a file changes."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def no_progress(phase: str, done: int, total: int) -> None:
    del phase, done, total


TORN_BEHIND_A_MARKER = "torn-tail-marked-clean"
"""No command works on it without a recovery by hand."""


def built(log_dir: Path, codec: int = 0) -> LogBuilder:
    """Transactions, tombstones, horizons, gaps, LogAppendTime, a batch of one key alone."""
    log = LogBuilder(log_dir)
    first = log.segment(0)
    first.batch(0, [("a", "1"), ("me", "2"), ("b", "3")], codec=codec)
    first.batch(3, [("me", "4")], codec=codec)
    first.batch(4, [("c", None), ("me", None)], codec=codec, horizon_ms=START_MS + 99_000)
    first.batch(
        6, [("me", "5"), ("d", "6")], producer_id=7, transactional=True, codec=codec, sequence=0
    )
    first.marker(8, 7, "abort")
    second = log.segment(9)
    second.batch(9, [("a", None), ("me", "7")], offsets=[10, 14], last_offset=16, codec=codec)
    second.batch(17, [(None, "8"), ("me", "9")], append_time_ms=START_MS + 50, codec=codec)
    second.batch(19, [("me", "10")], producer_id=8, codec=codec, sequence=0)
    third = log.segment(20)
    third.batch(20, [("e", "11")], codec=codec)
    active = log.segment(21)
    active.batch(
        21, [("me", "12"), ("f", "13")], producer_id=9, transactional=True, codec=codec, sequence=0
    )
    return log.write(producers=True, index_interval=4096)


@pytest.mark.parametrize("codec", range(5))
def test_all_other_records_stay_as_they_are(tmp_path: Path, codec: int) -> None:
    """In every codec: offsets, order, timestamps, headers of batches, markers; nothing is added."""
    log = built(tmp_path / "logs", codec)
    before = logs_of(log.directory)
    untouched = stamp(log.directory / f"{20:020d}.log")
    done = erase_partition(log.log_dir, T0, parse_settings(COMPACT), PlainKeys([b"me"]), now_ms=NOW)
    after = logs_of(log.directory)
    require_erased(before, after, [b"me"])
    assert keys_in(after) == [b"a", b"b", b"c", b"d", b"e", b"f"]
    assert (8, (0, 9, 21), True) == (done.records, done.segments, done.rolled)
    assert untouched == stamp(log.directory / f"{20:020d}.log")
    assert verify_partition(log.log_dir, T0) == []
    assert list(log.directory.glob("*.deleted")) == []


def test_last_batch_of_a_producer_stays_empty(tmp_path: Path) -> None:
    """Its sequence numbers are not lost."""
    log = built(tmp_path / "logs")
    erase_partition(log.log_dir, T0, parse_settings(COMPACT), PlainKeys([b"me"]), now_ms=NOW)
    content = logs_of(log.directory)[9]
    assert content.count((8).to_bytes(8, "big")) == 1


def test_no_batch_gets_a_delete_horizon(tmp_path: Path) -> None:
    """A tombstone that stays in a rebuilt batch keeps its time to live: it is not a cleaning."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", None), ("me", "1")])
    log.segment(2)
    log.write()
    before = logs_of(log.directory)
    erase_partition(log.log_dir, T0, parse_settings(COMPACT), PlainKeys([b"me"]), now_ms=NOW)
    require_erased(before, logs_of(log.directory), [b"me"])


def test_retired_files_go_at_once_and_nothing_can_be_undone(tmp_path: Path) -> None:
    """Not only the files that the erasure replaced: also those that a cleaning has retired."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("erase-me", "1"), ("a", "2"), ("erase-me", "3")])
    log.segment(3).batch(3, [("b", "4")])
    log.segment(4).batch(4, [("erase-me", "5")])
    log.write()
    plan = forced_plan(log.log_dir, T0, COMPACT)
    commit(plan, build(plan))
    assert bytes_anywhere(tmp_path, b"erase-me")
    done = erase_partition(
        log.log_dir, T0, parse_settings(COMPACT), PlainKeys([b"erase-me"]), now_ms=NOW
    )
    assert f"{0:020d}.log.deleted" in done.purged
    assert bytes_anywhere(tmp_path, b"erase-me") == []
    with pytest.raises(CannotUndo, match="it erased records permanently"):
        plan_undo_of(log.log_dir, T0)


def test_second_run_has_nothing_to_do(tmp_path: Path) -> None:
    """It does not roll, rebuild or unlink anything."""
    log = built(tmp_path / "logs")
    keys = PlainKeys([b"me"])
    erase_partition(log.log_dir, T0, parse_settings(COMPACT), keys, now_ms=NOW)
    names = {path.name: stamp(path) for path in log.directory.iterdir() if path.is_file()}
    done = erase_partition(log.log_dir, T0, parse_settings(COMPACT), keys, now_ms=NOW)
    assert (0, (), False, ()) == (done.records, done.segments, done.rolled, done.purged)
    assert names == {path.name: stamp(path) for path in log.directory.iterdir() if path.is_file()}


@pytest.mark.parametrize("name", [name for name in CASES if name != TORN_BEHIND_A_MARKER])
def test_logs_that_kafka_wrote(tmp_path: Path, name: str) -> None:
    """Every third key of each log of each case is erased; the log is whole afterwards."""
    log_dir = copy_before(name, tmp_path)
    settings = parse_settings(settings_of_case(name))
    now = TimestampMs(description(name)["now"])
    partitions = list_partitions(log_dir)
    if damaged := partitions_to_recover(log_dir, partitions):
        options = RecoveryOptions(accept_loss=True)
        recover_directory(log_dir, damaged, lambda _: settings[0], now_ms=now, options=options)
    for directory in sorted(path for path in log_dir.iterdir() if any(path.glob("*.log"))):
        partition = TopicPartition.parse(directory.name)
        if partition is None:
            continue
        before = logs_of(directory)
        keys = list(islice(keys_in(before), 0, None, 3))
        plan = plan_erasure_of(
            log_dir, partition, settings, PlainKeys(keys), now_ms=now, progress=no_progress
        )
        staged = build_and_check(plan, PlainKeys(keys), progress=no_progress)
        commit_erasure(staged, PlainKeys(keys))
        after = logs_of(directory)
        require_erased(before, after, keys)
        assert not set(keys) & set(keys_in(after))
        assert verify_partition(log_dir, partition) == []
