"""What an Iceberg table asks of its writers, and whether logwright does it.

Iceberg's specification ("Partition Specs", "Sort Orders", "Column Projection") and its
documentation ("Configuration"): the format version, the partition spec, the name mapping and the
properties. A sort order and most properties are hints that a writer may leave alone. What logwright
does not know is refused by its name.
"""

from __future__ import annotations

import json
from typing import Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import ListType, MapType, NestedField, StructType

from logwright.tables.columns import BUCKET, PARTITION
from logwright.tables.iceberg_history import properties_of
from logwright.tables.model import PROGRESS_KEY, Asked

NAME_MAPPING: Final = "schema.name-mapping.default"
"""Property by which readers find columns in files without field ids."""
_FORMAT_VERSION: Final = 2
_OF_WRITERS: Final = ("write.", "commit.", "encryption.", "gc.", "schema.", "compatibility.")
"""The families of properties that writers look at. Those of readers, of the history, and of
engines, ask for nothing."""
_HINTS: Final = (
    "commit.",
    "compatibility.snapshot-id-inheritance.enabled",
    "write.avro.",
    "write.delete.avro.",
    "write.delete.distribution-mode",
    "write.delete.format.default",
    "write.delete.granularity",
    "write.delete.isolation-level",
    "write.delete.mode",
    "write.delete.orc.",
    "write.delete.parquet.",
    "write.delete.target-file-size-bytes",
    "write.distribution-mode",
    "write.format.default",
    "write.manifest-lists.enabled",
    "write.merge.",
    "write.metadata.compression-codec",
    "write.metadata.delete-after-commit.enabled",
    "write.metadata.metrics.",
    "write.metadata.previous-versions-max",
    "write.orc.",
    "write.parquet.",
    "write.spark.",
    "write.summary.partition-limit",
    "write.target-file-size-bytes",
    "write.update.",
    "write.upsert.enabled",
    "write.wap.enabled",
)
"""Properties, and beginnings of them, that say how to write, and not what readers may rely on."""
_OFF: Final = {
    "gc.enabled": "true",
    "write.object-storage.enabled": "false",
    "write.object-storage.partitioned-paths": None,
    "write.py-location-provider.impl": None,
}
"""Property → the value with which it asks for nothing; None: any, as another one switches it on."""
_REMOVE: Final = "or remove the table; it is then made again from the log."


def asked_of(table: Table) -> Asked | None:
    """Return what a table asks that logwright does not do; None: nothing."""
    version = table.format_version
    if version != _FORMAT_VERSION:
        return Asked(
            f"it has version {version} of the format, and logwright writes {_FORMAT_VERSION}.",
            "Remove the table; it is then made again from the log.",
        )
    if not is_ours(table.spec(), table.schema()):
        return Asked(
            "another program has partitioned it in another way.",
            f"Give it the partition fields {PARTITION} and {BUCKET} again, {_REMOVE}",
        )
    for name, value in sorted(table.properties.items()):
        demand = _asked_by(name, value)
        if demand is not None:
            return demand
    if not _maps_all(table):
        return Asked(
            f"another program has changed the property {NAME_MAPPING}, by which readers find the"
            " columns in logwright's files.",
            f"Set it as it was, {_REMOVE}",
        )
    return None


def changed_columns(table: Table) -> str | None:
    """Return which column another program has changed since logwright's newest commit, in any
    branch; None: none, or no snapshot of logwright is left.
    """
    ours = [one for one in table.snapshots() if PROGRESS_KEY in properties_of(one)]
    newest = max(ours, key=_number, default=None)
    schema = None if newest is None else table.schemas().get(newest.schema_id or 0)
    return None if schema is None else _other_field(schema, table.schema())


def _number(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0


def is_ours(spec: PartitionSpec, schema: Schema) -> bool:
    """Return whether files are partitioned by logwright's two columns as they are."""
    ids = {field.name: field.field_id for field in schema.fields}
    fields = [ids.get(PARTITION), ids.get(BUCKET)]
    return [one.source_id for one in spec.fields] == fields and all(
        isinstance(field.transform, IdentityTransform) for field in spec.fields
    )


def _asked_by(name: str, value: str) -> Asked | None:
    if not name.startswith(_OF_WRITERS) or name == NAME_MAPPING:
        return None
    if any(name == one or (one.endswith(".") and name.startswith(one)) for one in _HINTS):
        return None
    if name in _OFF and _OFF[name] in (None, value.strip().lower()):
        return None
    return Asked(
        f"its property {name[:60]} is set, which logwright does not follow.",
        f"Remove the property, {_REMOVE}",
    )


def _maps_all(table: Table) -> bool:
    """Return whether files whose columns have names and no field ids are read as they are meant:
    each column of the schema is found by its name, and no other has that name.
    """
    try:
        content = json.loads(table.properties.get(NAME_MAPPING, "[]"))
        return _names_all(table.schema().as_struct(), content)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


def _fields_of(kind: StructType | ListType | MapType) -> tuple[NestedField, ...]:
    match kind:
        case StructType():
            return kind.fields
        case ListType():
            return (kind.element_field,)
        case MapType():
            return kind.key_field, kind.value_field


def _names_all(kind: StructType | ListType | MapType, content: list[dict[str, object]]) -> bool:
    fields = {
        str(name): (field.get("field-id"), field.get("fields", []))
        for field in content
        for name in list(field["names"])  # type: ignore[call-overload] # what is not a list is refused
    }
    for field in _fields_of(kind):
        number, inner = fields.get(field.name, (None, []))
        if number != field.field_id:
            return False
        nested = field.field_type
        if isinstance(nested, StructType | ListType | MapType) and not _names_all(nested, inner):  # type: ignore[arg-type] # JSON
            return False
    return True


def _other_field(before: Schema, now: Schema) -> str | None:
    """Return the first column that is another one, or whose type is; docs and order do not count,
    nor that it may be null now.
    """
    known = {field.field_id: field for field in now.fields}
    for field in before.fields:
        if not _same(field, known.pop(field.field_id, None)):
            return field.name
    return next((field.name for field in known.values()), None)


def _same(before: NestedField, now: NestedField | None) -> bool:
    return (
        now is not None
        and before.name == now.name
        and _bare(before.field_type.model_dump()) == _bare(now.field_type.model_dump())
        and (before.required or not now.required)
    )


def _bare(content: object) -> object:
    """Return a type, as JSON has it, without docs."""
    if isinstance(content, dict):
        return {name: _bare(value) for name, value in content.items() if name != "doc"}
    return [_bare(one) for one in content] if isinstance(content, list | tuple) else content
