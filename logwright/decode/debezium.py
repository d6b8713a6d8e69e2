"""Change events of Debezium as rows: the record after the change, and what the change was.

Of the envelope ``op``, ``after`` and ``source.ts_ms`` are read. ``op`` is c (create), u (update), r
(read by a snapshot) or d (delete), which has no row; t (truncate) empties the table, and m is a
message of ``pg_logical_emit_message``, which is not of a row. Source: Debezium's documentation of
data change events, the same for all its connectors; io.debezium.data.Envelope.

A value that the source left out, since it has not changed, is null and marked
(`logwright.decode.unavailable`): only the record before has it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logwright.config.decoding import DebeziumSpec, JsonSpec
from logwright.config.json_fields import STRUCT, JsonField
from logwright.config.spec import Spec
from logwright.decode import documents, flattened
from logwright.decode.connect import ConnectDecoder
from logwright.decode.json_fields import UnusableSchema
from logwright.decode.json_objects import with_fields
from logwright.decode.leaves import FIRST_MS, LAST_MS, NOT_IN_YEARS
from logwright.decode.make import Made, Making
from logwright.decode.model import TIMESTAMP, KeylessPart, Part, PartDecoder
from logwright.decode.unavailable import Placeholder, without_placeholders
from logwright.errors import PolicyError

AFTER: Final = "after"
_OP: Final = "op"
_SOURCE: Final = "source"
_SOURCE_MS: Final = "ts_ms"
_DELETE: Final = "d"
_TRUNCATE: Final = "t"
_MESSAGE: Final = "m"
_STAYS: Final = (
    "is a truncation, and the rows before it stay: of a topic with one partition, set truncate:"
    " delete"
)
_ROWS: Final = ("c", "u", "r")
_MILLISECONDS: Final = pa.timestamp("ms", tz="UTC")
_MICROSECONDS: Final = 1000
_COLUMNS: Final = (pa.field("_op", pa.string()), pa.field("_source_time", TIMESTAMP))


def make(spec: DebeziumSpec, making: Making) -> Made:
    """Return the decoder of a spec. Effects, errors: as `make_decoder`."""
    try:
        decoder, of = _flattened(spec, making) if spec.flattened else _enveloped(spec, making)
    except UnusableSchema as error:
        raise PolicyError(f"The schema of the {making.part} {error.problem}.") from None
    return Made(decoder, spec.model_copy(update={"of": of}))


def _enveloped(spec: DebeziumSpec, making: Making) -> tuple[PartDecoder, Spec]:
    rows = None
    if isinstance(spec.of, JsonSpec) and spec.documents:
        of: Spec = spec.of
        envelope: PartDecoder = ConnectDecoder(envelope_fields(None), is_event=True)
        rows = documents.Rows(AFTER, spec.of.fields)
    elif isinstance(spec.of, JsonSpec):
        of = with_fields(spec.of, making, inside=AFTER)
        envelope = ConnectDecoder(envelope_fields(of.fields or ()), is_event=True)
    else:
        (envelope, of) = making.make(spec.of)
        rows = documents.Rows(AFTER, None) if spec.documents else None
    return DebeziumDecoder(envelope, spec, rows), of


def _flattened(spec: DebeziumSpec, making: Making) -> tuple[PartDecoder, Spec]:
    placeholder = Placeholder(spec.unavailable)
    if not isinstance(spec.of, JsonSpec):
        made = making.make(spec.of)
        return flattened.FlattenedDecoder(made.decoder, placeholder), made.spec
    of = with_fields(spec.of, making)
    fields = flattened.with_deleted(of.fields or ())
    return flattened.FlattenedDecoder(
        ConnectDecoder(fields, is_event=True),
        placeholder,
        deletions=ConnectDecoder(flattened.with_deleted(()), is_event=True),
    ), of


def envelope_fields(row: tuple[JsonField, ...] | None) -> tuple[JsonField, ...]:
    """Return the fields of a JSON envelope whose rows have these fields; None: are texts."""
    after = JsonField(name=AFTER, type="string")
    if row is not None:
        after = JsonField(name=AFTER, type=STRUCT, fields=row)
    source = JsonField(name=_SOURCE_MS, type="long")
    return (
        JsonField(name=_OP, type="string", nullable=False),
        after,
        JsonField(name=_SOURCE, type=STRUCT, fields=(source,)),
    )


class DebeziumDecoder:
    """Decodes change events.

    Args:
        envelope: decodes the envelope to a struct.
        spec: what truncations do, and the placeholder of values that were left out.
        rows: makes rows of the texts of ``after``; None: it has records.

    Raises:
        UnusableSchema: the struct is not an envelope.
    """

    def __init__(
        self, envelope: PartDecoder, spec: DebeziumSpec, rows: documents.Rows | None = None
    ) -> None:
        self._envelope = envelope
        self._truncates = spec.truncate == "delete"
        self._placeholder = Placeholder(spec.unavailable)
        names = _fields(envelope.type)
        after = names.get(AFTER)
        is_row = pa.types.is_struct if rows is None else pa.types.is_string
        if after is None or _OP not in names or not is_row(after.type):
            raise UnusableSchema("is not that of a change event: it has no op and after")
        self._has_time = _SOURCE_MS in _fields(names.get(_SOURCE, after).type)
        self._rows = rows
        row = after.type if rows is None else rows.type
        self.type = pa.struct([*_COLUMNS, *(pa.field(field.name, field.type) for field in row)])

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""
        part = self._envelope.decode(column)
        envelope, reasons = part.values, dict(part.reasons)
        ops = pc.cast(pc.struct_field(envelope, _OP), pa.string())
        after = pc.struct_field(envelope, AFTER)
        is_delete = _is(ops, _DELETE)
        is_message = _is(ops, _MESSAGE)
        if part.messages is not None:
            is_message = pc.or_(is_message, part.messages)
        has_no_row = pc.or_(is_delete, is_message)
        milliseconds = self._milliseconds(envelope)
        in_range = pc.and_(
            pc.greater_equal(milliseconds, FIRST_MS), pc.less_equal(milliseconds, LAST_MS)
        )
        has_row = pc.is_in(ops, value_set=pa.array(_ROWS))
        faults = (
            (pc.invert(_is(ops, _TRUNCATE)), "is a truncation with a key"),
            (pc.or_(has_no_row, has_row), "is not a change of a row: its op is none of c, u, r, d"),
            (pc.or_(has_no_row, after.is_valid()), "is a change without the row after it"),
            (pc.fill_null(in_range, True), f"field source.ts_ms {NOT_IN_YEARS}"),  # noqa: FBT003 - a value
        )
        for holds, reason in faults:
            wrong = pc.and_(envelope.is_valid(), pc.invert(holds))
            for row in np.flatnonzero(wrong.to_numpy(zero_copy_only=False)).tolist():
                reasons.setdefault(row, reason)
        times = pc.multiply(pc.if_else(in_range, milliseconds, None), _MICROSECONDS)
        gone = has_no_row.to_numpy(zero_copy_only=False)
        kept = after.take(pa.array(np.arange(len(after)), mask=gone))
        if self._rows is not None:
            kept = self._rows.decode(kept, reasons)
        fields, unavailable = without_placeholders(kept, self._placeholder)
        values = pa.StructArray.from_arrays(
            [ops, times.view(TIMESTAMP), *fields], fields=list(self.type)
        )
        deleted = pc.or_(column.is_null(), has_no_row)
        return Part(values, reasons, deleted, is_message, unavailable)

    def keyless(self, column: pa.Array) -> KeylessPart:
        """Decode the values of records without a key. That of a truncation never has one, nor has
        a change of a table without a primary key. Source: emitTruncateRecord of the connectors.
        """
        part = self._envelope.decode(column)
        ops = pc.cast(pc.struct_field(part.values, _OP), pa.string())
        reasons = dict(part.reasons)
        decoded = np.isin(np.arange(len(column)), list(reasons), invert=True)
        is_truncation, is_message = (
            _is(ops, op).to_numpy(zero_copy_only=False) & decoded for op in (_TRUNCATE, _MESSAGE)
        )
        truncations = np.flatnonzero(is_truncation).tolist()
        if not self._truncates:
            reasons.update(dict.fromkeys(truncations, _STAYS))
            truncations = []
        return KeylessPart(int(is_message.sum()), tuple(truncations), reasons)

    def _milliseconds(self, envelope: pa.Array) -> pa.Array:
        """Return the time of each change in its source, null if it is unknown."""
        if not self._has_time:
            return pa.nulls(len(envelope), pa.int64())
        times = pc.struct_field(envelope, [_SOURCE, _SOURCE_MS])
        return pc.cast(times, _MILLISECONDS).view(pa.int64())


def _is(ops: pa.Array, op: str) -> pa.Array:
    return pc.fill_null(pc.equal(ops, op), False)  # noqa: FBT003 - a value


def _fields(kind: pa.DataType) -> dict[str, pa.Field]:
    return {field.name: field for field in kind} if pa.types.is_struct(kind) else {}
