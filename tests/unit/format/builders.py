"""Batches for the tests: Kafka's own vectors, and a builder for others."""

from __future__ import annotations

from logwright.format.batch import RecordBatch, serialize_batch
from logwright.format.codec import compress
from logwright.format.record import Record, RecordHeader, encode_records


def from_hex(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


# Written by Kafka 4.3.0's MemoryRecordsBuilder and cleaner.
TWO_RECORDS = from_hex(
    "0000000000000064 0000004c 00000004 02 c0a93f08 0000 00000001 00000000000003e8 00000000000003e8"
    "0000000000000007 0001 00000032 00000002"
    "22000000046b310476310402680278026e0110001302046b320100"
)
TOMBSTONE_WITH_HORIZON = from_hex(
    "0000000000000064 0000003b 00000004 02 24c884e3 0040 00000001 00000000000015e0 00000000000003de"
    "0000000000000007 0001 00000032 00000001 1200834802046b320100"
)
EMPTIED = from_hex(
    "0000000000000064 00000031 00000004 02 142518ba 0000 00000001 ffffffffffffffff 00000000000003e8"
    "0000000000000007 0001 00000032 00000000"
)
ABORT_MARKER = from_hex(
    "0000000000000005 00000042 00000007 02 6c5b1cf6 0030 00000000 00000000000004d2 00000000000004d2"
    "000000000000002a 0003 ffffffff 00000001 20 00 00 00 08 00000000 0c 000000000009 00"
)
PLAIN_RECORD = from_hex("10 00 00 00 02 6b 02 76 00")
PAYLOADS = {
    1: from_hex("1f8b08000000000000ff 1360606060ca662a630000 a37fcfa6 09000000"),
    2: from_hex("82534e4150505900 00000001 00000001 0000000b 09201000000002 6b027600"),
    3: from_hex("04224d18 60 40 82 09000080 1000000002 6b027600 00000000"),
    4: from_hex("28b52ffd 00 58 480000 1000000002 6b027600 010000"),
}
"""PLAIN_RECORD as Kafka 4.3.0 compresses it, by codec."""


def a_header(**changes: int) -> RecordBatch:
    """A header of one uncompressed record at offset 0; fields by name."""
    fields: dict[str, int] = {
        "base_offset": 0,
        "batch_length": 49,
        "partition_leader_epoch": 0,
        "crc": 0,
        "attributes": 0,
        "last_offset_delta": 0,
        "base_timestamp": 1000,
        "max_timestamp": 1000,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "records_count": 1,
    }
    return RecordBatch(**fields | changes)  # type: ignore[arg-type]


def a_record(offset: int = 0, **changes: object) -> Record:
    fields: dict[str, object] = {
        "offset": offset,
        "timestamp_ms": 1000,
        "sequence": -1,
        "key": b"k",
        "value": b"v",
        "headers": (),
    }
    return Record(**fields | changes)  # type: ignore[arg-type]


def a_header_pair(key: bytes, value: bytes | None) -> RecordHeader:
    return RecordHeader(key=key, value=value)


def a_batch(base_offset: int = 0, *, count: int = 1, codec: int = 0, size: int = 8) -> bytes:
    """A whole batch of `count` records with values of `size` bytes."""
    header = a_header(
        base_offset=base_offset,
        last_offset_delta=count - 1,
        records_count=count,
        attributes=codec,
        max_timestamp=1000 + base_offset,
    )
    records = [a_record(base_offset + number, value=b"v" * size) for number in range(count)]
    return serialize_batch(header, compress(codec, encode_records(header, records)))
