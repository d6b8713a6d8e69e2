"""Our rows of a log against those that real consumers read (`consumers`): whole, in small ranges
and batches, of random columns, offsets and times.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa

from logwright.format.names import LOG, TopicPartition, segment_file_name
from logwright.log.dump import segment_lines
from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.records.model import Isolation, ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.records.schema import RECORDS, records_schema
from tests.differential.consumers import LEVELS, Consumed, Place, Row

US_PER_MS = 1000
SLICES = 4
ISOLATIONS: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")
assert ISOLATIONS == LEVELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a log is read: sizes of what comes at a time."""

    batch_rows: int = 1000
    batch_bytes: int = 1_000_000


@dataclass(slots=True, kw_only=True)
class Found:
    """What a comparison found.

    Attributes:
        differences: each begins with the log's name and its kind: `offsets`, `rows`, `pieces`,
            `columns`, `slice`, `time`, `latest`, `as of`, `spark`, `raised`.
        rows: how many rows of real consumers were compared, each way of reading counted once.
        points: at how many points in the past tables were compared; refused: at how many ours says
            that the log no longer knows.
    """

    differences: list[str] = field(default_factory=list)
    rows: int = 0
    points: int = 0
    refused: int = 0

    def expect(self, what: str, expected: Sequence[object], actual: Sequence[object]) -> None:
        """Note the first difference of two lists; of rows by the offset, never with their bytes."""
        if list(expected) == list(actual):
            return
        pairs = enumerate(zip(expected, actual, strict=False))
        unequal = (number for number, (one, other) in pairs if one != other)
        at = next(unequal, min(len(expected), len(actual)))
        pair = (_place(expected, at), _place(actual, at))
        self.differences.append(
            f"{what}: expected {len(expected)} rows, got {len(actual)}; the first that differs is"
            f" number {at}: expected {pair[0]}, got {pair[1]}"
        )

    def add(self, other: Found) -> None:
        """Take over what another comparison found."""
        self.differences += other.differences
        self.rows += other.rows
        self.points += other.points
        self.refused += other.refused


class Case(NamedTuple):
    """What is compared: where findings go, how they begin, and the log."""

    found: Found
    what: str
    log: PartitionLog
    rnd: random.Random


def _place(rows: Sequence[object], at: int) -> str:
    if at >= len(rows):
        return "none"
    row = rows[at]
    if isinstance(row, Row):
        return f"offset {row.offset}, {row.timestamp_ms} ms, type {row.timestamp_type}"
    return repr(row)


