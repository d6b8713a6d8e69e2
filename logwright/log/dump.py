"""Every batch, record, index entry and producer of a partition as JSON lines.

The lines are those of the test oracle's `dump --indexes --snapshots`, which prints what Kafka
4.3.0's own reader sees: same lines, same fields, same order. This is one of the two places where
keys and values appear.

A segment gives its `segment` line, a line per batch, then `error` where reading stopped for a fault
and `trailing` for the bytes after the last readable batch, then its indexes; snapshots come last.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

from logwright.errors import CorruptBatch, UncleanLogDir, UnsupportedFormatError
from logwright.format.batch import (
    MAGIC,
    BatchSpan,
    RecordBatch,
    crc_is_valid,
    parse_batch,
    walk_batches,
)
from logwright.format.codec import CODEC_NAMES
from logwright.format.control import parse_control_key, parse_marker_value
from logwright.format.index import parse_offset_index, parse_time_index, parse_txn_index
from logwright.format.legacy import (
    LegacyRecord,
    is_whole,
    legacy_batch_at,
    legacy_records,
)
from logwright.format.limits import CodecError
from logwright.format.names import (
    INDEX,
    LOG,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    parse_segment_file_name,
)
from logwright.format.record import Record, read_records
from logwright.format.snapshot import ProducerEntry, parse_snapshot
from logwright.place.files import open_partition_dir
from logwright.place.model import OpenDir

if TYPE_CHECKING:
    from collections.abc import Iterator

    from logwright.format.names import TopicPartition
    from logwright.place.model import Place

Line = dict[str, Any]
"""One JSON object; its fields are in the oracle's order."""

_CORRUPT: Final = "CorruptRecordException"
_INVALID: Final = "InvalidRecordException"
_UNDECODABLE: Final = "KafkaException"
_UNKNOWN_CODEC: Final = "IllegalArgumentException"
_OUT_OF_BOUNDS: Final = "IndexOutOfBoundsException"


class _ReadingStopped(Exception):
    """Kafka's reader stops here, which ends a segment's lines; `kind` is what it throws."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        super().__init__(kind)


def to_json(line: Line) -> str:
    """Return the line's text, as Jackson writes it."""
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    if "\\u" not in text:
        return text
    # Jackson has the hexadecimal digits of a control character in upper case.
    return "".join(_upper_escapes(text))


def dump_partition(log_dir: Place, partition: TopicPartition) -> Iterator[Line]:
    """Yield the lines of one partition. Effects: reads the whole partition directory.

    Raises:
        NotALogDir: there is no such directory.
        UnreadableFile: a file cannot be opened or is not a regular file.
        UncleanLogDir: a segment's or snapshot's name is not an offset.
        UnsupportedFormatError: a snapshot of a version that is not handled.
        CorruptProducerSnapshot: a snapshot is malformed.
    """
    with open_partition_dir(log_dir, partition) as directory:
        names = directory.names()
        present = frozenset(names)
        for name in names:
            if name.endswith(LOG):
                stem = name.removesuffix(LOG)
                base_offset = _offset(directory, name)
                yield from segment_lines(directory.read(name), base_offset=base_offset)
                for suffix in (INDEX, TIMEINDEX, TXNINDEX):
                    if stem + suffix in present:
                        content = directory.read(stem + suffix)
                        yield index_line(content, base_offset=base_offset, suffix=suffix)
        for name in names:
            if name.endswith(SNAPSHOT):
                producers = parse_snapshot(directory.read(name), directory.path / name)
                yield {
                    "type": "snapshot",
                    "offset": _offset(directory, name),
                    "producers": [_producer(entry) for entry in producers],
                }


def _offset(directory: OpenDir, name: str) -> int:
    parsed = parse_segment_file_name(name)
    if parsed is None:
        raise UncleanLogDir(
            "the file name is not an offset.",
            path=directory.path / name,
            remedy="Move it away: a broker fails on it, or takes it for another file.",
        )
    return parsed[0]


def segment_lines(content: bytes, *, base_offset: int) -> Iterator[Line]:
    """Yield the lines of one `.log` file's content."""
    yield {"type": "segment", "segment": base_offset, "bytes": len(content)}
    position = 0
    try:
        for span in _spans(content):
            if span.magic < MAGIC:
                line, legacy = _legacy_batch(base_offset, content, span)
                position = span.position + span.bytes
                yield line | {"records": legacy if line["valid"] else []}
                continue
            line, batch = _batch(base_offset, content, span)
            position = span.position + span.bytes
            records = _records(batch, content[span.position : position], valid=line["valid"])
            yield line | {"records": records}
    except _ReadingStopped as stopped:
        yield {
            "type": "error",
            "segment": base_offset,
            "position": position,
            "error": stopped.kind,
        }
    if position < len(content):
        yield {
            "type": "trailing",
            "segment": base_offset,
            "position": position,
            "bytes": len(content) - position,
        }


def _spans(content: bytes) -> Iterator[BatchSpan]:
    """Yield the spans of whole batches of magic 0 to 2, up to where Kafka's reader fails."""
    try:
        yield from walk_batches(content, in_memory=True)
    except (CorruptBatch, UnsupportedFormatError) as error:
        raise _ReadingStopped(_CORRUPT) from error


