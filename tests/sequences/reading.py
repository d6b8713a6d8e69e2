"""What is on disk, read as plainly as can be: all batches in turn, aborted transactions from the
``.txnindex`` files, as a broker answers a fetch. Nothing of the engine but the wire format is used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

from logwright.format.batch import MAGIC, MAGIC_AT, RecordBatch, parse_batch, walk_batches
from logwright.format.control import parse_control_key
from logwright.format.legacy import legacy_batch_at, legacy_records
from logwright.format.record import Record, read_records
from logwright.format.snapshot import parse_snapshot
from tests.comparison import read_checkpoint
from tests.sequences.content import Content, Row

_ABORTED = struct.Struct(">hqqqq")
_LIVE_NAME = 20


def read_content(log_dir: Path, name: str) -> Content:
    """A partition of a log directory that was stopped cleanly. Effects: reads it."""
    directory = log_dir / name
    logs = sorted(path for path in directory.glob("*.log") if path.stem.isdigit())
    aborted = _aborted(directory)
    rows: list[Row] = []
    undecided: dict[int, list[int]] = {}
    emptied: dict[int, list[int]] = {}
    producers: dict[int, int] = {}
    end = int(logs[-1].stem) if logs else 0
    for raw in batches(logs):
        if raw[MAGIC_AT] < MAGIC:
            rows += old_records(raw)
            end = max(end, rows[-1].offset + 1)
            continue
        batch = parse_batch(raw)
        end = max(end, batch.next_offset)
        records = read_records(batch, raw)
        if batch.producer_id >= 0 and batch.base_sequence >= 0:
            producers[batch.producer_id] = batch.base_sequence + batch.last_offset_delta
        if batch.is_control:
            if records:
                parse_control_key(records[0].key)
            undecided.pop(batch.producer_id, None)
            emptied.pop(batch.producer_id, None)
            continue
        if batch.is_transactional and not records:
            emptied.setdefault(batch.producer_id, []).append(batch.base_offset)
        for record in records:
            if batch.is_transactional:
                undecided.setdefault(batch.producer_id, []).append(len(rows))
            rows.append(_row(batch, record, aborted))
    for at in chain.from_iterable(undecided.values()):
        rows[at] = replace(rows[at], outcome="open")
    producers |= _snapshot(directory)
    start = read_checkpoint(log_dir / "log-start-offset-checkpoint").get(name, 0)
    return Content(
        rows=tuple(rows),
        start=max(start, int(logs[0].stem)) if logs else start,
        end=end,
        producers=tuple(sorted(producers.items())),
        held=tuple(offset for offsets in emptied.values() for offset in offsets),
    )


def last_offsets(log_dir: Path, name: str) -> dict[int, int]:
    """By producer the last offset of its batches. Effects: reads the log."""
    logs = sorted(path for path in (log_dir / name).glob("*.log") if path.stem.isdigit())
    parsed = (parse_batch(raw) for raw in batches(logs) if raw[MAGIC_AT] >= MAGIC)
    return {one.producer_id: one.last_offset for one in parsed if one.producer_id >= 0}


def batches(logs: Iterable[Path]) -> Iterator[bytes]:
    """Each batch of some files, as it is. Effects: reads them."""
    for path in logs:
        data = path.read_bytes()
        for span in walk_batches(data):
            yield data[span.position : span.position + span.bytes]


def _aborted(directory: Path) -> list[tuple[int, ...]]:
    """The entries of all transaction indexes."""
    return [
        entry
        for path in sorted(directory.glob("*.txnindex"))
        if path.stem.isdigit()
        for entry in _ABORTED.iter_unpack(path.read_bytes())
    ]


def _row(batch: RecordBatch, record: Record, aborted: Sequence[tuple[int, ...]]) -> Row:
    """A record; its transaction is committed if it is not aborted."""
    is_aborted = any(
        producer == batch.producer_id and first <= record.offset <= last
        for _, producer, first, last, _ in aborted
    )
    return Row(
        outcome="none" if not batch.is_transactional else "aborted" if is_aborted else "committed",
        offset=record.offset,
        key=record.key,
        value=record.value,
        timestamp_ms=record.timestamp_ms,
        headers=tuple((one.key, one.value) for one in record.headers),
        horizon_ms=batch.delete_horizon_ms if record.value is None else None,
    )


def old_records(batch: bytes) -> Iterator[Row]:
    """The records of a batch of format v0 or v1."""
    for record in legacy_records(legacy_batch_at(memoryview(batch))):
        yield Row(
            offset=record.offset,
            key=None if record.key is None else bytes(record.key),
            value=None if record.value is None else bytes(record.value),
            timestamp_ms=record.timestamp,
        )


def old_expired(log_dir: Path, name: str, first_dirty: int, retention_ms: int) -> frozenset[int]:
    """Offsets of the tombstones of old formats that a cleaning may remove: of files that are not
    younger than those of the clean section, less ``delete.retention.ms`` (Cleaner.doClean and
    cleanSegments). Effects: reads the log.
    """
    logs = sorted(path for path in (log_dir / name).glob("*.log") if path.stem.isdigit())
    times = {path: path.stat().st_mtime_ns // 1_000_000 for path in logs}
    clean = [time for path, time in times.items() if int(path.stem) < first_dirty]
    horizon = clean[-1] - retention_ms if clean else 0
    return frozenset(
        row.offset
        for raw in batches(path for path, time in times.items() if time <= horizon)
        if raw[MAGIC_AT] < MAGIC
        for row in old_records(raw)
        if row.value is None
    )


def _snapshot(directory: Path) -> dict[int, int]:
    """Last sequence numbers by the newest producer snapshot."""
    newest = max(directory.glob("*.snapshot"), default=None)
    if newest is None:
        return {}
    entries = parse_snapshot(newest.read_bytes(), newest)
    return {entry.producer_id: entry.last_sequence for entry in entries}


def bases_of(log_dir: Path, name: str) -> list[int]:
    """Base offsets of the segments that are there under any name, of which a crash may leave some.
    Effects: lists the directory.
    """
    directory = log_dir / name
    if not directory.is_dir():
        return []
    names = (path.name[:_LIVE_NAME] for path in directory.iterdir() if ".log" in path.name)
    return sorted({int(stem) for stem in names if stem.isdigit()})
