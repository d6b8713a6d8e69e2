"""Each check finds the fault that it is for, says how many, and where the first is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.config.topic import parse_settings
from logwright.sweep.build import build, examine
from tests import faults
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan


def a_log(directory: Path, *, codec: int = 0) -> LogBuilder:
    """Three sealed segments in which later values replace earlier ones, and tombstones past their
    horizon.
    """
    builder = LogBuilder(directory)
    offset = 0
    for number in range(3):
        segment = builder.segment(offset)
        for batch in range(20):
            keys = [f"key-{(number * 31 + batch * 7 + n) % 97}" for n in range(10)]
            pairs = [(key, f"value {offset} {n} " * 8) for n, key in enumerate(keys)]
            segment.batch(offset, pairs, codec=codec)
            offset += 10
        segment.batch(offset, [("gone", None)], horizon_ms=START_MS)
        offset += 1
    builder.segment(offset)
    return builder.write()


def built(builder: LogBuilder, *, buffer: int = 1 << 20) -> tuple[CleanPlan, StagedCleaning]:
    config, cleaner = parse_settings(
        {"cleanup.policy": "compact", "index.interval.bytes": "512", "segment.ms": str(1 << 60)}
    )
    plan = forced_plan(
        builder.log_dir,
        builder.partition,
        (config, cleaner.model_copy(update={"dedupe_buffer_bytes": buffer})),
    )
    return plan, build(plan)


@pytest.mark.parametrize("codec", [0, 3])
def test_a_right_output_holds_every_check(tmp_path: Path, codec: int) -> None:
    """And the facts say what is in it."""
    plan, staged = built(a_log(tmp_path / "logs", codec=codec))
    facts = examine(plan, staged)
    assert () == facts.failed
    assert 97 == sum(segment.records for segment in facts.segments)
    assert (505, 1) == (staged.stats.removed_superseded, staged.stats.removed_tombstones)
    assert {codec} == {segment.max_codec for segment in facts.segments if segment.batches}


@pytest.mark.parametrize(
    ("plant", "check"),
    [
        (faults.lose_last_value, "latest_value_per_key"),
        (faults.disorder_offsets, "offsets_ascending"),
        (faults.break_crc, "crc_valid"),
        (faults.change_value, "survivors_identical"),
        (faults.change_timestamp, "survivors_identical"),
        (faults.misplace_index_entry, "index_entries_valid"),
    ],
)
@pytest.mark.parametrize("codec", [0, 4])
def test_a_planted_fault_breaks_its_check(
    tmp_path: Path, plant: Callable[[StagedCleaning], int], check: str, codec: int
) -> None:
    """The first offender is where the fault was planted."""
    plan, staged = built(a_log(tmp_path / "logs", codec=codec))
    offset = plant(staged)
    verdicts = {each.name: each for each in examine(plan, staged).checks}
    assert not verdicts[check].passed
    assert verdicts[check].violations >= 1
    assert offset == verdicts[check].first_offset


def test_a_record_that_comes_from_nowhere_is_found(tmp_path: Path) -> None:
    """A staged batch that the source does not have."""
    plan, staged = built(a_log(tmp_path / "logs"))
    path = faults.staged_log(staged)
    foreign = LogBuilder(tmp_path / "elsewhere")
    foreign.segment(0).batch(10_000, [("alien", "x")])
    path.write_bytes(path.read_bytes() + foreign.segments[0].content)
    verdicts = {each.name: each for each in examine(plan, staged).checks}
    assert 10_000 == verdicts["survivors_identical"].first_offset


def test_the_keys_are_judged_in_shards_when_memory_is_short(tmp_path: Path) -> None:
    """The same verdict with the smallest budget on a log of many keys."""
    builder = LogBuilder(tmp_path / "logs")
    keys = 60_000
    segment = builder.segment(0)
    for start in range(0, keys, 1000):
        segment.batch(start, [(f"key-{start + n}", "v") for n in range(1000)])
    builder.segment(keys)
    plan, staged = built(builder.write(), buffer=240_000)
    assert () == examine(plan, staged).failed
    lost = faults.lose_last_value(staged)
    broken = examine(plan, staged).failed
    assert ("latest_value_per_key", 1, lost) in [
        (check.name, check.violations, check.first_offset) for check in broken
    ]


def test_a_cut_staged_file_is_found(tmp_path: Path) -> None:
    """Batches that cannot be distinguished do not count as output."""
    plan, staged = built(a_log(tmp_path / "logs"))
    path = faults.staged_log(staged)
    path.write_bytes(path.read_bytes()[:-3])
    verdicts = {each.name: each for each in examine(plan, staged).checks}
    assert not verdicts["crc_valid"].passed
    assert not verdicts["latest_value_per_key"].passed
