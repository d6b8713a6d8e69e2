"""The same records appended by Kafka's own log and by logwright: the same files."""

from __future__ import annotations

import base64
import shutil
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from logwright.ingest.columns import byte_column
from logwright.ingest.model import AppendOptions
from logwright.ingest.partitioner import assign_partitions
from tests.comparison import compare_checkpoints, compare_partition, stray_snapshots
from tests.differential.oracle_server import OracleServer
from tests.fixtures import case_dir, copy_before, partition_of
from tests.ingested import Batch, append, random_rows, read_batches, request

pytestmark = pytest.mark.oracle

NOW = 1_760_020_000_000
SEEDS, PARTS = 60, 4
STARTS = (None, "basic-none", "txn-1-mixed", "tombstones-1-first", "leader-epochs")
"""Logs that are appended to: a new one, and what Kafka wrote of several kinds."""


def settings(random: Random) -> dict[str, str]:
    pairs = {
        "segment.bytes": str(random.choice((3000, 9000, 40_000))),
        "index.interval.bytes": str(random.choice((0, 1, 300, 1024, 4096))),
        "segment.index.bytes": str(random.choice((96, 240, 4096))),
        "segment.ms": str(random.choice((50_000, 400_000, 604_800_000))),
        "cleanup.policy": random.choice(("compact", "delete")),
        "message.timestamp.type": random.choice(("CreateTime", "CreateTime", "LogAppendTime")),
    }
    if random.random() < 0.3:
        pairs |= {"max.compaction.lag.ms": "120000"}
    if random.random() < 0.2:
        pairs |= {"flush.messages": str(random.choice((1, 7)))}
    return pairs


def files(log_dir: Path) -> set[str]:
    return {path.name for path in log_dir.iterdir() if path.is_file()} - {".lock"}


@pytest.mark.rotates(8)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.timeout(300, method="thread")
def test_uncompressed_logs_are_the_same_bytes(
    server: OracleServer, scratch: Path, part: int
) -> None:
    """Segments, indexes, snapshots, epochs, checkpoints; over several runs on one log."""
    failures: list[str] = []
    rolled = 0
    for seed in range(part, SEEDS, PARTS):
        random = Random(seed)
        start = STARTS[seed % len(STARTS)]
        ours, theirs = scratch / f"ours-{seed}", scratch / f"theirs-{seed}"
        if start is None:
            ours.mkdir()
            theirs.mkdir()
        else:
            assert partition_of(start).name == "t-0"
            shutil.copytree(case_dir(start) / "before", ours, copy_function=shutil.copy2)
            shutil.copytree(case_dir(start) / "before", theirs, copy_function=shutil.copy2)
        pairs = settings(random)
        for number in range(random.choice((1, 2, 3))):
            rows = random_rows(
                random, random.randrange(1, 150), around_ms=NOW - 900_000, spread_ms=800_000
            )
            options = AppendOptions(batch_bytes=random.choice((100, 500, 2500, 16_384)))
            done = append(
                ours,
                rows,
                pairs,
                now_ms=NOW + number,
                ingest_id=str(number),
                options=options,
                pieces=random.choice((1, 3, 20)),
            )
            rolled += done.segments_rolled
            batches = read_batches(ours, done.first_offset)
            answer = server.ask(request(theirs, rows, batches, pairs, now_ms=NOW + number))
            assert done.end_offset == answer["logEndOffset"]
        differing = compare_partition(theirs, ours, "t-0", read=_no_reader)
        stray = () if start is None else stray_snapshots(case_dir(start) / "before" / "t-0")
        differing = [one for one in differing if not one.endswith(stray or ("\0",))]
        differing += compare_checkpoints(theirs, ours)
        differing += [f"files: {name}" for name in files(theirs) ^ files(ours)]
        failures += [f"seed {seed}: {one}" for one in differing]
        shutil.rmtree(ours)
        shutil.rmtree(theirs)
    assert failures == []
    assert rolled > SEEDS // PARTS


def _no_reader(_log_dir: Path, _partition: str, _name: str) -> list[dict[str, object]]:
    return []


@pytest.mark.rotates(4)
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_logs_have_the_same_batches_and_records(
    codec: str, server: OracleServer, tmp_path: Path
) -> None:
    """Packing apart: sizes, CRC and positions."""
    ours, theirs = copy_before("basic-none", tmp_path), tmp_path / "theirs"
    shutil.copytree(ours, theirs, copy_function=shutil.copy2)
    random = Random(codec)
    time_type = random.choice(("CreateTime", "LogAppendTime"))
    pairs = {"compression.type": codec, "message.timestamp.type": time_type}
    rows = random_rows(random, 400, around_ms=NOW - 5000, spread_ms=4000)
    done = append(ours, rows, pairs, now_ms=NOW, options=AppendOptions(batch_bytes=6000))
    batches = read_batches(ours, done.first_offset)
    server.ask(request(theirs, rows, batches, pairs, now_ms=NOW))
    assert len(batches) >= 9
    assert [facts(one) for one in batches] == [
        facts(batch) for batch in read_batches(theirs, done.first_offset)
    ]
    assert [one.records for one in batches] == [
        batch.records for batch in read_batches(theirs, done.first_offset)
    ]


def facts(batch: Batch) -> tuple[int, ...]:
    header = batch.header
    return (
        batch.segment,
        header.base_offset,
        header.last_offset_delta,
        header.partition_leader_epoch,
        header.attributes,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.records_count,
    )


def test_keys_go_to_the_partitions_that_kafka_chooses(server: OracleServer) -> None:
    """murmur2 of keys of every length, by Kafka's own hash."""
    random = Random(7)
    keys = [random.randbytes(number % 40) for number in range(2000)]
    for count in (1, 3, 64):
        encoded = [base64.b64encode(key).decode() for key in keys]
        answer = server.ask({"request": "partitions", "keys": encoded, "count": count})
        column = byte_column(pa.array(keys, type=pa.binary()))
        rows = len(keys)
        chosen = assign_partitions(
            np.full(rows, -1, dtype=np.int64),
            column,
            byte_column(pa.array([None] * rows, type=pa.binary())),
            np.full(rows, count, dtype=np.int64),
        )
        assert answer["partitions"] == chosen.tolist()
