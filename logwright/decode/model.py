"""What a decoder makes of records: rows, and why others are refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, runtime_checkable

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
"""Records that cannot be decoded. `part` is ``key``, ``value`` or ``headers``; a reason has
names of the schema or of headers, and no bytes of the record.
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
        deleted: boolean, of length n: the value is that of a deletion, or of a message; None: if
            it is null.
        messages: boolean, of length n: the record says nothing of a row, as it is a message of
            Debezium's, or of a type that the columns do not have; None: none does.
        unavailable: field → boolean, of length n: the source left its value out, since it has not
            changed; the field is null there. Fields that have all their values are not in it.
    """

    values: pa.Array
    reasons: dict[int, str]
    deleted: pa.Array | None = None
    messages: pa.Array | None = None
    unavailable: Mapping[str, pa.Array] = MappingProxyType({})


class PartDecoder(Protocol):
    """Decodes keys or values."""

    @property
    def type(self) -> pa.DataType:
        """The type of the decoded values; of a record with fields a struct."""

    def decode(self, column: pa.Array) -> Part:
        """Decode a column of type binary."""


class KeylessPart(NamedTuple):
    """What the values of records without a key say.

    Attributes:
        messages: how many say nothing of a row.
        truncations: rows, ascending, of those that empty the table of their source.
        reasons: row → why it is refused.
    """

    messages: int
    truncations: tuple[int, ...]
    reasons: dict[int, str]


@runtime_checkable
class EventDecoder(PartDecoder, Protocol):
    """Decodes values that say something also without a key."""

    def keyless(self, column: pa.Array) -> KeylessPart:
        """Decode the values of records without a key, a column of type binary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyless:
    """What records without a key say. They have no rows.

    Attributes:
        messages: how many say nothing of a row.
        truncations: offsets, ascending, of those that empty the table of their source.
        refused: of schema `REFUSED`.
    """

    messages: int = 0
    truncations: tuple[int, ...] = ()
    refused: pa.RecordBatch = field(
        default_factory=lambda: pa.RecordBatch.from_pylist([], schema=REFUSED)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """What became of a batch; each of its records is in rows or in refused.

    Attributes:
        rows: of the decoder's schema, in the order of the batch.
        positions: int64, for each row the number of its record in the batch.
        deleted: boolean, for each row: it gives its key no row (a tombstone, Debezium's op d, or a
            message).
        refused: of schema `REFUSED`; once for each part that cannot be decoded.
        messages: how many records say nothing of a row.
        left_out: numbers of their rows.
        unavailable: column → boolean, for each row: see `Part`.
    """

    rows: pa.RecordBatch
    positions: pa.Array
    deleted: pa.Array
    refused: pa.RecordBatch
    messages: int = 0
    left_out: frozenset[int] = frozenset()
    unavailable: Mapping[str, pa.Array] = field(default_factory=dict)


class Decoder(Protocol):
    """Decodes the records of a topic. Not for pickling, nor for several threads at the same time:
    make one where it is used.

    Attributes:
        schema: of the rows: `ORIGIN`, then the decoded columns.
        decoding: the specs, with what was inferred in them; makes the same decoder again.
    """

    schema: pa.Schema
    decoding: Decoding

    @property
    def reads_keyless(self) -> bool:
        """Whether records without a key may say something."""

    def decode(self, batch: pa.RecordBatch) -> Decoded:
        """Decode a batch with the columns key, value, topic, partition, offset, timestamp, and
        headers, which is optional unless the decoding has headers: without it an id of a schema is
        not found there.

        Raises:
            KeyError: the decoding has headers, and the batch has none.
            SchemaUnavailable: a schema registry does not answer.
        """

    def keyless(self, batch: pa.RecordBatch) -> Keyless:
        """Return what records without a key say; batch and errors as of `decode`."""
