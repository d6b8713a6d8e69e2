"""Topics whose values are of several schemas of a registry, and their tables."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro

from logwright.tables.topic import LocatedTable
from tests.log_builder import Pair
from tests.table_world import place, write_logs

ID = {"name": "id", "type": "int"}
NAME = {"name": "name", "type": ["null", "string"], "default": None}
LEVEL = {"name": "level", "type": "string", "default": "basic"}


def record(*fields: Mapping[str, Any], name: str = "Customer") -> dict[str, Any]:
    """An Avro schema."""
    return {"type": "record", "name": name, "namespace": "shop", "fields": list(fields)}


class Schemas:
    """A directory of Avro schemas, and values of them."""

    def __init__(self, base: Path) -> None:
        self._directory = base / "schemas"
        self._directory.mkdir(parents=True)
        self._known: dict[int, Any] = {}

    def add(self, schema_id: int, schema: Mapping[str, Any]) -> None:
        """Add a schema."""
        (self._directory / f"{schema_id}.avsc").write_text(json.dumps(schema))
        self._known[schema_id] = schema

    def value(self, schema_id: int, **content: object) -> bytes:
        """A value in the wire format of a registry."""
        out = io.BytesIO()
        schema = fastavro.parse_schema(dict(self._known[schema_id]))
        fastavro.schemaless_writer(out, schema, content)
        return b"\0" + struct.pack(">i", schema_id) + out.getvalue()

    def table(self, form: str, name: str = "table", **settings: object) -> LocatedTable:
        """A table whose values have these schemas."""
        value = {"format": "registry", "schemas": str(self._directory)}
        given = {"key": {"format": "string"}, "value": value, "buckets": 2, **settings}
        return place(form, self._directory.parent / name, **given)

    def logs(self, name: str, pairs: Sequence[Pair], other: Sequence[Pair] = ()) -> Path:
        """A log directory with these records in partition 0, and others in partition 1."""
        partitions = {0: pairs, 1: other} if other else {0: pairs}
        return write_logs(self._directory.parent / name, partitions, size=1)
