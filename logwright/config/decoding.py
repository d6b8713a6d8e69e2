"""How the keys and values of a topic are decoded, as its entry in the policies has it.

::

    table:
      key: string
      value: {format: json, schema: {id: long not null, name: string, address: {city: string}}}
      headers: [ce_id, ce_type]

A spec is a format's name, or a mapping with the name in ``format`` and the format's options. Types
of JSON have Spark's names. Paths are relative to the directory of the policies and stay inside it;
a path elsewhere must be absolute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    model_serializer,
    model_validator,
)

from logwright.config.json_fields import JsonField, read_fields
from logwright.config.marked import MAX_FILE_BYTES, Entries, Items, Marked, read_marked_text
from logwright.config.policy_checks import Checker
from logwright.config.spec import (
    FORMAT,
    FROZEN,
    DecoderSpec,
    Option,
    Spec,
    SpecPath,
    decoded_by,
    read_spec,
    with_paths,
)
from logwright.config.values import Int32, Int64, contradiction, plain_message
from logwright.errors import PolicyError

_ENVELOPES: Final = frozenset({"json", "avro", "registry"})
_PROTOBUF_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


def _url(text: str) -> str:
    try:
        parts = urlsplit(text)
        known = parts.scheme in {"http", "https"} and parts.hostname
    except ValueError:
        known = None
    if not known:
        raise ValueError("must be an http:// or https:// address")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("must have neither a password, which belongs in ~/.netrc, nor a query")
    return text.rstrip("/")


def _message(text: str) -> str:
    if not _PROTOBUF_NAME.fullmatch(text):
        raise ValueError("not the name of a message")
    return text


MessageName = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_message)]
"""The name of a message of Protobuf, with its package."""


@decoded_by("logwright.decode.scalars")
class ScalarSpec(Spec):
    """One value without fields, as Kafka's serializers of the same names write it.

    Attributes:
        format: binary: the bytes as they are; string: UTF-8; int, long, double: 4, 8, 8 bytes, big
            end first; uuid: 16 bytes, or the 36 characters of its text.
    """

    format: Literal["binary", "string", "int", "long", "double", "uuid"] = "binary"


@decoded_by("logwright.decode.json_objects")
class JsonSpec(Spec):
    """A JSON object in UTF-8 (RFC 8259).

    Attributes:
        fields: its fields; None: inferred from the first records.
    """

    options: ClassVar[Mapping[str, Option]] = MappingProxyType(
        {"schema": Option("fields", read_fields)}
    )
    format: Literal["json"] = "json"
    fields: tuple[JsonField, ...] | None = None


@decoded_by("logwright.decode.avro")
class AvroSpec(Spec):
    """One datum in Avro's binary encoding, without a header.

    Attributes:
        schema_file: an ``.avsc`` file, with all named types.
    """

    format: Literal["avro"] = "avro"
    schema_file: SpecPath


@decoded_by("logwright.decode.protobuf")
class ProtobufSpec(Spec):
    """One message of Protobuf, without a header.

    Attributes:
        schema_file: a ``.proto`` file; its imports are in the same directory or Google's own.
        message: the message's name, with its package.
    """

    format: Literal["protobuf"] = "protobuf"
    schema_file: SpecPath
    message: MessageName


@decoded_by("logwright.decode.registry")
class RegistrySpec(Spec):
    """The wire format of Confluent's schema registry: a zero byte, the schema's id (int32), the
    datum; or the datum alone, with the rest in a header. Exactly one of schemas and url is set.

    Attributes:
        schemas: a directory with a file for each id: ``7.avsc``, ``9.proto`` or ``11.json``, and
            files that these refer to.
        url: of a registry; ``GET /schemas/ids/{id}``.
        schema_id: the id of the schema that the columns are made of; records of other ids are
            converted to it. None: the highest id that the first records use.
        message: the name of Protobuf's message that the columns are made of. None: that of the
            first record with this id, or the first message of the schema.
        records: names of the types of records that the columns have: Avro's and Protobuf's full
            names, JSON Schema's titles; several of them are one type. Records of other types are
            left out. Without names there is one type, and records of others are refused.
    """

    format: Literal["registry"] = "registry"
    schemas: SpecPath | None = None
    url: Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_url)] | None = None
    schema_id: Annotated[Int32, Field(ge=0)] | None = None
    message: MessageName | None = None
    records: tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...] = ()

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.schemas is None) == (self.url is None):
            raise contradiction("exactly one of schemas and url is required", "url", "schemas")
        return self


UNAVAILABLE: Final = "__debezium_unavailable_value"
"""The default of the connectors' setting ``unavailable.value.placeholder``."""


