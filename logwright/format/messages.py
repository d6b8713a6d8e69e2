"""Read messages of Kafka's own protocol: fields by version, compact forms and tagged fields.

Every length is compared with the bytes that are left before anything is read or allocated.
Source: the generated `read` of Kafka's messages (MessageDataGenerator), ByteUtils, and KIP-482.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

_MORE: Final = 0x80
_VARINT_BYTES: Final = 5
_UUID_BYTES: Final = 16
_NUMBERS: Final[Mapping[str, struct.Struct]] = MappingProxyType(
    {
        "int8": struct.Struct(">b"),
        "int16": struct.Struct(">h"),
        "uint16": struct.Struct(">H"),
        "int32": struct.Struct(">i"),
        "int64": struct.Struct(">q"),
    }
)
_LATEST: Final = 32_767
_NEVER: Final = _LATEST + 1


class MalformedMessage(Exception):
    """A message cannot be read; `reason` has none of its bytes."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message.

    Attributes:
        kind: a type of number, string, bytes, uuid, struct, or one of them after ``[]``; rest: all
            bytes that are left.
        fields: of a struct.
        since, until: the versions that have it.
        nullable: null is allowed, in versions since `nullable_since`.
        tag: of a tagged field; None: it is not tagged.
    """

    name: str
    kind: str
    fields: tuple[Field, ...] = ()
    since: int = 0
    until: int = _LATEST
    nullable_since: int = _NEVER
    tag: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """A message.

    Attributes:
        fields: in their order.
        latest: the latest version that is known.
        flexible_since: the first version in the compact form.
    """

    fields: tuple[Field, ...]
    latest: int = 0
    flexible_since: int = _NEVER


def read_message(message: Message, content: bytes, position: int, version: int) -> dict[str, Any]:
    """Return the fields of the message that the rest of a content is: those of its version, and
    the tagged ones that are there.

    Raises:
        MalformedMessage: the version is unknown, or the content is malformed.
    """
    if not 0 <= version <= message.latest:
        raise MalformedMessage("has an unknown version")
    reader = _Reader(content, position, version, flexible=version >= message.flexible_since)
    values = reader.fields(message.fields)
    if reader.left:
        raise MalformedMessage("has bytes left after its last field")
    return values


def read_varint(content: bytes, position: int) -> tuple[int, int]:
    """Return the unsigned varint at a position, and the position after it.

    Raises:
        MalformedMessage: there is none.
    """
    reader = _Reader(content, position, 0, flexible=True)
    return reader.varint(), len(content) - reader.left


def read_int16(content: bytes) -> int:
    """Return the first two bytes as a number: a type or version.

    Raises:
        MalformedMessage: there are fewer.
    """
    return int(_Reader(content, 0, 0, flexible=False).number("int16"))


class _Reader:
    """A position in a message of one version."""

    def __init__(self, content: bytes, position: int, version: int, *, flexible: bool) -> None:
        self._content = content
        self._position = position
        self._version = version
        self._flexible = flexible

    @property
    def left(self) -> int:
        """Number of bytes that are left."""
        return len(self._content) - self._position

    def fields(self, fields: tuple[Field, ...]) -> dict[str, Any]:
        """Read a struct."""
        values: dict[str, Any] = {}
        tagged: dict[int, Field] = {}
        for field in fields:
            if field.tag is not None:
                tagged[field.tag] = field
            elif field.since <= self._version <= field.until:
                values[field.name] = self._value(field)
        if self._flexible:
            self._tagged(values, tagged)
        return values

    def _tagged(self, values: dict[str, Any], tagged: Mapping[int, Field]) -> None:
        """Read the tagged fields; unknown ones are ignored (KIP-482)."""
        last = -1
        for _ in range(self.varint()):
            tag, size = self.varint(), self.varint()
            if tag <= last:
                raise MalformedMessage("has tagged fields out of order")
            last = tag
            end = self._position + self._checked(size)
            if tag in tagged:
                if not tagged[tag].since <= self._version <= tagged[tag].until:
                    raise MalformedMessage("has a tagged field that its version does not have")
                values[tagged[tag].name] = self._value(tagged[tag])
                if self._position != end:
                    raise MalformedMessage("has a tagged field of another size")
            self._position = end

    def _value(self, field: Field) -> Any:
        kind = field.kind
        nullable = self._version >= field.nullable_since
        if kind in _NUMBERS:
            return self.number(kind)
        if kind.startswith("[]"):
            return self._items(field, nullable=nullable)
        if kind == "struct":
            return None if nullable and self._is_null(field) else self.fields(field.fields)
        if kind in {"uuid", "rest"}:
            content = self._take(_UUID_BYTES if kind == "uuid" else self.left)
            return base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")
        return self._text_or_bytes(kind, nullable=nullable)

    def _is_null(self, field: Field) -> bool:
        """Read whether a struct is null: a tagged one by a varint, any other by a byte."""
        return self.number("int8") < 0 if field.tag is None else self.varint() == 0

    def _text_or_bytes(self, kind: str, *, nullable: bool) -> str | bytes | None:
        size = self._length("int16" if kind == "string" else "int32")
        if size < 0:
            self._null(nullable=nullable)
            return None
        content = self._take(size)
        if kind == "bytes":
            return content
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise MalformedMessage("has a string that is not UTF-8") from None

    def _items(self, field: Field, *, nullable: bool) -> list[Any] | None:
        count = self._length("int32")
        if count < 0:
            self._null(nullable=nullable)
            return None
        kind = field.kind.removeprefix("[]")
        if kind in _NUMBERS:
            layout = _NUMBERS[kind]
            return [number for (number,) in layout.iter_unpack(self._take(count * layout.size))]
        self._checked(count)
        item = Field(field.name, kind, field.fields)
        return [self._value(item) for _ in range(count)]

    def _null(self, *, nullable: bool) -> None:
        if not nullable:
            raise MalformedMessage("has null in a field that does not allow it")

    def _length(self, kind: str) -> int:
        """Read a length or count, below 0 for null."""
        return self.varint() - 1 if self._flexible else self.number(kind)

    def number(self, kind: str) -> int:
        """Read a number."""
        layout = _NUMBERS[kind]
        return int(layout.unpack(self._take(layout.size))[0])

    def varint(self) -> int:
        """Read an unsigned varint of at most 5 bytes; bits above the 32nd are dropped."""
        value = 0
        for index in range(_VARINT_BYTES):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << 7 * index
            if byte < _MORE:
                return value & 0xFFFF_FFFF
        raise MalformedMessage("has a varint that is too long")

    def _checked(self, size: int) -> int:
        if size > self.left:
            raise MalformedMessage("has a length of more than the bytes that are left")
        return size

    def _take(self, size: int) -> bytes:
        start = self._position
        self._position += self._checked(size)
        return self._content[start : self._position]
