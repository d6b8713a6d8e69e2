"""Which records have the same decoded key: as bytes that are equal if, and only if, two keys are.

A format may write one value in several ways: Avro and Protobuf with another schema or order of
fields, JSON with other white space. Kafka compares bytes, so a cleaner keeps the newest record of
each way, and each has a row, unless ``unique_by: decoded`` is set (`logwright.tables.heads`).

Numbers of floating point are equal if they are as numbers, and NaN equals NaN. A map has no order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logwright.records.schema import HEADERS, HEADERS_TYPE
from logwright.tables.columns import (
    KEY,
    OFFSET,
    PARTITION,
    TIMESTAMP,
    TIMESTAMP_TYPE,
    VALUE,
)

if TYPE_CHECKING:
    from logwright.decode.model import Decoded, Decoder

_ABSENT: Final = b"-"
_PRESENT: Final = b"+"
_UNKNOWN: Final = b"?"
"""Before the bytes of a key that cannot be decoded. No identity of another key begins so."""
_NONE: Final = pa.scalar(b"", pa.binary())


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyIdentity:
    """How keys are compared by their decoded values.

    Attributes:
        by_partition: keys of two partitions are never the same.
    """

    by_partition: bool

    def of_rows(self, keys: pa.Array, partition: int) -> pa.Array:
        """Return the identity of decoded keys: binary, of the same length, without nulls."""
        return self._placed(identities(keys), partition)

    def of_records(
        self, decoder: Decoder, batch: pa.RecordBatch, partition: int, decoded: Decoded
    ) -> pa.Array:
        """Return the identity of records' keys. That of a key that cannot be decoded is its bytes.

        Args:
            decoder: of the topic; a record whose value was refused is decoded again without it.
            batch: the records, `READ_COLUMNS`; their keys are not null.
            decoded: what became of them.
        """
        keys = batch[KEY].cast(pa.binary())
        known = [(decoded.positions, _of_rows(decoded, keys))]
        rest = np.setdiff1d(np.arange(len(batch)), decoded.positions.to_numpy())
        if len(rest):
            again = decoder.decode(without_values(batch.take(pa.array(rest))))
            positions = pa.array(rest).take(again.positions)
            known.append((positions, _of_rows(again, keys.take(pa.array(rest)))))
            rest = np.setdiff1d(rest, positions.to_numpy())
            known.append((pa.array(rest), _of_bytes(keys.take(pa.array(rest)))))
        order = np.argsort(np.concatenate([one.to_numpy() for one, _ in known]))
        whole = pa.concat_arrays([one.cast(pa.binary()) for _, one in known])
        return self._placed(whole.take(pa.array(order)), partition)

    def of_keys(self, decoder: Decoder, batch: pa.RecordBatch, partition: int) -> pa.Array:
        """Return the identity of records' keys, without a look at their values."""
        bare = without_values(batch)
        return self.of_records(decoder, bare, partition, decoder.decode(bare))

    def of_raw(self, decoder: Decoder, keys: pa.Array, partition: int) -> pa.Array:
        """Return the identity of keys as they are in the log. If a header has the id of a key's
        schema, the key cannot be decoded without it: its identity is its bytes.
        """
        count = len(keys)
        columns = {
            KEY: keys,
            VALUE: pa.nulls(count, pa.binary()),
            "topic": pa.array([""] * count, pa.string()),
            PARTITION: pa.array(np.full(count, partition, np.int32)),
            OFFSET: pa.array(np.zeros(count, np.int64)),
            TIMESTAMP: pa.array(np.zeros(count, np.int64)).cast(TIMESTAMP_TYPE),
            HEADERS: pa.nulls(count, HEADERS_TYPE),
        }
        return self.of_keys(decoder, pa.RecordBatch.from_pydict(columns), partition)

    def _placed(self, known: pa.Array, partition: int) -> pa.Array:
        if not self.by_partition:
            return known
        return pc.binary_join_element_wise(known, str(partition).encode(), b"@")


def without_values(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return records as tombstones: only their keys are decoded."""
    at = batch.schema.get_field_index(VALUE)
    values = batch.schema.field(at)
    return batch.set_column(at, values, pa.nulls(len(batch), values.type))


def _of_rows(decoded: Decoded, keys: pa.Array) -> pa.Array:
    """Return the identity of the keys of rows. A key of a type that the table does not have is left
    out, and not decoded.

    Args:
        decoded: has the rows; keys: of all records.
    """
    known = identities(decoded.rows[KEY])
    if not decoded.left_out:
        return known
    is_left_out = np.isin(np.arange(len(known)), list(decoded.left_out))
    bare = pc.and_(pa.array(is_left_out), decoded.rows[KEY].is_null())
    return pc.if_else(bare, _of_bytes(keys.take(decoded.positions)), known)


def _of_bytes(keys: pa.Array) -> pa.Array:
    """Return the identity of keys that are not decoded."""
    return pc.binary_join_element_wise(_UNKNOWN, keys, b"")


def identities(keys: pa.Array) -> pa.Array:
    """Return bytes that are equal if two decoded keys are: binary, of the same length, without
    nulls. Each part of a key has its length before it.
    """
    parts = list(_parts(keys))
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, b"")


def _parts(values: pa.Array) -> Iterator[pa.Array]:
    """Yield the parts of each value, binary without nulls: those of all fields of a record."""
    if pa.types.is_struct(values.type):
        valid = values.is_valid()
        yield pc.if_else(valid, pa.scalar(_PRESENT), pa.scalar(_ABSENT))
        for child in values.flatten():
            yield from _parts(child)
        return
    text = _bytes_of(values)
    length = pc.binary_length(text).cast(pa.string()).cast(pa.binary())
    part = pc.binary_join_element_wise(length, text, b":")
    yield pc.fill_null(part, pa.scalar(_ABSENT))


def _bytes_of(values: pa.Array) -> pa.Array:
    """Return single values as bytes, by which they can be compared; null for null."""
    kind = values.type
    if pa.types.is_fixed_size_binary(kind) or _is_bytes(kind):
        return values.cast(pa.binary())
    if pa.types.is_floating(kind):
        values = pc.add(values, pa.scalar(0, kind))  # 0.0 for -0.0
    elif pa.types.is_temporal(kind):
        values = values.cast(pa.int32() if kind.bit_width == pa.int32().bit_width else pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_decimal(kind) or kind == pa.bool_()):
        texts = [None if one is None else repr(one).encode() for one in _plain(values, kind)]
        return pa.array(texts, pa.binary())
    return values.cast(pa.string()).cast(pa.binary())


def _is_bytes(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
    )


def _plain(values: pa.Array, kind: pa.DataType) -> list[Any]:
    return [_sorted(one, kind) for one in values.to_pylist()]


def _sorted(value: Any, kind: pa.DataType) -> Any:  # noqa: ANN401 - a value of any type
    """Return a value of a nested type, with maps in one order."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, Mapping) else value
        return sorted((repr(key), _sorted(one, kind.item_type)) for key, one in pairs)
    if pa.types.is_struct(kind):
        return [_sorted(value[field.name], field.type) for field in kind]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [_sorted(one, kind.value_type) for one in value]
    return value + 0.0 if isinstance(value, float) else value
