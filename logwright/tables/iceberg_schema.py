"""Change the schema of an Iceberg table, with the commit that replaces all of its files.

A column keeps its field id where Iceberg lets its type evolve (specification, "Schema Evolution").
Any other one is removed and added with another id: earlier snapshots show null for it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import ResolveError
from pyiceberg.schema import Schema, promote
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType

from logwright.tables.model import OtherForm

_FORMAT_VERSION: Final = 2


def change_schema(change: Transaction, wanted: pa.Schema) -> None:
    """Give a table these columns. Effects: adds the change to the transaction.

    Args:
        change: the transaction of the commit.
        wanted: the columns.

    Raises:
        OtherForm: a column would go by which another program has ordered or identified the rows.
    """
    known = {field.name: field for field in change.table_metadata.schema().fields}
    after = Catalog._convert_schema_if_needed(wanted, format_version=_FORMAT_VERSION)  # noqa: SLF001 - as `create_table` does
    fields = {field.name: field for field in after.fields}
    gone = [
        name
        for name, field in known.items()
        if name not in fields or not _evolves(field, fields[name])
    ]
    _require_unused(change.table_metadata, gone)
    if gone:
        with change.update_schema(allow_incompatible_changes=True) as update:
            for name in gone:
                update.delete_column((name,))
    with change.update_schema(allow_incompatible_changes=True) as update:
        update.union_by_name(after)


def _require_unused(table: TableMetadata, gone: list[str]) -> None:
    """Require that no sort order and no identifier has one of these columns: a table cannot be read
    whose order names a column that is not there.
    """
    schema = table.schema()
    used = {*schema.identifier_field_ids, *(one.source_id for one in table.sort_order().fields)}
    needed = [name for name in gone if schema.find_field(name).field_id in used]
    if needed:
        raise OtherForm(
            f"the column {needed[0]} gets another type or goes, and another program has made it a"
            " sort order or an identifier of the table.",
            remedy="Remove that order or identifier, or remove the table; it is then made again"
            " from the log.",
        )


def other_columns(table: Table, snapshot: Snapshot) -> str | None:
    """Return why the rows of a snapshot are in doubt: it has other columns than the table, as after
    a rollback; None: it has the same.
    """
    written = None if snapshot.schema_id is None else table.schemas().get(snapshot.schema_id)
    if written is None or _without_docs(written) == _without_docs(table.schema()):
        return None
    return f"snapshot {snapshot.snapshot_id} has other columns than the table"


def _without_docs(schema: Schema) -> list[tuple[int, str, str, bool]]:
    return [
        (field.field_id, field.name, str(field.field_type), field.required)
        for field in schema.fields
    ]


def _evolves(before: NestedField, after: NestedField) -> bool:
    """Return whether Iceberg lets a field become another, and all of it is there then."""
    if after.required and not before.required:
        return False
    return _type_evolves(before.field_type, after.field_type)


def _type_evolves(before: IcebergType, after: IcebergType) -> bool:
    if isinstance(before, StructType) and isinstance(after, StructType):
        fields = {field.name: field for field in after.fields}
        return all(
            field.name in fields and _evolves(field, fields[field.name]) for field in before.fields
        )
    if isinstance(before, ListType) and isinstance(after, ListType):
        return _evolves(before.element_field, after.element_field)
    if isinstance(before, MapType) and isinstance(after, MapType):
        same_key = str(before.key_type) == str(after.key_type)
        return same_key and _evolves(before.value_field, after.value_field)
    if not (isinstance(before, PrimitiveType) and isinstance(after, PrimitiveType)):
        return False
    try:
        return before == after or promote(before, after) == after
    except ResolveError:
        return False
