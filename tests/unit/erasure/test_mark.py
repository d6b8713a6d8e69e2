"""Readers of a log notice that records were erased since they read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from logwright.config.topic import parse_settings
from logwright.erasure.erase.commit import erase_partition
from logwright.erasure.mark import MOST_KEYS, erased_keys, mark_steps, read_mark
from logwright.format.names import ERASURE_MARK, TopicPartition
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.tables.plan import Observed, plan_partition
from logwright.units import TimestampMs
from tests.crash.filesystems import CrashingFileSystem
from tests.crash.operations import interposed
from tests.erasing import PlainKeys
from tests.found import SECRET
from tests.log_builder import START_MS, LogBuilder

T0 = TopicPartition("t", 0)
SETTINGS = parse_settings({"cleanup.policy": "compact"})


def made(tmp_path: Path) -> LogBuilder:
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("me", "2")])
    log.segment(2)
    return log.write()


def erase(log: LogBuilder, key: bytes, now_ms: int) -> None:
    erase_partition(
        log.log_dir, T0, SETTINGS, PlainKeys([key]), now_ms=TimestampMs(START_MS + now_ms)
    )


def test_each_erasure_leaves_a_mark_of_its_own(tmp_path: Path) -> None:
    """One that finds nothing leaves the mark as it is."""
    log = made(tmp_path)
    assert read_mark(log.directory) is None
    erase(log, b"me", 1)
    first = read_mark(log.directory)
    assert first is not None
    assert first.endswith(" done")
    erase(log, b"me", 2)
    assert first == read_mark(log.directory)
    erase(log, b"a", 3)
    assert read_mark(log.directory) not in (None, first)


def test_mark_of_an_erasure_that_is_not_done(tmp_path: Path) -> None:
    """What is read in between is not taken for the log afterwards; the rerun marks it again."""
    log = made(tmp_path)

    class Dies(CrashingFileSystem):
        def __init__(self, inner: RealFileSystem) -> None:
            super().__init__(inner, crash_at=0)

        def before_call(self) -> None:
            mark = read_mark(log.directory)
            if mark is not None and mark.endswith(" begun"):
                marks.append(mark)

    marks: list[str] = []
    interposed(Dies, lambda: erase(log, b"me", 1))
    (begun,) = set(marks)
    assert begun != read_mark(log.directory)


def test_damaged_mark_is_one_of_its_own(tmp_path: Path) -> None:
    """It differs from every other, and is stable."""
    log = made(tmp_path)
    erase(log, b"me", 1)
    whole = read_mark(log.directory)
    path = log.directory / ".logwright" / ERASURE_MARK
    path.write_bytes(path.read_bytes().replace(b"true", b"null"))
    damaged = read_mark(log.directory)
    assert damaged is not None
    assert damaged.startswith("damaged ")
    assert damaged != whole
    assert damaged == read_mark(log.directory)


def test_table_is_rebuilt(tmp_path: Path) -> None:
    """Whatever else is as it was."""
    del tmp_path
    before = Observed(
        topic_id=None,
        log_start_offset=0,
        end_offset=4,
        high_watermark=4,
        log_end_offset=4,
        now_ms=1,
    )
    after = replace(before, erasure="x done")
    step = plan_partition(before.progress, after)
    assert ("rebuild", "records were erased from the log since") == (step.kind, step.reason)
    assert step.erased
    assert "nothing" == plan_partition(after.progress, after).kind


def test_a_mark_has_the_keys_of_all_erasures(tmp_path: Path) -> None:
    """Also of those before; of an erasure that is not done none is on record."""
    log = made(tmp_path)
    assert erased_keys(log.directory) is None
    for number, key in enumerate((b"me", b"a")):
        erase(log, key, number)
    assert tuple(SECRET.short(SECRET.hmac(one)) for one in (b"me", b"a")) == erased_keys(
        log.directory
    )
    content = mark_steps(log.directory, "x", ["0" * 16 + ":" + "1" * 16], done=False)
    with RealFileSystem(log.log_dir) as files:
        execute(content, files)
    assert erased_keys(log.directory) is None
    with RealFileSystem(log.log_dir) as files:
        execute(mark_steps(log.directory, "x", (), done=True), files)
    assert 3 == len(erased_keys(log.directory) or ())


def test_a_mark_has_the_last_keys(tmp_path: Path) -> None:
    """It does not grow without bound."""
    log = made(tmp_path)
    erase(log, b"me", 1)
    keys = [f"{'0' * 16}:{number:016x}" for number in range(MOST_KEYS)]
    with RealFileSystem(log.log_dir) as files:
        execute(mark_steps(log.directory, "x", keys, done=True), files)
    assert tuple(keys) == erased_keys(log.directory)
