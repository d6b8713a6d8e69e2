"""A log that is cleaned group by group, shard by shard, has the bytes of one that is not."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from logwright.batches.runtime import Runtime
from logwright.checks.examine import examine
from logwright.compaction import split
from logwright.compaction.build import build
from logwright.compaction.model import CleaningOptions, CleanPlan, RemovalBound
from logwright.config.topic import parse_settings
from logwright.errors import CorruptBatch, LogwrightError, RecordAboveLimit
from logwright.format.names import TopicPartition
from logwright.keys import exchange
from logwright.sweep.plan import plan_cleaning
from logwright.units import Offset, TimestampMs
from tests import fixtures
from tests.bucket_maintenance.random_logs import a_log
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan
from tests.split_by_hand import ByHand, counts_of

CASES = [
    (name, partition.name)
    for name in (*fixtures.CASES, *fixtures.CASES_OF_4_4)
    if fixtures.description(name)["ops"][0] == "clean"
    for partition in fixtures.partitions(name)
]
COMPACT = {"cleanup.policy": "compact", "segment.ms": str(1 << 60)}


def require_same(plan: CleanPlan, shards: int) -> ByHand | None:
    """Clean in one piece and in many, and compare; None if the log is refused, by both."""
    try:
        whole = build(plan, runtime=Runtime())
    except LogwrightError as error:
        with pytest.raises(type(error)):
            ByHand(plan, shards=shards).run()
        return None
    expected = {path.name: path.read_bytes() for path in whole.directory.iterdir()}
    by_hand = ByHand(plan, shards=shards)
    by_hand.run()
    outputs = by_hand.outputs()
    assert sorted(expected) == sorted(outputs)
    assert [] == [name for name in expected if expected[name] != outputs[name]]
    unchanged = [each.base_offset for staged, _ in by_hand.built for each in staged.unchanged]
    assert [each.base_offset for each in whole.unchanged] == unchanged
    assert counts_of(whole) == by_hand.counts()
    failed = [check for _, facts in by_hand.built for check in facts.failed]
    assert list(examine(plan, whole).failed) == failed == []
    return by_hand


@pytest.mark.rotates(6)
@pytest.mark.parametrize(("name", "partition"), CASES)
def test_cases(name: str, partition: str, tmp_path: Path) -> None:
    """With the case's settings, and with every segment alone in its group."""
    case = fixtures.description(name)
    log_dir = fixtures.copy_before(name, tmp_path)
    pairs = dict(fixtures.partition_of(name, partition).config)
    pairs["producer.id.expiration.ms"] = str(case["producerIdExpirationMs"])
    config, cleaner = parse_settings(pairs)
    for segment_bytes in (config.segment_bytes, 14):
        plan = plan_cleaning(
            log_dir,
            TopicPartition.parse(partition),
            (config.model_copy(update={"segment_bytes": segment_bytes}), cleaner),
            now_ms=TimestampMs(case["now"]),
            options=CleaningOptions(force=True),
            high_watermark=case["highWatermark"],
        )
        if plan.clean:
            require_same(plan, 3)


