"""Cleanings that load the compiled kernels, before there is anything to clean."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from logwright.compaction.model import CleaningOptions
from logwright.config.topic import parse_settings
from logwright.errors import LogwrightError
from logwright.format.batch import RecordBatch, serialize_batch
from logwright.format.codec import LZ4, compress
from logwright.format.names import INDEX, LOG, TIMEINDEX, TopicPartition, segment_file_name
from logwright.format.record import Record, encode_records
from logwright.rewrite.staging import discard_staging
from logwright.sweep.build import build, examine
from logwright.sweep.plan import plan_cleaning
from logwright.units import Offset, TimestampMs

_SHUT_DOWN: Final = '{"version":0,"brokerEpoch":-1}'
_NOW_MS: Final = TimestampMs(1_000)
_CODECS: Final = (0, LZ4)
"""Codecs of one log each: a compressed log is read by other kernels."""
_SEGMENTS: Final[dict[int, tuple[tuple[bytes, ...], ...]]] = {
    0: ((b"a", b"b"), (b"b", b"b"), (b"c", b"d")),
    6: ((b"a",),),
}
"""Keys of each batch, by base offset: two go in part, one stays; the last segment is active."""


def clean_small_logs() -> None:
    """Build and examine logs of some records, which are thrown away. Effects: a temporary
    directory.

    Nothing depends on it: where it cannot be done, each task loads what it needs.
    """
    with suppress(LogwrightError, OSError), tempfile.TemporaryDirectory() as directory:
        (Path(directory) / ".kafka_cleanshutdown").write_text(_SHUT_DOWN)
        for number, codec in enumerate(_CODECS):
            _clean(Path(directory), TopicPartition("t", number), codec)


def _clean(log_dir: Path, partition: TopicPartition, codec: int) -> None:
    (log_dir / str(partition)).mkdir()
    for base_offset, keys in _SEGMENTS.items():
        path = log_dir / str(partition) / segment_file_name(Offset(base_offset), LOG)
        offsets = range(base_offset, base_offset + 2 * len(keys), 2)
        batches = [_batch(at, each, codec) for at, each in zip(offsets, keys, strict=True)]
        path.write_bytes(b"".join(batches))
        path.with_suffix(INDEX).write_bytes(b"")
        path.with_suffix(TIMEINDEX).write_bytes(b"")
    plan = plan_cleaning(
        log_dir,
        partition,
        parse_settings({"cleanup.policy": "compact"}),
        now_ms=_NOW_MS,
        options=CleaningOptions(force=True),
        high_watermark="end",
    )
    try:
        examine(plan, build(plan))
    finally:
        discard_staging(plan)


def _batch(base_offset: int, keys: Sequence[bytes], codec: int) -> bytes:
    """Return a batch without a producer."""
    header = RecordBatch(
        base_offset=Offset(base_offset),
        batch_length=0,
        partition_leader_epoch=0,
        crc=0,
        attributes=codec,
        last_offset_delta=len(keys) - 1,
        base_timestamp=TimestampMs(0),
        max_timestamp=TimestampMs(0),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=len(keys),
    )
    records = [
        Record(
            offset=Offset(base_offset + number),
            timestamp_ms=TimestampMs(0),
            sequence=-1,
            key=key,
            value=b"v",
            headers=(),
        )
        for number, key in enumerate(keys)
    ]
    return serialize_batch(header, compress(codec, encode_records(header, records)))


if __name__ == "__main__":
    clean_small_logs()
