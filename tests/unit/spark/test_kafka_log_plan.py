"""Which partitions, offsets and bytes the tasks of kafka-log read."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from logwright.batches.segment_file import SegmentPart
from logwright.errors import LogDirLocked, PolicyError, PreconditionError
from logwright.format.names import TopicPartition
from logwright.latest.model import LatestPlan
from logwright.locks import release, try_lock
from logwright.place.model import FileStamp
from logwright.records.model import RecordsRange
from logwright.spark.kafka_log_options import Pruning, ReadOptions, read_options
from logwright.spark.kafka_log_plan import (
    OPENING_BYTES,
    SHARED_BYTES,
    Work,
    chosen_partitions,
    packed,
    plan_read,
)
from logwright.units import ByteCount
from tests.log_builder import START_MS, LogBuilder

PRESENT = [TopicPartition("__consumer_offsets", 0), *(TopicPartition("a", n) for n in range(3))]
PRESENT += [TopicPartition("b", 0)]


def a_log(
    log_dir: Path, partition: str = "t-0", *, batches: int = 40, value: str = "v" * 400
) -> LogBuilder:
    """Two segments of batches with one record each."""
    builder = LogBuilder(log_dir, partition)
    half = batches // 2
    for base in (0, half):
        segment = builder.segment(base)
        for offset in range(base, base + half):
            segment.batch(offset, [(f"k{offset}", value)])
    return builder


def logs(log_dir: Path, *partitions: str, batches: int = 40, value: str = "v" * 400) -> Path:
    """A log directory; its checkpoints are those of the last partition."""
    for partition in partitions or ("t-0",):
        a_log(log_dir, partition, batches=batches, value=value).write(index_interval=1)
    return log_dir


def options(path: Path, **more: str) -> ReadOptions:
    return read_options({"path": str(path), "subscribe": "t"} | more)


def planned(path: Path, pruning: Pruning | None = None, /, **more: str) -> list[Any]:
    return plan_read(options(path, **more), pruning or Pruning())


def bounds(tasks: list[Any]) -> list[tuple[int, int, int]]:
    """(partition, start, end) of each range, where they touch as one."""
    bounds_of: list[tuple[int, int, int]] = []
    for records_range in (each for task in tasks for each in task):
        if bounds_of and bounds_of[-1][::2] == (
            records_range.partition.partition,
            records_range.start_offset,
        ):
            bounds_of[-1] = (*bounds_of[-1][:2], records_range.end_offset)
        else:
            bounds_of.append(
                (
                    records_range.partition.partition,
                    records_range.start_offset,
                    records_range.end_offset,
                )
            )
    return bounds_of


def per_partition(offsets: dict[int, int], topic: str = "t") -> str:
    return json.dumps({topic: offsets})


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"subscribe": "a"}, ["a-0", "a-1", "a-2"]),
        ({"subscribe": "b, a"}, ["a-0", "a-1", "a-2", "b-0"]),
        ({"subscribe": "__consumer_offsets"}, ["__consumer_offsets-0"]),
        ({"subscribePattern": ".*"}, ["a-0", "a-1", "a-2", "b-0"]),
        ({"subscribePattern": "c"}, []),
        ({"assign": '{"a": [2, 0]}'}, ["a-0", "a-2"]),
    ],
)
def test_partitions_that_are_named(given: dict[str, str], names: list[str]) -> None:
    """By topic, by pattern, which leaves out internal topics, or one by one."""
    chosen = chosen_partitions(read_options({"path": "/l"} | given), PRESENT)
    assert names == [str(one) for one in chosen]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"subscribe": "a,bb"}, "subscribe: bb not in the log directory. Did you mean b"),
        ({"assign": '{"a": [0, 7]}'}, "assign: a-7 not in the log directory"),
        (
            {"subscribe": "b", "startingOffsets": '{"b": {"0": 1}, "a": {"0": 1}}'},
            "startingOffsets has a value for a-0",
        ),
        (
            {"subscribe": "a", "endingOffsets": '{"a": {"0": 1}}'},
            "endingOffsets has no value for a-1, a-2",
        ),
        (
            {"subscribe": "a", "startingOffsetsByTimestamp": '{"a": {"0": 1, "1": 1}}'},
            "startingOffsetsByTimestamp has no value for a-2",
        ),
    ],
)
def test_partitions_that_are_not_there(given: dict[str, str], message: str) -> None:
    """Offsets must be given for exactly the partitions that are read, as for Spark's source."""
    with pytest.raises(PolicyError, match=message):
        chosen_partitions(read_options({"path": "/l"} | given), PRESENT)


