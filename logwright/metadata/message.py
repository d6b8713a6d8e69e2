"""Read the fields of a message in the flexible encoding of KIP-482.

Every length is untrusted input and is checked against the remaining bytes before use.
Source: the generated messages of org.apache.kafka.common, and ByteUtils of Kafka 4.3.0.
"""

from __future__ import annotations

import base64
import struct
from typing import Final, TypeVar

from logwright.errors import CorruptBatch

_Value = TypeVar("_Value")

_INT8: Final = struct.Struct(">b")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UUID_BYTES: Final = 16
_VARINT_BYTES: Final = 5
_MORE: Final = 0x80


class MessageReader:
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

    def count(self) -> int:
        """Read the count of a COMPACT_ARRAY; each of its items takes at least one byte."""
        count = self.unsigned_varint() - 1
        if not 0 <= count <= self.left:
            raise CorruptBatch(f"and an array has {count} items, but {self.left} bytes are left.")
        return count

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

    def tags(self) -> dict[int, MessageReader]:
        """Read the tagged fields, without decoding them."""
        found: dict[int, MessageReader] = {}
        for _ in range(self.unsigned_varint()):
            tag = self.unsigned_varint()
            if tag in found:
                raise CorruptBatch(f"and tag {tag} is duplicate.")
            found[tag] = MessageReader(self.take(self.unsigned_varint()))
        return found

    def expect_end(self) -> None:
        """Check that no bytes are left."""
        if self.left:
            raise CorruptBatch(f"and {self.left} bytes are left after its end.")


def _not_null(value: _Value | None) -> _Value:
    if value is None:
        raise CorruptBatch("and a required field is null.")
    return value