def _legacy_batch(base_offset: int, content: bytes, span: BatchSpan) -> tuple[Line, list[Line]]:
    """Return the line of a batch of format v0 or v1, and its records'."""
    whole = memoryview(content)[span.position : span.position + span.bytes]
    try:
        batch = legacy_batch_at(whole)
        records = legacy_records(batch)
    except CorruptBatch as error:
        undecodable = isinstance(error.__cause__, CodecError)
        raise _ReadingStopped(_UNDECODABLE if undecodable else _INVALID) from error
    kind = "LogAppendTime" if batch.is_log_append_time else "CreateTime"
    line: Line = {
        "type": "batch",
        "segment": base_offset,
        "position": span.position,
        "sizeInBytes": span.bytes,
        "baseOffset": records[0].offset,
        "lastOffset": batch.offset,
        "magic": batch.magic,
        "compression": CODEC_NAMES[batch.codec],
        "timestampType": kind if batch.magic else "NoTimestampType",
        "valid": is_whole(whole),
        "maxTimestamp": batch.timestamp,
    }
    return line, [_legacy_record(record) for record in records]


def _legacy_record(record: LegacyRecord) -> Line:
    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _base64(record.key),
        "value": _base64(record.value),
    }


def _batch(base_offset: int, content: bytes, span: BatchSpan) -> tuple[Line, RecordBatch]:
    whole = content[span.position : span.position + span.bytes]
    try:
        batch = parse_batch(whole)
    except CorruptBatch as error:
        raise _ReadingStopped(_OUT_OF_BOUNDS) from error
    if batch.codec >= len(CODEC_NAMES):
        raise _ReadingStopped(_UNKNOWN_CODEC)
    line: Line = {
        "type": "batch",
        "segment": base_offset,
        "position": span.position,
        "sizeInBytes": span.bytes,
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "magic": MAGIC,
        "compression": CODEC_NAMES[batch.codec],
        "timestampType": "LogAppendTime" if batch.is_log_append_time else "CreateTime",
        "valid": crc_is_valid(batch, whole),
        "maxTimestamp": batch.max_timestamp,
        "partitionLeaderEpoch": batch.partition_leader_epoch,
        "crc": batch.crc,
        "baseTimestamp": batch.base_timestamp,
    }
    if batch.delete_horizon_ms is not None:
        line["deleteHorizonMs"] = batch.delete_horizon_ms
    line |= {
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "count": batch.records_count,
    }
    return line, batch


def _records(batch: RecordBatch, whole: bytes, *, valid: bool) -> list[Line]:
    """Return the records of a batch; none if the CRC is wrong or the header counts none."""
    if not valid or batch.records_count == 0:
        return []
    try:
        return [_record(batch, record) for record in read_records(batch, whole)]
    except CorruptBatch as error:
        undecodable = isinstance(error.__cause__, CodecError)
        raise _ReadingStopped(_UNDECODABLE if undecodable else _INVALID) from error


def _record(batch: RecordBatch, record: Record) -> Line:
    line: Line = {"offset": record.offset, "timestamp": record.timestamp_ms}
    if record.sequence >= 0:
        line["sequence"] = record.sequence
    line["key"] = _base64(record.key)
    line["value"] = _base64(record.value)
    if record.headers:
        line["headers"] = [
            {"key": header.key.decode(errors="replace"), "value": _base64(header.value)}
            for header in record.headers
        ]
    if batch.is_control:
        kind = parse_control_key(record.key)
        line["controlType"] = kind.name
        if kind.ends_transaction:
            line["coordinatorEpoch"] = parse_marker_value(record.value)
    return line


def index_line(content: bytes, *, base_offset: int, suffix: str) -> Line:
    """Return the line of one index file: its entries in file order, with absolute offsets."""
    kinds = {INDEX: "offset", TIMEINDEX: "time", TXNINDEX: "txn"}
    entries: list[Any]
    if suffix == INDEX:
        entries = parse_offset_index(content, base_offset).tolist()
    elif suffix == TIMEINDEX:
        entries = parse_time_index(content, base_offset).tolist()
    else:
        entries = [
            {
                "version": entry.version,
                "producerId": entry.producer_id,
                "firstOffset": entry.first_offset,
                "lastOffset": entry.last_offset,
                "lastStableOffset": entry.last_stable_offset,
            }
            for entry in parse_txn_index(content)
        ]
    return {
        "type": "index",
        "segment": base_offset,
        "index": kinds[suffix],
        "bytes": len(content),
        "entries": entries,
    }


def _producer(entry: ProducerEntry) -> Line:
    line: Line = {
        "producerId": entry.producer_id,
        "producerEpoch": entry.producer_epoch,
        "coordinatorEpoch": entry.coordinator_epoch,
        "lastTimestamp": entry.timestamp_ms,
    }
    if entry.current_txn_first_offset is not None:
        line["currentTxnFirstOffset"] = entry.current_txn_first_offset
    batches: list[Line] = []
    if entry.last_offset >= 0:
        batches.append(
            {
                "lastSeq": entry.last_sequence,
                "lastOffset": entry.last_offset,
                "offsetDelta": entry.offset_delta,
                "timestamp": entry.timestamp_ms,
            }
        )
    line["batches"] = batches
    return line


def _base64(content: bytes | memoryview | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode("ascii")


def _upper_escapes(text: str) -> Iterator[str]:
    r"""Yield the pieces of a JSON text with `\u001f` as `\u001F`."""
    position = 0
    while position < len(text):
        if text[position] != "\\":
            end = text.find("\\", position)
            end = len(text) if end < 0 else end
            yield text[position:end]
            position = end
        elif text[position + 1] == "u":
            yield "\\u" + text[position + 2 : position + 6].upper()
            position += 6
        else:
            yield text[position : position + 2]
            position += 2
