"""Readers of a log notice that records were erased since they read it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from logwright.config.topic import parse_settings
from logwright.erasure.erase.commit import erase_partition
from logwright.format.lines import serialize_line
from logwright.format.names import ERASURE_MARK, TopicPartition
from logwright.state.erasure_mark import (
    MOST_KEYS,
    Erasure,
    erased_keys,
    mark_steps,
    note_steps,
    read_mark,
)
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


def short(key: bytes) -> str:
    """What a mark has of a key."""
    return SECRET.short(SECRET.hmac(key))


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
    assert {
        short(key): Erasure(START_MS + number, "at once")
        for number, key in enumerate((b"me", b"a"))
    } == erased_keys(log.directory)
    begun = {"0" * 16 + ":" + "1" * 16: Erasure(1, "at once")}
    content = mark_steps(log.directory, "x", begun, done=False)
    with RealFileSystem(log.log_dir) as files:
        execute(content, files)
    assert erased_keys(log.directory) is None
    with RealFileSystem(log.log_dir) as files:
        execute(mark_steps(log.directory, "x", {}, done=True), files)
    assert 3 == len(erased_keys(log.directory) or ())


def test_a_mark_has_the_last_keys(tmp_path: Path) -> None:
    """It does not grow without bound."""
    log = made(tmp_path)
    erase(log, b"me", 1)
    keys = {f"{'0' * 16}:{number:016x}": Erasure(1, "at once") for number in range(MOST_KEYS)}
    with RealFileSystem(log.log_dir) as files:
        execute(mark_steps(log.directory, "x", keys, done=True), files)
    assert keys == erased_keys(log.directory)


def note(log: LogBuilder, now_ms: int, *keys: bytes) -> None:
    """What an erasure by tombstones notes."""
    erased = dict.fromkeys(map(short, keys), Erasure(now_ms, "by tombstones"))
    with RealFileSystem(log.log_dir) as files:
        execute(note_steps(log.directory, erased), files)


def test_an_erasure_by_tombstones_is_noted(tmp_path: Path) -> None:
    """A key has the time of its last erasure, also if an earlier one is noted after it; without a
    new tombstone nothing is written. For readers of the log the mark stays the same.
    """
    log = made(tmp_path)
    (log.directory / ".logwright").mkdir()
    note(log, 4)
    assert erased_keys(log.directory) is None
    note(log, 5, b"me")
    note(log, 4, b"me")
    assert read_mark(log.directory) is None
    assert {short(b"me"): Erasure(5, "by tombstones")} == erased_keys(log.directory)
    erase(log, b"me", 7)
    marked = read_mark(log.directory)
    note(log, 8, b"a")
    assert marked == read_mark(log.directory)
    assert {
        short(b"me"): Erasure(START_MS + 7, "at once"),
        short(b"a"): Erasure(8, "by tombstones"),
    } == erased_keys(log.directory)


def test_a_damaged_mark_is_left(tmp_path: Path) -> None:
    """A reader takes it for one of its own, and it stays that."""
    log = made(tmp_path)
    erase(log, b"me", 1)
    path = log.directory / ".logwright" / ERASURE_MARK
    path.write_bytes(path.read_bytes().replace(b"true", b"null"))
    damaged = read_mark(log.directory)
    note(log, 2, b"a")
    assert damaged == read_mark(log.directory)


@pytest.mark.parametrize(
    ("keys", "known"),
    [
        (["{key}", 7, None, "x"], True),
        ([["{key}", 5, "at once"], ["{key}"], [], [[]]], True),
        ([["{key}", "5", "at once"]], True),
        ([["{key}", 5, "by hand"]], True),
        (7, False),
    ],
)
def test_a_mark_of_before_and_others(tmp_path: Path, keys: object, *, known: bool) -> None:
    """A mark without times still has its keys; what is not a key's entry is left out."""
    log = made(tmp_path)
    (log.directory / ".logwright").mkdir()
    text = json.dumps(keys).replace("{key}", short(b"me"))
    content = serialize_line({"id": "x", "done": True, "keys": json.loads(text)})
    (log.directory / ".logwright" / ERASURE_MARK).write_bytes(content)
    assert ({short(b"me"): Erasure()} if known else {}) == erased_keys(log.directory)
