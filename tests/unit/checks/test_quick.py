"""The quick checks by themselves find each kind of fault that a build or a disk can make."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from logwright.batches.runtime import Runtime
from logwright.checks.model import OutputFacts
from logwright.checks.quick import examine_quickly
from logwright.checks.thorough import examine_thoroughly
from logwright.compaction import build as building
from logwright.compaction.model import CleanPlan, StagedCleaning
from logwright.compaction.survivors import Survivors
from logwright.config.topic import parse_settings
from logwright.format.batch import parse_batch, walk_batches
from logwright.format.names import segment_file_name
from logwright.format.record import Record
from logwright.sweep.build import build, examine
from logwright.units import Offset
from tests import faults
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan

NOW_MS = START_MS + 10_000
RECORDS = 10
YOUNG = "young"
"""Key of a tombstone whose horizon is not reached."""


def a_log(directory: Path, *, codec: int = 0, checkpoint: int | None = None) -> LogBuilder:
    """Three sealed segments of two groups: batches that stay, go, and lose some of their records,
    a tombstone that goes and one that stays, an aborted transaction, keys of one record.
    """
    builder = LogBuilder(directory)
    offset = 0
    for number in range(3):
        segment = builder.segment(offset)
        for batch in range(24):
            shared = (0, RECORDS // 2, RECORDS)[batch % 3]
            keys = [f"{'all' if n < shared else f'{number} {batch}'} {n}" for n in range(RECORDS)]
            pairs = [(key, f"value {offset} {n} " * 5) for n, key in enumerate(keys)]
            segment.batch(offset, pairs, codec=codec)
            offset += RECORDS
        segment.batch(offset, [(f"old {number}", None)], horizon_ms=START_MS)
        segment.batch(offset + 1, [(YOUNG, None)], horizon_ms=NOW_MS + 1)
        segment.batch(offset + 2, [("x", "aborted")], producer_id=7, transactional=True)
        segment.marker(offset + 3, 7, "abort")
        offset += 4
    builder.segment(offset)
    return builder.write(producers=True, cleaner_checkpoint=checkpoint)


def a_plan(builder: LogBuilder, *, buffer: int = 1 << 20, like_kafka: bool = False) -> CleanPlan:
    """Segments become groups of one or two."""
    config, cleaner = parse_settings(
        {
            "cleanup.policy": "compact",
            "index.interval.bytes": "512",
            "segment.ms": str(1 << 60),
            "segment.bytes": str(50_000),
        }
    )
    return forced_plan(
        builder.log_dir,
        builder.partition,
        (config, cleaner.model_copy(update={"dedupe_buffer_bytes": buffer})),
        now_ms=NOW_MS,
        like_kafka=like_kafka,
    )


def broken(facts: OutputFacts) -> set[str]:
    """The checks that fail."""
    return {check.name for check in facts.failed}


@pytest.mark.parametrize("codec", [0, 3, 4])
@pytest.mark.parametrize(
    ("checkpoint", "buffer", "like_kafka"),
    [(None, 1 << 20, False), (200, 1 << 20, False), (None, 1200, False), (None, 2400, True)],
    ids=["all", "clean-section", "shards", "map-ends"],
)
def test_a_right_output_holds_every_check_and_has_the_same_facts(
    tmp_path: Path, codec: int, checkpoint: int | None, buffer: int, *, like_kafka: bool
) -> None:
    """What the quick checks say of the output is what reading all of it says."""
    builder = a_log(tmp_path / "logs", codec=codec, checkpoint=checkpoint)
    plan = a_plan(builder, buffer=buffer, like_kafka=like_kafka)
    staged: StagedCleaning = pickle.loads(pickle.dumps(build(plan)))  # noqa: S301, TID251
    facts = examine_quickly(plan, staged)
    assert set() == broken(facts)
    assert facts == examine_thoroughly(plan, staged)
    assert 0 < min(staged.stats.batches_verbatim, staged.stats.batches_rebuilt)
    if buffer == 1200:
        assert staged.stats.map_reads > 2
    if like_kafka:
        assert staged.end_offset < plan.compaction.first_uncleanable_offset


Spoil = Callable[[Survivors], None]


def bits(survivors: Survivors) -> NDArray[np.bool_]:
    """The dead bitmap, one bool for each record."""
    return np.unpackbits(survivors.dead, bitorder="little").astype(np.bool_)


def put_bits(survivors: Survivors, dead: NDArray[np.bool_]) -> None:
    """Effects: changes the dead bitmap."""
    survivors.dead[:] = np.packbits(dead, bitorder="little")


def ordinal_of(survivors: Survivors, *, dead: bool, in_mixed: bool = True) -> int:
    """A record in a batch that loses some of its records and keeps some."""
    marks = bits(survivors)
    for group in survivors.groups:
        for _, source in group:
            for batch in source.batches:
                first, count = int(batch["first_ordinal"]), int(batch["count"])
                own = marks[first : first + count]
                if (0 < own.sum() < count) == in_mixed and (own == dead).any():
                    return first + int(np.flatnonzero(own == dead)[0])
    raise AssertionError("no such record")


def lose_a_record(survivors: Survivors) -> None:
    """A live record of a rebuilt batch is taken for dead."""
    dead = bits(survivors)
    dead[ordinal_of(survivors, dead=False)] = True
    put_bits(survivors, dead)


def lose_a_lone_batch(survivors: Survivors) -> None:
    """All records of a batch that stays are taken for dead."""
    dead = bits(survivors)
    first = ordinal_of(survivors, dead=False, in_mixed=False)
    dead[first : first + RECORDS] = True
    put_bits(survivors, dead)


def keep_a_dead_record(survivors: Survivors) -> None:
    """A superseded record is taken for the latest."""
    dead = bits(survivors)
    dead[ordinal_of(survivors, dead=True)] = False
    put_bits(survivors, dead)


def keep_the_dead_and_lose_the_living(survivors: Survivors) -> None:
    """All counts are right."""
    lose_a_record(survivors)
    keep_a_dead_record(survivors)


def lose_a_young_tombstone(survivors: Survivors) -> None:
    """Its horizon is not reached, but it goes."""
    dead = bits(survivors)
    batches = survivors.groups[-1][-1][1].batches
    young = batches[batches["base_timestamp"] == NOW_MS + 1][-1]
    assert not dead[young["first_ordinal"]]
    dead[young["first_ordinal"]] = True
    put_bits(survivors, dead)


def lose_a_group(survivors: Survivors) -> None:
    """A segment in the range of the cleaning is forgotten."""
    survivors.groups.pop(0)
    survivors.aborted = survivors.aborted[1:]


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize(
    "spoil",
    [
        lose_a_record,
        lose_a_lone_batch,
        keep_a_dead_record,
        keep_the_dead_and_lose_the_living,
        lose_a_young_tombstone,
        lose_a_group,
    ],
)
def test_a_fault_of_the_build_breaks_the_check_of_latest_values(
    tmp_path: Path, spoil: Spoil, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The build is of one mind with itself about what it should not do; the sums are not."""
    find = building.find_survivors

    def spoiled(
        plan: CleanPlan, *, progress: Callable[[str, int, int], None], runtime: Runtime
    ) -> Survivors:
        survivors = find(plan, progress=progress, runtime=runtime)
        for entries in survivors.rebuilt.entries.values():
            entries["size"] = 0  # what was rebuilt before is right
        spoil(survivors)
        return survivors

    monkeypatch.setattr(building, "find_survivors", spoiled)
    plan = a_plan(a_log(tmp_path / "logs", codec=codec))
    staged = build(plan)
    assert {"latest_value_per_key"} == broken(examine_quickly(plan, staged))
    assert "latest_value_per_key" in broken(examine(plan, staged))


