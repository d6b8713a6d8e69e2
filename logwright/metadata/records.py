"""Decode the values of the metadata log's records into dataclasses.

::

    frame version   unsigned varint   1
    api key         unsigned varint
    version         unsigned varint   of the message
    message         in the flexible encoding of KIP-482

Only records about topics, partitions, configs, features and transactions are decoded. Every length
is untrusted input and is checked against the remaining bytes before use.
Source: MetadataRecordSerde, AbstractApiMessageSerde and the messages of org.apache.kafka.common.
metadata of Kafka 4.3.0.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeVar

from logwright.errors import CorruptBatch, UnsupportedFormatError

FRAME_VERSION: Final = 1

TOPIC: Final = 2
PARTITION: Final = 3
CONFIG: Final = 4
PARTITION_CHANGE: Final = 5
REMOVE_TOPIC: Final = 9
FEATURE_LEVEL: Final = 12
BEGIN_TRANSACTION: Final = 23
END_TRANSACTION: Final = 24
ABORT_TRANSACTION: Final = 25

_Value = TypeVar("_Value")

_REPLICAS_TAG: Final = 2
_DIRECTORIES_TAG: Final = 8
_DIRECTORIES_VERSION: Final = 1
"""First version of both partition records with directories (KIP-858)."""

_VARINT_BYTES: Final = 5
_MORE: Final = 0x80
_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UUID_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic is created."""

    name: str
    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition is created.

    Attributes:
        directories: directory id of each replica; () before KIP-858.
    """

    partition: int
    topic_id: str
    replicas: tuple[int, ...]
    directories: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A config is set or removed.

    Attributes:
        resource_type: 2 topic, 4 broker, or another type.
        value: None if removed.
    """

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """A partition changes; None for fields that do not change."""

    partition: int
    topic_id: str
    replicas: tuple[int, ...] | None
    directories: tuple[str, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic is removed, with its configs."""

    topic_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """A feature gets this level; 0 disables it."""

    name: str
    level: int


class TransactionRecord(Enum):
    """Begin, end or abort of a controller's transaction (KIP-868)."""

    BEGIN = BEGIN_TRANSACTION
    END = END_TRANSACTION
    ABORT = ABORT_TRANSACTION


ChangeRecord = (
    TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
)
"""The records that change the image."""
MetadataRecord = ChangeRecord | TransactionRecord


def decode_metadata_record(value: bytes | None) -> MetadataRecord | None:
    """Decode a record's value; None for an api key that is ignored.

    Raises:
        CorruptBatch: it is null or malformed.
        UnsupportedFormatError: the frame or the message has an unknown version.
    """
    if value is None:
        raise CorruptBatch("its value is null.")
    reader = _Reader(value)
    frame_version = reader.unsigned_varint()
    if frame_version != FRAME_VERSION:
        raise UnsupportedFormatError(
            f"its frame version is {frame_version}, supported is {FRAME_VERSION}."
        )
    api_key = reader.unsigned_varint()
    version = reader.unsigned_varint()
    known = _DECODERS.get(api_key)
    if known is None:
        return None
    latest, decode = known
    if version > latest:
        raise UnsupportedFormatError(
            f"its api key {api_key} has version {version}, supported are 0 to {latest}."
        )
    try:
        record = decode(reader, version)
        reader.expect_end()
    except CorruptBatch as error:
        raise CorruptBatch(f"its api key is {api_key}, {error.problem}") from error
    return record


class _Reader:
    """A position in a record's value."""

    def __init__(self, content: bytes | memoryview) -> None:
        self._content = memoryview(content)
        self._position = 0

    @property
    def left(self) -> int:
        """Number of remaining bytes."""
        return len(self._content) - self._position

    def take(self, size: int) -> memoryview:
        """Return the next bytes.

        Raises:
            CorruptBatch: not enough bytes, here and in all methods below.
        """
        if not 0 <= size <= self.left:
            raise CorruptBatch(f"and a field has {size} bytes, but {self.left} are left.")
        start = self._position
        self._position += size
        return self._content[start : self._position]

    def unsigned_varint(self) -> int:
        """Read at most 5 bytes; bits beyond the 32nd are dropped, as in ByteUtils."""
        value = 0
        for index in range(_VARINT_BYTES):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << 7 * index
            if byte < _MORE:
                return value & 0xFFFF_FFFF
        raise CorruptBatch(f"and a varint has more than {_VARINT_BYTES} bytes.")

    def int8(self) -> int:
        """Read a signed byte."""
        return int(_INT8.unpack(self.take(1))[0])

    def int16(self) -> int:
        """Read two bytes."""
        return int(_INT16.unpack(self.take(2))[0])

    def int32(self) -> int:
        """Read four bytes."""
        return int(_INT32.unpack(self.take(4))[0])

    def uuid(self) -> str:
        """Read 16 bytes as Kafka's text form: url-safe base64 without padding."""
        return base64.urlsafe_b64encode(self.take(_UUID_BYTES)).decode("ascii").rstrip("=")

    def nullable_string(self) -> str | None:
        """Read a COMPACT_NULLABLE_STRING."""
        length = self.unsigned_varint() - 1
        if length < 0:
            return None
        try:
            return str(self.take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptBatch("and a string is not UTF-8.") from error

    def string(self) -> str:
        """Read a COMPACT_STRING."""
        return _not_null(self.nullable_string())

    def nullable_int32s(self) -> tuple[int, ...] | None:
        """Read a COMPACT_ARRAY of INT32, or null."""
        count = self.unsigned_varint() - 1
        if count < 0:
            return None
        return struct.unpack(f">{count}i", self.take(count * _INT32.size))

    def int32s(self) -> tuple[int, ...]:
        """Read a COMPACT_ARRAY of INT32."""
        return _not_null(self.nullable_int32s())

    def nullable_uuids(self) -> tuple[str, ...] | None:
        """Read a COMPACT_ARRAY of UUID, or null."""
        count = self.unsigned_varint() - 1
        if count < 0:
            return None
        if count * _UUID_BYTES > self.left:
            raise CorruptBatch(f"and it has {count} ids, but {self.left} bytes are left.")
        return tuple(self.uuid() for _ in range(count))

    def uuids(self) -> tuple[str, ...]:
        """Read a COMPACT_ARRAY of UUID."""
        return _not_null(self.nullable_uuids())

    def tags(self) -> dict[int, _Reader]:
        """Read the tagged fields, without decoding them."""
        found: dict[int, _Reader] = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            if tag in found:
                raise CorruptBatch(f"and tag {tag} is duplicate.")
            found[tag] = _Reader(self.take(self.unsigned_varint()))
        return found

    def expect_end(self) -> None:
        """Check that no bytes are left."""
        if self.left:
            raise CorruptBatch(f"and {self.left} bytes are left after its end.")


def _not_null(value: _Value | None) -> _Value:
    if value is None:
        raise CorruptBatch("and a required field is null.")
    return value


def _topic(reader: _Reader, _: int) -> TopicRecord:
    record = TopicRecord(name=reader.string(), topic_id=reader.uuid())
    reader.tags()
    return record


def _partition(reader: _Reader, version: int) -> PartitionRecord:
    partition, topic_id, replicas = reader.int32(), reader.uuid(), reader.int32s()
    for _ in ("isr", "removing_replicas", "adding_replicas"):
        reader.int32s()
    for _ in ("leader", "leader_epoch", "partition_epoch"):
        reader.int32()
    directories = reader.uuids() if version >= _DIRECTORIES_VERSION else ()
    reader.tags()
    return PartitionRecord(
        partition=partition, topic_id=topic_id, replicas=replicas, directories=directories
    )


def _config(reader: _Reader, _: int) -> ConfigRecord:
    record = ConfigRecord(
        resource_type=reader.int8(),
        resource_name=reader.string(),
        name=reader.string(),
        value=reader.nullable_string(),
    )
    reader.tags()
    return record


def _partition_change(reader: _Reader, version: int) -> PartitionChangeRecord:
    partition, topic_id, tags = reader.int32(), reader.uuid(), reader.tags()
    replicas = directories = None
    if _REPLICAS_TAG in tags:
        replicas = tags[_REPLICAS_TAG].nullable_int32s()
        tags[_REPLICAS_TAG].expect_end()
    if _DIRECTORIES_TAG in tags:
        if version < _DIRECTORIES_VERSION:
            raise CorruptBatch(f"and it has directories, which version {version} does not have.")
        directories = tags[_DIRECTORIES_TAG].nullable_uuids()
        tags[_DIRECTORIES_TAG].expect_end()
    return PartitionChangeRecord(
        partition=partition, topic_id=topic_id, replicas=replicas, directories=directories
    )


def _remove_topic(reader: _Reader, _: int) -> RemoveTopicRecord:
    record = RemoveTopicRecord(topic_id=reader.uuid())
    reader.tags()
    return record


def _feature_level(reader: _Reader, _: int) -> FeatureLevelRecord:
    record = FeatureLevelRecord(name=reader.string(), level=reader.int16())
    reader.tags()
    return record


def _begin(reader: _Reader, _: int) -> TransactionRecord:
    reader.tags()  # tag 0: its name
    return TransactionRecord.BEGIN


def _end(reader: _Reader, _: int) -> TransactionRecord:
    reader.tags()
    return TransactionRecord.END


def _abort(reader: _Reader, _: int) -> TransactionRecord:
    reader.tags()  # tag 0: the reason
    return TransactionRecord.ABORT


_DECODERS: Final[dict[int, tuple[int, Callable[[_Reader, int], MetadataRecord]]]] = {
    TOPIC: (0, _topic),
    PARTITION: (2, _partition),
    CONFIG: (0, _config),
    PARTITION_CHANGE: (2, _partition_change),
    REMOVE_TOPIC: (0, _remove_topic),
    FEATURE_LEVEL: (0, _feature_level),
    BEGIN_TRANSACTION: (0, _begin),
    END_TRANSACTION: (0, _end),
    ABORT_TRANSACTION: (0, _abort),
}
"""Api key → latest supported version, decoder of the message."""
