"""Logs of message formats v0 and v1: those that real old brokers wrote (data/README.md), and random
ones.
"""

from __future__ import annotations

import hashlib
import os
import struct
import tarfile
import tempfile
import zlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from logwright.format.batch import RecordBatch, serialize_batch
from logwright.format.codec import GZIP, LZ4, SNAPPY, compress
from logwright.format.record import Record, encode_records
from logwright.units import Offset, TimestampMs
from tests.fixtures import CACHE, DATA

ARCHIVE: Final = DATA / "old-formats.tar.xz"
DIRECTORIES: Final = (
    "v0-compacted",
    "v0-plain",
    "v1-compacted",
    "v1-plain",
    "v1-append-compacted",
    "v1-append-plain",
)
"""The log directories of six brokers."""
PARTITIONS: Final = ("none-0", "gzip-0", "snappy-0", "lz4-0")
"""Of each, by the codec of its producer."""
LOG_APPEND_TIME: Final = 8


def unpack(archive: Path, name: str) -> Path:
    """Where an archive of one directory lies unpacked. Effects: unpacks it if it is not there yet.
    Never write below it.
    """
    ready = CACHE / f"{name}-{hashlib.sha256(archive.read_bytes()).hexdigest()[:16]}"
    if not ready.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            filters = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            with tarfile.open(archive, "r:xz") as tar:
                tar.extractall(scratch, **filters)  # noqa: S202 -- our own
            if not ready.is_dir():
                (Path(scratch) / name).rename(ready)
    return ready


@cache
def unpacked() -> Path:
    """Where the logs of old formats lie."""
    return unpack(ARCHIVE, "old-formats")


class Message(NamedTuple):
    """A message without its offset; the timestamp has no meaning in v0."""

    key: bytes | None
    value: bytes | None
    timestamp: int = -1


def message(magic: int, offset: int, content: Message, attributes: int = 0) -> bytes:
    """A message set's entry of format v0 or v1."""
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", content.timestamp) if magic else b""
    for part in (content.key, content.value):
        body += struct.pack(">i", -1 if part is None else len(part)) + (part or b"")
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(
    magic: int,
    offsets: Sequence[int],
    messages: Sequence[Message],
    codec: int,
    *,
    append_time: int | None = None,
) -> bytes:
    """Messages with these offsets, compressed as one; with a broker's time if it is given."""
    first = offsets[0] if magic else 0
    inner = b"".join(
        message(magic, offset - first, each) for offset, each in zip(offsets, messages, strict=True)
    )
    packed = compress(codec, inner)
    if codec == LZ4 and not magic:
        # The checksum of the frame's header as the producers of 0.8 and 0.9 wrote it.
        packed = packed[:6] + bytes(((packed[6] + 1) % 256,)) + packed[7:]
    time = max(each.timestamp for each in messages) if append_time is None else append_time
    attributes = codec | (0 if append_time is None else LOG_APPEND_TIME)
    return message(magic, offsets[-1], Message(None, packed, time), attributes)


START_MS: Final = 1_600_000_000_000
NOW_MS: Final = START_MS + 1_000_000_000
TOPIC: Final = "t"
PARTITION: Final = "t-0"
CODECS: Final = (0, 0, GZIP, SNAPPY, LZ4)


def v2_batch(offsets: Sequence[int], messages: Sequence[Message], codec: int) -> bytes:
    """Records in a batch of format v2."""
    header = RecordBatch(
        base_offset=Offset(offsets[0]),
        batch_length=0,
        partition_leader_epoch=3,
        crc=0,
        attributes=codec,
        last_offset_delta=offsets[-1] - offsets[0],
        base_timestamp=TimestampMs(messages[0].timestamp),
        max_timestamp=TimestampMs(max(each.timestamp for each in messages)),
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        records_count=len(messages),
    )
    records = [
        Record(
            offset=Offset(offset),
            timestamp_ms=TimestampMs(each.timestamp),
            sequence=-1,
            key=each.key,
            value=each.value,
            headers=(),
        )
        for offset, each in zip(offsets, messages, strict=True)
    ]
    return serialize_batch(header, compress(codec, encode_records(header, records)))


