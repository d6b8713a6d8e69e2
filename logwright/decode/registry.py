"""The wire format of Confluent's schema registry.

::

    magic    int8    0, or 1 of newer clients
    id       int32   of the schema; after a 1 its GUID, 16 bytes
    indexes          Protobuf only: zigzag varints, a count and the message's place in its file;
                     a count of 0 stands for the first message
    datum

Records are read with their writer's schema as the schema of the columns has them, by the rules of
their format, so that a topic whose schema evolved has one set of columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

import numpy as np
import pyarrow as pa

from logwright.config.decoding import RegistrySpec
from logwright.decode.avro import AvroDecoder
from logwright.decode.avro_read import long
from logwright.decode.avro_schema import AvroSchema, parse_avro, parse_names
from logwright.decode.columns import Node
from logwright.decode.json_fields import UnusableSchema
from logwright.decode.json_schema import JsonSchema
from logwright.decode.json_values import JsonDecoder
from logwright.decode.make import Made, Making
from logwright.decode.model import Part
from logwright.decode.protobuf import ProtobufDecoder, message_at
from logwright.decode.protoc import Compiled, NoMessage, compile_file
from logwright.decode.refusal import Refused
from logwright.decode.schema_sources import (
    SchemaDirectory,
    SchemaRegistry,
    SchemaSource,
    SchemaText,
    as_files,
)
from logwright.errors import PolicyError

HEADER_BYTES: Final = 5
_GUID_HEADER_BYTES: Final = 17
_MOST_UNKNOWN: Final = 1000
"""Unknown ids that a source is asked for."""

_DEEPEST: Final = 20
_FIRST: Final = (0,)
_Indexes = tuple[int, ...]
_NO_INDEXES: Final[_Indexes] = ()
_UNKNOWN: Final = "has the id of an unknown schema"
_UNUSABLE: Final = "has a schema that "
_OTHER_TYPE: Final = "has another type than the schema of the columns"
_TRUNCATED: Final = "ends within the indexes of its message"


class UnknownSchema(UnusableSchema):
    """The source has no schema of an id."""


class OtherType(UnusableSchema):
    """A schema has none of the types that the columns have."""


class _LeftOut(Exception):
    """Data are of a type that the columns do not have."""


def make(spec: RegistrySpec, making: Making) -> Made:
    """Return the decoder of a spec. Effects: reads schema files, or asks a registry; may read the
    first records, may start protoc.

    Raises:
        PolicyError, SchemaUnavailable: as `make_decoder`.
    """
    source: SchemaSource
    if spec.url is not None:
        source, place = SchemaRegistry(spec.url), spec.url
    else:
        directory = making.path(spec.schemas or "")
        source, place = SchemaDirectory(directory), str(directory)
    used: dict[int, tuple[int, ...]] = {}
    if spec.schema_id is None or spec.message is None:
        used = used_schemas(making.columns(has_ids=True))
    ids = list(used) if spec.schema_id is None else [spec.schema_id]
    for schema_id in ids:
        try:
            decoder = decoder_of(spec, source, schema_id, used.get(schema_id, _FIRST))
        except UnusableSchema as error:
            is_other = isinstance(error, UnknownSchema | OtherType)
            if is_other and schema_id != ids[-1]:
                continue
            raise PolicyError(f"{place}: schema {schema_id} {error.problem}.") from None
        done = {"schema_id": schema_id, "message": decoder.message}
        return Made(decoder, spec.model_copy(update=done))
    raise PolicyError(
        f"The schema of the {making.part} is unknown: no record with a schema's id among"
        " the first ones.",
        remedy="Set schema_id.",
    )


def decoder_of(
    spec: RegistrySpec, source: SchemaSource, schema_id: int, indexes: tuple[int, ...]
) -> RegistryDecoder:
    """Return the decoder of a spec with the columns of a schema. Effects: may read schemas.

    Args:
        indexes: the place of Protobuf's message, if the spec does not name it.

    Raises:
        OtherType: the schema has none of the types of `records`.
        UnknownSchema, UnusableSchema, SchemaUnavailable: as `RegistryDecoder`.
    """
    names = (spec.message,) if spec.message is not None else spec.records or (None,)
    for name in names:
        with suppress(NoMessage):
            decoder = RegistryDecoder(
                source, schema_id, message=name, indexes=indexes, records=spec.records
            )
            if not spec.records or decoder.name in spec.records:
                return decoder
    if spec.message is not None:
        raise NoMessage(f"has no message {spec.message}")
    raise OtherType("has none of the types of records")


class _Values(Protocol):
    """Decodes the data of one type, to a column of a node."""

    node: Node

    def decode_values(self, values: list[bytes | None]) -> Part: ...


class _Type(Protocol):
    """A type of records.

    Attributes:
        name: of it; None: it has none.
    """

    name: str | None

    def takes(self, written: Any) -> bool:
        """Return whether data of another type of the same format are of this one, by its name."""

    def decoder(self, written: Any) -> _Values:
        """Return what decodes data of a type to the column of this one.

        Raises:
            UnusableSchema: it cannot be columns.
        """


class _Frame(NamedTuple):
    """The header of a value: the id or GUID of its schema, the place of the message in it, and
    where the datum starts.
    """

    schema_id: int | str
    indexes: tuple[int, ...]
    start: int


_Place = tuple[int | str, _Indexes]
"""The id or GUID of a schema, and the place of the message in it."""

_Group = tuple[list[int], list[bytes]]
"""The rows of a type, and their data."""


class _Avro:
    """A schema of Avro."""

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = schema
        self.name: str | None = schema.name

    def takes(self, written: _Avro) -> bool:
        return self.schema.is_named(written.schema)

    def decoder(self, written: _Avro) -> _Values:
        known = self.schema if self.takes(written) else self.schema.also_named(written.schema.name)
        return AvroDecoder(written.schema, known)


class _Json:
    """A JSON Schema. Its title is its name, as Confluent's serializers have it."""

    def __init__(self, schema: JsonSchema) -> None:
        self.schema = schema
        self.name = schema.title

    def takes(self, written: _Json) -> bool:
        return None in {self.name, written.name} or self.name == written.name

    def decoder(self, written: _Json) -> _Values:
        return JsonDecoder(self.schema.written_by(written.schema))


