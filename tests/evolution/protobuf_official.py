"""What a record of Protobuf must become: Google's parser with the reader's message, laid into
columns as docs/decoding.md has them.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from grpc_tools import protoc

from tests.evolution.history import Expected, MustRefuse, Sent, canonical

LOSSY: Final = "a field has another type, and its value would be lost"
_FIRST_SECOND: Final = -62_135_596_800
_LAST_SECOND: Final = 253_402_300_799


@lru_cache(maxsize=64)
def compiled(text: str) -> tuple[Any, Any]:
    """The pool and the file of a ``.proto`` text, by protoc. Effects: a temporary directory."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "x.proto").write_text(text)
        output = Path(scratch) / "descriptors"
        google = resources.files("grpc_tools") / "_proto"
        command = ["protoc", f"-I{scratch}", f"-I{google}", "--include_imports"]
        status = protoc.main([*command, f"--descriptor_set_out={output}", "x.proto"])
        if status:
            raise ValueError(f"protoc does not accept it: {text}")
        files = descriptor_pb2.FileDescriptorSet.FromString(output.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool, pool.FindFileByName("x.proto")


def message_class(known: tuple[Any, Any], name: str) -> Any:
    """The class of a message."""
    return message_factory.GetMessageClass(known[0].FindMessageTypeByName(name))


class ProtobufOfficial:
    """Of one reader's message. Arguments: as `AvroOfficial`."""

    def __init__(
        self, files: Mapping[str, str], number: int, message: str | None, counts: Counter[str]
    ) -> None:
        self._texts = {int(name.removesuffix(".proto")): text for name, text in files.items()}
        self._name = message or ""
        self._reader = message_class(compiled(self._texts[number]), self._name)
        self._counts = counts

    def expect(self, sent: Sent) -> Expected:
        """What a key or value may become."""
        (descriptor, start) = self._writer(sent)
        if descriptor.full_name != self._name:
            return Expected(refusals=("another message",))
        content = sent.content[start:]
        writer = message_factory.GetMessageClass(descriptor).FromString(content)
        loses = _loses(writer, self._reader.DESCRIPTOR)
        refusals = (LOSSY,) if loses else ()
        try:
            parsed = self._reader.FromString(content)
            if not parsed.IsInitialized():
                raise MustRefuse("a required field is missing")
            values = (canonical(columns_of(parsed)),)
        except DecodeError:
            return Expected(refusals=("Google's parser raises",))
        except MustRefuse as refused:
            return Expected(refusals=(refused.kind, *refusals))
        self._counts["Google's parser loses a value"] += loses
        return Expected(() if loses else values, refusals)

    def _writer(self, sent: Sent) -> tuple[Any, int]:
        """The message of a record: by its indexes, map entries not counted; where it starts."""
        content, position = sent.content, 5
        count = content[position] // 2
        indexes = [each // 2 for each in content[position + 1 : position + 1 + count]] or [0]
        messages = list(compiled(self._texts[sent.number])[1].message_types_by_name.values())
        message = None
        for index in indexes:
            message = messages[index]
            messages = [each for each in message.nested_types if not each.GetOptions().map_entry]
        return message, position + 1 + count


_WIRES: Final = {
    **dict.fromkeys((3, 4, 5, 8, 13, 14), "varint"),
    **dict.fromkeys((17, 18), "zigzag"),
    **dict.fromkeys((7, 15), "fixed32"),
    **dict.fromkeys((6, 16), "fixed64"),
    **dict.fromkeys((9, 12), "bytes"),
    1: "double",
    2: "float",
    10: "group",
    11: "message",
}
"""Number of a field's type in a descriptor → what can be read as one another."""


_ZERO: Final = ({"varint", "zigzag"}, {"fixed32", "float"}, {"fixed64", "double"})
"""What has the same bytes for zero."""


def _is_read_as(field: Any, value: Any, other: Any) -> bool:
    """Whether the bytes of a value can be read as another type: all of some types, zero of others;
    and the 1 of a zigzag as a truth.
    """
    wires = {_WIRES[field.type], _WIRES[other.type]}
    if len(wires) == 1:
        return True
    if wires == {"message", "bytes"}:  # bytes may be a message, and a message is bytes
        return field.TYPE_BYTES in {field.type, other.type}
    if wires not in _ZERO:
        return False
    values = list(value) if field.is_repeated else [value]
    same = {"0", "0.0", "False", *(["1"] if other.type == other.TYPE_BOOL else [])}
    return same.issuperset(str(each) for each in values)  # -0.0 is another one


def _is_map(field: Any) -> bool:
    return field.message_type is not None and field.message_type.GetOptions().map_entry


def _loses(message: Any, reader: Any) -> bool:
    """Whether a set field has another type for the reader, so that its value would be another."""
    for field, value in message.ListFields():
        other = reader.fields_by_number.get(field.number)
        if other is None:
            continue
        if not _is_read_as(field, value, other):
            return True
        if _is_map(field) != _is_map(other):
            if _loses_entries(field, value, other):
                return True
            continue
        if field.message_type is None or other.message_type is None:
            lost = _differs(field, value, other)
        elif _is_map(field):
            lost = _other_entries(field, other)
        else:
            inner = value if field.is_repeated else [value]
            lost = field.is_repeated and not other.is_repeated and len(value) > 1
            lost |= any(_loses(each, other.message_type) for each in inner)
        if lost:
            return True
    return _two_of_a_oneof(message, reader)


def _loses_entries(field: Any, value: Any, other: Any) -> bool:
    """Whether messages that are read as entries of a map, or the reverse, lose something."""
    if not (field.is_repeated and other.is_repeated and field.message_type and other.message_type):
        return True
    if _is_map(field):
        entry = message_factory.GetMessageClass(field.message_type)
        entries = [entry(key=key, value=value[key]) for key in value]
    else:
        entries = list(value)
        key = field.message_type.fields_by_number.get(1)
        keys = [None if key is None else getattr(each, key.name) for each in entries]
        if len(set(keys)) < len(keys):
            return True
    return any(_loses(each, other.message_type) for each in entries)


def _other_entries(field: Any, other: Any) -> bool:
    return any(
        field.message_type.fields_by_name[name].type != other.message_type.fields_by_name[name].type
        for name in ("key", "value")
    )


def _two_of_a_oneof(message: Any, reader: Any) -> bool:
    """Whether two set fields are of one oneof for the reader."""
    oneofs: list[str] = []
    for field, _ in message.ListFields():
        other = reader.fields_by_number.get(field.number)
        if other is not None and other.containing_oneof is not None:
            oneofs.append(other.containing_oneof.name)
    return len(set(oneofs)) < len(oneofs)


_RANGES: Final = {
    5: (-(2**31), 2**31), 17: (-(2**31), 2**31), 15: (-(2**31), 2**31),
    3: (-(2**63), 2**63), 18: (-(2**63), 2**63), 16: (-(2**63), 2**63),
    13: (0, 2**32), 7: (0, 2**32),
    4: (0, 2**64), 6: (0, 2**64),
    8: (0, 2),
    14: (-(2**31), 2**31),
}  # fmt: skip
"""Number of a whole number's type in a descriptor → its range."""


def _differs(field: Any, value: Any, other: Any) -> bool:
    """Whether a value has no equal of another type of the same wire format."""
    values = list(value) if field.is_repeated else [value]
    if other.enum_type is not None and other.enum_type.is_closed:
        known = {each.number for each in other.enum_type.values}
        if not known.issuperset(values):
            return True
    if field.type == other.type and field.is_repeated == other.is_repeated:
        return False
    if field.is_repeated and not other.is_repeated:
        is_kept = not field.is_packed or (not values[0] and not other.has_presence)
        if not is_kept or len(values) > 1:
            return True
    if other.type not in _RANGES:
        return False
    (low, high) = _RANGES[other.type]
    return any(not low <= int(each) < high for each in values)


def columns_of(message: Any) -> dict[str, Any]:
    """A message as its column has it.

    Raises:
        MustRefuse: the column cannot have it.
    """
    return {field.name: _field(message, field) for field in message.DESCRIPTOR.fields}


def _field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return {str(key): _single(inner, value[key]) for key in value}
    if field.is_repeated:
        return [_single(field, each) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(field, value)


def _single(field: Any, value: Any) -> Any:
    if field.type == field.TYPE_STRING and isinstance(value, bytes):  # proto2 takes any bytes
        raise MustRefuse("a text that is not UTF-8")
    if field.message_type is not None:
        name = field.message_type.full_name
        if name == "google.protobuf.Timestamp":
            if not _FIRST_SECOND <= value.seconds <= _LAST_SECOND or not 0 <= value.nanos < 10**9:
                raise MustRefuse("a time that is not of the years 1 to 9999")
            return f"time {value.seconds * 10**6 + value.nanos // 1000}"
        if name.startswith("google.protobuf.") and name.endswith("Value"):
            return _single(field.message_type.fields_by_name["value"], value.value)
        return columns_of(value)
    if field.enum_type is not None:
        known = {each.number: each.name for each in reversed(field.enum_type.values)}
        return known.get(value, str(value))
    return Decimal(value) if field.cpp_type == field.CPPTYPE_UINT64 else value
