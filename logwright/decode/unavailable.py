"""Values that the source of a change event left out, since they have not changed.

PostgreSQL does not log a large value (TOAST) that an update left as it was, nor Oracle a large
object. Debezium then writes a placeholder: in a text itself, in bytes its UTF-8, in a list of
texts, bytes or UUIDs as the one item, in a list of numbers the number of each byte, and in a map of
texts as key and value. Source: UnchangedToastedPlaceholder of debezium-connector-postgres (3.6.1),
the connectors' setting ``unavailable.value.placeholder``.
"""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Test = Callable[[pa.Array], pa.Array]

_UUID_VERSION: Final = 3


class Placeholder:
    """The placeholder of a connector, in the types of columns.

    Args:
        text: as configured.
    """

    def __init__(self, text: str) -> None:
        content = text.encode()
        encoded = base64.b64encode(content).decode()
        named = str(_named(content))
        self._octets = np.frombuffer(content, np.int8).astype(np.int64)
        forms = (text, encoded, [text], [encoded], [named], self._octets.tolist(), {text: text})
        as_json = [json.dumps(form, separators=(",", ":"), ensure_ascii=False) for form in forms]
        self._texts = pa.array([text, encoded, *as_json])
        self._bytes = pa.array([content], pa.binary())
        self._items = pa.array([text, encoded, named])
        self._entry = (text, text)

    def test_of(self, kind: pa.DataType) -> Test | None:
        """Return what shows which values of a column are the placeholder: null if they are null, or
        False; None: none can be. In a text it may be base64 or JSON, too: a column of bytes, or of
        lists, can be configured as such a text.
        """
        if pa.types.is_string(kind):
            return partial(pc.is_in, value_set=self._texts)
        if pa.types.is_binary(kind):
            return partial(pc.is_in, value_set=self._bytes)
        if pa.types.is_map(kind):
            of_texts = pa.types.is_string(kind.key_type) and pa.types.is_string(kind.item_type)
            return self._maps if of_texts else None
        if not pa.types.is_list(kind):
            return None
        item = kind.value_type
        if pa.types.is_string(item) or pa.types.is_binary(item):
            items = self._items if pa.types.is_string(item) else self._bytes
            return partial(_single, items=items)
        return self._numbers if pa.types.is_integer(item) else None

    def _maps(self, column: pa.Array) -> pa.Array:
        return pa.array(
            [one.is_valid and len(one) == 1 and one.as_py()[0] == self._entry for one in column],
            pa.bool_(),
        )

    def _numbers(self, column: pa.Array) -> pa.Array:
        wanted = self._octets.tolist()
        lengths = pc.fill_null(pc.list_value_length(column), -1)
        fits = pc.equal(lengths, len(wanted)).to_numpy(zero_copy_only=False).copy()
        for row in np.flatnonzero(fits).tolist():
            fits[row] = column[row].as_py() == wanted
        return pa.array(fits)


def _single(column: pa.Array, *, items: pa.Array) -> pa.Array:
    """Return which lists have one item, which is one of these."""
    alone = pc.fill_null(pc.equal(pc.list_value_length(column), 1), False)  # noqa: FBT003 - a value
    chosen = pc.is_in(pc.list_element(column.filter(alone), 0), value_set=items)
    return pc.replace_with_mask(alone, alone, chosen)


def _named(content: bytes) -> uuid.UUID:
    """Return what java.util.UUID.nameUUIDFromBytes makes of some bytes."""
    digest = hashlib.md5(content, usedforsecurity=False).digest()
    return uuid.UUID(bytes=digest, version=_UUID_VERSION)


def without_placeholders(
    rows: pa.Array, placeholder: Placeholder
) -> tuple[list[pa.Array], dict[str, pa.Array]]:
    """Return the fields of some rows, null where the placeholder was; and field → boolean, where
    that is, of the fields that have it.
    """
    fields, unavailable = [], {}
    for field, values in zip(rows.type, rows.flatten(), strict=True):
        test = placeholder.test_of(field.type)
        mask = None if test is None else pc.fill_null(test(values), False)  # noqa: FBT003 - a value
        if mask is not None and pc.any(mask).as_py():
            unavailable[field.name] = mask
            values = pc.if_else(mask, pa.scalar(None, field.type), values)  # noqa: PLW2901
        fields.append(values)
    return fields, unavailable