class _Protobuf:
    """A message of Protobuf."""

    def __init__(self, descriptor: Any) -> None:
        self.descriptor = descriptor
        self.name: str | None = descriptor.full_name

    def takes(self, written: _Protobuf) -> bool:
        return self.name == written.name

    def decoder(self, written: _Protobuf) -> _Values:
        return ProtobufDecoder(self.descriptor, written.descriptor)


class _Schema:
    """A schema of the registry, and its types."""

    def __init__(self, schema: SchemaText) -> None:
        self.kind = schema.kind
        self._types: dict[_Indexes | str, _Type] = {}
        self._compiled: Compiled | None = None
        if schema.kind == "AVRO":
            known: dict[str, object] = {}
            for text in schema.references.values():
                (_, known) = parse_names(text, known)
            self._types[_NO_INDEXES] = _Avro(parse_avro(schema.text, known))
        elif schema.kind == "JSON":
            self._types[_NO_INDEXES] = _Json(JsonSchema(schema.text, schema.references))
        elif schema.kind == "PROTOBUF":
            self._compiled = _compiled(schema)
        else:
            raise UnusableSchema("has an unknown type")

    def type_at(self, indexes: _Indexes, name: str | None) -> _Type:
        """Return a type.

        Args:
            indexes: the place of a message of Protobuf.
            name: the message that the records are expected to be, see `message_at`.

        Raises:
            Refused: it has no such type.
        """
        if self._compiled is None:
            return self._types[_NO_INDEXES]
        if indexes not in self._types:
            self._types[indexes] = _Protobuf(message_at(self._compiled, indexes, name))
        return self._types[indexes]

    def type_named(self, name: str) -> _Type:
        """Return the type of a name; the only one without messages.

        Raises:
            UnusableSchema: it has no message of this name.
        """
        if self._compiled is None:
            return self._types[_NO_INDEXES]
        return _Protobuf(self._compiled.message(name))