def test_offsets_and_filters_limit_what_is_read(tmp_path: Path) -> None:
    """The narrower of both; partitions that a filter leaves out are not even observed."""
    path = logs(tmp_path, "t-0", "t-1")
    assert [(0, 0, 40), (1, 0, 40)] == bounds(planned(path))
    starts, ends = per_partition({0: 5, 1: -2}), per_partition({0: -1, 1: 30})
    given = {"startingOffsets": starts, "endingOffsets": ends}
    assert [(0, 5, 40), (1, 0, 30)] == bounds(planned(path, **given))
    pruning = Pruning(start_offset=3, end_offset=35)
    assert [(0, 5, 35), (1, 3, 30)] == bounds(planned(path, pruning, **given))
    (path / "t-0" / "junk.log.swap").write_bytes(b"")
    with pytest.raises(PreconditionError):
        planned(path)
    assert [(1, 0, 40)] == bounds(planned(path, Pruning(partitions=frozenset([1]))))
    assert [] == planned(path, Pruning(topics=frozenset(["x"])))


def test_bytes_that_are_read_are_those_of_the_offsets(tmp_path: Path) -> None:
    """Offsets lead to positions inside the segments by the index."""
    path = logs(tmp_path)
    total = sum(one.bytes for task in planned(path) for one in task)
    few = planned(path, Pruning(start_offset=30, end_offset=32))
    assert sum(one.bytes for task in few for one in task) < total / 8
    late = planned(path, Pruning(min_timestamp_ms=START_MS + 25))
    assert sum(one.bytes for task in late for one in task) < total * 0.6


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"startingOffsets": {0: 41}}, "offset 41 of t-0 is not between .* 3 and .* 40"),
        ({"startingOffsets": {0: 2}}, "offset 2 of t-0 is not between the log start offset 3"),
        ({"endingOffsets": {0: 41}}, "endingOffsets: offset 41 .* the last stable offset 40"),
        (
            {"startingOffsets": {0: 9}, "endingOffsets": {0: 8}},
            "startingOffsets 9 of t-0 is above endingOffsets 8",
        ),
    ],
)
def test_offsets_that_are_not_in_the_log(
    tmp_path: Path, more: dict[str, dict[int, int]], message: str
) -> None:
    """They are refused: rows would be missing without anybody noticing."""
    a_log(tmp_path).write(log_start=3)
    with pytest.raises(PolicyError, match=message):
        planned(tmp_path, **{name: per_partition(value) for name, value in more.items()})


def test_times(tmp_path: Path) -> None:
    """From the first offset at or above a time; too late a time is refused, or reads nothing."""
    path = logs(tmp_path)
    start, late = str(START_MS + 7), str(START_MS + 1000)
    assert [(0, 7, 40)] == bounds(planned(path, startingTimestamp=start))
    assert [(0, 0, 7)] == bounds(planned(path, endingTimestamp=start))
    assert [(0, 0, 40)] == bounds(planned(path, endingTimestamp=late))
    by_time = {"startingOffsetsByTimestamp": per_partition({0: START_MS + 9})}
    assert [(0, 9, 40)] == bounds(planned(path, **by_time))
    with pytest.raises(PolicyError, match="no record of t-0 has a timestamp of"):
        planned(path, startingTimestamp=late)
    lenient = {"startingOffsetsByTimestampStrategy": "latest"}
    assert [] == planned(path, startingTimestamp=late, **lenient)


def test_what_is_committed(tmp_path: Path) -> None:
    """Up to the log end or the checkpoint; an open transaction ends what read_committed sees."""
    builder = LogBuilder(tmp_path)
    segment = builder.segment(0).batch(0, [("a", "1")]).batch(1, [("b", "1")])
    segment.batch(2, [("c", "1")], producer_id=7, transactional=True)
    builder.write(high_watermark=1, producers=True)
    assert [(0, 0, 1)] == bounds(planned(tmp_path))
    assert [(0, 0, 2)] == bounds(planned(tmp_path, highWatermark="end"))
    uncommitted = {"isolationLevel": "read_uncommitted"}
    assert [(0, 0, 3)] == bounds(planned(tmp_path, highWatermark="end", **uncommitted))
    assert [(0, 0, 1)] == bounds(planned(tmp_path, highWatermark="checkpoint"))
    with pytest.raises(PolicyError, match="the last stable offset 2"):
        planned(tmp_path, highWatermark="end", endingOffsets=per_partition({0: 3}))


def test_small_ranges_share_a_task(tmp_path: Path) -> None:
    """Many small partitions make few tasks, unless a number of them is asked for."""
    path = logs(tmp_path, *(f"t-{number}" for number in range(5)))
    assert [5] == [len(task) for task in planned(path)]
    assert [1] * 5 == [len(task) for task in planned(path, minPartitions="3")]
    assert 8 <= len(planned(path, minPartitions="8")) <= 16
    assert [(n, 0, 40) for n in range(5)] == bounds(planned(path, minPartitions="8"))


