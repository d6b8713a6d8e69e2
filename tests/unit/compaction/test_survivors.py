"""The offset map at its limits: where it ends like Kafka's, where it reads the keys again."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from logwright.batches import runtime
from logwright.batches.runtime import Runtime, silent
from logwright.compaction.model import CleanPlan
from logwright.compaction.survivors import find_survivors
from logwright.config.topic import parse_settings
from logwright.errors import PolicyError
from logwright.keys import offset_map
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan


def plan(builder: LogBuilder, *, buffer: int, like_kafka: bool) -> CleanPlan:
    config, cleaner = parse_settings({"cleanup.policy": "compact", "segment.ms": str(1 << 60)})
    return forced_plan(
        builder.log_dir,
        builder.partition,
        (config, cleaner.model_copy(update={"dedupe_buffer_bytes": buffer})),
        now_ms=START_MS + 1000,
        like_kafka=like_kafka,
    )


def dead_ordinals(
    builder: LogBuilder, *, buffer: int, like_kafka: bool
) -> tuple[set[int], int, int]:
    survivors = find_survivors(
        plan(builder, buffer=buffer, like_kafka=like_kafka),
        progress=silent,
        runtime=Runtime(),
    )
    bits = np.unpackbits(survivors.dead, bitorder="little")
    return set(map(int, np.flatnonzero(bits))), survivors.end_offset, survivors.map_reads


def two_rounds_of_keys(directory: Path, keys: int) -> LogBuilder:
    """Each key twice; the ordinals of the first round are superseded."""
    builder = LogBuilder(directory)
    pairs = [(f"key-{number}", "v") for number in range(keys)]
    builder.segment(0).batch(0, pairs).batch(keys, pairs)
    builder.segment(2 * keys)
    return builder.write()


def test_a_map_that_ends_takes_back_null_keys_beyond_its_latest_offset(tmp_path: Path) -> None:
    """Records 1 and 2 lie above the last one put; Kafka keeps even a null key there."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1"), (None, "x"), (None, "y"), ("b", "2")])
    builder.segment(4)
    assert (set(), 1, 1) == dead_ordinals(builder.write(), buffer=48, like_kafka=True)


