"""Batches of records to decode, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from logwright.config.decoding import DecoderSpec, Decoding
from logwright.decode.make import make_decoder
from logwright.decode.model import Decoder

Pair = tuple[bytes | None, bytes | None]
FIRST_OFFSET = 100
ORIGIN = ("topic", "partition", "offset", "timestamp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a decoder made of some records.

    Attributes:
        rows: the decoded columns, in order.
        refused: (number of the record, part, reason).
        deleted: numbers of the records that delete their key.
    """

    rows: list[dict[str, Any]]
    refused: list[tuple[int, str, str]]
    deleted: list[int]


def batch(pairs: Iterable[Pair], topic: str = "t") -> pa.RecordBatch:
    """Keys and values with ascending offsets from `FIRST_OFFSET`."""
    rows = list(pairs)
    count = len(rows)
    return pa.record_batch(
        {
            "key": pa.array([key for key, _ in rows], pa.binary()),
            "value": pa.array([value for _, value in rows], pa.binary()),
            "topic": pa.array([topic] * count, pa.string()),
            "partition": pa.array([3] * count, pa.int32()),
            "offset": pa.array(range(FIRST_OFFSET, FIRST_OFFSET + count), pa.int64()),
            "timestamp": pa.array(range(count), pa.timestamp("us", "UTC")),
        }
    )


def values(*content: bytes | None) -> pa.RecordBatch:
    """Records with the same key."""
    return batch([(b"k", one) for one in content])


def decode(decoder: Decoder, records: pa.RecordBatch) -> Result:
    """Decode, and check what must hold of every result."""
    decoded = decoder.decode(records)
    decoded.rows.validate(full=True)
    decoded.refused.validate(full=True)
    assert decoder.schema == decoded.rows.schema
    numbers = [offset - FIRST_OFFSET for offset in decoded.rows.column("offset").to_pylist()]
    assert numbers == decoded.positions.to_pylist()
    assert len(numbers) == len(decoded.deleted)
    refused = [
        (row["offset"] - FIRST_OFFSET, row["part"], row["reason"])
        for row in decoded.refused.to_pylist()
    ]
    assert set(range(records.num_rows)) == {*numbers, *(number for number, _, _ in refused)}
    assert not set(numbers) & {number for number, _, _ in refused}
    names = decoder.schema.names[len(ORIGIN) :]
    return Result(
        rows=decoded.rows.select(names).to_pylist(),
        refused=refused,
        deleted=[
            number
            for number, gone in zip(numbers, decoded.deleted.to_pylist(), strict=True)
            if gone
        ],
    )


def by_value(
    spec: DecoderSpec,
    *content: bytes | None,
    base: Path = Path("/"),
    sample: Sequence[pa.RecordBatch] = (),
) -> Result:
    """Decode values; their keys stay bytes."""
    decoder = make_decoder(Decoding(value=spec), base=base, sample=sample)
    return decode(decoder, values(*content))


def columns(result: Result, name: str = "value") -> list[Any]:
    """One column of the rows."""
    return [row[name] for row in result.rows]


def reasons(result: Result) -> list[str]:
    """The reasons, in order."""
    return [reason for _, _, reason in result.refused]
