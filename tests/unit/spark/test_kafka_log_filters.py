"""What filters of a query leave to be read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from logwright.format.names import TopicPartition
from logwright.spark.kafka_log_filters import push_down
from logwright.spark.kafka_log_options import Pruning

Comparison = EqualTo | In | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual
TOPIC, PARTITION, OFFSET, TIME = ("topic",), ("partition",), ("offset",), ("timestamp",)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOON_MS = 1_767_268_800_000


@pytest.mark.parametrize(
    ("predicate", "pruning", "exact"),
    [
        (EqualTo(TOPIC, "a"), Pruning(topics=frozenset("a")), True),
        (EqualNullSafe(TOPIC, "a"), Pruning(topics=frozenset("a")), True),
        (In(TOPIC, ("a", "b")), Pruning(topics=frozenset("ab")), True),
        (EqualTo(PARTITION, 3), Pruning(partitions=frozenset([3])), True),
        (In(PARTITION, [1, 2]), Pruning(partitions=frozenset([1, 2])), True),  # type: ignore[arg-type]  # Spark's own
        (EqualTo(OFFSET, 5), Pruning(start_offset=5, end_offset=6), True),
        (In(OFFSET, (5, 6, 7)), Pruning(start_offset=5, end_offset=8), True),
        (In(OFFSET, (5, 9)), Pruning(start_offset=5, end_offset=10), False),
        (GreaterThan(OFFSET, 5), Pruning(start_offset=6), True),
        (GreaterThanOrEqual(OFFSET, 5), Pruning(start_offset=5), True),
        (LessThan(OFFSET, 5), Pruning(end_offset=5), True),
        (LessThanOrEqual(OFFSET, 5), Pruning(end_offset=6), True),
        (GreaterThan(TIME, NOON), Pruning(min_timestamp_ms=NOON_MS), False),
        (LessThan(TIME, NOON), Pruning(max_timestamp_ms=NOON_MS), False),
        (
            EqualTo(TIME, NOON + timedelta(microseconds=1)),
            Pruning(min_timestamp_ms=NOON_MS, max_timestamp_ms=NOON_MS + 1),
            False,
        ),
        (
            In(TIME, (NOON, NOON + timedelta(seconds=1))),
            Pruning(min_timestamp_ms=NOON_MS, max_timestamp_ms=NOON_MS + 1000),
            False,
        ),
        (IsNotNull(OFFSET), Pruning(), True),
        (IsNotNull(("key",)), Pruning(), False),
        (IsNull(OFFSET), Pruning(), False),
        (IsNull(TIME), Pruning(), False),
        (Not(EqualTo(OFFSET, 5)), Pruning(), False),
        (StringStartsWith(TOPIC, "a"), Pruning(), False),
        (GreaterThan(PARTITION, 5), Pruning(), False),
        (GreaterThan(TOPIC, "a"), Pruning(), False),
        (EqualTo(PARTITION, True), Pruning(), False),
        (EqualTo(TOPIC, 5), Pruning(), False),
        (EqualTo(OFFSET, None), Pruning(), False),
        (EqualTo(TIME, NOON.replace(tzinfo=None)), Pruning(), False),
        (EqualTo(("headers", "key"), "a"), Pruning(), False),
        (EqualTo(("offset", "x"), 5), Pruning(), False),
    ],
)
def test_one_filter(predicate: Filter, pruning: Pruning, exact: bool) -> None:
    """Spark evaluates again what is not exact, and what is unknown."""
    pushed, rest = push_down([predicate], view="records")
    assert pruning == pushed
    assert ([] if exact else [predicate]) == rest


def test_all_filters_hold() -> None:
    """Several filters of one column leave what all of them leave."""
    filters = [
        In(TOPIC, ("a", "b")),
        In(TOPIC, ("b", "c")),
        GreaterThan(OFFSET, 5),
        GreaterThan(OFFSET, 3),
        LessThan(OFFSET, 100),
        LessThan(OFFSET, 50),
    ]
    pushed, rest = push_down(filters, view="records")
    assert Pruning(topics=frozenset("b"), start_offset=6, end_offset=50) == pushed
    assert [] == rest
    assert [True, False] == [pushed.has(TopicPartition(topic, 0)) for topic in "ba"]


def test_the_latest_state_is_read_whole() -> None:
    """The latest record of each key is chosen before a filter of offsets or times, not after."""
    filters = [EqualTo(PARTITION, 1), GreaterThan(OFFSET, 5), LessThan(TIME, NOON)]
    pushed, rest = push_down(filters, view="latest")
    assert Pruning(partitions=frozenset([1])) == pushed
    assert filters[1:] == rest


def test_random_filters_lose_no_row(seed: int) -> None:
    """No row that all filters accept is pruned, and what is not returned needs no evaluation."""
    random = Random(seed)
    kinds: list[Any] = [EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual]
    for _ in range(500):
        filters: list[Any] = []
        for _ in range(random.randrange(4)):
            column = random.choice([PARTITION, OFFSET, TIME])
            values = [random.randrange(8) for _ in range(random.randrange(1, 4))]
            given = [_time(one) if column == TIME else one for one in values]
            if random.random() < 0.3:
                filters.append(In(column, tuple(given)))
            else:
                filters.append(random.choice(kinds)(column, given[0]))
        pruning, rest = push_down(filters, view="records")
        for row in [(p, o, t) for p in range(8) for o in range(8) for t in range(8)]:
            kept = _is_kept(pruning, *row)
            assert all(_holds(one, row) for one in filters) == (
                kept and all(_holds(one, row) for one in rest)
            )


def _time(number: int) -> datetime:
    return NOON + timedelta(microseconds=400 * number)


def _is_kept(pruning: Pruning, partition: int, offset: int, time: int) -> bool:
    first, end = pruning.start_offset, pruning.end_offset
    low, high = pruning.min_timestamp_ms, pruning.max_timestamp_ms
    at = NOON_MS + time
    return (
        pruning.has(TopicPartition("t", partition))
        and (first is None or offset >= first)
        and (end is None or offset < end)
        and (low is None or at >= low)
        and (high is None or at <= high)
    )


def _holds(predicate: Filter, row: tuple[int, int, int]) -> bool:
    assert isinstance(predicate, Comparison)
    partition, offset, time = row
    value: Any = {"partition": partition, "offset": offset}.get(
        predicate.attribute[0], NOON + timedelta(milliseconds=time)
    )
    match predicate:
        case EqualTo():
            return bool(value == predicate.value)
        case In():
            return value in predicate.value
        case GreaterThan():
            return bool(value > predicate.value)
        case GreaterThanOrEqual():
            return bool(value >= predicate.value)
        case LessThan():
            return bool(value < predicate.value)
        case _:
            return bool(value <= predicate.value)
