"""Random logs, and the options of random commands on them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import segment_file_name
from logwright.format.snapshot import parse_snapshot, serialize_snapshot
from logwright.log.load import observe
from tests.bucket_maintenance.copies import T0
from tests.log_builder import START_MS, LogBuilder, SegmentBuilder


def a_log(log_dir: Path, draw: random.Random, partition: str = "t-0") -> None:
    """Write a log of some segments: all codecs, tombstones, transactions, gaps."""
    builder = LogBuilder(log_dir, partition)
    offset = 0
    for _ in range(draw.randrange(1, 6)):
        offset = filled(builder.segment(offset), offset, draw, producer_id=7)
    builder.write(
        index_interval=draw.choice((1, 200)),
        producers=True,
        high_watermark=builder.end_offset,
        cleaner_checkpoint=draw.choice((None, builder.segments[-1].base_offset)),
    )


def filled(segment: SegmentBuilder, offset: int, draw: random.Random, *, producer_id: int) -> int:
    """Append some batches to a segment, from an offset; return the offset after them."""
    for _ in range(draw.randrange(1, 9)):
        producer = draw.choice((-1, -1, producer_id))
        keys = [f"k{draw.randrange(9)}" for _ in range(draw.randrange(1, 6))]
        pairs = [(key, draw.choice((None, "v" * draw.randrange(90)))) for key in keys]
        segment.batch(
            offset,
            pairs,
            codec=draw.randrange(5),
            producer_id=producer,
            transactional=producer >= 0,
        )
        offset += len(pairs)
        if producer >= 0:
            segment.marker(offset, producer, draw.choice(("abort", "commit")))
            offset += 1
        offset += draw.choice((0, 0, 0, 3))
    return offset


def grown(log_dir: Path, target: Path, draw: random.Random) -> Path:
    """Copy a log directory of `a_log`; its log rolled at its end, and got one more segment, of a
    producer that it did not have.
    """
    shutil.copytree(log_dir, target)
    end = observe(log_dir, T0, high_watermark="end").log_end_offset
    builder = LogBuilder(target.with_name(f"{target.name}-more"))
    filled(builder.segment(end), end, draw, producer_id=1_000 + end)
    builder.write(index_interval=1, producers=True)
    own, before = target / "t-0", log_dir / "t-0" / segment_file_name(end, ".snapshot")
    after = builder.directory / segment_file_name(builder.end_offset, ".snapshot")
    entries = [*parse_snapshot(before.read_bytes(), before)] if before.exists() else []
    entries += parse_snapshot(after.read_bytes(), after)
    after.write_bytes(serialize_snapshot(entries))
    for each in builder.directory.glob("0*"):
        shutil.copy2(each, own)
    (target / "replication-offset-checkpoint").write_bytes(
        serialize_offset_checkpoint({T0: builder.end_offset})
    )
    shutil.rmtree(builder.log_dir)
    return target


def arguments(command: str, draw: random.Random) -> list[str | int]:
    """Return the options of a command."""
    later = START_MS + draw.choice((0, 1_000, 90_000_000))
    given: list[str | int] = ["t-0", "--yes", "--now", later]
    match command:
        case "roll":
            return [*given, "--config", "cleanup.policy=compact", "--force"]
        case "clean":
            delete = draw.choice((0, 50, 86_400_000))
            policy = ("--config", "cleanup.policy=compact")
            return [*given, *policy, "--config", f"delete.retention.ms={delete}", "--force"]
    limit = draw.choice(("retention.bytes=300", "retention.bytes=0", "retention.ms=100"))
    return [*given, "--config", "cleanup.policy=delete", "--config", limit]
