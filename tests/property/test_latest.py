"""The latest state of damaged segments: what a consumer's rows give, or a refusal by name."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from logwright.config.topic import CleanerConfig
from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from tests.latest_rows import plan_of, read_state
from tests.plain_consumer import consume
from tests.plain_reader import is_readable
from tests.property.mutations import mutate
from tests.property.test_damaged_segments import (
    SEGMENTS,
    SLOWEST_SECONDS,
    Healthy,
    healthy,
    little_memory,
)

MUTANTS = 300
NIGHTLY_MUTANTS = 5_004


def judge(segment: Healthy, content: bytes, log_dir: Path, random: Random) -> bool:
    """Read one mutant; whether it was refused."""
    path = segment.write(log_dir, content)
    budget = random.choice((64, 640, 1 << 20))
    try:
        plan = plan_of(log_dir, path.parent.name, cleaner=CleanerConfig(dedupe_buffer_bytes=budget))
        state = read_state(plan, threads=random.choice((1, 3)))
    except LogwrightError:
        return True
    if is_readable(content, base_offset=segment.base_offset, end_offset=segment.end_offset):
        assert [row[:3] for row in state] == _newest(log_dir, path.parent.name)
    return False


def _newest(log_dir: Path, name: str) -> list[tuple[bytes, bytes, int]]:
    """Key, value and offset of the newest of a consumer's rows of each key."""
    partition = TopicPartition.parse(name)
    assert partition is not None
    rows = consume(observe(log_dir, partition, high_watermark="end"), "read_committed")
    newest = {row[0]: row[:3] for row in rows if row[0] is not None}
    return sorted((row for row in newest.values() if row[1] is not None), key=lambda row: row[2])


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A directory in memory where there is such a place."""
    place = Path("/dev/shm")  # noqa: S108 -- a private directory below it
    with tempfile.TemporaryDirectory(dir=place if place.is_dir() else None) as directory:
        yield Path(directory)


def judge_many(name: str, number: int, memory: Path, seed: int, count: int) -> int:
    """Read this number of mutants of a segment; how many were refused."""
    segment = healthy(name, number)
    log_dir = memory / f"{name}-{number}-latest"
    assert not judge(segment, segment.content, log_dir, Random(seed))
    refused = 0
    with little_memory():
        for mutant in range(count):
            random = Random(f"{seed}/{name}/{number}/{mutant}/latest")
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
    """Never a crash, a hang, or other rows than those of the plain reader."""
    assert judge_many(name, number, memory, seed, MUTANTS // len(SEGMENTS)) > 0


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "number"), SEGMENTS)
def test_many_damaged_segments(name: str, number: int, memory: Path, seed: int) -> None:
    """The same with thousands."""
    count = NIGHTLY_MUTANTS // len(SEGMENTS)
    assert 0 < judge_many(name, number, memory, seed, count) < count
