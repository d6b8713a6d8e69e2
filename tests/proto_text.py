"""The text that Confluent's schema registry keeps of a file's descriptors.

Source: toString of ProtobufSchemaUtils, in Confluent's schema registry: fields, oneofs, messages in
the order of the descriptors, enums; the entry of a map is a message with ``option map_entry``, or,
in the text of a schema that is normalized, a field ``map<>``.
Options of fields, extensions and services are left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf import descriptor_pb2

_FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in _FIELD.Type.items()
    if name not in {"TYPE_MESSAGE", "TYPE_ENUM", "TYPE_GROUP"}
}


def proto_text(file: descriptor_pb2.FileDescriptorProto, *, normal: bool = False) -> str:
    """Return the text of a `FileDescriptorProto`.

    Args:
        file: the descriptors.
        normal: maps are fields.
    """
    syntax = file.syntax or "proto2"
    lines = [f'syntax = "{syntax}";']
    if file.package:
        lines.append(f"package {file.package};")
    lines += [f'import "{name}";' for name in file.dependency]
    for message in file.message_type:
        lines += _message(message, syntax, normal=normal)
    for enum in file.enum_type:
        lines += _enum(enum)
    return "\n".join(lines) + "\n"


def _message(
    message: descriptor_pb2.DescriptorProto, syntax: str, *, normal: bool
) -> Iterator[str]:
    entries = {each.name: each for each in message.nested_type if each.options.map_entry and normal}
    yield f"message {message.name} {{"
    if message.options.map_entry:
        yield "  option map_entry = true;"
    for field in message.field:
        entry = entries.get(field.type_name.rpartition(".")[2])
        if entry is not None:
            (key, value) = (each.type_name or _TYPES[each.type] for each in entry.field)
            yield f"  map<{key}, {value}> {field.name} = {field.number};"
        elif not field.HasField("oneof_index") or field.proto3_optional:
            yield f"  {_label(field, syntax)}{_field(field)}"
    for number, oneof in enumerate(message.oneof_decl):
        members = [
            field
            for field in message.field
            if field.HasField("oneof_index")
            and field.oneof_index == number
            and not field.proto3_optional
        ]
        if members:
            yield f"  oneof {oneof.name} {{"
            yield from (f"    {_field(field)}" for field in members)
            yield "  }"
    for inner in message.nested_type:
        if inner.name not in entries:
            yield from (f"  {line}" for line in _message(inner, syntax, normal=normal))
    for enum in message.enum_type:
        yield from (f"  {line}" for line in _enum(enum))
    yield "}"


def _label(field: descriptor_pb2.FieldDescriptorProto, syntax: str) -> str:
    if field.label == _FIELD.LABEL_REPEATED:
        return "repeated "
    if field.label == _FIELD.LABEL_REQUIRED:
        return "required "
    return "optional " if field.proto3_optional or syntax == "proto2" else ""


def _field(field: descriptor_pb2.FieldDescriptorProto) -> str:
    return f"{field.type_name or _TYPES[field.type]} {field.name} = {field.number};"


def _enum(enum: descriptor_pb2.EnumDescriptorProto) -> Iterator[str]:
    yield f"enum {enum.name} {{"
    yield from (f"  {value.name} = {value.number};" for value in enum.value)
    yield "}"
