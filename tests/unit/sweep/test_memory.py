"""What a log declares is held against its bytes before memory is taken; one log's want of memory
stops no other.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import cramjam
import pytest

from logwright.config.topic import parse_settings
from logwright.errors import CorruptBatch
from logwright.format.batch import RecordBatch, parse_batch, serialize_batch
from logwright.format.codec import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD
from logwright.sweep.build import build
from logwright.units import Offset, TimestampMs
from tests.ingested import read_batches
from tests.log_builder import START_MS, LogBuilder
from tests.plans import forced_plan

SETTINGS = parse_settings({"cleanup.policy": "compact"})
NOW_MS = TimestampMs(START_MS + 1_000_000)
RECORD_BYTES = 7
"""The smallest record."""
LIMITED = """
import resource, sys
from logwright.cli.main import main
resource.setrlimit(resource.RLIMIT_AS, (12 << 30, 12 << 30))
main()
"""


def declaring(codec: int, payload: bytes, count: int, base_offset: int = 0) -> bytes:
    """A batch with a correct CRC whose header has this record count."""
    header = RecordBatch(
        base_offset=Offset(base_offset),
        batch_length=49,
        partition_leader_epoch=0,
        crc=0,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=TimestampMs(START_MS),
        max_timestamp=TimestampMs(START_MS),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=count,
    )
    return serialize_batch(header, payload)


@pytest.mark.parametrize(
    ("codec", "growth"),
    [(NONE, 1), (GZIP, 1032), (SNAPPY, 22), (LZ4, 255), (ZSTD, 32768)],
    ids=CODEC_NAMES,
)
def test_more_records_than_a_payload_can_hold_are_refused(
    tmp_path: Path, codec: int, growth: int
) -> None:
    """By name of the file and position, before memory is taken for them."""
    payload = bytes(RECORD_BYTES)
    log = LogBuilder(tmp_path / "logs")
    segment = log.segment(0).batch(0, [("a", "1")])
    second = len(segment.content)
    segment.batches.append(declaring(codec, payload, growth + 1, base_offset=1))
    log.segment(100_000)
    log.write()
    plan = forced_plan(log.log_dir, log.partition, SETTINGS, now_ms=NOW_MS)
    with pytest.raises(CorruptBatch, match="too few bytes for its record count") as refused:
        build(plan)
    assert (f"{0:020d}.log", second) == (Path(str(refused.value.path)).name, refused.value.position)


def test_one_log_that_needs_too_much_memory_stops_no_other(tmp_path: Path) -> None:
    """It declares 2^31 records, which its Zstandard frames could hold; the next log is cleaned."""
    log_dir = tmp_path / "logs"
    frame = bytes(cramjam.zstd.compress(bytes(1 << 17)))
    count = len(frame) * 32768 // RECORD_BYTES
    batches = (2**31 - 1) // count
    batch = parse_batch(declaring(ZSTD, frame, count))
    content = serialize_batch(batch, frame)
    large = LogBuilder(log_dir, "large-0")
    large.segment(0).batches = [
        serialize_batch(replace(batch, base_offset=Offset(0)), frame),
        *((number * count).to_bytes(8, "big") + content[8:] for number in range(1, batches)),
    ]
    large.segment(batches * count)
    large.write()
    small = LogBuilder(log_dir, "small-0")
    small.segment(0).batch(0, [("a", "1")]).batch(1, [("a", "2")])
    small.segment(2)
    small.write()
    options = ["--config", "cleanup.policy=compact", "--force", "--yes", "--now", str(NOW_MS)]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "clean", str(log_dir), "--engine", "local", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    output = done.stdout + done.stderr
    assert "large-0: not enough memory." in output
    assert "Traceback" not in output
    assert 5 == done.returncode
    left = [r.value for b in read_batches(log_dir, partition="small-0") for r in b.records]
    assert [b"2"] == left
    assert not (large.directory / ".logwright" / "staging").exists()
