"""Decoded keys, values and headers as rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from logwright.config.decoding import Decoding, RegistrySpec
from logwright.config.spec import Spec
from logwright.decode.headers import of_headers
from logwright.decode.ids_in_headers import with_ids
from logwright.decode.model import (
    ORIGIN,
    REFUSED,
    Decoded,
    EventDecoder,
    Keyless,
    Part,
    PartDecoder,
)
from logwright.garbage import rare_collections

Flags = NDArray[np.bool_]

_KEY: Final = "key"
_VALUE: Final = "value"
_HEADERS: Final = "headers"
_PREFIX: Final = "value_"
_CHUNK_ROWS: Final = 8192
_CHUNK_BYTES: Final = 4 << 20
"""Rows and bytes that are decoded together: parsed values take many times the memory."""

RESERVED: Final = frozenset(
    {*(field.name for field in ORIGIN), _KEY, "_key", "bucket", "headers", "timestamptype"}
)
"""Names, in lower case, that a field of a value does not keep."""


class RowsDecoder:
    """Decodes keys, values and headers separately.

    A key is the column ``key``, a struct if it has fields. A value without fields is the column
    ``value``; of one with fields each is a column of its name, preceded by ``value_`` if another
    column has the name, in any case of its letters. Headers are the columns
    `Decoding.header_columns`, as text. A record that gives its key no row is not refused for them.
    """

    def __init__(self, *, key: PartDecoder, value: PartDecoder, decoding: Decoding) -> None:
        self._key = key
        self._value = value
        self.decoding = decoding
        headers = [pa.field(name, pa.string()) for name in decoding.header_columns]
        columns = value_columns(value.type, taken=decoding.header_columns)
        self._columns = [field.name for field in columns]
        self.schema = pa.schema([*ORIGIN, pa.field(_KEY, key.type), *columns, *headers])

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        """Decode a batch."""
        columns: dict[str, list[pa.Array]] = {name: [] for name in (_KEY, _VALUE, "deleted")}
        reasons: dict[str, dict[int, str]] = {_KEY: {}, _VALUE: {}}
        values: list[Part] = []
        for start, chunk in _chunks(batch):
            with rare_collections():
                key = self._key.decode(_content(chunk, _KEY, self.decoding.key))
                value = self._value.decode(_content(chunk, _VALUE, self.decoding.value))
            deleted = value.deleted
            if deleted is None:
                deleted = chunk.column(_VALUE).is_null()
            value = _without_left_out(key, value)
            left_out = value.messages
            if left_out is not None:
                deleted = pc.or_(deleted, pc.fill_null(left_out, False))  # noqa: FBT003 - a value
            values.append(value)
            columns["deleted"].append(deleted)
            for name, part in ((_KEY, key), (_VALUE, value)):
                columns[name].append(part.values)
                reasons[name].update(
                    {
                        start + row: why
                        for row, why in part.reasons.items()
                        if left_out is None or not left_out[row].as_py()
                    }
                )
        kinds = {_KEY: self._key.type, _VALUE: self._value.type, "deleted": pa.bool_()}
        arrays = {
            name: pa.concat_arrays([pa.array([], kinds[name]), *parts])
            for name, parts in columns.items()
        }
        headers = self._headers(batch, arrays["deleted"], reasons)
        return self._rows(batch, arrays | headers, reasons, values)

    def _headers(
        self, batch: pa.RecordBatch, deleted: pa.Array, reasons: dict[str, dict[int, str]]
    ) -> dict[str, pa.Array]:
        """Return the columns of headers; add why records are refused for them, the first reason of
        each.
        """
        wanted = pc.invert(pc.fill_null(deleted, False))  # noqa: FBT003 - a value
        parts = of_headers(batch, self.decoding.headers, wanted)
        reasons[_HEADERS] = {
            row: why for part in reversed(parts) for row, why in part.reasons.items()
        }
        columns = zip(self.decoding.header_columns, parts, strict=True)
        return {column: part.values for column, part in columns}

    @property
    def reads_keyless(self) -> bool:
        """Whether records without a key may say something."""
        return isinstance(self._value, EventDecoder)

    def keyless(self, batch: pa.RecordBatch) -> Keyless:
        """Return what records without a key say: those of most formats say nothing."""
        decoder = self._value
        if not isinstance(decoder, EventDecoder):
            return Keyless()
        messages = 0
        truncated: list[int] = []
        reasons: dict[str, dict[int, str]] = {_VALUE: {}}
        for start, chunk in _chunks(batch):
            with rare_collections():
                part = decoder.keyless(chunk.column(_VALUE).cast(pa.binary()))
            messages += part.messages
            truncated += [start + row for row in part.truncations]
            reasons[_VALUE].update({start + row: why for row, why in part.reasons.items()})
        origin = [batch.column(field.name).cast(field.type) for field in ORIGIN]
        return Keyless(
            messages=messages,
            truncations=tuple(
                batch.column("offset").take(pa.array(truncated, pa.int64())).to_pylist()
            ),
            refused=refused_rows(origin, reasons),
        )

    def _rows(
        self,
        batch: pa.RecordBatch,
        arrays: dict[str, pa.Array],
        reasons: dict[str, dict[int, str]],
        values: Sequence[Part],
    ) -> Decoded:
        origin = [batch.column(field.name).cast(field.type) for field in ORIGIN]
        bad = set().union(*reasons.values())
        kept = np.arange(batch.num_rows)
        if bad:
            kept = kept[~np.isin(kept, list(bad))]
            arrays = {name: one.take(pa.array(kept)) for name, one in arrays.items()}
        rows = [one.take(pa.array(kept)) for one in origin] if bad else origin
        headers = [arrays[name] for name in self.decoding.header_columns]
        columns = [*rows, arrays[_KEY], *_flattened(arrays[_VALUE]), *headers]
        messages = _joined([part.messages for part in values], values)
        return Decoded(
            rows=pa.RecordBatch.from_arrays(columns, schema=self.schema),
            positions=pa.array(kept),
            deleted=arrays["deleted"],
            refused=refused_rows(origin, reasons),
            messages=int(messages[kept].sum()),
            left_out=frozenset(np.flatnonzero(messages[kept]).tolist()),
            unavailable={
                column: pa.array(
                    _joined([part.unavailable.get(name) for part in values], values)[kept]
                )
                for name, column in self._named()
                if any(name in part.unavailable for part in values)
            },
        )

    def _named(self) -> list[tuple[str, str]]:
        """Return the name of each field of a value, and of its column."""
        kind = self._value.type
        names = [field.name for field in kind] if pa.types.is_struct(kind) else [_VALUE]
        return list(zip(names, self._columns, strict=True))


def _without_left_out(key: Part, value: Part) -> Part:
    """Return the values with what is left out by its key, too."""
    if key.messages is None or value.messages is None:
        return value._replace(messages=value.messages if key.messages is None else key.messages)
    return value._replace(messages=pc.or_(key.messages, value.messages))


def _joined(masks: Sequence[pa.Array | None], parts: Sequence[Part]) -> Flags:
    """Return the masks of some parts as one; None: of no record."""
    flags = [
        np.zeros(len(part.values), np.bool_)
        if mask is None
        else pc.fill_null(mask, False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - a value
        for mask, part in zip(masks, parts, strict=True)
    ]
    return np.concatenate([np.zeros(0, np.bool_), *flags])


def _content(chunk: pa.RecordBatch, part: str, spec: Spec) -> pa.Array:
    """Return what a part's decoder decodes: of a schema registry with the ids of the headers."""
    is_framed = isinstance(getattr(spec, "of", spec), RegistrySpec)
    return with_ids(chunk, part) if is_framed else chunk.column(part).cast(pa.binary())


