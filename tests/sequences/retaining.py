"""What retention by offset, size and time may remove, by Kafka's rules (UnifiedLog
deleteOldSegments, Kafka 4.3.0) and the plain bytes of the segments; and up to where a cleaning may
go (LogCleanerManager.cleanableOffsets).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from logwright.format.batch import MAGIC, MAGIC_AT, parse_batch, walk_batches
from tests.comparison import read_checkpoint
from tests.sequences.reading import old_records


@dataclass(frozen=True, slots=True)
class Piece:
    """A segment.

    Attributes:
        end: the base offset of the next one, or the log end offset.
        largest_ms: the largest timestamp of its records; without any the time of its file.
    """

    base: int
    end: int
    size: int
    largest_ms: int


def pieces_of(log_dir: Path, name: str, end: int) -> list[Piece]:
    """The segments of a log that ends there; none if there is none. Effects: reads them."""
    logs = sorted(path for path in (log_dir / name).glob("*.log") if path.stem.isdigit())
    ends = [*(int(path.stem) for path in logs[1:]), *([end] if logs else [])]
    return [
        Piece(int(path.stem), until, path.stat().st_size, _largest_ms(path))
        for path, until in zip(logs, ends, strict=True)
    ]


def _largest_ms(path: Path) -> int:
    content = path.read_bytes()
    largest = -1
    for span in walk_batches(content):
        raw = content[span.position : span.position + span.bytes]
        if raw[MAGIC_AT] < MAGIC:
            largest = max([largest, *(row.timestamp_ms for row in old_records(raw))])
        else:
            largest = max(largest, parse_batch(raw).max_timestamp)
    return largest if largest >= 0 else path.stat().st_mtime_ns // 1_000_000


def high_watermark(log_dir: Path, name: str, end: int) -> int:
    """As it is on record; else all of the log is committed. Effects: reads the checkpoint."""
    return min(read_checkpoint(log_dir / "replication-offset-checkpoint").get(name, end), end)


def start_after(
    pieces: Sequence[Piece],
    *,
    start: int,
    watermark: int,
    now_ms: int,
    retention_bytes: int = -1,
    retention_ms: int = -1,
) -> int:
    """The log start offset after a retention from a log start offset on."""
    left = list(pieces)
    while len(left) > 1 and left[0].end <= min(start, watermark):
        left.pop(0)
    over = sum(one.size for one in left) - retention_bytes
    while retention_bytes >= 0 and _may_go(left, watermark) and over >= left[0].size:
        over -= left.pop(0).size
    while retention_ms >= 0 and _may_go(left, watermark):
        if now_ms - left[0].largest_ms <= retention_ms:
            break
        left.pop(0)
    return max(start, left[0].base if left else pieces[-1].end)


def _may_go(left: Sequence[Piece], watermark: int) -> bool:
    """Whether the oldest segment is below the high watermark, and not the empty last one."""
    return bool(left) and left[0].end <= watermark and (len(left) > 1 or left[0].size > 0)


def cleanable_end(
    pieces: Sequence[Piece], *, dirty: int, stable: int, now_ms: int, lag_ms: int
) -> int:
    """Up to where a cleaning from a first dirty offset on goes: not into the last segment, nor into
    one that reaches the last stable offset, nor into one younger than ``min.compaction.lag.ms`` or
    any after that.
    """
    last = max(number for number, one in enumerate(pieces) if one.base <= max(dirty, stable))
    limit = pieces[last].base
    for piece in pieces[:-1]:
        if lag_ms > 0 and piece.end > dirty and piece.largest_ms > now_ms - lag_ms:
            limit = min(limit, piece.base)
            break
    return limit
