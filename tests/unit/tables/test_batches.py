"""A copy of a log that comes without the mark of an erasure is noticed by its batches."""

from __future__ import annotations

import json
import random
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Never

import pytest

from logwright.config.topic import CleanerConfig, parse_settings
from logwright.erasure.erase.commit import erase_partition
from logwright.format.names import LOG, TopicPartition, segment_file_name
from logwright.log.load import observe
from logwright.tables.batches import Batches, BatchesOf, are_others
from logwright.tables.logs import TopicLog, source_of
from logwright.tables.plan import plan_partition
from logwright.units import TimestampMs
from tests.erasing import PlainKeys
from tests.log_builder import START_MS, LogBuilder

T0 = TopicPartition("t", 0)
SETTINGS = parse_settings({"cleanup.policy": "compact"})
END = 6


def made(log_dir: Path) -> Path:
    log = LogBuilder(log_dir)
    log.segment(0).batch(0, [("a", "1"), ("me", "2")]).batch(2, [("b", "3")])
    log.segment(3).batch(3, [("me", "4"), ("a", "5")])
    log.segment(5).batch(5, [("z", "6")])
    log.write()
    return log_dir


def source(log_dir: Path) -> TopicLog:
    return TopicLog(
        log=observe(log_dir, T0, high_watermark="end"),
        topic_id=None,
        cleaner=CleanerConfig(),
    )


def batches(log_dir: Path, end: int = END) -> Batches:
    found = source_of(source(log_dir), now_ms=START_MS).batches(end, None)
    assert found is not None
    return found


def step(before: Path, after: Path) -> str:
    """What a table does that was made from one log and finds another."""
    first = source_of(source(before), now_ms=START_MS)
    held = replace(first.observed, tail=first.tail(END), batches=first.batches(END, None))
    recorded = held.progress
    second = source_of(source(after), now_ms=START_MS)
    observed = replace(
        second.observed, tail=second.tail(END), batches=second.batches(END, recorded.batches)
    )
    return plan_partition(recorded, observed).kind


def erase(log_dir: Path) -> None:
    erase_partition(log_dir, T0, SETTINGS, PlainKeys([b"me"]), now_ms=TimestampMs(START_MS))


def without_mark(log_dir: Path) -> None:
    shutil.rmtree(log_dir / "t-0" / ".logwright", ignore_errors=True)


def copied(log_dir: Path, to: Path) -> Path:
    """A copy as `rsync --archive --exclude .logwright` makes it."""
    shutil.copytree(log_dir, to)
    without_mark(to)
    return to


def test_an_erased_log_without_its_mark(tmp_path: Path) -> None:
    """In place, or as a copy: the table reads it again."""
    before = made(tmp_path / "before")
    erased = copied(before, tmp_path / "erased")
    assert "nothing" == step(before, erased)
    erase(erased)
    without_mark(erased)
    assert "rebuild" == step(before, erased)
    assert "rebuild" == step(before, copied(erased, tmp_path / "copy"))


def test_a_rolled_copy_of_the_same_batches(tmp_path: Path) -> None:
    """Other files with the same batches, as a broker fetches them: nothing to do."""
    before = made(tmp_path / "before")
    other = LogBuilder(tmp_path / "other")
    other.segment(0).batch(0, [("a", "1"), ("me", "2")])
    last = other.segment(2).batch(2, [("b", "3")])
    last.batch(3, [("me", "4"), ("a", "5")]).batch(5, [("z", "6")])
    other.write()
    assert batches(before).files != batches(other.log_dir).files
    assert batches(before).total == batches(other.log_dir).total
    assert "nothing" == step(before, other.log_dir)


def test_the_sum_is_that_of_its_parts(tmp_path: Path) -> None:
    """Below any offset, in any order of asking."""
    log = source(made(tmp_path / "logs")).log
    draw = random.Random(3)
    ends = (0, 2, 3, 5, 6)
    whole = {end: batches(log.log_dir, end) for end in ends}
    assert len(ends) == len({one.total for one in whole.values()})
    for _ in range(20):
        below = source_of(source(log.log_dir), now_ms=START_MS).batches
        for end in draw.choices(ends, k=4):
            assert whole[end] == below(end, None)


def test_headers_are_read_only_if_the_files_are_others(tmp_path: Path) -> None:
    """As long as they are the same, what is recorded is taken; of the segments before the last one
    alone, too. A table of an earlier version has not recorded those.
    """
    log = source(made(tmp_path / "logs")).log
    recorded = batches(log.log_dir)

    def pieces(start: int, end: int) -> Never:
        raise AssertionError((start, end))

    assert recorded == BatchesOf(log, pieces).below(END, recorded)
    for changed, first in (
        (replace(recorded, files="others"), 5),
        (replace(recorded, files="others", closed=("others", "0" * 32)), 0),
        (replace(recorded, closed=None), 0),
    ):
        with pytest.raises(AssertionError, match=rf"\({first}, "):
            BatchesOf(log, pieces).below(END, changed)


def test_another_last_segment_of_the_same_inode(tmp_path: Path) -> None:
    """It is not taken for the one that has grown, although its last record is the same."""

    def alone(name: str, value: str) -> Path:
        log = LogBuilder(tmp_path / name)
        log.segment(0).batch(0, [("me", value)]).batch(1, [("z", "2")])
        log.write()
        return log.log_dir / "t-0" / segment_file_name(0, LOG)

    file, other = alone("logs", "1"), alone("other", "11")
    first = source_of(source(tmp_path / "logs"), now_ms=START_MS)
    recorded, tail, inode = first.batches(2, None), first.tail(2), file.stat().st_ino
    file.write_bytes(other.read_bytes())
    second = source_of(source(tmp_path / "logs"), now_ms=START_MS)
    assert inode == file.stat().st_ino
    assert tail is not None
    assert tail.is_of(second.tail(2))
    assert are_others(recorded, second.batches(2, recorded))


def test_what_is_stored_is_read_again(tmp_path: Path) -> None:
    """Also what an earlier version has stored, and nothing of another form."""
    known = batches(made(tmp_path / "logs"))
    stored = json.loads(json.dumps(asdict(known)))
    assert known == Batches.of(stored)
    del stored["closed"]
    assert replace(known, closed=None) == Batches.of(stored)
    with pytest.raises(ValueError, match="unpack"):
        Batches.of(stored | {"closed": ["a"]})


@pytest.mark.parametrize(
    ("recorded_to", "observed_to", "expected"),
    [
        (None, None, True),
        (5, 5, True),
        (5, 4, True),
        (5, None, True),
        (None, 5, False),
        (5, 6, False),
    ],
)
def test_a_cleaning_explains_other_batches(
    recorded_to: int | None, observed_to: int | None, *, expected: bool
) -> None:
    """If the cleaner checkpoint has moved on since; the same batches need no explanation."""
    recorded = Batches(files="a", total="1", cleaned_to=recorded_to)
    observed = Batches(files="b", total="2", cleaned_to=observed_to)
    assert expected == are_others(recorded, observed)
    assert not are_others(recorded, replace(observed, total="1"))
    assert not are_others(None, observed)
