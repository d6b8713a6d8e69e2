"""How the keys and values of a topic are decoded, as its entry in the policies has it.

::

    table:
      key: string
      value: {format: json, schema: {id: long not null, name: string, address: {city: string}}}

A spec is a format's name, or a mapping with the name in ``format`` and the format's options. Types
of JSON have Spark's names. Paths are relative to the directory of the policies and stay inside it;
a path elsewhere must be absolute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from logwright.config.json_fields import JsonField, read_fields
from logwright.config.marked import Entries, Marked, Text, read_marked_text
from logwright.config.policy_checks import Checker
from logwright.config.values import Int32, contradiction
from logwright.errors import PolicyError

_FROZEN: Final = ConfigDict(frozen=True, extra="forbid")
_PROTOBUF_NAME: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


def _path(text: str) -> str:
    if "\0" in text:
        raise ValueError("not a path")
    if ".." in PurePosixPath(text).parts:
        raise ValueError("must stay inside the directory of the policies, or be an absolute path")
    return text


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


SpecPath = Annotated[str, Field(min_length=1, max_length=4096), AfterValidator(_path)]
"""A path relative to the directory of the policies, or absolute."""

MessageName = Annotated[str, Field(min_length=1, max_length=1000), AfterValidator(_message)]
"""The name of a message of Protobuf, with its package."""


class ScalarSpec(BaseModel):
    """One value without fields, as Kafka's serializers of the same names write it.

    Attributes:
        format: binary: the bytes as they are; string: UTF-8; int, long, double: 4, 8, 8 bytes, big
            end first; uuid: 16 bytes, or the 36 characters of its text.
    """

    model_config = _FROZEN
    format: Literal["binary", "string", "int", "long", "double", "uuid"] = "binary"


class JsonSpec(BaseModel):
    """A JSON object in UTF-8 (RFC 8259).

    Attributes:
        fields: its fields; None: inferred from the first records.
    """

    model_config = _FROZEN
    format: Literal["json"] = "json"
    fields: tuple[JsonField, ...] | None = None


class AvroSpec(BaseModel):
    """One datum in Avro's binary encoding, without a header.

    Attributes:
        schema_file: an ``.avsc`` file, with all named types.
    """

    model_config = _FROZEN
    format: Literal["avro"] = "avro"
    schema_file: SpecPath


class ProtobufSpec(BaseModel):
    """One message of Protobuf, without a header.

    Attributes:
        schema_file: a ``.proto`` file; its imports are in the same directory or Google's own.
        message: the message's name, with its package.
    """

    model_config = _FROZEN
    format: Literal["protobuf"] = "protobuf"
    schema_file: SpecPath
    message: MessageName


class RegistrySpec(BaseModel):
    """The wire format of Confluent's schema registry: a zero byte, the schema's id (int32), the
    datum. Exactly one of schemas and url is set.

    Attributes:
        schemas: a directory with a file for each id: ``7.avsc``, ``9.proto`` or ``11.json``.
        url: of a registry; ``GET /schemas/ids/{id}``.
        schema_id: the id of the schema that the columns are made of; records of other ids are
            converted to it. None: the highest id that the first records use.
        message: the name of Protobuf's message that the columns are made of. None: that of the
            first record with this id, or the first message of the schema.
    """

    model_config = _FROZEN
    format: Literal["registry"] = "registry"
    schemas: SpecPath | None = None
    url: Annotated[str, Field(min_length=1, max_length=2000), AfterValidator(_url)] | None = None
    schema_id: Annotated[Int32, Field(ge=0)] | None = None
    message: MessageName | None = None

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.schemas is None) == (self.url is None):
            raise contradiction("exactly one of schemas and url is required", "url", "schemas")
        return self


class InternalSpec(BaseModel):
    """The records of Kafka's internal topics ``__consumer_offsets``, ``__transaction_state`` and
    ``__share_group_state``; for key and value together.
    """

    model_config = _FROZEN
    format: Literal["kafka-internal"] = "kafka-internal"


class DebeziumSpec(BaseModel):
    """A change event of Debezium: op, before, after, ts_ms, source. The columns are those of
    ``after``, and `_op`, `_source_time`.

    Attributes:
        of: how the envelope is encoded. The fields of a JSON spec are those of the row.
    """

    model_config = _FROZEN
    format: Literal["debezium"] = "debezium"
    of: JsonSpec | AvroSpec | RegistrySpec = Field(default_factory=JsonSpec, discriminator="format")


DecoderSpec = Annotated[
    ScalarSpec | JsonSpec | AvroSpec | ProtobufSpec | RegistrySpec | DebeziumSpec | InternalSpec,
    Field(discriminator="format"),
]


class Decoding(BaseModel):
    """How the records of a topic are decoded."""

    model_config = _FROZEN
    key: DecoderSpec = Field(default_factory=ScalarSpec)
    value: DecoderSpec = Field(default_factory=ScalarSpec)

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if isinstance(self.key, DebeziumSpec):
            raise contradiction("the format debezium is for values", "key")
        if isinstance(self.key, InternalSpec) != isinstance(self.value, InternalSpec):
            raise contradiction(
                "the format kafka-internal is for key and value together", "value", "key"
            )
        return self


_INTERNAL_TOPICS: Final = frozenset(
    {"__consumer_offsets", "__transaction_state", "__share_group_state"}
)


def default_decoding(topic: str) -> Decoding:
    """Return how a topic without specs is decoded: `InternalSpec` for Kafka's internal topics whose
    records are known, else as bytes.
    """
    spec = InternalSpec() if topic in _INTERNAL_TOPICS else ScalarSpec()
    return Decoding(key=spec, value=spec)


_SCALARS: Final = ("binary", "string", "int", "long", "double", "uuid")
_MODELS: Final[Mapping[str, type[BaseModel]]] = MappingProxyType(
    {
        **dict.fromkeys(_SCALARS, ScalarSpec),
        "json": JsonSpec,
        "avro": AvroSpec,
        "protobuf": ProtobufSpec,
        "registry": RegistrySpec,
        "debezium": DebeziumSpec,
        "kafka-internal": InternalSpec,
    }
)
FORMATS: Final = frozenset(_MODELS)
_ENVELOPES: Final = frozenset({"json", "avro", "registry"})
_FORMAT: Final = "format"
DECODING_KEYS: Final = frozenset({"key", "value"})
"""The keys of a mapping that `read_decoding` reads."""


def read_decoding(checker: Checker, node: Entries) -> Decoding | None:
    """Return the decoding of a mapping's ``key`` and ``value``, None if it is not valid; the
    problems are reported to the checker. Effects: looks whether the files are there.
    """
    given = {name: one for name, one in node.entries.items() if name in DECODING_KEYS}
    specs = {name: read_spec(checker, value) for name, (_, value) in given.items()}
    known = {name: spec for name, spec in specs.items() if spec is not None}
    if len(known) < len(specs) or not node.whole:
        return None
    key, value = known.get("key"), known.get("value")
    if isinstance(key, DebeziumSpec):
        checker.report(given["key"][1], "the format debezium is for values", value=False)
        return None
    if isinstance(key, InternalSpec) != isinstance(value, InternalSpec):
        at = next(node for _, node in given.values())
        rule = "the format kafka-internal is for key and value together"
        checker.report(at, rule, value=False)
        return None
    return Decoding(key=key or ScalarSpec(), value=value or ScalarSpec())


def decoding_of(text: str, base: Path) -> Decoding:
    """Return the decoding of a text of the command line: YAML of a value's spec, or of a mapping of
    key and value. Effects: looks whether the files are there.

    Args:
        text: such as ``json`` or ``{key: string, value: {format: avro, schema_file: v.avsc}}``.
        base: the directory of relative paths.

    Raises:
        PolicyError: it is not valid.
    """
    document, problems = read_marked_text(f"decode: {text}", base / "--decode")
    checker = Checker()
    checker.problems += problems
    (_, node) = document.entries.get("decode", (None, None))
    decoding = None
    if isinstance(node, Entries) and _FORMAT not in node.entries:
        for name in node.entries.keys() - DECODING_KEYS:
            checker.unknown(node, name, DECODING_KEYS)
        decoding = read_decoding(checker, node)
    elif node is not None and (spec := read_spec(checker, node)) is not None:
        internal = isinstance(spec, InternalSpec)
        decoding = Decoding(key=spec if internal else ScalarSpec(), value=spec)
    if decoding is None or checker.problems:
        said = [str(one).removeprefix(f"{one.mark}: ") for one in checker.problems]
        lines = "; ".join(one.removeprefix("decode.").removeprefix("decode: ") for one in said)
        raise PolicyError(f"--decode is invalid: {lines or 'needs a spec'}.")
    return decoding


def read_spec(
    checker: Checker, node: Marked, formats: frozenset[str] = FORMATS
) -> DecoderSpec | None:
    """Return the spec of a word or mapping, None if it is not valid; the problems are reported to
    the checker. Effects: looks whether the files are there.
    """
    if isinstance(node, Text):
        node = Entries(node.mark, {_FORMAT: (node.mark, node)}, node.setting)
    node = checker.mapping(node)
    if not node.whole:
        return None
    (_, named) = node.entries.get(_FORMAT, (None, None))
    if named is None:
        checker.report(node, "is required", setting=node.path_of(_FORMAT), value=False)
        return None
    if not isinstance(named, Text) or named.text not in formats:
        checker.report(named, f"must be one of {', '.join(sorted(formats))}")
        return None
    model = _MODELS[named.text]
    parts: dict[str, object] = {}
    if model is JsonSpec and "schema" in node.entries:
        parts["fields"] = read_fields(checker, node.entries["schema"][1])
        node = node.without("schema")
    elif model is DebeziumSpec and "of" in node.entries:
        parts["of"] = read_spec(checker, node.entries["of"][1], _ENVELOPES)
        node = node.without("of")
    spec = checker.model(model, node)
    has_files = _has_its_files(checker, node)
    if spec is None or None in parts.values() or not has_files:
        return None
    return spec.model_copy(update=parts)  # type: ignore[return-value]  # one of the union's models


def resolve(base: Path, path: str) -> Path:
    """Return the place of a path of a spec. Effects: reads links.

    Args:
        base: the directory of the policies.
        path: of the spec.

    Raises:
        ValueError: a relative path leads outside of it.
    """
    if PurePosixPath(path).is_absolute():
        return Path(path)
    found = (base / path).resolve()
    if not found.is_relative_to(base.resolve()):
        raise ValueError("must stay inside the directory of the policies, or be an absolute path")
    return found


def _has_its_files(checker: Checker, node: Entries) -> bool:
    """Return whether the files of a spec are there. Effects: looks for them."""
    found = True
    for name, kind in (("schema_file", "file"), ("schemas", "directory")):
        (_, value) = node.entries.get(name, (None, None))
        if not isinstance(value, Text) or value.text is None:
            continue
        try:
            place = resolve(node.mark.path.parent, value.text)
        except (OSError, RuntimeError):
            place, rule = None, "cannot be read"
        except ValueError as error:
            place, rule = None, str(error)
        if place is not None:
            rule = f"is not a {kind}"
            if place.is_file() if kind == "file" else place.is_dir():
                continue
        checker.report(value, rule)
        found = False
    return found
