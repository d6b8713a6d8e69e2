"""The columns of a table.

| column | type | what |
|---|---|---|
| ``partition``, ``bucket`` | int32 | the file's partition and bucket; parts of its path |
| ``offset`` | int64 | of the record |
| ``timestamp`` | timestamp, us, UTC | of the record |
| ``_key`` | binary | the key as it is in the log; not if the key is not decoded |
| others | | the decoded key and value |

A decoded column that has one of these names, or that of another one but for the case, gets a suffix
``_2``, ``_3`` …: engines compare names without case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

    from logwright.tables.model import Form

PARTITION: Final = "partition"
BUCKET: Final = "bucket"
OFFSET: Final = "offset"
TIMESTAMP: Final = "timestamp"
RAW_KEY: Final = "_key"
KEY: Final = "key"
VALUE: Final = "value"
TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")

_ORIGIN: Final = 4
"""Number of a decoder's first columns, which say where a record is from."""
_OWN: Final = (PARTITION, BUCKET, OFFSET, TIMESTAMP, RAW_KEY)
_PLACES: Final = (pa.field(PARTITION, pa.int32()), pa.field(BUCKET, pa.int32()))
READ_COLUMNS: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")
"""What is read of a log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a table's files.

    Attributes:
        stored: the columns in a file, without partition and bucket.
        key: the column of the raw key.
        decoded: names of the decoded columns, in the decoder's order.
    """

    stored: pa.Schema
    key: str
    decoded: tuple[str, ...]

    @property
    def full(self) -> pa.Schema:
        """The columns with partition and bucket, which are first."""
        return pa.schema([*_PLACES, *self.stored])

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Name and type of each column, as text."""
        return tuple((field.name, str(field.type)) for field in self.full)

    def placed(self, batch: pa.RecordBatch, partition: int, bucket: int) -> pa.RecordBatch:
        """Return the batch of a file with the columns of its place."""
        places = [pa.array([one] * len(batch), pa.int32()) for one in (partition, bucket)]
        return pa.RecordBatch.from_arrays([*places, *batch.columns], schema=self.full)

    def rows(self, decoded: pa.RecordBatch, read: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of some records.

        Args:
            decoded: what the decoder made of them: `_ORIGIN` columns, then the decoded ones.
            read: the same records, `READ_COLUMNS`.
        """
        by_name = dict(zip(self.decoded, decoded.columns[_ORIGIN:], strict=True))
        by_name |= {OFFSET: read[OFFSET], TIMESTAMP: read[TIMESTAMP], self.key: read[KEY]}
        columns = [by_name[name] for name in self.stored.names]
        return pa.RecordBatch.from_arrays(columns, schema=self.stored)


def key_of(form: Form) -> str:
    """Return the column of the raw key of a table of this form."""
    return RAW_KEY if RAW_KEY in dict(form.columns) else KEY


def columns_of(decoded: pa.Schema) -> Columns:
    """Return the columns of a table.

    Args:
        decoded: the decoder's, `_ORIGIN` columns first. If it has a column ``key`` of bytes, that
            is the raw key.
    """
    fields = list(decoded)[_ORIGIN:]
    raw = any(field.name == KEY and field.type == pa.binary() for field in fields)
    own = [pa.field(OFFSET, pa.int64()), pa.field(TIMESTAMP, TIMESTAMP_TYPE)]
    if not raw:
        own.append(pa.field(RAW_KEY, pa.binary()))
    names = _unique(field.name for field in fields)
    named = [pa.field(name, field.type) for name, field in zip(names, fields, strict=True)]
    return Columns(
        stored=pa.schema([*own, *named]), key=KEY if raw else RAW_KEY, decoded=tuple(names)
    )


def _unique(names: Iterable[str]) -> list[str]:
    """Return the names with suffixes, so that they differ also without case."""
    taken = set(_OWN)
    distinct = []
    for name in names:
        chosen, number = name, 1
        while chosen.casefold() in taken:
            number += 1
            chosen = f"{name}_{number}"
        taken.add(chosen.casefold())
        distinct.append(chosen)
    return distinct
