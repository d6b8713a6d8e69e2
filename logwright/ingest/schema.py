"""The columns of records in Arrow, which is not in the base installation: it comes with the extras
that take records in.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))),
        ("timestamp", pa.int64()),
    ]
)
"""The input of `logwright.ingest.columns.read_columns`; it may also have ``offset``, int64. Times
are ms since the epoch."""

COPIED: Final = SCHEMA.append(pa.field("offset", pa.int64()))
"""The schema of records that keep their offsets."""