def test_a_map_that_is_wrong_about_its_keys_is_found_by_the_sample(tmp_path: Path) -> None:
    """Sums of the map, and all that follows from them, may agree with each other."""
    plan = a_plan(a_log(tmp_path / "logs"))
    staged = build(plan)
    assert staged.keys is not None
    other = staged.keys._replace(expected_sample_digest=staged.keys.expected_sample_digest ^ 1)
    assert {"latest_value_per_key"} == broken(examine_quickly(plan, staged._replace(keys=other)))


def drop_a_batch(staged: StagedCleaning) -> None:
    """One that lost some of its records."""

    def change(batches: faults.Batches) -> None:
        number = next(n for n, (_, records) in enumerate(batches) if 1 < len(records) < RECORDS)
        del batches[number]

    faults.rewrite(faults.staged_log(staged), change)


def drop_a_verbatim_batch(staged: StagedCleaning) -> None:
    """One that was copied as it was."""

    def change(batches: faults.Batches) -> None:
        del batches[next(n for n, (_, records) in enumerate(batches) if len(records) == RECORDS)]

    faults.rewrite(faults.staged_log(staged), change)


def change_a_key(staged: StagedCleaning) -> None:
    """With a right CRC."""

    def change(batches: faults.Batches) -> None:
        records = batches[0][1]
        records[0] = replace(records[0], key=b"another")

    faults.rewrite(faults.staged_log(staged), change)


def move_an_offset(staged: StagedCleaning) -> None:
    """The last record of a batch that lost its first ones is one offset further down."""

    def change(batches: faults.Batches) -> None:
        for batch, records in batches:
            if 0 < len(records) < RECORDS and records[0].offset > batch.base_offset:
                records[0] = replace(records[0], offset=Offset(records[0].offset - 1))
                return

    faults.rewrite(faults.staged_log(staged), change)


def forget_the_producer(staged: StagedCleaning) -> None:
    """The leader epoch of the first batch, which no CRC covers."""
    path = faults.staged_log(staged)
    content = bytearray(path.read_bytes())
    content[15] ^= 1
    path.write_bytes(content)


