"""A cluster's metadata made by hand: records' values in the documented format, segments, snapshots.

directory = MetadataBuilder(tmp_path / "kafka-logs")
directory.segment(0, [topic("t", 1), partition(1, 0, [1])], [config(2, "t", "retention.ms", "5")])
directory.snapshot(2, [topic("t", 1)])
read_metadata(directory.path)

A topic or directory id is 16 bytes, given as the number that they hold.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from logwright.format.batch import CONTROL
from logwright.format.control import ControlType, serialize_control_key
from tests.log_builder import SegmentBuilder

BEGIN = bytes.fromhex("01170000")
END = bytes.fromhex("01180000")
ABORT = bytes.fromhex("01190000")
NO_OP = bytes.fromhex("01140000")


def uuid(number: int) -> bytes:
    """An id's bytes."""
    return number.to_bytes(16, "big")


def uuid_text(number: int) -> str:
    """An id as Kafka writes it."""
    return base64.urlsafe_b64encode(uuid(number)).decode().rstrip("=")


def unsigned_varint(value: int) -> bytes:
    """7 bits a byte, the lowest first."""
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def string(text: str | None) -> bytes:
    """COMPACT_NULLABLE_STRING."""
    if text is None:
        return b"\x00"
    content = text.encode()
    return unsigned_varint(len(content) + 1) + content


def array(items: Sequence[bytes] | None) -> bytes:
    """A compact array."""
    return b"\x00" if items is None else unsigned_varint(len(items) + 1) + b"".join(items)


def int32(value: int) -> bytes:
    """Four bytes."""
    return value.to_bytes(4, "big", signed=True)


def int32s(values: Sequence[int] | None) -> bytes:
    """A compact array of INT32."""
    return array(None if values is None else [int32(value) for value in values])


def uuids(numbers: Sequence[int] | None) -> bytes:
    """A compact array of ids."""
    return array(None if numbers is None else [uuid(number) for number in numbers])


def tagged(fields: dict[int, bytes] | None = None) -> bytes:
    """A message's tagged fields."""
    encoded = [
        unsigned_varint(tag) + unsigned_varint(len(content)) + content
        for tag, content in sorted((fields or {}).items())
    ]
    return unsigned_varint(len(encoded)) + b"".join(encoded)


def value(api_key: int, version: int, message: bytes, *, frame_version: int = 1) -> bytes:
    """A record's value."""
    head = map(unsigned_varint, (frame_version, api_key, version))
    return b"".join(head) + message


def topic(name: str, topic_id: int) -> bytes:
    """TOPIC_RECORD."""
    return value(2, 0, string(name) + uuid(topic_id) + tagged())


def partition(
    topic_id: int,
    number: int,
    replicas: Sequence[int],
    directories: Sequence[int] | None = None,
    *,
    version: int = 1,
) -> bytes:
    """PARTITION_RECORD; version 0 without directories."""
    message = int32(number) + uuid(topic_id) + int32s(replicas) + int32s(replicas)
    message += int32s([]) + int32s([]) + int32(replicas[0] if replicas else -1)
    message += int32(0) + int32(0)
    if version:
        message += uuids(directories or [])
    return value(3, version, message + tagged({0: b"\x00"}))


def partition_change(
    topic_id: int, number: int, fields: dict[int, bytes], *, version: int = 1
) -> bytes:
    """PARTITION_CHANGE_RECORD with these tagged fields."""
    return value(5, version, int32(number) + uuid(topic_id) + tagged(fields))


def config(resource_type: int, resource: str, name: str, setting: str | None) -> bytes:
    """CONFIG_RECORD."""
    message = bytes([resource_type]) + string(resource) + string(name) + string(setting)
    return value(4, 0, message + tagged())


def remove_topic(topic_id: int) -> bytes:
    """REMOVE_TOPIC_RECORD."""
    return value(9, 0, uuid(topic_id) + tagged())


def feature(name: str, level: int) -> bytes:
    """FEATURE_LEVEL_RECORD."""
    return value(12, 0, string(name) + level.to_bytes(2, "big", signed=True) + tagged())


def register_broker(
    broker_id: int, features: dict[str, int], *, version: int = 4, epoch: int = 0
) -> bytes:
    """REGISTER_BROKER_RECORD with one endpoint; `features` are the highest levels."""
    message = int32(broker_id) + (b"\x00" if version >= 2 else b"") + uuid(77)
    message += epoch.to_bytes(8, "big")
    message += array([string("PLAINTEXT") + string("host") + bytes(4) + tagged()])
    message += array(
        [
            string(name) + bytes(2) + level.to_bytes(2, "big") + tagged()
            for name, level in features.items()
        ]
    )
    message += string(None) + b"\x01" + (b"\x00" if version >= 1 else b"")
    return value(0, version, message + tagged({0: uuids([5])} if version >= 3 else None))


def unregister_broker(broker_id: int) -> bytes:
    """UNREGISTER_BROKER_RECORD."""
    return value(1, 0, int32(broker_id) + bytes(8) + tagged())


def batches(base_offset: int, *values: Sequence[bytes], codec: int = 0) -> list[bytes]:
    """One batch for each list of values, one after the other."""
    segment = SegmentBuilder(base_offset)
    for content in values:
        segment.batch(base_offset, [(None, one) for one in content], codec=codec)
        base_offset += len(content)
    return segment.batches


def control(offset: int, kind: ControlType) -> bytes:
    """A control batch."""
    pairs = [(serialize_control_key(kind), b"\x00\x00")]
    return SegmentBuilder(offset).batch(offset, pairs, extra_attributes=CONTROL).content


def snapshot_batches(*values: Sequence[bytes]) -> list[bytes]:
    """A snapshot's header, batches and footer."""
    records = sum(map(len, values))
    return [
        control(0, ControlType.SNAPSHOT_HEADER),
        *batches(1, *values),
        control(1 + records, ControlType.SNAPSHOT_FOOTER),
    ]


class MetadataBuilder:
    """A log directory with the cluster's metadata.

    Attributes:
        path: the ``__cluster_metadata-0`` in it.
    """

    def __init__(self, log_dir: Path) -> None:
        self.path = log_dir / "__cluster_metadata-0"
        self.path.mkdir(parents=True)

    def segment(self, base_offset: int, *values: Sequence[bytes], codec: int = 0) -> Path:
        """A segment, a batch for each list of values."""
        return self.write(f"{base_offset:020d}.log", batches(base_offset, *values, codec=codec))

    def snapshot(self, end_offset: int, *values: Sequence[bytes], epoch: int = 1) -> Path:
        """A whole snapshot, a batch for each list of values."""
        name = f"{end_offset:020d}-{epoch:010d}.checkpoint"
        return self.write(name, snapshot_batches(*values))

    def write(self, name: str, content: Sequence[bytes]) -> Path:
        """A file of these batches."""
        path = self.path / name
        path.write_bytes(b"".join(content))
        return path
