"""An erasure that dies before any of its calls is completed by the same command: no key is left in
any file, and no other record is lost.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.config.topic import parse_settings
from logwright.erasure.erase.commit import (
    build_and_check,
    commit_erasure,
    erase_partition,
    plan_erasure_of,
)
from logwright.errors import StalePlan
from logwright.format.names import TopicPartition
from logwright.recovery.directory_plan import partitions_to_recover
from logwright.recovery.model import RecoveryOptions
from logwright.state.erasure_mark import Erasure, erased_keys
from logwright.steps.failed_output import FailedOutput, keep_failed_output
from logwright.sweep.build import build
from logwright.sweep.commit import commit
from logwright.sweep.recover import recover_directory
from logwright.units import TimestampMs
from logwright.verify.partition import verify_partition
from tests.crash.filesystems import Crash, CrashingFileSystem, FailingFileSystem
from tests.crash.operations import interposed, relink
from tests.differential.random_logs import scratch_directory
from tests.e2e.command import call
from tests.erasing import PlainKeys, batches_of, bytes_anywhere, logs_of, require_erased
from tests.found import SECRET
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan
from tests.sequences.faults import NO_FAULT, Fault, interrupted

pytestmark = pytest.mark.crash

T0 = TopicPartition("t", 0)
NOW = TimestampMs(START_MS + 20_000)
SETTINGS = parse_settings({"cleanup.policy": "compact", "internal.segment.bytes": "500"})
ME = b"the-erased-key"
KEYS = PlainKeys([ME])
PARTS = 8
"""Of the calls at which a command dies."""


@pytest.fixture
def scratch() -> Iterator[Path]:
    """An empty directory in memory."""
    with scratch_directory() as directory:
        yield directory


def made(log_dir: Path) -> LogBuilder:
    """A log with the key in live segments, retired files, staged and kept output, a cut piece."""
    log = LogBuilder(log_dir)
    me = ME.decode()
    log.segment(0).batch(0, [("a", "1"), (me, "2"), ("b", "3"), (me, "4")])
    log.segment(4).batch(4, [(me, "5")], producer_id=7, transactional=True, sequence=0).batch(
        5, [("c", "6")]
    )
    log.segment(6).marker(6, 7, "abort").batch(7, [(me, "7"), ("d", "8")])
    log.segment(9).batch(9, [("e", "9" * 400)])
    log.segment(10).batch(10, [(me, "10"), ("f", "11")], producer_id=8, sequence=0)
    log.write(producers=True, index_interval=90)
    plan = forced_plan(log_dir, T0, SETTINGS, now_ms=START_MS + 10_000)
    commit(plan, build(plan))
    cut = log.directory / ".logwright" / "cut" / "1-0"
    staged = log.directory / ".logwright" / "staging" / "1-00000000-00000000"
    failed = log.directory / ".logwright" / "failed" / f"{START_MS}.1-00000000-00000001"
    for directory in (cut, staged, failed):
        directory.mkdir(parents=True)
        (directory / f"{0:020d}.log").write_bytes(log.segments[0].content)
    return log


def recovered(log_dir: Path) -> None:
    """What the command does before its own work."""
    if damaged := partitions_to_recover(log_dir, [T0]):
        options = RecoveryOptions()
        result = recover_directory(
            log_dir, damaged, lambda _: SETTINGS[0], now_ms=NOW, options=options
        )
        assert result.failures == {}


def erase(log_dir: Path) -> None:
    erase_partition(log_dir, T0, SETTINGS, KEYS, now_ms=NOW)


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_an_erasure_that_dies_is_completed_by_the_next(part: int, scratch: Path) -> None:
    """At every call: rerun, the key is nowhere, the other records and their batches are as they
    were, and the log is whole.
    """
    log = made(scratch / "made")
    before = logs_of(log.directory)
    assert len(bytes_anywhere(scratch, ME)) >= 8
    whole = scratch / "whole"
    shutil.copytree(scratch / "made", whole)
    relink(scratch / "made", whole)
    calls = interposed(
        lambda real: FailingFileSystem(real, fail_at=0, code=0), lambda: erase(whole)
    ).calls
    expected = logs_of(whole / "t-0")
    assert bytes_anywhere(whole, ME) == []
    require_erased(before, expected, [ME])
    assert calls > 60
    for number in range(1 + part, calls + 1, PARTS):
        log_dir = scratch / str(number)
        shutil.copytree(scratch / "made", log_dir)
        relink(scratch / "made", log_dir)
        with pytest.raises(Crash):
            interposed(
                lambda real, number=number: CrashingFileSystem(real, crash_at=number),  # type: ignore[misc]
                lambda log_dir=log_dir: erase(log_dir),  # type: ignore[misc]
            )
        recovered(log_dir)
        erase(log_dir)
        assert bytes_anywhere(log_dir, ME) == [], number
        assert expected == logs_of(log_dir / "t-0"), number
        assert verify_partition(log_dir, T0) == [], number
        shutil.rmtree(log_dir)


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_an_erasure_by_the_rules_that_dies_is_completed_by_the_next(
    part: int, scratch: Path
) -> None:
    """At every call: the same command again appends each tombstone once, notes each key that was
    erased, and loses nothing else.
    """
    log = LogBuilder(scratch / "made")
    me = ME.decode()
    log.segment(0).batch(0, [("a", "1"), (me, "2"), ("other", "3")])
    log.segment(3).batch(3, [(me, "4"), ("b", "5")])
    log.write()
    (scratch / "keys").write_text(f"{me}\nother\n")
    (scratch / "secret").write_bytes(b"s" * 32)
    (scratch / "secret").chmod(0o600)
    whole = scratch / "whole"
    shutil.copytree(scratch / "made", whole)
    with interrupted(NO_FAULT, whole) as counted:
        by_rules(whole)
    expected = rows_of(whole)
    assert [(b"a", b"1"), (b"b", b"5"), (b"other", None), (ME, None)] == sorted(expected)
    noted = {
        SECRET.short(SECRET.hmac(key)): Erasure(NOW, "by tombstones") for key in (ME, b"other")
    }
    assert noted == erased_keys(whole / "t-0")
    assert counted.calls > 40
    for number in range(1 + part, counted.calls + 1, PARTS):
        log_dir = scratch / str(number)
        shutil.copytree(scratch / "made", log_dir)
        with interrupted(Fault("kill", number), log_dir), pytest.raises(Crash):
            by_rules(log_dir)
        by_rules(log_dir)
        assert expected == rows_of(log_dir), number
        assert noted == erased_keys(log_dir / "t-0"), number
        assert verify_partition(log_dir, T0) == [], number
        shutil.rmtree(log_dir)


@pytest.mark.rotates(PARTS)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_command_that_dies_among_many_directories_is_completed(part: int, scratch: Path) -> None:
    """At every call: live, stray, future and deleted logs, of which none is left with the key."""
    made_dir = scratch / "made"
    log = LogBuilder(made_dir)
    log.segment(0).batch(0, [("a", "1"), (ME.decode(), "2")])
    log.segment(2)
    log.write()
    for mark in ("stray", "future", "delete"):
        shutil.copytree(log.directory, made_dir / f"t-1.{'0' * 32}-{mark}")
    (scratch / "keys").write_text(f"{ME.decode()}\n")
    whole = scratch / "whole"
    shutil.copytree(made_dir, whole)
    with interrupted(NO_FAULT, whole) as counted:
        command(whole, "--now-and-for-good")
    expected = kept_logs(whole)
    assert len(expected) == 6
    assert counted.calls >= PARTS
    for number in range(1 + part, counted.calls + 1, PARTS):
        log_dir = scratch / str(number)
        shutil.copytree(made_dir, log_dir)
        with interrupted(Fault("kill", number), log_dir), pytest.raises(Crash):
            command(log_dir, "--now-and-for-good")
        command(log_dir, "--now-and-for-good")
        assert bytes_anywhere(log_dir, ME) == [], number
        assert expected == kept_logs(log_dir), number
        shutil.rmtree(log_dir)


def kept_logs(log_dir: Path) -> dict[Path, bytes]:
    """The segments of all logs but deleted ones: what an interruption leaves of these has no match
    any more, and goes when it is due.
    """
    return {
        path.relative_to(log_dir): path.read_bytes()
        for path in log_dir.rglob("*.log")
        if not path.parent.name.endswith("-delete")
    }


def by_rules(log_dir: Path) -> None:
    """Erase by the rules: the tombstones have the keys, so records of them are left."""
    command(log_dir, "--secret", str(log_dir.parent / "secret"), left=8)


def command(log_dir: Path, *words: str, left: int = 0) -> None:
    """Call the command, which ends well: with this exit status."""
    done = call(
        *("erase", log_dir, "--keys", log_dir.parent / "keys", "--now", NOW, "--yes", *words),
        *("--config", "cleanup.policy=compact", "--config", "file.delete.delay.ms=1000000"),
    )
    assert left == done.status, done.err


def rows_of(log_dir: Path) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of the live records, in their order."""
    return [
        (record.key, record.value)
        for content in logs_of(log_dir / "t-0").values()
        for batch in batches_of(content)
        for record in batch.records
    ]


def test_output_that_a_purge_took_is_not_swapped_in(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit finds it gone, and nothing is changed."""
    monkeypatch.setattr("logwright.steps.failed_output.LEAST_FREE_SHARE", 0.0)
    log = made(scratch / "made")
    before = logs_of(log.directory)
    plan = plan_erasure_of(log.log_dir, T0, SETTINGS, KEYS, now_ms=NOW, progress=lambda *_: None)
    staged = build_and_check(plan, KEYS, progress=lambda *_: None)
    output = FailedOutput(due_at_ms=NOW, plan_id=plan.plan_id)
    assert keep_failed_output(log.directory, output)
    with pytest.raises(StalePlan):
        commit_erasure(staged, KEYS)
    assert before == logs_of(log.directory)
