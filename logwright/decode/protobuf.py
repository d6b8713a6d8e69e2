"""Messages of Protobuf, parsed by Google's library.

A message is parsed by the type of the columns, so that its fields are known by their numbers. Where
the type that it was written with has another type of a field, a value that is not the same is
refused. A field with presence (a message, ``optional``, a member of a oneof) is null if it is not
set; any other has Protobuf's default. Fields that the schema does not have are ignored, as Protobuf
has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from logwright.config.decoding import ProtobufSpec
from logwright.decode import leaves
from logwright.decode.cells import Cells
from logwright.decode.columns import Items, Leaf, Node, Pairs, Struct, build, is_empty, required
from logwright.decode.json_fields import DEEPEST, MOST_FIELDS, UnusableSchema
from logwright.decode.make import Made, Making
from logwright.decode.model import MAX_VALUE_BYTES, NOTHING_USED, TIMESTAMP, TOO_LARGE, Part
from logwright.decode.protobuf_resolve import same_of
from logwright.decode.protoc import Compiled, compile_file
from logwright.decode.refusal import Refused

Value = Callable[[Any], Any]
"""A field's value in a message → what its column is built of."""

_FLOAT: Final = Leaf(type=pa.float32(), accepts=frozenset({float}), convert=lambda value: value)
_UINT64: Final = Leaf(type=pa.decimal128(20), accepts=frozenset({Decimal}), convert=Decimal)
_LEAVES: Final[Mapping[int, Leaf]] = MappingProxyType(
    {
        FieldDescriptor.CPPTYPE_INT32: leaves.INT,
        FieldDescriptor.CPPTYPE_INT64: leaves.LONG,
        FieldDescriptor.CPPTYPE_UINT32: leaves.LONG,
        FieldDescriptor.CPPTYPE_UINT64: _UINT64,
        FieldDescriptor.CPPTYPE_DOUBLE: leaves.DOUBLE,
        FieldDescriptor.CPPTYPE_FLOAT: _FLOAT,
        FieldDescriptor.CPPTYPE_BOOL: leaves.BOOLEAN,
        FieldDescriptor.CPPTYPE_ENUM: leaves.STRING,
        FieldDescriptor.CPPTYPE_STRING: leaves.STRING,
    }
)
_DEFAULTS: Final[Mapping[int, object]] = MappingProxyType(
    {
        FieldDescriptor.CPPTYPE_UINT64: Decimal(0),
        FieldDescriptor.CPPTYPE_DOUBLE: 0.0,
        FieldDescriptor.CPPTYPE_FLOAT: 0.0,
        FieldDescriptor.CPPTYPE_BOOL: False,
        FieldDescriptor.CPPTYPE_STRING: "",
    }
)
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_JSON: Final = frozenset(f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue"))
"""Google's types of JSON, which contain themselves: columns of JSON text."""

_TIMESTAMP_NAME: Final = "google.protobuf.Timestamp"
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799
_NANOSECONDS: Final = 1_000_000_000


def make(spec: ProtobufSpec, making: Making) -> Made:
    """Return the decoder of a spec. Effects: starts protoc. Errors: as `Making.of_file`."""

    def decoder(place: Path, _content: bytes) -> ProtobufDecoder:
        return ProtobufDecoder(compile_file(place).message(spec.message))

    return Made(making.of_file(spec.schema_file, decoder), spec)


class ProtobufDecoder:
    """Decodes messages of one type.

    Args:
        descriptor: of the columns.
        written: the type that the messages were written with; None: the same, as far as is known.

    Raises:
        UnusableSchema: the message contains itself, or has too many fields.
    """

    def __init__(self, descriptor: Any, written: Any = None) -> None:
        self._message = message_factory.GetMessageClass(descriptor)
        self._is_known = written is not None
        self._require_same = None if written is None else same_of(written, descriptor)
        kinds = _Kinds()
        (self.node, self._value) = kinds.message(descriptor, ())
        if is_empty(self.node):
            raise UnusableSchema("has no fields that can be columns")
        self._has_required = kinds.has_required
        self._cells = kinds.cells
        self.name: str = descriptor.full_name

    @property
    def type(self) -> pa.DataType:
        """The type of the decoded values."""
        return self.node.type

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        return self.decode_values(column.to_pylist())

    def decode_values(self, values: list[Any]) -> Part:
        """Decode values; the list is used for what they are parsed to."""
        reasons: dict[int, str] = {}
        for row, content in enumerate(values):
            if content is None:
                continue
            try:
                self._cells.start()
                message = self._parse(content)
                value = self._value(message)
                if not self._is_known and not _has_more(value):
                    _require_known(message)
                values[row] = value
            except Refused as refused:
                values[row] = None
                reasons[row] = refused.reason
        return Part(build(self.node, values, reasons), reasons)

    def _parse(self, content: bytes) -> Any:
        if len(content) > MAX_VALUE_BYTES:
            raise Refused(TOO_LARGE)
        try:
            message = self._message.FromString(content)
        except DecodeError:
            raise Refused(f"is not a message {self.name}") from None
        if self._has_required and not message.IsInitialized():
            raise Refused("misses a required field")
        if self._require_same is not None:
            self._require_same(content, message)
        return message


class _Kinds:
    """Builds columns and what reads them from messages."""

    def __init__(self) -> None:
        self._count = 0
        self.cells = Cells()
        self.has_required = False

    def message(self, descriptor: Any, path: tuple[str, ...]) -> tuple[Node, Value]:
        """Return the column of a message. `path`: the messages that it is in."""
        name = descriptor.full_name
        if name in path:
            raise UnusableSchema(f"is recursive: {name} contains itself")
        if len(path) > DEEPEST:
            raise UnusableSchema(f"is nested more than {DEEPEST} deep")
        if name == _TIMESTAMP_NAME:
            return _TIMESTAMP, _microseconds
        if name in _JSON:
            return leaves.JSON, _json
        if name in _WRAPPERS:
            (node, value) = self._single(descriptor.fields_by_name["value"], path)
            return node, lambda message: value(message.value)
        fields: dict[str, Node] = {}
        values: list[tuple[str, bool, Value]] = []
        labels = _labels(descriptor)
        for field in descriptor.fields:
            self._count += 1
            if self._count > MOST_FIELDS:
                raise UnusableSchema(f"has more than {MOST_FIELDS} fields")
            (node, value, presence) = self._field(field, labels[field.name], (*path, name))
            if is_empty(node):
                continue
            fields[field.name] = node
            values.append((field.name, presence, value))
        return Struct(fields=fields), _reader(values, self.cells)

    def _field(self, field: Any, label: int, path: tuple[str, ...]) -> tuple[Node, Value, bool]:
        """Return the column of a field, what reads it, and whether it can be absent."""
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            (key, read_key) = self._single(entry.fields_by_name["key"], path)
            (item, read) = self._single(entry.fields_by_name["value"], path)
            pairs = Pairs(key=required(key), value=required(item), nullable=False, default={})
            return pairs, lambda entries: {read_key(k): read(entries[k]) for k in entries}, False
        (node, value) = self._single(field, path)
        if label == FieldDescriptor.LABEL_REPEATED:
            items = Items(item=required(node), nullable=False, default=[])
            return items, lambda values: [value(one) for one in values], False
        self.has_required |= label == FieldDescriptor.LABEL_REQUIRED
        if field.has_presence:
            return node, value, True
        default = _DEFAULTS.get(field.cpp_type, 0)
        if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
            default = value(0)
        elif field.type == FieldDescriptor.TYPE_BYTES:
            default = b""
        return replace(node, nullable=False, default=default), value, False

    def _single(self, field: Any, path: tuple[str, ...]) -> tuple[Node, Value]:
        """Return the column of one value of a field, and what reads it."""
        kind = field.cpp_type
        if kind == FieldDescriptor.CPPTYPE_MESSAGE:
            return self.message(field.message_type, path)
        if field.type == FieldDescriptor.TYPE_BYTES:
            return leaves.BINARY, _same
        if kind == FieldDescriptor.CPPTYPE_ENUM:
            names = {one.number: one.name for one in reversed(field.enum_type.values)}
            return leaves.STRING, lambda number: names.get(number) or str(number)
        return _LEAVES[kind], Decimal if kind == FieldDescriptor.CPPTYPE_UINT64 else _same


def _has_more(value: Any) -> bool:
    """Return whether a value has more than defaults."""
    return any(value.values()) if type(value) is dict else True


def _require_known(message: Any) -> None:
    """Require that a message is not of unknown fields alone.

    Raises:
        Refused: it is, so it is most likely of another type.
    """
    if not message.ListFields() and len(UnknownFieldSet(message)):
        raise Refused(NOTHING_USED)


def _labels(descriptor: Any) -> dict[str, int]:
    """Return whether each field is optional, required or repeated."""
    copied = descriptor_pb2.DescriptorProto()
    descriptor.CopyToProto(copied)
    return {one.name: one.label for one in copied.field}


def _same(value: Any) -> Any:
    return value


def _json(message: Any) -> Any:
    """Return what a value of one of Google's types of JSON stands for."""
    try:
        return json_format.MessageToDict(message)
    except (ValueError, RecursionError):  # a value that is not finite, or is not set
        raise Refused("has a value that is not JSON") from None


def _reader(fields: list[tuple[str, bool, Value]], cells: Cells) -> Value:
    """Return what reads the fields of a message: name, whether it can be absent, its reader."""
    count = len(fields)

    def read(message: Any) -> dict[str, Any]:
        cells.take(count)
        return {
            name: value(getattr(message, name)) if not presence or message.HasField(name) else None
            for name, presence, value in fields
        }

    return read


def _microseconds(message: Any) -> int:
    """Return a timestamp as microseconds since the epoch; nanoseconds are cut off."""
    seconds, nanoseconds = message.seconds, message.nanos
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND or not 0 <= nanoseconds < _NANOSECONDS:
        raise Refused("has a timestamp that is not of the years 1 to 9999")
    return int(seconds * 1_000_000 + nanoseconds // 1000)


_TIMESTAMP: Final = Leaf(
    type=TIMESTAMP, storage=pa.int64(), accepts=frozenset({int}), convert=leaves.integer(64)
)


def message_at(compiled: Compiled, indexes: tuple[int, ...], name: str | None = None) -> Any:
    """Return the descriptor of a message of a file, by its place.

    Confluent's readers count the messages of the schema's text. Some of its writers (Python, Go,
    .NET, C++) also count the entries of maps that are ``map<>`` fields in the text, each where
    its own class has it, if they did not register that class. Where that leads to several
    messages, nothing in the record says which it is. Source: ProtobufSchema.toMessageName of
    Confluent's schema registry, confluent_kafka.schema_registry.common.protobuf.

    Args:
        compiled: the file.
        indexes: of the message in the file, of one in that message, and so on.
        name: the message that the records are expected to be; it counts if it is one of several.

    Raises:
        Refused: there is none, or there are several.
    """
    by_text = _at(compiled, indexes)
    names = {message.full_name: message for message in _possible(compiled, indexes)}
    if name in names:
        return names[name]
    if not names:
        raise Refused("has the index of an unknown message")
    if by_text is None or len(names) > 1:
        raise Refused("has indexes of its message that writers count in two ways: set message")
    return by_text


def _at(compiled: Compiled, indexes: tuple[int, ...]) -> Any:
    """Return the message at a place of the text, None if there is none but the entry of a map."""
    message = None
    messages = compiled.counted(compiled.messages)
    for index in indexes:
        if not 0 <= index < len(messages):
            return None
        message = messages[index]
        messages = compiled.counted(message.nested_types)
    return None if message is None or message.GetOptions().map_entry else message


def _possible(compiled: Compiled, indexes: tuple[int, ...]) -> list[Any]:
    """Return all messages that may be meant: an index may have counted any of the entries of maps
    that the text does not have, before its message.
    """
    possible: list[Any] = []
    scopes = [list(compiled.messages)]
    for index in indexes:
        possible = []
        for messages in scopes:
            counted = compiled.counted(messages)
            most = len(messages) - len(counted)
            possible += counted[max(index - most, 0) : max(index + 1, 0)]
        scopes = [list(message.nested_types) for message in possible]
    return [message for message in possible if not message.GetOptions().map_entry]