def is_rebuilt(records: list[Record]) -> bool:
    """Whether a batch of the log has lost some of its records."""
    return 1 < len(records) < RECORDS


def change_a_rebuilt_record(staged: StagedCleaning, change: Callable[[Record], Record]) -> None:
    """The last record of the first batch that lost some, with a right CRC."""

    def change_one(batches: faults.Batches) -> None:
        records = next(records for _, records in batches if is_rebuilt(records))
        records[-1] = change(records[-1])

    faults.rewrite(faults.staged_log(staged), change_one)


def change_the_time_of_a_rebuilt_record(staged: StagedCleaning) -> None:
    """By a millisecond, which no key and no value shows."""
    change_a_rebuilt_record(
        staged, lambda record: replace(record, timestamp_ms=record.timestamp_ms + 1)
    )


def turn_the_value_of_a_rebuilt_record(staged: StagedCleaning, *, at: int) -> None:
    """The same bytes, two runs of eight in each other's place."""

    def turn(record: Record) -> Record:
        value = record.value or b""
        first, second = value[at : at + 8], value[at + 8 : at + 16]
        assert first != second
        return replace(record, value=value[:at] + second + first + value[at + 16 :])

    change_a_rebuilt_record(staged, turn)


def change_the_end_of_a_rebuilt_value(staged: StagedCleaning) -> None:
    """One bit of the last byte but twenty."""

    def change(record: Record) -> Record:
        value = bytearray(record.value or b"")
        value[-20] ^= 1
        return replace(record, value=bytes(value))

    change_a_rebuilt_record(staged, change)


def forget_the_epoch_of_a_rebuilt_batch(staged: StagedCleaning) -> None:
    """No CRC covers it."""
    path = faults.staged_log(staged)
    content = bytearray(path.read_bytes())
    spans = walk_batches(bytes(content))
    at = next(
        span.position
        for span in spans
        if 1 < parse_batch(bytes(content), span.position).records_count < RECORDS
    )
    content[at + 15] ^= 1
    path.write_bytes(content)


def empty_the_index(staged: StagedCleaning) -> None:
    """Half an entry."""
    segment = max(staged.segments, key=lambda each: each.index_bytes)
    path = staged.directory / segment_file_name(segment.base_offset, ".index")
    path.write_bytes(path.read_bytes()[:4])


@pytest.mark.parametrize("codec", [0, 4])
@pytest.mark.parametrize(
    ("plant", "checks"),
    [
        (faults.lose_last_value, {"latest_value_per_key"}),
        (faults.change_value, {"survivors_identical"}),
        (faults.change_timestamp, {"survivors_identical"}),
        (faults.disorder_offsets, {"offsets_ascending"}),
        (faults.break_crc, {"crc_valid"}),
        (faults.misplace_index_entry, {"index_entries_valid"}),
        (faults.add_null_key, {"survivors_identical", "latest_value_per_key"}),
        (drop_a_batch, {"latest_value_per_key"}),
        (drop_a_verbatim_batch, {"latest_value_per_key"}),
        (change_a_key, {"survivors_identical", "latest_value_per_key"}),
        (move_an_offset, {"survivors_identical", "latest_value_per_key"}),
        (change_the_time_of_a_rebuilt_record, {"survivors_identical"}),
        # one of eight places is that of two words of the sum
        *(
            (partial(turn_the_value_of_a_rebuilt_record, at=at), {"survivors_identical"})
            for at in range(8, 16)
        ),
        (change_the_end_of_a_rebuilt_value, {"survivors_identical"}),
        (forget_the_producer, {"survivors_identical"}),
        (forget_the_epoch_of_a_rebuilt_batch, {"survivors_identical"}),
        (empty_the_index, {"index_entries_valid"}),
    ],
)
def test_a_fault_of_the_output_breaks_its_checks(
    tmp_path: Path, plant: Callable[[StagedCleaning], object], checks: set[str], codec: int
) -> None:
    """Others may break with it, but those at least."""
    plan = a_plan(a_log(tmp_path / "logs", codec=codec))
    staged = build(plan)
    plant(staged)
    assert checks <= broken(examine_quickly(plan, staged))
    assert checks & broken(examine(plan, staged))


def test_a_lost_segment_is_found(tmp_path: Path) -> None:
    """Built, but not on the way to the swap."""
    plan = a_plan(a_log(tmp_path / "logs"))
    staged = build(plan)
    assert len(staged.segments) > 1
    lost = staged._replace(segments=staged.segments[:-1])
    assert {"latest_value_per_key"} == broken(examine_quickly(plan, lost))


def test_thorough_checks_are_asked_for_by_an_option(tmp_path: Path) -> None:
    """They need nothing that the build reported."""
    plan = a_plan(a_log(tmp_path / "logs"))
    plan = plan._replace(options=replace(plan.options, checks="thorough"))
    staged = build(plan)._replace(keys=None)
    assert set() == broken(examine(plan, staged))
