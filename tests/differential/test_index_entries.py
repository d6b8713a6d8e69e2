"""An index entry is called wrong if and only if it misleads Kafka's look-ups."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest

from logwright.format.batch import parse_batch
from logwright.format.index import serialize_offset_index, serialize_time_index
from logwright.format.names import TopicPartition, segment_file_name
from logwright.format.record import read_records
from logwright.log.load import observe
from logwright.verify.partition import verify_partition
from tests.differential.oracle_server import OracleServer
from tests.e2e.command import call
from tests.log_builder import START_MS, LogBuilder, SegmentBuilder

pytestmark = pytest.mark.oracle

NOW_MS = START_MS + 1_000_000
T0 = TopicPartition("t", 0)
LATER_MS = 10_000
"""After all of the first segment: the timestamps of the second."""
COUNT = 30

Batch = tuple[int, int, int]
"""Base offset, last offset, largest timestamp."""


def fill(random: Random, segment: SegmentBuilder, later_ms: int) -> int:
    """Append batches, some after a gap as a cleaning leaves it. Return the offset after them."""
    offset = segment.base_offset
    for _ in range(random.randint(4, 12)):
        offset += random.choice([0, 0, 0, 3])
        count = random.randint(1, 4)
        times = [START_MS + later_ms + random.randint(0, 60) for _ in range(count)]
        segment.batch(offset, [("k", "v" * random.randint(0, 30))] * count, timestamps=times)
        offset += count
    return offset


def a_log(random: Random, log_dir: Path, *, appends: bool) -> LogBuilder:
    """Two segments, of an older broker if its appends have several batches."""
    log = LogBuilder(log_dir)
    following = 0
    for later_ms in (0, LATER_MS):
        segment = log.segment(following)
        following = fill(random, segment, later_ms)
        if appends:
            left = len(segment.batches)
            segment.appends = []
            while left:
                segment.appends.append(random.randint(1, min(left, 4)))
                left -= segment.appends[-1]
    return log.write(producers=True, index_interval=random.choice([0, 100, 300]))


def batches_of(log: LogBuilder) -> list[Batch]:
    parsed = [parse_batch(content) for segment in log.segments for content in segment.batches]
    return [(one.base_offset, one.last_offset, one.max_timestamp) for one in parsed]


def records_of(log: LogBuilder) -> list[tuple[int, int]]:
    """Offset and timestamp of each record."""
    contents = [content for segment in log.segments for content in segment.batches]
    return [
        (record.offset, record.timestamp_ms)
        for content in contents
        for record in read_records(parse_batch(content), content)
    ]


def finds(server: OracleServer, log: LogBuilder, times: Sequence[int] = ()) -> bool:
    """Whether Kafka finds each offset, and each of these timestamps, by the log's indexes."""
    offsets = list(range(log.end_offset))
    request = {"request": "lookup", "logDir": str(log.log_dir), "topicPartition": "t-0"}
    answer = server.ask({**request, "now": NOW_MS, "offsets": offsets, "times": list(times)})
    if answer.get("end") != log.end_offset:
        return False
    batches, records = batches_of(log), records_of(log)
    expected = [next(first for first, last, _ in batches if last >= one) for one in offsets]
    first = [next((offset for offset, time in records if time >= one), -1) for one in times]
    return bool(expected == answer["offsets"] and first == answer["times"])


def positions_of(segment: SegmentBuilder) -> list[int]:
    return np.cumsum([0, *map(len, segment.batches)])[:-1].tolist()


def all_times(log: LogBuilder, more: Sequence[int] = ()) -> list[int]:
    times = [time for _, time in records_of(log)]
    return sorted({*times, *more, *(time + 1 for time in times), max(times) + 5})


def test_logs_of_an_older_broker(server: OracleServer, tmp_path: Path, seed: int) -> None:
    """Their entries name the last offset of several batches. Kafka finds all by them; they are
    sound, and planned and recovered as they are.
    """
    named = 0
    for number in range(COUNT):
        log = a_log(Random(f"{seed} {number}"), tmp_path / str(number), appends=True)
        assert [] == verify_partition(log.log_dir, T0)
        assert log.end_offset == observe(log.log_dir, T0, high_watermark="end").log_end_offset
        assert "rebuilt" not in call("recover", log.log_dir, "--dry-run").out
        assert finds(server, log, all_times(log))
        named += sum(count > 1 for one in log.segments for count in one.appends or ())
    assert named > 0


def test_offset_entries(server: OracleServer, tmp_path: Path, seed: int) -> None:
    """Random ones of the active segment."""
    verdicts = set()
    for number in range(COUNT):
        random = Random(f"{seed} {number}")
        log = a_log(random, tmp_path / str(number), appends=False)
        active = log.segments[-1]
        places = positions_of(active)[1:]
        places += [place - 8 for place in places if random.random() < 0.1]
        count = random.randint(1, 3)
        offsets = random.sample(range(active.base_offset, log.end_offset + 1), count)
        entries = zip(sorted(offsets), sorted(random.sample(places, count)), strict=True)
        table = np.array(list(entries), dtype=np.int64)
        path = log.directory / segment_file_name(active.base_offset, ".index")
        path.write_bytes(serialize_offset_index(table, active.base_offset))
        (log.directory / path.name).with_suffix(".timeindex").write_bytes(b"")
        sound = not verify_partition(log.log_dir, T0)
        assert finds(server, log) is sound, (number, table.tolist(), batches_of(log))
        verdicts.add(sound)
    assert {True, False} == verdicts


def test_time_entries(server: OracleServer, tmp_path: Path, seed: int) -> None:
    """Random ones of the first segment."""
    verdicts = set()
    for number in range(COUNT):
        random = Random(f"{seed} {number}")
        log = a_log(random, tmp_path / str(number), appends=number % 2 == 0)
        largest_ms, last = log.segments[0].largest
        times = sorted(random.sample(range(START_MS + 20, largest_ms), random.randint(1, 2)))
        offsets = sorted(random.choices(range(last + 1), k=len(times)))
        times.append(largest_ms + random.choice([0, 0, 0, 0, 3]))
        table = np.array(list(zip(times, [*offsets, last], strict=True)), dtype=np.int64)
        path = log.directory / segment_file_name(0, ".timeindex")
        path.write_bytes(serialize_time_index(table, 0))
        sound = not verify_partition(log.log_dir, T0)
        reached = finds(server, log, all_times(log, times))
        assert reached is sound, (number, table.tolist(), batches_of(log))
        verdicts.add(sound)
    assert {True, False} == verdicts


def test_a_killed_broker(server: OracleServer, tmp_path: Path, seed: int) -> None:
    """Kafka opens its directory without loss, and what verifies it says so before."""
    log = a_log(Random(seed), tmp_path / "logs", appends=False).kill()
    assert [] == verify_partition(log.log_dir, T0)
    assert finds(server, log, all_times(log))