def test_null_keys_below_the_latest_offset_go(tmp_path: Path) -> None:
    """The same log in a map that has room."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("a", "1"), (None, "x"), (None, "y"), ("b", "2")])
    builder.segment(4)
    assert ({1, 2}, 4, 1) == dead_ordinals(builder.write(), buffer=4800, like_kafka=True)


@pytest.mark.parametrize("buffer", [16, 48, 240, 16 * 40, 16 * 400])
def test_any_number_of_keys_is_mapped_in_one_cleaning(tmp_path: Path, buffer: int) -> None:
    """The keys are read again for each shard of the hashes, and nothing else changes."""
    builder = two_rounds_of_keys(tmp_path / "logs", 200)
    dead, end, reads = dead_ordinals(builder, buffer=buffer, like_kafka=False)
    assert set(range(200)) == dead
    assert 400 == end
    assert (reads == 1) == (buffer >= 16 * 400)


def test_like_kafka_the_map_ends_when_it_is_full(tmp_path: Path) -> None:
    """floor(floor(bytes / 24) x load factor) keys: 9 of 10 slots."""
    builder = two_rounds_of_keys(tmp_path / "logs", 200)
    assert (set(), 9, 1) == dead_ordinals(builder, buffer=240, like_kafka=True)


@pytest.mark.parametrize(("buffer", "like_kafka", "enough"), [(15, False, 32), (47, True, 48)])
def test_a_buffer_without_room_for_a_key_is_refused(
    tmp_path: Path, buffer: int, *, like_kafka: bool, enough: int
) -> None:
    """The setting is named, and so is a size that is enough."""
    builder = two_rounds_of_keys(tmp_path / "logs", 2)
    with pytest.raises(PolicyError, match=r"log\.cleaner\.dedupe\.buffer\.size") as refused:
        dead_ordinals(builder, buffer=buffer, like_kafka=like_kafka)
    assert f"Give it {enough} bytes or more." == refused.value.remedy
    dead_ordinals(builder, buffer=enough, like_kafka=like_kafka)


@pytest.mark.parametrize("largest", [899, 2**31, 2**45])
def test_what_is_evicted_is_gone_and_its_place_is_used_again(largest: int) -> None:
    """Every entry that stays is found where it is looked for, as often as others come and go, up
    to the last slot but one.
    """
    random = np.random.default_rng(7)
    table = offset_map.new_map(1000, capacity=999, largest=largest).table
    held: dict[tuple[int, int], int] = {}
    for _ in range(6):
        hashes = random.integers(0, 2**64, size=(999 - len(held), 2), dtype=np.uint64)
        for hash1, hash2 in hashes:
            ordinal = int(random.integers(0, largest, endpoint=True))
            at = offset_map.find_slot(table, hash1, hash2)
            assert -1 == offset_map.ordinal_at(table, at)
            offset_map.put_entry(table, at, hash1, hash2, ordinal)
            held[int(hash1), int(hash2)] = ordinal
        middle = offset_map.SHARD_SPACE // 2
        upper = [key for key in held if key[0] >> 32 >= middle]
        assert len(upper) == offset_map.evict_upper(table, middle)
        for key in upper:
            del held[key]
        assert held == found(table, held)
        assert dict.fromkeys(upper, -1) == found(table, upper)


def found(table: offset_map.Table, keys: Iterable[tuple[int, int]]) -> dict[tuple[int, int], int]:
    """The ordinals that the map has of these keys."""
    words = [(np.uint64(one), np.uint64(two)) for one, two in keys]
    return {
        (int(hash1), int(hash2)): int(
            offset_map.ordinal_at(table, offset_map.find_slot(table, hash1, hash2))
        )
        for hash1, hash2 in words
    }


def test_a_large_map_takes_the_memory_of_the_one_before() -> None:
    """Empty, and not before that one is gone; another one has its own."""
    slots = 1 << 17
    first = offset_map.new_map(slots, capacity=slots - 1, largest=10)
    place = first.table[0].ctypes.data
    offset_map.put_entry(first.table, 2 * slots - 2, np.uint64(1), np.uint64(2), 3)
    second = offset_map.new_map(slots, capacity=slots - 1, largest=10)
    assert place != second.table[0].ctypes.data
    del first
    again = offset_map.new_map(slots, capacity=slots - 1, largest=10)
    assert place == again.table[0].ctypes.data
    assert not again.table[0].any()
    del again, second
    larger = offset_map.new_map(2 * slots, capacity=2 * slots - 1, largest=10)
    assert 4 * slots == len(larger.table[0])
    assert not larger.table[0].any()


def test_all_bits_of_the_hash_count() -> None:
    """Two keys whose hashes differ in one bit are two keys, but in a bit that only says where the
    search begins: there others lie in between.
    """
    table = offset_map.new_map(1 << 16, capacity=60_000, largest=50_000).table
    _, bits = table
    hash1, hash2 = 0x0123_4567_89AB_CDEF, 0xFEDC_BA98_7654_3210
    at = offset_map.find_slot(table, np.uint64(hash1), np.uint64(hash2))
    offset_map.put_entry(table, at, np.uint64(hash1), np.uint64(hash2), 50_000)
    for bit in range(64):
        assert found(table, [(hash1 ^ 1 << bit, hash2)]) == {(hash1 ^ 1 << bit, hash2): -1}
        other = (hash1, hash2 ^ 1 << bit)
        assert found(table, [other]) == {other: -1}, (bit, bits)
    assert found(table, [(hash1, hash2)]) == {(hash1, hash2): 50_000}


@pytest.mark.parametrize("records", [20_000, 60_000])
def test_keys_are_foreseen_by_those_which_were_new_of_late(records: int) -> None:
    """Of keys that are all as frequent, within a tenth."""
    drawn = np.random.default_rng(records).integers(0, 30_000, size=records)
    seen, latest = records // 3, records // 30
    distinct = len(np.unique(drawn[:seen]))
    new = (distinct - len(np.unique(drawn[: seen - latest]))) / latest
    foreseen = offset_map.expected_keys(distinct, records - seen, new=new)
    assert len(np.unique(drawn)) == pytest.approx(foreseen, rel=0.1)
    assert 300 == pytest.approx(offset_map.expected_keys(100, 200, new=1.0))
    assert 100 == offset_map.expected_keys(100, 0, new=0.5)


def many_keys(directory: Path, keys: list[int]) -> LogBuilder:
    """A log of these keys."""
    builder = LogBuilder(directory)
    segment = builder.segment(0)
    for first in range(0, len(keys), 100):
        segment.batch(first, [(f"key-{key}", "v") for key in keys[first : first + 100]])
    builder.segment(len(keys))
    return builder.write()


def test_as_many_shards_as_are_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Halved, they would be four."""
    monkeypatch.setattr(runtime, "STEP_BYTES", 4_000)
    builder = many_keys(tmp_path / "logs", [*range(9_000), *range(100)])
    dead, end, reads = dead_ordinals(builder, buffer=70_000, like_kafka=False)
    assert (set(range(100)), 9_100, 3) == (dead, end, reads)


def test_keys_that_come_back_need_no_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many records there are, and though the map is nearly full in the end."""
    monkeypatch.setattr(runtime, "STEP_BYTES", 4_000)
    drawn = np.random.default_rng(3).integers(0, 1_600, size=30_000).tolist()
    builder = many_keys(tmp_path / "logs", drawn)
    dead, end, reads = dead_ordinals(builder, buffer=70_000, like_kafka=False)
    assert (30_000 - len(set(drawn)), 30_000, 1) == (len(dead), end, reads)
