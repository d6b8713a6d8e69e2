"""The faults that Kafka's own cleaner had, and their kin: tombstones, keys.

As test_fix_history.py: the ticket, the rule, the fault, and Kafka 4.3.0 as the judge.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path

import pytest

from tests import fixtures
from tests.differential.kafka_cleaner import (
    NOW_MS,
    KafkaCleaner,
    Round,
    batches,
    offsets,
    records,
)
from tests.log_builder import START_MS, LogBuilder

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def kafka(kafka_version: str) -> Iterator[KafkaCleaner]:
    """One JVM for all cases."""
    with KafkaCleaner() as cleaner:
        yield cleaner


def a_log(directory: Path) -> LogBuilder:
    return LogBuilder(directory / "logs")


@pytest.mark.parametrize(("horizon_ms", "kept"), [(NOW_MS + 1, True), (NOW_MS, False)])
def test_kafka_8522_a_tombstone_goes_at_its_horizon(
    horizon_ms: int, kept: bool, tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-8522, KAFKA-4529 (KIP-534): a tombstone goes at its batch's delete horizon, to the
    millisecond. It went by the segment's age, so some went too early and some never.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", None), ("b", "1")], horizon_ms=horizon_ms)
    builder.segment(2).batch(2, [("z", "1")])
    Round(kafka=kafka).clean(builder.write(producers=True))
    assert kept == (0 in offsets(builder))
    assert horizon_ms == batches(builder)[0][0].delete_horizon_ms


def test_kafka_8522_the_first_cleaning_sets_the_horizon_and_no_later_one_moves_it(
    tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-8522: now + `delete.retention.ms` is written once; a later rewriting keeps it. With
    every cleaning the tombstone's time would begin again.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [("a", None), ("b", "1"), ("c", "1")])
    builder.segment(3).batch(3, [("b", "2")], timestamps=[NOW_MS])
    builder.segment(4).batch(4, [("z", "1")])
    lagging = {"min.compaction.lag.ms": "100"}
    Round(kafka=kafka, settings=lagging).clean(builder.write(producers=True))
    assert NOW_MS + 5000 == batches(builder)[0][0].delete_horizon_ms
    Round(kafka=kafka, settings=lagging, now_ms=NOW_MS + 4000).clean(builder)
    assert [0, 2, 3, 4] == offsets(builder)
    assert NOW_MS + 5000 == batches(builder)[0][0].delete_horizon_ms
    assert START_MS + 2 == records(builder)[1].timestamp_ms


@pytest.mark.parametrize(("set_before", "horizon_ms"), [(None, NOW_MS + 5000), (NOW_MS + 9,) * 2])
def test_kafka_8522_under_append_time_the_horizon_does_not_become_a_time(
    set_before: int | None, horizon_ms: int, tmp_path: Path, kafka: KafkaCleaner
) -> None:
    """KAFKA-8522: with LogAppendTime a batch that gets a horizon keeps maxTimestamp, which is every
    record's time. The base timestamp is the horizon then, and was no longer a time to count from.
    """
    builder = a_log(tmp_path)
    appended = START_MS + 77
    pairs = [("a", None), ("b", "1"), ("c", "1")]
    segment = builder.segment(0)
    segment.batch(0, pairs, append_time_ms=appended, horizon_ms=set_before)
    segment.batch(3, [("b", "2")], append_time_ms=appended + 1)
    builder.segment(4).batch(4, [("z", "1")])
    Round(kafka=kafka).clean(builder.write(producers=True))
    (batch, kept), *_ = batches(builder)
    assert (appended, horizon_ms) == (batch.max_timestamp, batch.delete_horizon_ms)
    assert [(0, appended), (2, appended)] == [(one.offset, one.timestamp_ms) for one in kept]


def test_kafka_1755_records_without_a_key_are_dropped(tmp_path: Path, kafka: KafkaCleaner) -> None:
    """KAFKA-1755: in a compacted log a record without a key goes; an empty key is a key. The first
    one killed the cleaner thread.
    """
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [(None, "x"), ("", "1"), (None, None), ("", "2"), ("a", "1")])
    builder.segment(5).batch(5, [(None, "z")])
    (staged,) = Round(kafka=kafka).clean(builder.write(producers=True))
    assert [3, 4, 5] == offsets(builder)
    assert 2 == staged.stats.removed_null_keys


def md5_pair() -> list[bytes]:
    """Two keys with one MD5, from the packed case."""
    by_digest: dict[bytes, set[bytes]] = {}
    for line in fixtures.dump_lines("md5-collision", "before"):
        for record in line.get("records") or []:
            key = base64.b64decode(record["key"])
            by_digest.setdefault(md5(key, usedforsecurity=False).digest(), set()).add(key)
    return sorted(next(keys for keys in by_digest.values() if len(keys) == 2))


def test_two_keys_with_one_md5_stay_two_keys(tmp_path: Path, kafka: KafkaCleaner) -> None:
    """No ticket: Kafka 4.3.0 takes two keys with one MD5 for one, and loses a live record. Ours
    must not do as Kafka does here.
    """
    first, other = md5_pair()
    builder = a_log(tmp_path)
    builder.segment(0).batch(0, [(first, "1"), (other, "2"), ("a", "1"), ("a", "2")])
    builder.segment(4).batch(4, [("z", "1")])
    builder.write(producers=True)
    kafkas = LogBuilder(tmp_path / "kafka" / "logs")
    shutil.copytree(builder.log_dir, kafkas.log_dir, copy_function=shutil.copy2)
    once = Round(kafka=kafka)
    once.clean_ours(builder)
    assert [0, 1, 3, 4] == offsets(builder)
    kafka.clean(*once.arguments(kafkas.log_dir, "t-0"))
    assert [1, 3, 4] == offsets(kafkas)
