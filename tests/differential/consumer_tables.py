"""The latest state of a log against a dictionary over the rows that real consumers read, now and as
of points in the past; and the same through Spark.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from logwright.errors import PointNotHeld
from logwright.latest.plan import plan_latest
from logwright.latest.read import read_latest
from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.records.schema import RECORDS
from tests.differential.consumer_rows import Case, Found, first_offset_at, rows_of
from tests.differential.consumers import LEVELS, Consumed, Place, Row, newest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def compare_latest(
    place: Place,
    read: Consumed,
    truth: Consumed,
    rnd: random.Random,
    *,
    points: int,
) -> Found:
    """Compare the latest state, and that as of some offsets and as many times.

    Args:
        read: what consumers get of this log.
        truth: what they got of it before it was cleaned.
        points: how many offsets and times, at most.
    """
    judgement = Found()
    log = observe(place.log_dir, place.partition, high_watermark="end")
    rows = read.rows["read_committed"]
    for tombstones in (False, True):
        what = f"{place.name}: latest, tombstones {tombstones}"
        ours = _latest(log, tombstones=tombstones)
        judgement.expect(what, newest(rows, tombstones=tombstones), ours)
    judgement.expect(
        f"{place.name}: latest as before the clean",
        newest(truth.rows["read_committed"]),
        newest(rows),
    )
    start = rnd.choice([log.log_start_offset, *(row.offset for row in rows)])
    since = [row for row in rows if row.offset >= start]
    ours = _latest(log, start_offset=start, tombstones=True)
    judgement.expect(f"{place.name}: latest since {start}", newest(since, tombstones=True), ours)
    case = Case(judgement, place.name, log, rnd)
    _compare_points(case, truth.rows["read_committed"], points)
    return judgement


def _compare_points(case: Case, rows: Sequence[Row], points: int) -> None:
    """What was the latest at a point, by a replay of the log as it was before the clean."""
    log, rnd = case.log, case.rnd
    last = int(log.last_stable_offset)
    near = {row.offset + more for row in rows for more in (0, 1) if row.offset < last}
    offsets = sorted(near | {int(log.log_start_offset), last})
    for end in rnd.sample(offsets, min(len(offsets), points)):
        until = [row for row in rows if row.offset < end]
        _compare_point(case, f"offset {end}", newest(until), end_offset=end)
    times = [row.timestamp_ms + more for row in rows for more in (-1, 0)]
    for time in rnd.sample(times, min(len(times), points)):
        end = min(first_offset_at(log, time + 1), last)
        until = [row for row in rows if row.offset < end]
        _compare_point(case, f"time {time}", newest(until), end_timestamp_ms=time)


def _compare_point(case: Case, point: str, expected: Sequence[Row], **end: int) -> None:
    try:
        ours = _latest(case.log, **end)
    except PointNotHeld:
        case.found.refused += 1
        return
    case.found.points += 1
    case.found.expect(f"{case.what}: as of {point}", expected, ours)


def _latest(log: PartitionLog, *, tombstones: bool = False, **point: int) -> list[Row]:
    plan = plan_latest(log, **point)  # type: ignore[arg-type] -- all points are numbers
    batches = read_latest(plan, columns=RECORDS.names, tombstones=tombstones)
    return [row for batch in batches for row in rows_of(batch, log.partition)]


def compare_spark(place: Place, read: Consumed, spark: SparkSession) -> Found:
    """Compare the rows of the data source ``kafka-log``, and its view of the latest."""
    judgement = Found()
    options = {
        "path": str(place.log_dir),
        "subscribe": place.partition.topic,
        "highWatermark": "end",
        "includeHeaders": "true",
    }

    def source(**more: str) -> DataFrame:
        return spark.read.format("kafka-log").options(**options, **more).load()

    for level in LEVELS:
        rows = _of_partition(source(isolationLevel=level, minPartitions="3"), place)
        judgement.expect(f"{place.name}: spark, {level}", read.rows[level], rows)
        judgement.rows += len(rows)
    latest = source(view="latest")
    expected = newest(read.rows["read_committed"])
    judgement.expect(f"{place.name}: spark, latest", expected, _of_partition(latest, place))
    return judgement


def _of_partition(frame: DataFrame, place: Place) -> list[Row]:
    """The rows of one partition, by offset, in our own order of columns."""
    rows = frame.where(f"partition = {place.partition.partition}").orderBy("offset").toArrow()
    assert list(RECORDS.names) == rows.schema.names, rows.schema
    return rows_of(rows.cast(RECORDS), place.partition)