@decoded_by("logwright.decode.debezium")
class DebeziumSpec(Spec):
    """A change event of Debezium: op, before, after, ts_ms, source. The columns are those of
    ``after``, and `_op`, `_source_time`; of a flattened event those of the row.

    Attributes:
        of: how the envelope is encoded. The fields of a JSON spec are those of the row.
        flattened: the value is the row itself, as ExtractNewRecordState makes it; a field
            ``__deleted`` says whether it was deleted.
        documents: ``after`` is a text, the document of a MongoDB collection as JSON, which is the
            column ``document``.
        truncate: what a truncation does: it is refused, or deletes all rows of earlier records;
            the latter only of topics with one partition.
        unavailable: the placeholder of values that the source left out.
    """

    use = "value"
    options: ClassVar[Mapping[str, Option]] = MappingProxyType(
        {"of": Option("of", lambda checker, node: read_spec(checker, node, _ENVELOPES))}
    )
    format: Literal["debezium"] = "debezium"
    of: JsonSpec | AvroSpec | RegistrySpec = Field(default_factory=JsonSpec, discriminator="format")
    flattened: bool = False
    documents: bool = False
    truncate: Literal["refuse", "delete"] = "refuse"
    unavailable: Annotated[str, Field(min_length=1, max_length=1000)] = UNAVAILABLE

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is as it always was: tables know their spec by its JSON."""
        given: dict[str, Any] = serialize(self)
        return {
            name: value
            for name, value in given.items()
            if name in {"format", "of"} or value != type(self).model_fields[name].default
        }

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if self.flattened and self.documents:
            raise contradiction("flattened events have no documents", "documents", "flattened")
        if self.flattened and self.truncate == "delete":
            rule = "ExtractNewRecordState drops truncations"
            raise contradiction(rule, "truncate", "flattened")
        return self


_INNER: Final = frozenset(
    {"binary", "string", "int", "long", "double", "uuid", "json", "avro", "protobuf", "registry"}
)


def _inner(checker: Checker, node: Marked) -> Spec | None:
    return read_spec(checker, node, _INNER)


def _is_inner(spec: Spec) -> Spec:
    if spec.format not in _INNER:
        raise ValueError(f"must have a format of {', '.join(sorted(_INNER))}")
    return spec


InnerSpec = Annotated[DecoderSpec, AfterValidator(_is_inner)]
"""A spec of a value that another one has around it."""


@decoded_by("logwright.decode.streams")
class TimestampedSpec(Spec):
    """A value with its timestamp before it, as Kafka Streams' ValueAndTimestampSerde writes it: 8
    bytes of ms since the epoch, and the value.

    Attributes:
        of: how the value is encoded.
    """

    use = "value"
    options: ClassVar[Mapping[str, Option]] = MappingProxyType({"of": Option("of", _inner)})
    format: Literal["timestamped"] = "timestamped"
    of: InnerSpec = Field(default_factory=ScalarSpec)


@decoded_by("logwright.decode.streams")
class WindowedSpec(Spec):
    """A key of Kafka Streams with its window after it.

    Attributes:
        of: how the key is encoded.
        size_ms: of the windows, which the bytes do not have: the key is that of a time window;
            None: its end is not known.
        session: the window is one of a session: 8 bytes of its end, 8 of its start.
        store: the topic is the changelog of a window store: a number of 4 bytes is at the end.
    """

    options: ClassVar[Mapping[str, Option]] = MappingProxyType({"of": Option("of", _inner)})
    format: Literal["windowed"] = "windowed"
    of: InnerSpec = Field(default_factory=ScalarSpec)
    size_ms: Annotated[Int64, Field(gt=0)] | None = None
    session: bool = False
    store: bool = False

    @model_validator(mode="after")
    def _is_of_one_kind(self) -> Self:
        if self.session and self.size_ms is not None:
            raise contradiction("windows of sessions have no size", "size_ms", "session")
        if self.session and self.store:
            raise contradiction("windows of sessions have no number", "store", "session")
        return self


@decoded_by("logwright.decode.mirror")
class MirrorSpec(Spec):
    """The keys and values of MirrorMaker's own topics: offset syncs, checkpoints, heartbeats. Which
    of them is known by the topic's name.
    """

    format: Literal["mirror-maker"] = "mirror-maker"


@decoded_by("logwright.decode.internal")
class InternalSpec(Spec):
    """The records of Kafka's internal topics ``__consumer_offsets``, ``__transaction_state`` and
    ``__share_group_state``; for key and value together.
    """

    use = "together"
    format: Literal["kafka-internal"] = "kafka-internal"


HeaderName = Annotated[str, Field(min_length=1, max_length=1000)]
"""The name of a header of records."""
_NOT_IN_COLUMNS: Final = re.compile(r"\W")


class Decoding(BaseModel):
    """How the records of a topic are decoded.

    Attributes:
        headers: names of headers that are columns, each once.
    """

    model_config = FROZEN
    key: DecoderSpec = Field(default_factory=ScalarSpec)
    value: DecoderSpec = Field(default_factory=ScalarSpec)
    headers: tuple[HeaderName, ...] = ()

    @property
    def header_columns(self) -> tuple[str, ...]:
        """The column of each header: its name, with ``_`` for what is neither letter nor digit. A
        later one that another has, in any case of the letters, gets a suffix ``_2``, ``_3`` ….
        """
        columns: dict[str, str] = {}
        for name in self.headers:
            stem = column = f"header_{_NOT_IN_COLUMNS.sub('_', name)}"
            number = 1
            while column.casefold() in columns:
                number += 1
                column = f"{stem}_{number}"
            columns[column.casefold()] = column
        return tuple(columns.values())

    @model_serializer(mode="wrap")
    def _without_default(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out headers if there are none: tables know their decoding by its JSON."""
        given: dict[str, Any] = serialize(self)
        return given if self.headers else {part: given[part] for part in ("key", "value")}

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if len(set(self.headers)) < len(self.headers):
            raise contradiction("must be different names", "headers")
        if self.headers and "together" in {self.key.use, self.value.use}:
            rule = f"headers are not for the format {self.value.format}"
            raise contradiction(rule, "headers", "value")
        if self.key.use == "value":
            raise contradiction(f"the format {self.key.format} is for values", "key")
        for spec in (self.key, self.value):
            if spec.use == "together" and self.key.format != self.value.format:
                rule = f"the format {spec.format} is for key and value together"
                raise contradiction(rule, "value", "key")
        return self


_INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)


def default_decoding(topic: str) -> Decoding:
    """Return how a topic without specs is decoded: `InternalSpec` for Kafka's internal topics whose
    records are known, else as bytes.
    """
    return with_value(InternalSpec() if topic in _INTERNAL_TOPICS else ScalarSpec())


def with_value(spec: Spec) -> Decoding:
    """Return the decoding of a value whose key is decoded with it, or else is bytes."""
    return Decoding(key=spec if spec.use == "together" else ScalarSpec(), value=spec)


_STRING: Final = ScalarSpec(format="string")
_HEADER_NAME: Final = TypeAdapter[str](HeaderName)

DECODING_KEYS: Final = frozenset({"key", "value", "headers"})
"""The keys of a mapping that `read_decoding` reads."""


def read_decoding(checker: Checker, node: Entries) -> Decoding | None:
    """Return the decoding of a mapping's ``key``, ``value`` and ``headers``, None if it is not
    valid; the problems are reported to the checker. Effects: looks whether the files are there.
    """
    given = {name: value for name, (_, value) in node.entries.items() if name in DECODING_KEYS}
    parts: dict[str, Any] = {
        name: _header_names(checker, value) if name == "headers" else read_spec(checker, value)
        for name, value in given.items()
    }
    if None in parts.values() or not node.whole:
        return None
    try:
        return Decoding(**parts)
    except ValidationError as error:
        for broken in error.errors(include_url=False):
            at = next(value for name, value in given.items() if name in broken["ctx"]["names"])
            checker.report(at, plain_message(broken), value=False)
    return None


