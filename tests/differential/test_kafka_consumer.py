"""Rows, and the latest of them, are those of real consumers of a Kafka 4.3 broker that has the
same segments: all fixtures, the logs of a real broker, and random logs.

`python -m tests.differential --consumer --count N` compares more of them, and says the figures.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.errors import CorruptBatch
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from tests import fixtures
from tests.differential.consumer_logs import NEVER_CLEANED, Judged, judge, judge_random
from tests.differential.consumers import Place
from tests.differential.oracle_server import OracleServer

pytestmark = pytest.mark.oracle

LOGS = 8
POINTS = 50
LOSES = "md5-collision"
"""Kafka's cleaner takes two keys for one, and loses a record: what was before does not count."""
TORN = "torn-tail-marked-clean"
"""Its last batch is cut off: a broker serves what is before it, we refuse the log by name."""
COMMON = frozenset(
    {
        "abort markers",
        "append time",
        "batches gzip",
        "batches lz4",
        "batches none",
        "batches snappy",
        "batches zstd",
        "compact,delete",
        "earlier cleanings",
        "empty keys",
        "empty values",
        "gaps",
        "headers",
        "log start above the first segment",
        "oversized batches",
        "records removed",
        "records without a timestamp",
        "tombstones",
        "transactional batches",
        "transactions ongoing",
    }
)
"""What the random logs of a night must have had: else nothing was shown."""


def places() -> Iterator[Place]:
    """Both sides of each case, but for those that a broker does not open as they are: it recovers
    what was not cleanly shut down.
    """
    for name in sorted(set(fixtures.CASES) - {TORN}):
        opens = "recover" not in fixtures.description(name)["ops"]
        for side in ("before", "after") if opens else ("after",):
            for fixture in fixtures.partitions(name):
                partition = TopicPartition.parse(fixture.name)
                assert partition is not None
                yield Place(
                    name=f"{name} {partition}, {side}",
                    log_dir=fixtures.case_dir(name) / side,
                    partition=partition,
                )


def is_only_cleaned(name: str) -> bool:
    """Whether the latest state after the case is that before it."""
    return fixtures.description(name)["ops"] == ["clean"] and name != LOSES


@pytest.mark.rotates(12)
@pytest.mark.timeout(600, method="thread")
def test_fixtures_are_read_as_by_consumers(scratch: Path) -> None:
    """Every log that Kafka wrote and that a broker opens, its offsets and transactions too."""
    judged = Judged()
    listed = list(places())
    only_cleaned = [name for name in fixtures.CASES if is_only_cleaned(name)]
    truths = {
        f"{name} {fixture.name}, after": f"{name} {fixture.name}, before"
        for name in only_cleaned
        for fixture in fixtures.partitions(name)
    }
    judge(listed, truths, scratch / "work", points=2, into=judged)
    assert [] == judged.found.differences
    assert len(truths) > 40
    assert any(place.name.startswith("real-broker") for place in listed)
    assert judged.found.points > 100


def test_a_torn_tail_is_refused_by_name() -> None:
    """A log that a broker cuts before it appends is to be recovered first."""
    log_dir = fixtures.case_dir(TORN) / "after"
    with pytest.raises(CorruptBatch, match=r"recover"):
        observe(log_dir, TopicPartition("t", 0), high_watermark="end")


@pytest.mark.rotates(8)
@pytest.mark.timeout(600, method="thread")
def test_random_logs_are_read_as_by_consumers(
    server: OracleServer, seed: int, scratch: Path
) -> None:
    """Both isolation levels, any slice, before and after a clean; a few also by Spark."""
    seeds = range(seed * 1_000_000, seed * 1_000_000 + LOGS)
    judged = judge_random(server, seeds, {}, scratch, points=5, spark_every=LOGS)
    assert [] == judged.found.differences
    assert judged.logs >= LOGS
    assert judged.through_spark > 0


@pytest.mark.rotates(8)
@pytest.mark.timeout(600, method="thread")
def test_the_past_is_a_replay(server: OracleServer, seed: int, scratch: Path) -> None:
    """A log that was never cleaned has its state as of any offset and any time."""
    seeds = range(seed * 1_000_000, seed * 1_000_000 + 2)
    judged = judge_random(server, seeds, NEVER_CLEANED, scratch, points=POINTS)
    assert [] == judged.found.differences
    assert judged.found.points >= 2 * POINTS


@pytest.mark.nightly
@pytest.mark.timeout(7200, method="thread")
def test_many_more_logs_are_read_as_by_consumers(
    server: OracleServer, seed: int, scratch: Path, pytestconfig: pytest.Config
) -> None:
    """The same by night, one log for twenty of `--count`."""
    count = pytestconfig.getoption("count") // 20
    seeds = range(seed * 1_000_000, seed * 1_000_000 + count)
    judged = judge_random(server, seeds, {}, scratch, points=10, spark_every=50)
    assert [] == judged.found.differences, "\n".join(judged.lines())
    assert set() == COMMON - set(judged.coverage)
