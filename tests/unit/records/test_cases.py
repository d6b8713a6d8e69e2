"""The records of all cases that Kafka wrote are those that the plain reader finds."""

from __future__ import annotations

from random import Random

import pytest

from logwright.errors import CorruptBatch, UncleanLogDir
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.records.model import Isolation, ReadCounts, ReadRequest
from tests import fixtures
from tests.fixtures import Side
from tests.plain_consumer import arrow_rows, consume
from tests.unit.records.reading import read

ISOLATIONS: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")
DAMAGED = {
    (name, "before")
    for name in fixtures.CASES
    if name.startswith(("bad-", "crash-", "missing-", "orphan-", "torn-", "wrong-"))
} | {("torn-tail-marked-clean", "after")}
"""Cases that must be recovered before anything is read."""


def logs_of(name: str, side: Side) -> list[PartitionLog]:
    """The logs of one side of a case; none of those that must be recovered first."""
    logs = []
    for case in fixtures.partitions(name):
        partition = TopicPartition.parse(case.name)
        assert partition is not None
        log_dir = fixtures.case_dir(name) / side
        if (name, side) in DAMAGED:
            with pytest.raises((UncleanLogDir, CorruptBatch)):
                observe(log_dir, partition, high_watermark="checkpoint")
        else:
            logs.append(observe(log_dir, partition, high_watermark="checkpoint"))
    return logs


@pytest.mark.rotates(24)
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("name", fixtures.CASES)
def test_records_are_those_of_the_plain_reader(name: str, side: Side, seed: int) -> None:
    """Whatever the ranges and the sizes of the record batches are."""
    random = Random(f"{seed}/{name}")
    for log in logs_of(name, side):
        for isolation in ISOLATIONS:
            request = ReadRequest(
                isolation=isolation, range_bytes=random.choice((1, 4096, 1 << 30))
            )
            batch_rows = random.choice((1, 7, 1000))
            counts = ReadCounts()
            batches = read(
                log,
                request,
                batch_rows=batch_rows,
                batch_bytes=1 << random.randrange(20),
                counts=counts,
            )
            rows = arrow_rows(batches)
            assert consume(log, isolation) == rows
            assert len(rows) == counts.rows
            assert all(0 < len(batch) <= batch_rows for batch in batches)
            assert {(log.partition.topic, log.partition.partition)} >= {
                (batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
                for batch in batches
            }