def random_message(random: Random, keys: int) -> Message:
    """A record: without a key, a tombstone, an update, empty, or large."""
    key = None if random.random() < 0.03 else b"k%d" % random.randrange(keys)
    kind = random.random()
    value: bytes | None = b"v%d" % random.randrange(1 << 30)
    if kind < 0.2:
        value = None
    elif kind < 0.25:
        value = b""
    elif kind < 0.28:
        value = random.randbytes(random.randrange(3000))
    elif kind < 0.35:
        value = b"long " * random.randrange(500)
    return Message(key, value, START_MS + random.randrange(-1, 100_000_000))


def random_batch(random: Random, formats: Sequence[int], offset: int, keys: int) -> bytes:
    """A batch of one of the formats whose first offset is at or after an offset."""
    magic, codec = random.choice(formats), random.choice(CODECS)
    count = 1 if not codec and magic < 2 else random.randint(1, random.choice((3, 30)))
    offsets = [offset]
    while len(offsets) < count:
        offsets.append(offsets[-1] + (1 if random.random() < 0.8 else random.randint(2, 200)))
    messages = [random_message(random, keys) for _ in offsets]
    if random.random() < 0.1:
        messages = [each._replace(timestamp=-1) for each in messages]
    if magic == 2:
        return v2_batch(offsets, messages, codec)
    append_time = START_MS + random.randrange(100_000_000) if random.random() < 0.3 else None
    append_time = append_time if magic else None
    if codec:
        return wrapper(magic, offsets, messages, codec, append_time=append_time)
    attributes = 0 if append_time is None else LOG_APPEND_TIME
    content = messages[0] if append_time is None else messages[0]._replace(timestamp=append_time)
    return message(magic, offset, content, attributes)


def last_offset(batch: bytes) -> int:
    """The last offset of a batch of any format."""
    first: int
    (first,) = struct.unpack_from(">q", batch)
    return first if batch[16] < 2 else first + int.from_bytes(batch[23:27], "big")


def write_random_log(
    random: Random, log_dir: Path, name: str = PARTITION, *, indexed: bool = False
) -> int:
    """A log of old formats as an upgraded broker has it; some batches may be of format v2. Effects:
    writes it. Return the log end offset.

    Args:
        indexed: with empty indexes, which are right for small segments; else without any.
    """
    directory = log_dir / name
    directory.mkdir(parents=True)
    # Kafka makes an empty one for whichever log it opens.
    (directory / "leader-epoch-checkpoint").touch()
    keys, offset = random.choice((3, 10, 100)), random.choice((0, 0, 7, 5_000_000_000))
    orders: list[list[list[int]]] = [
        [[0]],
        [[1]],
        [[0], [1]],
        [[1], [2]],
        [[0], [0, 1], [2]],
        [[0, 1, 2]],
    ]
    order, segments = random.choice(orders), random.randint(1, 6)
    for number in range(segments):
        formats = order[number * len(order) // segments]
        base, content = offset, b""
        for _ in range(random.choice((0, 1, 5, 20)) if number else random.randint(1, 20)):
            batch = random_batch(random, formats, offset, keys)
            content += batch
            offset = last_offset(batch) + 1
            if random.random() < 0.1:
                offset += random.randint(1, 50)
        path = directory / f"{base:020d}.log"
        if path.exists():
            offset += 1
            continue
        path.write_bytes(content)
        if indexed:
            path.with_suffix(".index").touch()
            path.with_suffix(".timeindex").touch()
        time_ms = START_MS + random.randrange(100_000_000)
        os.utime(path, ns=(time_ms * 1_000_000, time_ms * 1_000_000))
        offset = max(offset, base + 1)
    return offset
