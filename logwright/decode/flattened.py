"""Flattened change events: the value is the row, as Debezium's ExtractNewRecordState makes it.

With ``delete.tombstone.handling.mode`` rewrite a field ``__deleted`` says ``"true"`` of a row that
was deleted, whose other fields may be missing, and ``"false"`` of any other one. Fields that
``add.fields`` adds are columns of their names, as ``__op``. Truncations are dropped by it, messages
pass with their envelope. Source: AbstractExtractRecordStrategy of debezium-core (3.3.1).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from logwright.config.json_fields import JsonField
from logwright.decode.json_fields import UnusableSchema
from logwright.decode.model import Part, PartDecoder
from logwright.decode.unavailable import Placeholder, without_placeholders

Flags = NDArray[np.bool_]

_DELETED: Final = "__deleted"
_FIELD: Final = JsonField(name=_DELETED, type="string")
_UNKNOWN: Final = f"field {_DELETED} is neither true nor false"


def with_deleted(fields: tuple[JsonField, ...]) -> tuple[JsonField, ...]:
    """Return the fields of a JSON row with that of its deletion."""
    return fields if any(field.name == _DELETED for field in fields) else (*fields, _FIELD)


class FlattenedDecoder:
    """Decodes flattened change events.

    Args:
        row: decodes the value to a struct.
        placeholder: of values that the source left out.
        deletions: decodes the field of the deletion alone, of values that are not whole rows; None:
            the row is always whole.

    Raises:
        UnusableSchema: the struct does not say which rows are deleted.
    """

    def __init__(
        self, row: PartDecoder, placeholder: Placeholder, *, deletions: PartDecoder | None = None
    ) -> None:
        self._row = row
        self._deletions = deletions
        self._placeholder = placeholder
        fields = list(row.type) if pa.types.is_struct(row.type) else []
        if not any(field.name == _DELETED for field in fields):
            raise UnusableSchema(f"is not that of a flattened event: it has no {_DELETED}")
        self._kept = [at for at, field in enumerate(fields) if field.name != _DELETED]
        self.type = pa.struct([fields[at].with_nullable(True) for at in self._kept])  # noqa: FBT003 - Arrow's

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        part = self._row.decode(column)
        reasons = dict(part.reasons)
        deleted, known = _flags(pc.struct_field(part.values, _DELETED))
        for row in np.flatnonzero(~known).tolist():
            reasons.setdefault(row, _UNKNOWN)
        for row in self._deletions_of(column, reasons):
            deleted[row] = True
            del reasons[row]
        gone = pa.array(np.arange(len(column)), mask=deleted)
        rows = part.values.take(gone).flatten()
        kept = pa.StructArray.from_arrays([rows[at] for at in self._kept], fields=list(self.type))
        fields, unavailable = without_placeholders(kept, self._placeholder)
        values = pa.StructArray.from_arrays(fields, fields=list(self.type))
        is_deleted = pc.or_(column.is_null(), pa.array(deleted))
        return Part(values, reasons, is_deleted, None, unavailable)

    def _deletions_of(self, column: pa.Array, reasons: dict[int, str]) -> list[int]:
        """Return the refused values that are deletions: of a row of which only the key is known."""
        if self._deletions is None or not reasons:
            return []
        rows = sorted(reasons)
        part = self._deletions.decode(column.take(pa.array(rows)))
        deleted, _ = _flags(pc.struct_field(part.values, _DELETED))
        return [row for at, row in enumerate(rows) if deleted[at] and at not in part.reasons]


def _flags(values: pa.Array) -> tuple[Flags, Flags]:
    """Return which rows are deleted, and of which that is known; null: it is not deleted."""
    if pa.types.is_boolean(values.type):
        texts = pc.if_else(values, "true", "false")
    elif pa.types.is_string(values.type):
        texts = values
    else:
        raise UnusableSchema(f"has a field {_DELETED} that is neither a string nor a boolean")
    deleted = pc.fill_null(pc.equal(texts, "true"), False)  # noqa: FBT003 - a value
    known = pc.fill_null(pc.is_in(texts, value_set=pa.array(["true", "false"])), True)  # noqa: FBT003
    known = pc.or_(known, texts.is_null())
    flags = [one.to_numpy(zero_copy_only=False).copy() for one in (deleted, known)]
    return flags[0], flags[1]
