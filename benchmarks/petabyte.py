"""``petabyte``: what is due of ten million segments in a bucket, found out from their manifests.

The bucket is a directory that has manifests and producer snapshots; a plan reads nothing else. Half
of the topics are compacted, and are due; of each of the others retention deletes some segments.
"""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.runs import measured
from benchmarks.table import table
from logwright.bucket.manifest import (
    LogState,
    following,
    manifest_key,
    parse_manifest,
    serialize_manifest,
)
from logwright.bucket.stored import StoredFile, StoredSegment, StoredSnapshot
from logwright.format.batch import HEADER_BYTES, RecordBatch, serialize_batch
from logwright.format.crc import crc32c
from logwright.format.index import serialize_time_index
from logwright.format.snapshot import serialize_snapshot
from logwright.units import Offset, TimestampMs

SEGMENT_BYTES: Final = 100_000_000
SEGMENT_RECORDS: Final = 1_000_000
SEGMENT_MS: Final = 600_000
INDEX_ENTRIES: Final = SEGMENT_BYTES // 4096
DUE_SEGMENTS: Final = 100
"""Of each log that is not compacted."""
NOW_MS: Final = 1_800_000_000_000
_COMMAND: Final = ("-c", "from logwright.cli.main import main; main()")


def petabyte(*, logs: int, segments: int, work: Path, say: Callable[[str], None]) -> str:
    """A table of a plan of logs with this number of segments each. Effects: works below `work`."""
    root = work / "bucket"
    shutil.rmtree(root, ignore_errors=True)
    size = _write(root, logs, segments)
    say(f"{logs * segments:,} segments, manifests of {size / 1e9:.1f} GB")
    words = ["plan", f"file://{root}", "--now", str(NOW_MS), "--output", "json"]
    cpu, started = _children_seconds(), time.perf_counter()
    lines, peak, anonymous = measured([sys.executable, *_COMMAND, *words])
    wall, cpu = time.perf_counter() - started, _children_seconds() - cpu
    planned = [line for line in lines if "topicPartition" in line]
    _require(planned, logs, segments)
    shutil.rmtree(root)
    stored = logs * segments * SEGMENT_BYTES
    each = cpu / (logs * segments) * 1e6
    head = ("of records", "logs", "segments", "wall s", "CPU s", "us of CPU for a segment")
    row = (f"{stored / 1e15:.2f} PB", f"{logs:,}", f"{logs * segments:,}", f"{wall:.1f}")
    more = (f"{cpu:.1f}", f"{each:.1f}", f"{peak / 1e6:.0f}", f"{anonymous / 1e6:.0f}")
    return table((*head, "MB resident", "of its own"), [(*row, *more)])


def _require(planned: list[dict[str, Any]], logs: int, segments: int) -> None:
    """Each log was planned, and what is due of it was seen."""
    compacted = [line for line in planned if line["compact"]]
    others = [line["retention"]["segments"] for line in planned if line["delete"]]
    right = all(line["segments"] == segments for line in planned)
    right &= all(line["clean"] for line in compacted) and {DUE_SEGMENTS} == {*others}
    if not right or (len(compacted), len(others)) != ((logs + 1) // 2, logs // 2):
        message = "the plan is not of these logs"
        raise RuntimeError(message)


def _write(root: Path, logs: int, segments: int) -> int:
    """Write the manifests; return how many bytes they have. Two are made, the others have another
    topic.
    """
    size = 0
    contents = [_manifest(policy, segments) for policy in ("compact", "delete")]
    for number in range(logs):
        content = contents[number % 2].replace(_topic(0), _topic(number), 1)
        digest = hashlib.sha256(content).hexdigest()
        directory = root / f"{_topic(number).decode()}-0"
        path = directory / manifest_key(0)
        path.parent.mkdir(parents=True)
        path.write_bytes(content + digest.encode() + b"\n")
        size += path.stat().st_size
        (directory / "data").mkdir()
        (directory / _snapshot_key()).write_bytes(serialize_snapshot(()))
    parse_manifest(path.read_bytes(), path)
    return size


def _topic(number: int) -> bytes:
    return b"topic-%08d" % number


def _snapshot_key() -> str:
    return "data/upload-0123456789abcdef-0-0.snapshot"


def _manifest(policy: str, segments: int) -> bytes:
    """Return a manifest without its checksum. Of a log that is not compacted `DUE_SEGMENTS` are
    older than its retention.
    """
    end = segments * SEGMENT_RECORDS
    left = segments - DUE_SEGMENTS
    configs = {"cleanup.policy": policy, "retention.ms": str(left * SEGMENT_MS - SEGMENT_MS // 2)}
    content = serialize_snapshot(())
    snapshot = StoredFile(key=_snapshot_key(), bytes=len(content), crc32c=crc32c(content))
    state = LogState(
        topic=_topic(0).decode(),
        number=0,
        topic_id="A" * 22,
        log_start_offset=0,
        high_watermark=end,
        log_end_offset=end,
        cleaner_checkpoint=end // 4 if policy == "compact" else None,
        leader_epochs=b"0\n1\n0 0\n",
        configs=configs,
        segments=tuple(_segment(number, segments) for number in range(segments)),
        snapshots=(StoredSnapshot(offset=end, modified_ns=NOW_MS * 1_000_000, file=snapshot),),
    )
    written = following(None, state, operation="upload-1", attempt=0, written_ms=NOW_MS)
    return serialize_manifest(written)[:-65]


def _segment(number: int, segments: int) -> StoredSegment:
    base = number * SEGMENT_RECORDS
    ended_ms = NOW_MS - (segments - 1 - number) * SEGMENT_MS
    last = base + SEGMENT_RECORDS - 1
    entries = np.array([(ended_ms - 1, last - 1), (ended_ms, last)], dtype=np.int64)
    key = f"data/upload-0123456789abcdef-0-{number:08d}"
    return StoredSegment(
        base_offset=base,
        next_offset=base + SEGMENT_RECORDS,
        max_timestamp_ms=ended_ms,
        modified_ns=ended_ms * 1_000_000,
        log=_file(f"{key}.log", SEGMENT_BYTES, head=_header(base, ended_ms - SEGMENT_MS)),
        index=_file(f"{key}.index", 8 * INDEX_ENTRIES, tail=os.urandom(16)),
        timeindex=_file(
            f"{key}.timeindex",
            12 * INDEX_ENTRIES,
            tail=serialize_time_index(entries, base),
        ),
    )


def _file(key: str, size: int, **ends: bytes) -> StoredFile:
    crc = int.from_bytes(os.urandom(4), "big")
    return StoredFile(key=key, bytes=size, crc32c=crc, **ends)


def _header(base: int, time_ms: int) -> bytes:
    """Return the header of a batch of 100 records."""
    batch = RecordBatch(
        base_offset=Offset(base),
        batch_length=0,
        partition_leader_epoch=0,
        crc=0,
        attributes=0,
        last_offset_delta=99,
        base_timestamp=TimestampMs(time_ms),
        max_timestamp=TimestampMs(time_ms),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=100,
    )
    return serialize_batch(batch, b"\0" * 4000)[:HEADER_BYTES]


def _children_seconds() -> float:
    """Return the CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