@pytest.mark.parametrize("number", range(40))
def test_random_logs(
    number: int, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any number of shards, of groups, of keys in the memory, of rows in a piece."""
    draw = random.Random(f"{seed} {number}")
    monkeypatch.setattr(exchange, "BUFFERED_ROWS", draw.choice((1, 7, 1 << 21)))
    a_log(tmp_path / "logs", draw)
    config, cleaner = parse_settings(
        {
            **COMPACT,
            "segment.bytes": str(draw.choice((14, 300, 1 << 30))),
            "delete.retention.ms": str(draw.choice((0, 50, 86_400_000))),
        }
    )
    plan = forced_plan(
        tmp_path / "logs",
        TopicPartition("t", 0),
        (
            config,
            cleaner.model_copy(update={"dedupe_buffer_bytes": draw.choice((32, 200, 1 << 27))}),
        ),
        now_ms=START_MS + draw.choice((0, 1_000, 90_000_000)),
        roll=draw.choice((False, True)),
    )
    if plan.clean:
        require_same(plan, draw.choice((1, 2, 5)))


def a_plan(tmp_path: Path, **options: object) -> CleanPlan:
    """A log of three groups, with every key in each."""
    builder = LogBuilder(tmp_path / "logs")
    for base in (0, 10, 20):
        builder.segment(base).batch(base, [(f"k{each}", "v" * 20) for each in range(5)])
    builder.segment(30)
    builder.write(index_interval=1)
    settings = {**COMPACT, "segment.bytes": "14"}
    return forced_plan(builder.log_dir, builder.partition, settings, **options)


def test_a_record_that_should_be_gone_is_noticed(tmp_path: Path) -> None:
    """A shard that misses one is contradicted by what it says must survive."""
    by_hand = ByHand(a_plan(tmp_path), shards=1)
    (shard,) = by_hand.found
    assert 5 == len(shard.dead[1])
    shard.dead[1] = shard.dead[1][1:]
    by_hand.run()
    failed = [[check.name for check in facts.failed] for _, facts in by_hand.built]
    assert [[], ["latest_value_per_key"], []] == failed


def test_a_record_that_should_be_there_is_noticed(tmp_path: Path) -> None:
    """One too many is superseded."""
    by_hand = ByHand(a_plan(tmp_path), shards=1)
    (shard,) = by_hand.found
    shard.dead[2] = np.array([3], dtype=np.uint32)
    by_hand.run()
    failed = [[check.name for check in facts.failed] for _, facts in by_hand.built]
    assert [[], [], ["latest_value_per_key"]] == failed


def test_a_table_that_is_wrong_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that lacks the keys of a group contradicts what sorting says of the sample."""
    plan, insert = a_plan(tmp_path), exchange._insert
    (shard,) = ByHand(plan, shards=1).found
    assert shard.sampled == shard.expected

    def insert_some(table: object, rows: object, number: int, *rest: object) -> bool:
        return number == 2 or bool(insert(table, rows, number, *rest))  # type: ignore[arg-type]  # as given

    monkeypatch.setattr(exchange, "_insert", insert_some)
    (shard,) = ByHand(plan, shards=1).found
    assert shard.sampled != shard.expected


@pytest.mark.parametrize("keys", [1, 5, 100, 1000])
@pytest.mark.parametrize("dedupe", [32, 400, 1 << 20])
def test_keys_that_do_not_fit_are_read_again(keys: int, dedupe: int, tmp_path: Path) -> None:
    """The memory of a shard is bounded by the setting."""
    builder = LogBuilder(tmp_path / "logs")
    pairs = [(f"key-{number}", "v") for number in range(keys)]
    builder.segment(0).batch(0, pairs)
    builder.segment(keys).batch(keys, pairs)
    builder.segment(2 * keys)
    config, cleaner = parse_settings({**COMPACT, "segment.bytes": "14"})
    plan = forced_plan(
        builder.write().log_dir,
        builder.partition,
        (config, cleaner.model_copy(update={"dedupe_buffer_bytes": dedupe})),
    )
    by_hand = require_same(plan, 2)
    assert by_hand is not None
    assert max(each.table_bytes for each in by_hand.found) <= max(dedupe, 64 * 16)
    assert keys == sum(each.distinct for each in by_hand.found)


def test_a_record_above_the_limit_is_refused(tmp_path: Path) -> None:
    """As by a cleaning by one task."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("k", "v" * 3000)], codec=1)
    builder.segment(1)
    settings = {**COMPACT, "max.decompressed.message.bytes": "2000"}
    plan = forced_plan(builder.write().log_dir, builder.partition, settings)
    with pytest.raises(RecordAboveLimit):
        ByHand(plan, shards=2).run()


def test_a_corrupt_batch_is_refused(tmp_path: Path) -> None:
    """When its group is read."""
    plan = a_plan(tmp_path)
    path = plan.log.directory / f"{10:020d}.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptBatch):
        ByHand(plan, shards=2)


def test_a_wrong_transaction_index_is_refused(tmp_path: Path) -> None:
    """Though no batch has a transaction: as by a cleaning by one task."""
    builder = LogBuilder(tmp_path / "logs")
    builder.segment(0).batch(0, [("k", "v")])
    builder.segment(1)
    builder.write()
    (builder.log_dir / str(builder.partition) / f"{0:020d}.txnindex").write_bytes(b"x" * 10)
    plan = forced_plan(builder.log_dir, builder.partition, COMPACT)
    assert require_same(plan, 1) is None


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"like_kafka": True}, "--like-kafka"),
        ({"checks": "thorough"}, "thorough"),
    ],
)
def test_what_is_not_split(options: dict[str, object], why: str, tmp_path: Path) -> None:
    """It says why."""
    assert why in str(split.why_whole(a_plan(tmp_path, **options)))


def test_what_is_coordinated_is_not_split(tmp_path: Path) -> None:
    """Its markers are held by data of other replicas."""
    plan = a_plan(tmp_path)
    assert split.why_whole(plan) is None
    bound = RemovalBound(Offset(3), np.zeros((0, 2), dtype=np.int64))
    assert "replicas" in str(split.why_whole(plan._replace(removal=bound)))
