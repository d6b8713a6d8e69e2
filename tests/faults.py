"""Faults planted in staged output, each of which one check or contract must find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from logwright.compaction.model import StagedCleaning
from logwright.format.batch import RecordBatch, parse_batch, serialize_batch, walk_batches
from logwright.format.names import segment_file_name
from logwright.format.record import Record, encode_records, read_records

Batches = list[tuple[RecordBatch, list[Record]]]


def staged_log(staged: StagedCleaning) -> Path:
    """The largest staged ``.log``."""
    largest = max(staged.segments, key=lambda segment: segment.log_bytes)
    return staged.directory / segment_file_name(largest.base_offset, ".log")


def rewrite(path: Path, change: Callable[[Batches], None]) -> None:
    """Read a log's batches, change them, write them back uncompressed with right lengths and
    CRCs.
    """
    content = path.read_bytes()
    batches: Batches = []
    for span in walk_batches(content):
        whole = content[span.position : span.position + span.bytes]
        batch = parse_batch(whole)
        batches.append((batch, list(read_records(batch, whole))))
    change(batches)
    written = b""
    for batch, records in batches:
        header = replace(batch, attributes=batch.attributes & ~0x07, records_count=len(records))
        written += serialize_batch(header, encode_records(header, records))
    path.write_bytes(written)


def lose_last_value(staged: StagedCleaning) -> int:
    """Drop one surviving record; its offset."""
    lost: list[int] = []

    def change(batches: Batches) -> None:
        records = next(records for _, records in reversed(batches) if records)
        lost.append(records.pop().offset)

    rewrite(staged_log(staged), change)
    return lost[0]


def disorder_offsets(staged: StagedCleaning) -> int:
    """Put the first batch after the second; the offset that comes too late."""
    late: list[int] = []

    def change(batches: Batches) -> None:
        batches[0], batches[1] = batches[1], batches[0]
        late.append(batches[1][0].base_offset)

    rewrite(staged_log(staged), change)
    return late[0]


def break_crc(staged: StagedCleaning) -> int:
    """Flip a bit in the last byte of the last batch; its base offset."""
    path = staged_log(staged)
    content = bytearray(path.read_bytes())
    content[-1] ^= 0x10
    path.write_bytes(content)
    last = [span.position for span in walk_batches(bytes(content))][-1]
    return parse_batch(bytes(content), last).base_offset


def change_value(staged: StagedCleaning) -> int:
    """Change one value, with a right CRC; the record's offset."""
    changed: list[int] = []

    def change(batches: Batches) -> None:
        records = batches[0][1]
        records[0] = replace(records[0], value=b"not what was written")
        changed.append(records[0].offset)

    rewrite(staged_log(staged), change)
    return changed[0]


def change_timestamp(staged: StagedCleaning) -> int:
    """Move one record in time, with a right CRC; its offset."""
    changed: list[int] = []

    def change(batches: Batches) -> None:
        records = batches[0][1]
        records[-1] = replace(records[-1], timestamp_ms=records[-1].timestamp_ms + 1)
        changed.append(records[-1].offset)

    rewrite(staged_log(staged), change)
    return changed[0]


def misplace_index_entry(staged: StagedCleaning) -> int:
    """Let the first entry of an offset index point one byte too far; the entry's offset."""
    segment = max(staged.segments, key=lambda each: each.index_bytes)
    path = staged.directory / segment_file_name(segment.base_offset, ".index")
    content = bytearray(path.read_bytes())
    content[7] ^= 1
    path.write_bytes(content)
    return segment.base_offset + int.from_bytes(content[:4], "big")


def add_null_key(staged: StagedCleaning) -> int:
    """Take the key of one record away, which the contract of a compacted log forbids; its
    offset.
    """
    changed: list[int] = []

    def change(batches: Batches) -> None:
        records = batches[0][1]
        records[0] = replace(records[0], key=None)
        changed.append(records[0].offset)

    rewrite(staged_log(staged), change)
    return changed[0]
