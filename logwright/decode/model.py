"""What a decoder makes of records: rows, and why others are refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from logwright.config.decoding import Decoding
from logwright.errors import PreconditionError

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")

ORIGIN: Final = (
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", TIMESTAMP),
)
"""The columns of every row that are not decoded."""

REFUSED: Final = pa.schema(
    [*ORIGIN, pa.field("part", pa.string()), pa.field("reason", pa.string())]
)
"""Records that cannot be decoded. `part` is ``key`` or ``value``; a reason has names of the schema
and no bytes of the record.
"""

MAX_VALUE_BYTES: Final = 16 << 20
"""The largest key or value with fields that is decoded; Kafka's default limit is 1 MB."""

TOO_LARGE: Final = f"is larger than {MAX_VALUE_BYTES >> 20} MiB"

NOTHING_USED: Final = "has none of the fields of the columns"
"""A value of which nothing would be kept: another type, not a row of nulls."""


class SchemaUnavailable(PreconditionError):
    """A schema registry does not answer. The records are neither decoded nor refused."""


class Part(NamedTuple):
    """The decoded keys or values of a batch.

    Attributes:
        values: of length n; null for what is null or refused.
        reasons: row → why it is refused.
        deleted: boolean, of length n: the value is that of a deletion; None: if it is null.
    """

    values: pa.Array
    reasons: dict[int, str]
    deleted: pa.Array | None = None


class PartDecoder(Protocol):
    """Decodes keys or values."""

    @property
    def type(self) -> pa.DataType:
        """The type of the decoded values; of a record with fields a struct."""

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What became of a batch; each of its records is in rows or in refused.

    Attributes:
        rows: of the decoder's schema, in the order of the batch.
        positions: int64, for each row the number of its record in the batch.
        deleted: boolean, for each row: it deletes its key (a tombstone, or Debezium's op d).
        refused: of schema `REFUSED`; twice if neither key nor value can be decoded.
    """

    rows: pa.RecordBatch
    positions: pa.Array
    deleted: pa.Array
    refused: pa.RecordBatch


class Decoder(Protocol):
    """Decodes the records of a topic. Not for pickling, nor for several threads at the same time:
    make one where it is used.

    Attributes:
        schema: of the rows: `ORIGIN`, then the decoded columns.
        decoding: the specs, with what was inferred in them; makes the same decoder again.
    """

    schema: pa.Schema
    decoding: Decoding

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        """Decode a batch with the columns key, value, topic, partition, offset, timestamp.

        Raises:
            SchemaUnavailable: a schema registry does not answer.
        """
