"""Change events of Debezium as rows: the record after the change, and what the change was.

Of the envelope ``op``, ``after`` and ``source.ts_ms`` are read. ``op`` is c (create), u (update), r
(read by a snapshot) or d (delete); a delete has no row. Source: Debezium's documentation of data
change events, the same for all its connectors.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logwright.config.decoding import DebeziumSpec, JsonSpec
from logwright.config.json_fields import STRUCT, JsonField
from logwright.decode.connect import ConnectDecoder
from logwright.decode.json_fields import UnusableSchema
from logwright.decode.json_objects import with_fields
from logwright.decode.leaves import FIRST_MS, LAST_MS, NOT_IN_YEARS
from logwright.decode.make import Made, Making
from logwright.decode.model import TIMESTAMP, Part, PartDecoder
from logwright.errors import PolicyError

AFTER: Final = "after"
_OP: Final = "op"
_SOURCE: Final = "source"
_SOURCE_MS: Final = "ts_ms"
_DELETE: Final = "d"
_ROWS: Final = ("c", "u", "r")
_MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")
_MICROSECONDS: Final = 1000
_COLUMNS: Final = (pa.field("_op", pa.string()), pa.field("_source_time", TIMESTAMP))


def make(spec: DebeziumSpec, making: Making) -> Made:
    """Return the decoder of a spec. Effects, errors: as `make_decoder`."""
    if isinstance(spec.of, JsonSpec):
        row = with_fields(spec.of, making, inside=AFTER)
        fields = envelope_fields(row.fields or ())
        envelope = Made(ConnectDecoder(fields, is_event=True), row)
    else:
        envelope = making.make(spec.of)
    try:
        decoder = DebeziumDecoder(envelope.decoder)
    except UnusableSchema as error:
        raise PolicyError(f"The schema of the {making.part} {error.problem}.") from None
    return Made(decoder, spec.model_copy(update={"of": envelope.spec}))


def envelope_fields(row: tuple[JsonField, ...]) -> tuple[JsonField, ...]:
    """Return the fields of a JSON envelope whose rows have these fields."""
    source = JsonField(name=_SOURCE_MS, type="long")
    return (
        JsonField(name=_OP, type="string", nullable=False),
        JsonField(name=AFTER, type=STRUCT, fields=row),
        JsonField(name=_SOURCE, type=STRUCT, fields=(source,)),
    )


class DebeziumDecoder:
    """Decodes change events.

    Args:
        envelope: decodes the envelope to a struct.

    Raises:
        UnusableSchema: the struct is not an envelope.
    """

    def __init__(self, envelope: PartDecoder) -> None:
        self._envelope = envelope
        names = _fields(envelope.type)
        after = names.get(AFTER)
        if after is None or not pa.types.is_struct(after.type) or _OP not in names:
            raise UnusableSchema("is not that of a change event: it has no op and after")
        self._has_time = _SOURCE_MS in _fields(names.get(_SOURCE, after).type)
        self._row = after.type
        self.type = pa.struct(
            [*_COLUMNS, *(pa.field(field.name, field.type) for field in self._row)]
        )

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        part = self._envelope.decode(column)
        envelope, reasons = part.values, dict(part.reasons)
        ops = pc.cast(pc.struct_field(envelope, _OP), pa.string())
        after = pc.struct_field(envelope, AFTER)
        is_delete = pc.fill_null(pc.equal(ops, _DELETE), False)  # noqa: FBT003 - a value
        has_row = pc.is_in(ops, value_set=pa.array(_ROWS))
        milliseconds = self._milliseconds(envelope)
        in_range = pc.and_(
            pc.greater_equal(milliseconds, FIRST_MS), pc.less_equal(milliseconds, LAST_MS)
        )
        faults = (
            (pc.or_(is_delete, has_row), "is not a change of a row: its op is none of c, u, r, d"),
            (pc.or_(is_delete, after.is_valid()), "is a change without the row after it"),
            (pc.fill_null(in_range, True), f"field source.ts_ms {NOT_IN_YEARS}"),  # noqa: FBT003 - a value
        )
        for holds, reason in faults:
            wrong = pc.and_(envelope.is_valid(), pc.invert(holds))
            for row in np.flatnonzero(wrong.to_numpy(zero_copy_only=False)).tolist():
                reasons.setdefault(row, reason)
        times = pc.multiply(pc.if_else(in_range, milliseconds, None), _MICROSECONDS)
        deletes = is_delete.to_numpy(zero_copy_only=False)
        kept = after.take(pa.array(np.arange(len(after)), mask=deletes))
        values = pa.StructArray.from_arrays(
            [ops, times.view(TIMESTAMP), *kept.flatten()], fields=list(self.type)
        )
        return Part(values, reasons, pc.or_(column.is_null(), is_delete))

    def _milliseconds(self, envelope: pa.Array) -> pa.Array:
        """Return the time of each change in its source, null if it is unknown."""
        if not self._has_time:
            return pa.nulls(len(envelope), pa.int64())
        times = pc.struct_field(envelope, [_SOURCE, _SOURCE_MS])
        return pc.cast(times, _MILLISECONDS).view(pa.int64())


def _fields(kind: pa.DataType) -> dict[str, pa.Field]:
    return {field.name: field for field in kind} if pa.types.is_struct(kind) else {}