def _compiled(schema: SchemaText) -> Compiled:
    with as_files(schema) as path:
        return compile_file(path, schema.directory)


class RegistryDecoder:
    """Decodes values with the schemas of a source.

    Attributes:
        name: of the type that the columns are made of; None: it has none.
        message: the name of the message that the columns are made of; None if it is not Protobuf.

    Args:
        source: of the schemas.
        schema_id: of the schema whose columns the values get.
        message: the name of its message, of Protobuf.
        indexes: the place of its message, without a name.
        records: names of types that are one to the columns; records of other types are left out.
            Without them they are refused.

    Raises:
        UnknownSchema: the source does not have it.
        UnusableSchema: it cannot be columns.
        SchemaUnavailable: the source cannot be read.
    """

    def __init__(
        self,
        source: SchemaSource,
        schema_id: int,
        *,
        message: str | None = None,
        indexes: tuple[int, ...] = _FIRST,
        records: Collection[str] = (),
    ) -> None:
        self._source = source
        self._records = frozenset(records)
        self._schemas: dict[int | str, _Schema | str] = {}
        self._unusable = 0
        reader = self._schema(schema_id)
        if isinstance(reader, str):
            if reader == _UNKNOWN:
                raise UnknownSchema("is unknown")
            raise UnusableSchema(reader.removeprefix(_UNUSABLE))
        try:
            if message is None:
                self._reader = reader.type_at(indexes, None)
            else:
                self._reader = reader.type_named(message)
        except Refused as refused:
            raise UnusableSchema(refused.reason) from None
        self._decoders: dict[_Place, _Values] = {}
        self.node = self._reader.decoder(self._reader).node
        self.name = self._reader.name
        self.message = self._reader.name if reader.kind == "PROTOBUF" else None

    def takes(self, other: RegistryDecoder) -> bool:
        """Return whether data of the type of another one's columns are of this one's."""
        written = other._reader
        return type(self._reader) is type(written) and self._reader.takes(written)

    @property
    def type(self) -> pa.DataType:
        """The type of the decoded values."""
        return self.node.type

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary. Effects: may read schemas.

        Raises:
            SchemaUnavailable: the source cannot be read.
        """
        reasons: dict[int, str] = {}
        groups: dict[_Place, _Group] = {}
        headers: dict[bytes, _Group] = {}
        count = 0
        for row, content in enumerate(column.to_pylist()):
            count += 1
            if content is None:
                continue
            group = headers.get(content[:HEADER_BYTES])
            start = HEADER_BYTES
            if group is None:
                try:
                    (schema_id, indexes, start) = self._frame(content)
                except Refused as refused:
                    reasons[row] = refused.reason
                    continue
                group = groups.setdefault((schema_id, indexes), ([], []))
                if indexes is _NO_INDEXES and start == HEADER_BYTES:
                    headers[content[:HEADER_BYTES]] = group
            group[0].append(row)
            group[1].append(content[start:])
        parts = [pa.nulls(1, self.type)]
        order = np.zeros(count, np.int64)
        left_out = np.zeros(count, np.bool_)
        position = 1
        for place, (rows, data) in groups.items():
            try:
                part = self._group(place, data)
            except _LeftOut:
                left_out[rows] = True
                continue
            reasons.update({rows[number]: reason for number, reason in part.reasons.items()})
            if len(rows) == count:
                return Part(part.values, reasons)
            parts.append(part.values)
            order[rows] = np.arange(position, position + len(rows))
            position += len(rows)
        values = pa.concat_arrays(parts).take(pa.array(order))
        return Part(values, reasons, messages=pa.array(left_out) if left_out.any() else None)

    def _frame(self, content: bytes) -> _Frame:
        """Return the header of a value.

        Raises:
            Refused: it has none, or its schema is unknown or unusable.
        """
        schema_id: int | str
        if content[:1] == b"\0" and len(content) >= HEADER_BYTES:
            start = HEADER_BYTES
            schema_id = int.from_bytes(content[1:start], "big", signed=True)
        elif content[:1] == b"\1" and len(content) >= _GUID_HEADER_BYTES:
            start = _GUID_HEADER_BYTES
            schema_id = str(UUID(bytes=content[1:start]))
        else:
            raise Refused("is not in the wire format of a schema registry")
        schema = self._schema(schema_id)
        if isinstance(schema, str):
            raise Refused(schema)
        if schema.kind != "PROTOBUF":
            return _Frame(schema_id, _NO_INDEXES, start)
        (indexes, start) = read_indexes(content, start)
        return _Frame(schema_id, indexes, start)

    def _schema(self, schema_id: int | str) -> _Schema | str:
        """Return a schema, or why values of it are refused."""
        if schema_id in self._schemas:
            return self._schemas[schema_id]
        if self._unusable >= _MOST_UNKNOWN or (isinstance(schema_id, int) and schema_id < 0):
            return _UNKNOWN
        try:
            if isinstance(schema_id, str):
                text = self._source.get_guid(schema_id)
            else:
                text = self._source.get(schema_id)
            schema = _UNKNOWN if text is None else _Schema(text)
        except UnusableSchema as error:
            schema = f"{_UNUSABLE}{error.problem}"
        self._schemas[schema_id] = schema
        self._unusable += isinstance(schema, str)
        return schema

    def _group(self, place: _Place, values: list[bytes]) -> Part:
        """Decode data of one type.

        Raises:
            _LeftOut: they are of a type that the columns do not have.
        """
        try:
            return self._decoder(place).decode_values(list(values))
        except Refused as refused:
            reason = refused.reason
        except UnusableSchema as error:
            reason = f"{_UNUSABLE}{error.problem}"
        return Part(pa.nulls(len(values), self.type), dict.fromkeys(range(len(values)), reason))

    def _decoder(self, place: _Place) -> _Values:
        """Return what decodes data of a type.

        Raises:
            Refused: they are of another type than the columns.
            UnusableSchema: the type cannot be columns.
            _LeftOut: see `_group`.
        """
        if place not in self._decoders:
            (schema_id, indexes) = place
            schema = self._schema(schema_id)
            if isinstance(schema, str):
                raise Refused(schema)
            written = schema.type_at(indexes, self._reader.name)
            if self._records and written.name not in self._records:
                raise _LeftOut
            if type(written) is not type(self._reader):
                raise Refused(_OTHER_TYPE)
            if not self._records and not self._reader.takes(written):
                raise Refused(_OTHER_TYPE)
            self._decoders[place] = self._reader.decoder(written)
        return self._decoders[place]


def read_indexes(content: bytes, position: int) -> tuple[tuple[int, ...], int]:
    """Return the place of a message in its file, and the position after it.

    Raises:
        Refused: it is malformed.
    """
    try:
        count, position = long(content, position)
        if not count:
            return _FIRST, position
        if not 0 < count <= _DEEPEST:
            raise Refused("has malformed indexes of its message")
        indexes = []
        for _ in range(count):
            index, position = long(content, position)
            indexes.append(index)
    except IndexError:
        raise Refused(_TRUNCATED) from None
    return tuple(indexes), position


def used_schemas(columns: Iterable[pa.Array]) -> dict[int, tuple[int, ...]]:
    """Return the schema ids that values in the wire format use, the highest first, each with what
    would be the indexes of the message of its first value. Of more than 1,000 the highest.
    """
    schemas: dict[int, tuple[int, ...]] = {}
    for column in columns:
        for content in column.to_pylist():
            if content is None or len(content) < HEADER_BYTES or content[0] != 0:
                continue
            schema_id = int.from_bytes(content[1:HEADER_BYTES], "big", signed=True)
            if schema_id >= 0 and schema_id not in schemas:
                schemas[schema_id] = indexes_of(content)
    return {one: schemas[one] for one in sorted(schemas, reverse=True)[:_MOST_UNKNOWN]}


def indexes_of(content: bytes) -> tuple[int, ...]:
    """Return what would be the indexes of the message of a value, of Protobuf."""
    try:
        return read_indexes(content, HEADER_BYTES)[0]
    except Refused:
        return _FIRST
