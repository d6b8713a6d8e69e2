"""The records of all cases that Kafka wrote are those that the plain reader finds."""

from __future__ import annotations

from random import Random

import pytest

from logwright.errors import CorruptBatch, LogwrightError, UncleanLogDir
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.records.model import Isolation, ReadCounts, ReadRequest
from logwright.records.plan import plan_records
from logwright.records.read import read_range
from logwright.records.schema import RECORDS
from tests import fixtures
from tests.fixtures import Side
from tests.plain_consumer import arrow_rows, consume

ISOLATIONS: tuple[Isolation, ...] = ("read_committed", "read_uncommitted")


def logs_of(name: str, side: Side) -> list[PartitionLog]:
    """The logs of one side of a case; none if it must be recovered first."""
    found = []
    for one in fixtures.partitions(name):
        partition = TopicPartition.parse(one.name)
        assert partition is not None
        try:
            log = observe(fixtures.case_dir(name) / side, partition, high_watermark="checkpoint")
        except LogwrightError as error:
            assert isinstance(error, UncleanLogDir | CorruptBatch)
            assert name.startswith(("bad-", "crash-", "missing-", "orphan-", "torn-", "wrong-"))
            continue
        found.append(log)
    return found


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
            size = {
                "batch_rows": random.choice((1, 7, 1000)),
                "batch_bytes": 1 << random.randrange(20),
            }
            counts = ReadCounts()
            batches = [
                batch
                for one in plan_records(log, request)
                for batch in read_range(one, columns=RECORDS.names, counts=counts, **size)
            ]
            rows = arrow_rows(batches)
            assert consume(log, isolation) == rows
            assert len(rows) == counts.rows
            assert all(0 < len(batch) <= size["batch_rows"] for batch in batches)
            assert {(log.partition.topic, log.partition.partition)} >= {
                (batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
                for batch in batches
            }
