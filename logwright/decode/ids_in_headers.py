"""Schema ids in the headers of records, where newer clients of a schema registry may put them.

The header ``__key_schema_id`` or ``__value_schema_id`` has what is else before the datum (magic,
id or GUID, of Protobuf the indexes), and the key or value is the datum alone. Of several headers
the last one counts. Source: HeaderSchemaIdSerializer and DualSchemaIdDeserializer of Confluent's
schema registry.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_NAMES: Final = MappingProxyType({part: f"__{part}_schema_id" for part in ("key", "value")})
_LEAST_BYTES: Final = MappingProxyType({0: 5, 1: 17})
"""Magic → of a header with an id."""


def with_ids(batch: pa.RecordBatch, part: str) -> pa.Array:
    """Return the keys or values of a batch, type binary, each with what its header has before it.
    One with a malformed header becomes empty, which no registry writes.

    Args:
        batch: a column ``headers`` is optional.
        part: ``key`` or ``value``.
    """
    content = batch.column(part).cast(pa.binary())
    if "headers" not in batch.schema.names:
        return content
    headers = batch.column("headers")
    flat = pc.list_flatten(headers)
    places = pc.indices_nonzero(pc.equal(flat.field("key"), _NAMES[part]))
    if not len(places):
        return content
    rows = pc.list_parent_indices(headers).take(places).to_pylist()
    ids = flat.field("value").take(places).to_pylist()
    values = content.to_pylist()
    for row, before in dict(zip(rows, ids, strict=True)).items():
        if before is not None and values[row] is not None:
            is_whole = len(before) >= _LEAST_BYTES.get(before[0] if before else -1, len(before) + 1)
            values[row] = before + values[row] if is_whole else b""
    return pa.array(values, pa.binary())