def refused_rows(origin: list[pa.Array], reasons: dict[str, dict[int, str]]) -> pa.RecordBatch:
    """Return the refused records, by row; of each the headers first, then the key.

    Args:
        origin: the columns of `ORIGIN`, of the batch.
        reasons: part → row → reason.
    """
    refusals = sorted(
        (row, part, why) for part, rows in reasons.items() for row, why in rows.items()
    )
    rows = pa.array([row for row, _, _ in refusals], pa.int64())
    parts = pa.array([part for _, part, _ in refusals], pa.string())
    why = pa.array([reason for _, _, reason in refusals], pa.string())
    return pa.RecordBatch.from_arrays(
        [*(one.take(rows) for one in origin), parts, why], schema=REFUSED
    )


def value_columns(kind: pa.DataType, *, taken: Collection[str] = ()) -> list[pa.Field]:
    """Return the columns of values of a type, all nullable: a tombstone has none of them.

    Args:
        kind: of the values.
        taken: names of other columns, besides those of `RESERVED`.
    """
    if not pa.types.is_struct(kind):
        return [pa.field(_VALUE, kind)]
    taken = {*RESERVED, *(name.lower() for name in taken)}
    columns = []
    for field in kind:
        name = field.name
        while name.lower() in taken:
            name = f"{_PREFIX}{name}"
        taken.add(name.lower())
        columns.append(pa.field(name, field.type))
    return columns


def _flattened(values: pa.Array) -> list[pa.Array]:
    return values.flatten() if pa.types.is_struct(values.type) else [values]


def _chunks(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the number of the first row and the rows, of parts of a bounded size."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for name in (_KEY, _VALUE):
        lengths = pc.fill_null(pc.binary_length(batch.column(name)), 0)
        sizes += lengths.to_numpy(zero_copy_only=False)
    ends = np.cumsum(sizes)
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        fit = int(np.searchsorted(ends, before + _CHUNK_BYTES, side="right"))
        end = min(max(fit, start + 1), start + _CHUNK_ROWS, batch.num_rows)
        yield start, batch.slice(start, end - start)
        start = end