def rows_of(table: pa.Table | pa.RecordBatch, partition: TopicPartition) -> list[Row]:
    """The rows of all columns, as consumers have them.

    Raises:
        AssertionError: the schema is another, or a row is not of this partition.
    """
    assert table.schema.equals(RECORDS), table.schema
    place = set(zip(*(table[name].to_pylist() for name in ("topic", "partition")), strict=True))
    assert place <= {(partition.topic, partition.partition)}, place
    times = table["timestamp"].cast(pa.int64()).to_pylist()
    assert all(time % US_PER_MS == 0 for time in times)
    return [
        Row(offset, time // US_PER_MS, kind, key, value, _headers(headers))
        for offset, time, kind, key, value, headers in zip(
            table["offset"].to_pylist(),
            times,
            *(table[name].to_pylist() for name in ("timestampType", "key", "value", "headers")),
            strict=True,
        )
    ]


def _headers(headers: list[dict[str, object]] | None) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((str(one["key"]), one["value"]) for one in headers or ())  # type: ignore[misc] -- a schema says so


def read_rows(log: PartitionLog, request: ReadRequest, reading: Reading | None = None) -> list[Row]:
    """Our rows of a log."""
    return [
        row
        for batch in read_batches(log, request, RECORDS.names, reading or Reading())
        for row in rows_of(batch, log.partition)
    ]


def read_batches(
    log: PartitionLog, request: ReadRequest, columns: Sequence[str], reading: Reading
) -> Iterator[pa.RecordBatch]:
    """Our batches of a log, none larger than it may be."""
    for records_range in plan_records(log, request):
        for batch in read_range(
            records_range,
            columns=columns,
            batch_rows=reading.batch_rows,
            batch_bytes=reading.batch_bytes,
        ):
            assert 0 < batch.num_rows <= reading.batch_rows
            yield batch


def compare_rows(place: Place, read: Consumed, rnd: random.Random) -> Found:
    """Compare all that `logwright.records` can read of a log."""
    judgement = Found()
    log = observe(place.log_dir, place.partition, high_watermark="end")
    ends = {"read_uncommitted": log.high_watermark, "read_committed": log.last_stable_offset}
    judgement.expect(
        f"{place.name}: offsets", [read.start, read.ends], [log.log_start_offset, ends]
    )
    _compare_offsets(judgement, place, log, read)
    for isolation in ISOLATIONS:
        expected = read.rows[isolation]
        request = ReadRequest(isolation=isolation)
        what = f"{place.name}: {isolation}"
        case = Case(judgement, what, log, rnd)
        judgement.expect(f"{what}: rows", expected, read_rows(log, request))
        pieces = replace(request, range_bytes=rnd.choice((60, 300, 700, 5000)))
        small = Reading(batch_rows=rnd.randint(1, 12), batch_bytes=rnd.choice((1, 50, 1000)))
        judgement.expect(f"{what}: pieces", expected, read_rows(log, pieces, small))
        _compare_columns(case, request, expected)
        _compare_slices(case, pieces, expected)
        _compare_times(case, request, read)
        judgement.rows += len(expected)
    return judgement


def _compare_columns(case: Case, request: ReadRequest, expected: Iterable[Row]) -> None:
    judgement, what, log, rnd = case
    columns = rnd.sample(RECORDS.names, rnd.randint(0, len(RECORDS)))
    whole = [
        batch.select(columns) for batch in read_batches(log, request, RECORDS.names, Reading())
    ]
    part = list(read_batches(log, request, columns, Reading()))
    schema = records_schema(columns)
    assert all(batch.schema.equals(schema) for batch in part)
    rows = sum(batch.num_rows for batch in part)
    judgement.expect(f"{what}: columns {columns}: count", [len(list(expected))], [rows])
    if columns:
        tables = [pa.Table.from_batches(batches, schema) for batches in (whole, part)]
        judgement.expect(f"{what}: columns {columns}", *(table.to_pylist() for table in tables))


def _compare_slices(case: Case, request: ReadRequest, expected: Sequence[Row]) -> None:
    """Between any two offsets, those of records more often, also outside of the log."""
    judgement, what, log, rnd = case
    offsets = [row.offset + more for row in expected for more in (0, 1)]
    offsets += [0, log.log_start_offset, log.log_end_offset, log.log_end_offset + 5]
    for _ in range(SLICES):
        start, end = rnd.choice(offsets), rnd.choice(offsets)
        some = replace(request, start_offset=start, end_offset=end)
        between = [row for row in expected if start <= row.offset < end]
        judgement.expect(f"{what}: slice [{start}, {end})", between, read_rows(log, some))


def _compare_times(case: Case, request: ReadRequest, read: Consumed) -> None:
    """From and up to what `offsetsForTimes` says, and rows by their own timestamps."""
    judgement, what, log, rnd = case
    expected = read.rows[request.isolation]
    for time in read.offsets:
        first = first_offset_at(log, time)
        late = [row for row in expected if row.offset >= first]
        ours = read_rows(log, replace(request, start_timestamp_ms=time))
        judgement.expect(f"{what}: time from {time}", late, ours)
        early = [row for row in expected if row.offset < first]
        ours = read_rows(log, replace(request, end_timestamp_ms=time))
        judgement.expect(f"{what}: time to {time}", early, ours)
    for time in read.offsets:
        low, high = sorted((time, rnd.choice(list(read.offsets))))
        own = [row for row in expected if low <= row.timestamp_ms <= high]
        some = replace(request, min_timestamp_ms=low, max_timestamp_ms=high)
        judgement.expect(f"{what}: time between {low} and {high}", own, read_rows(log, some))


def first_offset_at(log: PartitionLog, time: int) -> int:
    """The first offset whose timestamp is at or above a time, markers and aborted data included, or
    the log end offset: by the dump of every batch.
    """
    return next(
        (
            record["offset"]
            for segment in log.segments
            for line in dumped(log, segment.base_offset)
            if line["type"] == "batch"
            for record in line["records"]
            if record["offset"] >= log.log_start_offset and record["timestamp"] >= time
        ),
        int(log.log_end_offset),
    )


def dumped(log: PartitionLog, base_offset: int) -> list[dict[str, Any]]:
    """The batches of a segment by our dump, which is proved equal to Kafka's."""
    path = log.directory / segment_file_name(base_offset, LOG)
    return list(segment_lines(path.read_bytes(), base_offset=base_offset))


def _compare_offsets(judgement: Found, place: Place, log: PartitionLog, read: Consumed) -> None:
    """A broker looks no further than the first segment whose time index, or without records the
    time of its file, is late enough. If all of that one's late records are removed, or below the
    log start offset, it finds none, though one follows. logwright finds that one.
    """
    for time, offset in read.offsets.items():
        ours = first_offset_at(log, time)
        theirs = log.log_end_offset if offset is None else offset
        misled = any(
            following.base_offset <= ours
            and (not segment.log_bytes or segment.largest_timestamp_ms >= time)
            for segment, following in pairwise(log.segments)
        )
        if offset is not None or not misled:
            judgement.expect(f"{place.name}: offset of {time}", [theirs], [ours])


def times_of(place: Place, rnd: random.Random, count: int) -> tuple[int, ...]:
    """Some times around those of a log's records; what they are is only input."""
    log = observe(place.log_dir, place.partition, high_watermark="end")
    rows = read_rows(log, ReadRequest(isolation="read_uncommitted"))
    times = [row.timestamp_ms + more for row in rows for more in (-1, 0, 1)]
    known = sorted({time for time in times if time >= 0})
    return tuple(rnd.sample(known, min(count, len(known))))
