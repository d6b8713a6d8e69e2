"""What is read of a log as rows is what the plain reader finds, or a refusal by name, whatever the
log and its bytes are.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logwright.batches import segment_file
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.records import pieces
from logwright.records.model import Isolation, OnCorrupt, ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.records.schema import RECORDS
from tests.plain_consumer import Row, arrow_rows, consume
from tests.plain_reader import is_readable
from tests.property.made_up_logs import MadeUpLog, made_up_logs
from tests.property.mutations import mutate
from tests.property.test_cleaning_rules import LONGER, bounded, written
from tests.property.test_damaged_segments import (
    SEGMENTS,
    SLOWEST_SECONDS,
    Healthy,
    healthy,
    little_memory,
)

MUTANTS = 150
NIGHTLY_MUTANTS = 10_008
ISOLATIONS: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")


def read(log: PartitionLog, request: ReadRequest, random: Random) -> list[Row]:
    """All rows, in record batches of any size."""
    size, rows = 1 << random.randrange(16), random.choice((1, 2, 5, 1000))
    batches: Iterator[pa.RecordBatch] = (
        batch
        for records_range in plan_records(log, request)
        for batch in read_range(
            records_range, columns=RECORDS.names, batch_rows=rows, batch_bytes=size
        )
    )
    return arrow_rows(batches)


@pytest.mark.rotates(1)  # at night with more examples
@settings(bounded, max_examples=75 * LONGER)
@given(made_up_logs(), st.randoms(use_true_random=False))
def test_rows_of_any_log(made_up: MadeUpLog, random: Random) -> None:
    """Both isolation levels, any offsets, ranges, pieces and record batches."""
    with written(made_up) as builder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(segment_file, "PIECE_BYTES", random.choice((1, 300, 1 << 20)))
        patch.setattr(pieces, "AHEAD_BYTES", random.choice((1, 300, 1 << 20)))
        log = observe(builder.log_dir, builder.partition, high_watermark="end")
        for isolation in ISOLATIONS:
            start = random.randrange(log.log_end_offset + 1)
            end = random.randrange(start, log.log_end_offset + 2)
            whole = ReadRequest(isolation=isolation, range_bytes=random.choice((1, 500, 1 << 20)))
            part = replace(whole, start_offset=start, end_offset=end)
            assert consume(log, isolation) == read(log, whole, random)
            assert consume(log, isolation, start, end) == read(log, part, random)
            assert consume(log, isolation) == read(log, replace(whole, on_corrupt="skip"), random)


def attempt(
    log: Path, isolation: Isolation, on_corrupt: OnCorrupt, random: Random
) -> tuple[PartitionLog | None, list[Row] | LogwrightError]:
    """Observe and read a mutant: the log, if it could be observed; its rows, or the refusal."""
    partition = TopicPartition.parse(log.parent.name)
    assert partition is not None
    try:
        observed = observe(log.parent.parent, partition, high_watermark="end")
    except LogwrightError as error:
        return None, error
    request = ReadRequest(isolation=isolation, on_corrupt=on_corrupt, range_bytes=2_000)
    try:
        return observed, read(observed, request, random)
    except LogwrightError as error:
        return observed, error


def judge(segment: Healthy, content: bytes, log_dir: Path, random: Random) -> bool:
    """Read one mutant in each way; whether it was refused.

    Uncommitted data is read or refused exactly as by the plain reader. Committed data needs the
    snapshots and markers too, which the mutant may contradict; and aborted data is not looked into.
    """
    path = segment.write(log_dir, content)
    ends = {"base_offset": segment.base_offset, "end_offset": segment.end_offset}
    readable = is_readable(content, **ends)
    log, outcome = attempt(path, "read_uncommitted", "fail", random)
    refused = isinstance(outcome, LogwrightError)
    if log is not None:
        assert readable == (not refused), outcome
    if isinstance(outcome, LogwrightError):
        assert outcome.remedy
    else:
        assert log is not None
        assert consume(log, "read_uncommitted") == outcome
        _, committed = attempt(path, "read_committed", "fail", random)
        assert consume(log, "read_committed") == committed
    for isolation in ISOLATIONS:
        observed, rest = attempt(path, isolation, "skip", random)
        if observed is not None:
            assert not isinstance(rest, LogwrightError)
            offsets = [row[2] for row in rest]
            assert offsets == sorted(set(offsets))
            if isolation == "read_uncommitted" and not refused:
                assert rest == outcome
    return refused


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A directory in memory where there is such a place."""
    place = Path("/dev/shm")  # noqa: S108 -- a private directory below it
    with tempfile.TemporaryDirectory(dir=place if place.is_dir() else None) as directory:
        yield Path(directory)


def judge_many(name: str, number: int, memory: Path, seed: int, count: int) -> int:
    """Read this number of mutants of a segment; how many were refused."""
    segment = healthy(name, number)
    log_dir = memory / f"{name}-{number}-records"
    assert not judge(segment, segment.content, log_dir, Random(seed))
    refused = 0
    with little_memory():
        for mutant in range(count):
            random = Random(f"{seed}/{name}/{number}/{mutant}/records")
            content = mutate(segment.content, random)
            started = time.monotonic()
            try:
                refused += judge(segment, content, log_dir, random)
            except (Exception, SystemError) as error:
                raise AssertionError(f"mutant {mutant} of seed {seed}: {error!r}") from error
            assert time.monotonic() - started < SLOWEST_SECONDS
    return refused


@pytest.mark.parametrize(("name", "number"), SEGMENTS)
def test_a_damaged_segment_is_read_or_refused(
    name: str, number: int, memory: Path, seed: int
) -> None:
    """Never a crash, a hang, a huge allocation, or other rows than those of the plain reader; half
    of the mutants have right CRCs.
    """
    assert judge_many(name, number, memory, seed, MUTANTS // len(SEGMENTS)) > 0


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "number"), SEGMENTS)
def test_many_damaged_segments(name: str, number: int, memory: Path, seed: int) -> None:
    """The same with ten thousand."""
    count = NIGHTLY_MUTANTS // len(SEGMENTS)
    assert 0 < judge_many(name, number, memory, seed, count) < count
