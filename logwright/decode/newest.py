"""The newest schema that records have, of those that a registry's spec does not name.

Ids of a registry are global: a higher one is not always of a later schema. So only ids of one type
of record count: of the columns' type if there are columns, else of the highest id that is usable.
Of these the highest id is the newest schema. A record of a lower id that comes later, as after a
producer was rolled back, changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from logwright.config.decoding import DebeziumSpec, RegistrySpec
from logwright.config.spec import Spec, resolve
from logwright.decode.debezium import AFTER
from logwright.decode.json_fields import UnusableSchema
from logwright.decode.registry import HEADER_BYTES, RegistryDecoder, decoder_of, indexes_of
from logwright.decode.renames import renamed_fields
from logwright.decode.schema_sources import (
    SchemaDirectory,
    SchemaRegistry,
    SchemaSource,
    SchemaText,
)
from logwright.errors import PolicyError

_NONE: Final = -1
_DEFAULT: Final = "default"
_DOCS: Final = {"AVRO": frozenset({"doc"}), "JSON": frozenset({"description", "$comment"})}
"""Kind of schema → names of its documentation."""


def followed(spec: Spec) -> RegistrySpec | None:
    """Return the spec of a registry whose columns are those of the newest schema, as it does not
    name another; None if a spec is not one, and has none.
    """
    inner = spec.of if isinstance(spec, DebeziumSpec) else spec
    is_open = isinstance(inner, RegistrySpec) and inner.schema_id is None
    return inner if is_open and isinstance(inner, RegistrySpec) else None


def with_schema(spec: Spec, schema_id: int, message: str | None) -> Spec:
    """Return a spec of a registry, or of change events with one, with the schema of its columns."""
    update = {"schema_id": schema_id, "message": message}
    if isinstance(spec, DebeziumSpec):
        return spec.model_copy(update={"of": spec.of.model_copy(update=update)})
    return spec.model_copy(update=update)


def chosen(spec: Spec) -> tuple[int | None, str | None]:
    """Return the schema id of a spec of a registry, and the name of its message."""
    inner = spec.of if isinstance(spec, DebeziumSpec) else spec
    if isinstance(inner, RegistrySpec):
        return inner.schema_id, inner.message
    return None, None


def header_ids(column: pa.Array) -> NDArray[np.int64]:
    """Return the schema id of each value in the wire format; -1 of what is not in it.

    Args:
        column: of type binary.
    """
    heads = pc.binary_slice(column.cast(pa.binary()), 0, HEADER_BYTES)
    whole = pc.fill_null(pc.equal(pc.binary_length(heads), HEADER_BYTES), False)  # noqa: FBT003 - a value
    ids = np.full(len(column), _NONE, np.int64)
    rows = np.flatnonzero(whole.to_numpy(zero_copy_only=False))
    if not len(rows):
        return ids
    content = b"".join(heads.filter(whole).to_pylist())
    table = np.frombuffer(content, np.uint8).reshape(-1, HEADER_BYTES)
    numbers = np.ascontiguousarray(table[:, 1:]).view(">i4").ravel().astype(np.int64)
    ids[rows] = np.where((table[:, 0] == 0) & (numbers >= 0), numbers, _NONE)
    return ids


class Registry:
    """The schemas of a spec. Effects of its methods: they read schemas, and may start protoc.

    Args:
        spec: of a registry.
        base: the directory of the policies, for relative paths.

    Raises:
        PolicyError: its path leads out of the directory.
        SchemaUnavailable: it cannot be read, also of the methods.
    """

    def __init__(self, spec: RegistrySpec, base: Path) -> None:
        self._spec = spec
        self._source: SchemaSource
        if spec.url is not None:
            self._source = SchemaRegistry(spec.url)
            return
        try:
            self._source = SchemaDirectory(resolve(base, spec.schemas or ""))
        except ValueError as error:
            raise PolicyError(f"{spec.schemas} {error}.") from None

    def first(self, values: Mapping[int, bytes]) -> tuple[int, str | None] | None:
        """Return the highest of some schemas that is usable, and the name of its message; None if
        there is none.

        Args:
            values: schema id → its first value.
        """
        for schema_id in sorted(values, reverse=True):
            decoder = self._decoder(schema_id, values[schema_id])
            if decoder is not None:
                return schema_id, decoder.message
        return None

    def newest(
        self, values: Mapping[int, bytes], known: tuple[int, str | None]
    ) -> tuple[int, str | None] | None:
        """Return the newest schema of a type of record, if it is newer than the known one.

        Args:
            values: as of `first`.
            known: schema id and message of the columns.
        """
        (known_id, message) = known
        newer = sorted((one for one in values if one > known_id), reverse=True)
        if not newer:
            return None
        reader = self._decoder(known_id, values.get(known_id), message)
        for schema_id in newer:
            decoder = self._decoder(schema_id, values[schema_id], message)
            if decoder is not None and (
                reader is None or bool(self._spec.records) or decoder.takes(reader)
            ):
                return schema_id, decoder.message
        return None

    def is_same(self, before: int, after: int) -> bool:
        """Return whether two schemas differ in their documentation at most."""
        (old, new) = (self._source.get(each) for each in (before, after))
        return old is not None and new is not None and _without_docs(old) == _without_docs(new)

    def renamed(self, before: int, after: int, message: str | None) -> dict[str, str]:
        """Return the renamed fields of two schemas, see `renamed_fields`."""
        (old, new) = (self._source.get(one) for one in (before, after))
        if old is None or new is None:
            return {}
        try:
            return renamed_fields(old, new, message)
        except UnusableSchema:
            return {}

    def _decoder(
        self, schema_id: int, value: bytes | None, message: str | None = None
    ) -> RegistryDecoder | None:
        """Return the decoder of a schema, None if values of it are refused."""
        spec = self._spec
        if message is not None and not spec.records:
            spec = spec.model_copy(update={"message": message})
        try:
            return decoder_of(spec, self._source, schema_id, indexes_of(value or b""))
        except UnusableSchema:
            return None


def _without_docs(schema: SchemaText) -> tuple[object, ...]:
    """Return what of a schema makes a difference to its data; of Protobuf all."""
    parsed: object = schema.text
    names = _DOCS.get(schema.kind)
    if names is not None:
        try:
            parsed = _pruned(json.loads(schema.text), names)
        except (ValueError, RecursionError):
            parsed = schema.text
    return schema.kind, parsed, *sorted(schema.references.items())


def _pruned(value: Any, names: frozenset[str]) -> Any:
    """Return a JSON value without texts of these names: a property of that name is an object."""
    if isinstance(value, list):
        return [_pruned(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: each if name == _DEFAULT else _pruned(each, names)
        for name, each in value.items()
        if name not in names or not isinstance(each, str)
    }


def as_columns(renamed: Mapping[str, str], part: str, spec: Spec) -> Iterator[tuple[str, str]]:
    """Yield the renamed fields of keys or values as those of the columns that they are in.

    Args:
        part: ``key`` or ``value``.
        spec: of the part.
    """
    for earlier, name in renamed.items():
        if part == "key":
            yield f"key.{earlier}", name
        elif not isinstance(spec, DebeziumSpec):
            yield earlier, name
        elif earlier.startswith(f"{AFTER}."):
            yield earlier.removeprefix(f"{AFTER}."), name