def test_a_number_of_tasks_that_batches_do_not_give(tmp_path: Path) -> None:
    """As many as there are: a batch is in one task."""
    path = logs(tmp_path, batches=4, value="v" * 9000)
    tasks = planned(path, minPartitions="100")
    assert [(0, 0, 4)] == bounds(tasks)
    assert 2 <= len(tasks) <= 4


def test_records_of_a_task(tmp_path: Path) -> None:
    """At most this number of offsets; a number that makes too many tasks is refused."""
    path = logs(tmp_path)
    tasks = planned(path, maxRecordsPerPartition="7")
    assert [7, 7, 7, 7, 7, 5] == [one.end_offset - one.start_offset for (one,) in tasks]
    assert [(0, 0, 40)] == bounds(tasks)
    sparse = LogBuilder(tmp_path / "sparse")
    sparse.segment(0).batch(0, [("a", "1")]).batch(2_000_000_000, [("b", "1")])
    sparse.write()
    with pytest.raises(PolicyError, match="maxRecordsPerPartition=7 makes more than 100000 tasks"):
        planned(tmp_path / "sparse", maxRecordsPerPartition="7")


def test_groups_of_ranges() -> None:
    """In order, each at most as large as allowed, unless one range is larger."""
    half = SHARED_BYTES // 2 - OPENING_BYTES
    sizes = [10, SHARED_BYTES, 5, half, half, half, 1]
    ranges = [_range(number, size) for number, size in enumerate(sizes)]
    groups = packed(ranges, SHARED_BYTES)
    assert ranges == [one for group in groups for one in group]
    assert [[10], [SHARED_BYTES], [5, half], [half, half], [1]] == [
        [one.bytes for one in group] for group in groups
    ]
    many = packed([_range(number, 100) for number in range(1000)], SHARED_BYTES)
    assert len(many) == 16


def _range(offset: int, size: int) -> RecordsRange:
    stamp = FileStamp("0.log", ByteCount(size), 0, 0)
    return RecordsRange(
        log_dir=Path("/l"),
        partition=TopicPartition("t", 0),
        parts=(SegmentPart(0, 1, stamp, 0, size),),
        start_offset=offset,
        end_offset=offset + 1,
        log_start_offset=0,
    )


def test_the_latest_state_of_each_partition(tmp_path: Path) -> None:
    """One task for each, whatever its size; as of an offset or a time."""
    path = logs(tmp_path, "t-0", "t-1")
    tasks = planned(path, view="latest")
    assert [(0, 0, 40), (1, 0, 40)] == [_bounds_of(one) for one in tasks]
    as_of = planned(path, view="latest", asOfOffset=per_partition({0: 10, 1: -1}))
    assert [(0, 0, 10), (1, 0, 40)] == [_bounds_of(one) for one in as_of]
    as_of = planned(path, view="latest", asOfTimestamp=str(START_MS + 9))
    assert [(0, 0, 10), (1, 0, 10)] == [_bounds_of(one) for one in as_of]
    since = planned(path, view="latest", startingOffsets=per_partition({0: 30, 1: -2}))
    assert [(0, 30, 40), (1, 0, 40)] == [_bounds_of(one) for one in since]


def _bounds_of(plan: Work) -> tuple[int, int, int]:
    assert isinstance(plan, LatestPlan)
    return plan.partition.partition, plan.start_offset, plan.end_offset


def test_several_log_directories(tmp_path: Path) -> None:
    """Those of one broker; a partition that is in two of them is refused."""
    logs(tmp_path / "a", "t-0")
    logs(tmp_path / "b", "t-1")
    paths = json.dumps([str(tmp_path / "a"), str(tmp_path / "b")])
    read_plan = plan_read(read_options({"paths": paths, "subscribe": "t"}), Pruning())
    assert [(0, 0, 40), (1, 0, 40)] == bounds(read_plan)
    logs(tmp_path / "b", "t-0")
    with pytest.raises(PolicyError, match=r"t-0 is in .*a too"):
        plan_read(read_options({"paths": paths, "subscribe": "t"}), Pruning())


def test_a_running_broker_refuses_the_plan_of_a_latest_state(tmp_path: Path) -> None:
    """It holds the directory's lock; records are read next to it."""
    path = logs(tmp_path)
    with (path / ".lock").open("wb") as file:
        assert try_lock(file.fileno(), "exclusive")
        with pytest.raises(LogDirLocked, match="Stop the broker"):
            planned(path, view="latest")
        release(file.fileno())
    assert [(0, 0, 40)] == bounds(planned(path))


def test_ranges_touch(tmp_path: Path) -> None:
    """No offset is read twice or never, however small the ranges are."""
    path = logs(tmp_path, batches=200)
    for wanted in ("2", "7", "50"):
        ranges = [one for task in planned(path, minPartitions=wanted) for one in task]
        assert (0, 200) == (ranges[0].start_offset, ranges[-1].end_offset)
        assert all(one.end_offset == other.start_offset for one, other in pairwise(ranges))
