"""Keys and values in the lines of ``dump`` as JSON, where they can be decoded.

Records of Kafka's internal topics look as its own message formatters print them: type and data of
the key, version and data of the value. Of any other topic a value with fields is an object. A
record that cannot be decoded stays base64, and has why in ``keyRefused``, ``valueRefused`` or
``headersRefused``; one that says nothing of a row has ``leftOut``. Headers of the decoding are
next to key and value, with the names of their columns.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from logwright.config.decoding import Decoding, InternalSpec
from logwright.decode.internal_messages import TYPES, parse_key, parse_value
from logwright.decode.refusal import Refused
from logwright.errors import PolicyError
from logwright.format.messages import read_int16

if TYPE_CHECKING:
    import pyarrow as pa

    from logwright.decode.model import Decoder

Line = dict[str, Any]
Decode = Callable[[list[Line]], None]
"""Decodes keys and values of a batch's records in place."""

_PARTS: Final = ("key", "value")
_ORIGIN: Final = ("topic", "partition", "offset", "timestamp")


def decoded_lines(lines: Iterable[Line], decode: Decode) -> Iterator[Line]:
    """Yield the lines of `dump_partition` with decoded records; those of control batches as they
    are.
    """
    for line in lines:
        if line["type"] == "batch" and not line.get("control"):
            decode(line["records"])
        yield line


def is_internal(topic: str, decoding: Decoding) -> bool:
    """Return whether these are the records of one of Kafka's internal topics.

    Raises:
        PolicyError: the specs are for these, and the topic is not one of them.
    """
    if not isinstance(decoding.value, InternalSpec):
        return False
    if topic not in TYPES:
        raise PolicyError(f"The format kafka-internal is for {', '.join(TYPES)}, not for {topic}.")
    return True


def internal_records(topic: str) -> Decode:
    """Return what decodes the records of an internal topic. Needs no extra."""

    def decode(records: list[Line]) -> None:
        for record in records:
            _internal(topic, record)

    return decode


def _internal(topic: str, record: Line) -> None:
    key, value = (content(record[part]) for part in _PARTS)
    part = "key"
    try:
        (kind, fields) = parse_key(topic, key)
        named = {"type": read_int16(key or b""), "name": kind.name}
        record["key"] = {**named, "data": _json(fields)}
        part = "value"
        if value is not None:
            fields = parse_value(kind, value)
            record["value"] = {"version": read_int16(value), "data": _json(fields)}
    except Refused as refused:
        record[f"{part}Refused"] = refused.reason


def content(text: str | None) -> bytes | None:
    """Return the bytes of a key or value of a line."""
    return None if text is None else base64.b64decode(text)


def records_in(lines: Iterable[Line]) -> Iterator[list[Line]]:
    """Yield the records of each batch of data among the lines of `dump_partition`."""
    for line in lines:
        if line["type"] == "batch" and not line.get("control"):
            yield line["records"]


def decoded_records(
    topic: str, decoding: Decoding, base: Path, sample: Iterable[list[Line]]
) -> Decode:
    """Return what decodes records by specs. Effects: as `make_decoder`. Needs the extra tables.

    Args:
        topic: of the records.
        decoding: the specs.
        base: the directory of relative paths.
        sample: records, for what is inferred; taken only if something is.

    Raises:
        PolicyError, SchemaUnavailable: as `make_decoder`.
    """
    from logwright.decode.make import make_decoder  # noqa: PLC0415 - pyarrow: not for internal topics

    decoder = make_decoder(decoding, base=base, sample=map(batch_of, sample), topic=topic)
    return lambda records: _by_specs(decoder, records)


def batch_of(records: list[Line]) -> pa.RecordBatch:
    """Return the records of a line as a batch; topic, partition and timestamp are null."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    from logwright.records.schema import HEADERS_TYPE  # noqa: PLC0415 - as above

    count = len(records)
    return pa.record_batch(
        {
            "key": pa.array([content(one["key"]) for one in records], pa.binary()),
            "value": pa.array([content(one["value"]) for one in records], pa.binary()),
            "topic": pa.nulls(count, pa.string()),
            "partition": pa.nulls(count, pa.int32()),
            "offset": pa.array([one["offset"] for one in records], pa.int64()),
            "timestamp": pa.nulls(count, pa.timestamp("us", "UTC")),
            "headers": pa.array([_headers(one) for one in records], HEADERS_TYPE),
        }
    )


def _headers(record: Line) -> list[Line]:
    return [
        {"key": header["key"], "value": content(header["value"])}
        for header in record.get("headers", ())
    ]


def _by_specs(decoder: Decoder, records: list[Line]) -> None:
    """Decode records in place."""
    decoded = decoder.decode(batch_of(records))
    by_offset = {record["offset"]: record for record in records}
    headers = decoder.decoding.header_columns
    names = decoder.schema.names[len(_ORIGIN) :]
    plain = names == ["key", "value", *headers]
    for number, position in enumerate(decoded.positions.to_pylist()):
        record = records[position]
        if number in decoded.left_out:
            record["leftOut"] = True
            continue
        try:
            (row,) = decoded.rows.select(names).slice(number, 1).to_pylist()
        except (ValueError, OverflowError):
            record["valueRefused"] = "has a time that cannot be shown"
            continue
        record["key"] = _json(row.pop("key"))
        record |= {name: row.pop(name) for name in headers}
        if record["value"] is not None:
            record["value"] = _json(row["value"] if plain else row)
    for refused in decoded.refused.select(["offset", "part", "reason"]).to_pylist():
        by_offset[refused["offset"]][f"{refused['part']}Refused"] = refused["reason"]


def _json(value: Any) -> Any:
    """Return a value as JSON has it: bytes as base64, times in ISO 8601, decimals as text."""
    written = value
    if isinstance(value, dict):
        written = {name: _json(one) for name, one in value.items()}
    elif isinstance(value, list):
        written = [_json(one) for one in value]
    elif isinstance(value, tuple):  # of a map
        written = {"key": _json(value[0]), "value": _json(value[1])}
    elif isinstance(value, bytes):
        written = base64.b64encode(value).decode("ascii")
    elif isinstance(value, dt.date):
        written = value.isoformat()
    elif isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
        written = str(value)
    return written
