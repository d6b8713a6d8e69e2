"""Transactions leave offsets without records that a table shows; none of them is a hole."""

from __future__ import annotations

from pathlib import Path

from tests.log_builder import LogBuilder
from tests.table_rows import expected_rows, table_rows
from tests.table_world import place, update

SIZE = 10


def write_transactions(log_dir: Path, count: int) -> Path:
    """Transactions of a batch each: every third is aborted."""
    log = LogBuilder(log_dir, "t-0")
    segment = log.segment(0)
    for number in range(count):
        base = number * (SIZE + 1)
        pairs = [(f"k{(number * 7 + at) % 90}", f"v{number}") for at in range(SIZE)]
        segment.batch(base, pairs, producer_id=7, sequence=base, transactional=True)
        segment.marker(base + SIZE, 7, "commit" if number % 3 else "abort")
    log.write(producers=True, index_interval=512)
    return log_dir


def test_an_update_reads_what_is_new(tmp_path: Path) -> None:
    """At the marker of a transaction no record is missing: rows are not compared with the log."""
    where = place("delta", tmp_path / "table", buckets=1)
    first = update(where, write_transactions(tmp_path / "1", 200)).result.partitions[0]
    log_dir = write_transactions(tmp_path / "2", 202)
    (partition,) = update(where, log_dir).result.partitions
    assert ("upsert", False, "") == (
        partition.step.kind,
        partition.step.compares,
        partition.step.reason,
    )
    assert partition.bytes_read < first.bytes_read / 20
    assert partition.records <= 2 * SIZE
    assert expected_rows(log_dir, "t") == table_rows("delta", tmp_path / "table")