def _header_names(checker: Checker, node: Marked) -> tuple[str, ...] | None:
    """Return the names of headers in a list, None if it is not valid, which is reported."""
    names = [checker.scalar(_HEADER_NAME, item) for item in checker.items(node)]
    known = tuple(name for name in names if name is not None)
    return known if isinstance(node, Items) and len(known) == len(names) else None


def decoding_of(text: str, base: Path) -> Decoding:
    """Return the decoding of the SPEC of ``dump --decode``: YAML of a mapping of key, value and
    headers, or of a value's spec, with which keys are bytes; `string` alone is of keys, too.
    Effects: as `_read`.

    Args:
        text: such as ``json`` or ``{key: string, value: {format: avro, schema_file: v.avsc}}``, or
            ``@FILE`` with it.
        base: the directory of relative paths; those of a file are relative to its directory.

    Raises:
        PolicyError: it is not valid.
    """
    checker, node, base = _read(text, base, "--decode")
    decoding = None
    if isinstance(node, Entries) and FORMAT not in node.entries:
        for name in node.entries.keys() - DECODING_KEYS:
            checker.unknown(node, name, DECODING_KEYS)
        decoding = read_decoding(checker, node)
    elif node is not None and (spec := read_spec(checker, node)) is not None:
        decoding = Decoding(key=spec, value=spec) if spec == _STRING else with_value(spec)
    if decoding is None or checker.problems:
        raise _invalid("--decode", checker)
    parts = {"key": decoding.key, "value": decoding.value}
    return decoding.model_copy(
        update={part: with_paths(spec, base) for part, spec in parts.items()}
    )


def spec_of(text: str, base: Path, *, option: str) -> Spec:
    """Return the spec of an option for keys or values alone. Effects, arguments and errors: as
    `decoding_of`.

    Args:
        option: its name, for messages.
    """
    checker, node, base = _read(text, base, option)
    spec = None if node is None else read_spec(checker, node)
    if spec is None or checker.problems:
        raise _invalid(option, checker)
    return with_paths(spec, base)


def _read(text: str, base: Path, option: str) -> tuple[Checker, Marked | None, Path]:
    """Return a checker with the problems of a SPEC, its YAML, and the directory of its paths.
    Effects: reads the file of ``@FILE``; whoever reads the specs looks whether theirs are there.

    Raises:
        PolicyError: the file cannot be read.
    """
    path = base / option
    if text.startswith("@"):
        path = (base / text[1:]).absolute()
        try:
            with path.open("rb") as file:
                text = file.read(MAX_FILE_BYTES).decode()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "is not UTF-8"
            raise PolicyError(f"{option}: the file cannot be read: {reason}.", path=path) from None
        text = "\n" + indent(text, " ")
    document, problems = read_marked_text(f"decode: {text}", path)
    checker = Checker()
    checker.problems += problems
    (_, node) = document.entries.get("decode", (None, None))
    return checker, node, path.parent


def _invalid(option: str, checker: Checker) -> PolicyError:
    sentences = [str(one).removeprefix(f"{one.mark}: ") for one in checker.problems]
    lines = "; ".join(one.removeprefix("decode.").removeprefix("decode: ") for one in sentences)
    return PolicyError(f"{option} is invalid: {lines or 'needs a spec'}.")
