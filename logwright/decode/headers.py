"""Headers of records as columns of text: of each name the last header. Pure.

Kafka's headers have a name and bytes. Debezium's outbox router writes text
(io.debezium.transforms.outbox), as CloudEvents do in their binary mode (Kafka protocol binding
1.0.2, section 3.2.3: attributes are UTF-8). Of several headers with a name the last one counts, as
`Headers.lastHeader` of Kafka's clients has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from logwright.decode.model import Part

_HEADERS = "headers"


def of_headers(batch: pa.RecordBatch, names: Sequence[str], wanted: pa.Array) -> list[Part]:
    """Return the headers of each name, type string: null where a record has none or a null one. A
    record is refused whose header is wanted and not UTF-8.

    Args:
        batch: a column ``headers`` of list[key: string, value: binary] is required with names.
        names: of headers.
        wanted: boolean, of length n, without nulls: of other records a header that is not UTF-8 is
            null.

    Raises:
        KeyError: the batch has no headers.
    """
    if not names:
        return []
    headers = batch.column(_HEADERS)
    flat, rows = pc.list_flatten(headers), pc.list_parent_indices(headers).to_numpy()
    keys, values = flat.field("key"), flat.field("value").cast(pa.binary())
    parts = []
    for name in names:
        places = np.flatnonzero(pc.equal(keys, name).to_numpy(zero_copy_only=False))
        last = np.full(len(batch), -1, np.int64)
        last[rows[places]] = places  # ascending: the last one of each row stays
        of_name = values.take(pa.array(last, mask=last < 0))
        parts.append(_texts(name, of_name, wanted))
    return parts


def _texts(name: str, values: pa.Array, wanted: pa.Array) -> Part:
    """Return bytes as text."""
    try:
        return Part(values.cast(pa.string()), {})
    except pa.ArrowInvalid:
        broken = [row for row, value in enumerate(values) if not _is_text(value.as_py())]
    is_broken = np.zeros(len(values), np.bool_)
    is_broken[broken] = True
    texts = pc.if_else(pa.array(is_broken), pa.scalar(None, pa.binary()), values)
    reasons = {row: f"{name} is not UTF-8" for row in broken if wanted[row].as_py()}
    return Part(texts.cast(pa.string()), reasons)


def _is_text(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
