"""Check every batch, record and index entry of one segment."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.projection import project
from logwright.batches.source import Source, open_window, require_batch, row_ranges
from logwright.errors import BatchAboveLimit, CorruptBatch, UnsupportedFormatError
from logwright.format.batch import CONTROL, MAGIC_AT, unsupported_magic
from logwright.format.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    TXN_ENTRY_BYTES,
    before_space,
    parse_offset_index,
    parse_time_index,
    parse_txn_index,
)
from logwright.format.legacy import NOT_LEGACY, legacy_batch_at, legacy_records
from logwright.format.lookup import wrong_offset_entries, wrong_time_entries
from logwright.format.names import INDEX, LOG, TIMEINDEX, TXNINDEX, segment_file_name
from logwright.format.scan import bad_crcs
from logwright.format.valid import valid_batches
from logwright.format.walk import TRAILING
from logwright.place.files import exists
from logwright.place.mapped import MappedFiles, map_file
from logwright.place.model import Place
from logwright.recovery.segments import ENDS
from logwright.verify.model import Fault, entry_faults

_ENTRY_BYTES: Final = {
    INDEX: OFFSET_ENTRY_BYTES,
    TIMEINDEX: TIME_ENTRY_BYTES,
    TXNINDEX: TXN_ENTRY_BYTES,
}


def check_segment(
    directory: Place, base_offset: int, end_offset: int, *, has_space: bool
) -> tuple[list[Fault], int]:
    """Return what is wrong with a segment, and the offset after its last batch. Effects: reads its
    files.

    Args:
        directory: the partition's.
        base_offset: of the segment.
        end_offset: its offsets must be lower.
        has_space: its files may end in zeros, which a broker had allocated: it is the last one, and
            the broker was not stopped cleanly (`before_space`; ``preallocate``).

    Raises:
        UnreadableFile: a file cannot be read.
        UnsupportedFormatError: a batch's magic is above 2: it is not checked.
        BatchAboveLimit: a batch unpacks to more than the limit: it is not checked.
    """
    path = directory / segment_file_name(base_offset, LOG)
    log = MappedFiles().open(path)
    data = log.data
    valid = valid_batches(data, base_offset=base_offset, end_offset=end_offset, check_crcs=False)
    if valid.end == "magic":
        error = unsupported_magic(int(data[valid.valid_bytes + MAGIC_AT]), valid.valid_bytes)
        raise UnsupportedFormatError(
            error.problem, path=path, position=error.position, remedy=error.remedy
        )
    batches = valid.batches
    counts = batches["count"].astype(np.int64)
    batches["first_ordinal"] = np.cumsum(counts) - counts
    faults = []
    is_old = batches["legacy"] != NOT_LEGACY
    others = np.flatnonzero(~is_old)
    damaged = {int(others[row]) for row in bad_crcs(data, batches[others])}
    for row in sorted(damaged):
        position, offset = int(batches[row]["position"]), int(batches[row]["base_offset"])
        problem = f"the CRC of the record batch at offset {offset} is wrong"
        faults.append(Fault(path=path, position=position, problem=problem))
    readable = np.setdiff1d(others, sorted(damaged))
    source = Source(base_offset=base_offset, log=log, batches=batches)
    faults += _unreadable_records(source, readable)
    for row in np.flatnonzero(is_old).tolist():
        after = int(batches[row - 1]["last_offset"]) if row else base_offset - 1
        faults += _legacy_fault(source, row, after)
    if valid.end != "whole" and not (has_space and not data[valid.valid_bytes :].any()):
        faults.append(Fault(path=path, position=valid.valid_bytes, problem=ENDS[valid.end]))
    faults += _check_indexes(directory, base_offset, batches, has_space=has_space)
    next_offset = int(batches[-1]["last_offset"]) + 1 if len(batches) else base_offset
    return faults, next_offset


def _unreadable_records(source: Source, readable: NDArray[np.int64]) -> list[Fault]:
    """Find the batches whose records cannot be read, or do not ascend."""
    faults: list[Fault] = []
    for first, last in row_ranges(source, first=0, last=len(source.batches)):
        rows = readable[(readable >= first) & (readable < last)]
        if rows.size and not _reads(source, rows):
            faults += [fault for row in rows for fault in _record_fault(source, int(row))]
    return faults


def _reads(source: Source, rows: NDArray[np.int64]) -> bool:
    """Return whether all of these batches can be read without a fault, at once."""
    try:
        return not _problem(source, rows)
    except (CorruptBatch, UnsupportedFormatError, BatchAboveLimit):
        return False


def _record_fault(source: Source, row: int) -> list[Fault]:
    """Return what is wrong inside one batch, if anything."""
    batch = source.batches[row]
    try:
        problem = _problem(source, np.array([row]))
    except (CorruptBatch, UnsupportedFormatError) as error:
        problem = error.problem.removesuffix(".")
    if not problem:
        return []
    return [Fault(path=source.path, position=int(batch["position"]), problem=problem)]


def _legacy_fault(source: Source, row: int, after: int) -> list[Fault]:
    """Return what is wrong inside one batch of an old format, if anything: its first record must be
    after this offset. Its CRC is right.

    Raises:
        BatchAboveLimit: it unpacks to more than the limit.
    """
    batch = source.batches[row]
    position = int(batch["position"])
    content = source.data[position : position + int(batch["size"])]
    try:
        records = legacy_records(legacy_batch_at(content.data))
    except BatchAboveLimit as error:
        raise BatchAboveLimit(
            error.problem, path=source.path, position=position, remedy=error.remedy
        ) from error
    except CorruptBatch as error:
        problem = error.problem.removesuffix(".")
        return [Fault(path=source.path, position=position, problem=problem)]
    if records[0].offset > after:
        return []
    problem = f"the offsets of the records at offset {records[-1].offset} do not ascend"
    return [Fault(path=source.path, position=position, problem=problem)]


def _problem(source: Source, rows: NDArray[np.int64]) -> str:
    """Return what is wrong with the offsets or the counts of some batches, empty if nothing is.

    Raises:
        CorruptBatch: the records of one cannot be read.
    """
    offset = int(source.batches[rows[0]]["base_offset"])
    window = open_window(source, rows)
    if not _counts_are_possible(window.batches):
        return f"the record count of the batch at offset {offset} is impossible"
    empty = (window.batches["count"] == 0) & (window.spans[:, 1] != window.spans[:, 0])
    if empty.any():
        require_batch(source, window.batches, int(empty.argmax()), TRAILING)
    if len(project(source, window).unordered):
        return f"the offsets of the records at offset {offset} do not ascend"
    return ""


def _counts_are_possible(batches: NDArray[np.void]) -> bool:
    spans = batches["last_offset"] - batches["base_offset"]
    return bool(((batches["count"] >= 0) & (batches["count"] <= spans + 1)).all())


def _check_indexes(
    directory: Place, base: int, batches: NDArray[np.void], *, has_space: bool
) -> list[Fault]:
    faults: list[Fault] = []
    offsets = parse_offset_index(b"", base)
    for suffix, entry_bytes in _ENTRY_BYTES.items():
        path = directory / segment_file_name(base, suffix)
        if not exists(path):
            continue
        content = map_file(path).tobytes()
        if has_space and suffix != TXNINDEX:
            content = before_space(content, entry_bytes)
        whole = len(content) - len(content) % entry_bytes
        if whole != len(content):
            problem = f"{len(content) - whole} bytes are not a whole entry"
            faults.append(Fault(path=path, position=whole, problem=problem))
        if suffix == INDEX:
            offsets = parse_offset_index(content, base)
            faults += _offset_faults(path, offsets, batches)
        elif suffix == TIMEINDEX:
            faults += _time_faults(path, parse_time_index(content, base), offsets, batches)
        else:
            faults += _txn_faults(path, content, batches)
    return faults


def _offset_faults(
    path: Place, entries: NDArray[np.int64], batches: NDArray[np.void]
) -> list[Fault]:
    return entry_faults(
        path,
        wrong_offset_entries(entries, batches),
        entry_bytes=OFFSET_ENTRY_BYTES,
        problem="misleads a broker: no batch of the .log begins there, or an earlier one has the"
        " offset",
    )


def _time_faults(
    path: Place,
    entries: NDArray[np.int64],
    offset_entries: NDArray[np.int64],
    batches: NDArray[np.void],
) -> list[Fault]:
    return entry_faults(
        path,
        wrong_time_entries(entries, offset_entries, batches),
        entry_bytes=TIME_ENTRY_BYTES,
        problem="does not agree with the .log",
    )


def _txn_faults(path: Place, content: bytes, batches: NDArray[np.void]) -> list[Fault]:
    """Find the entries that do not name a marker of their producer in this segment."""
    markers = batches[(batches["attributes"] & CONTROL) != 0]
    known = set(zip(markers["producer_id"].tolist(), markers["last_offset"].tolist(), strict=True))
    entries = parse_txn_index(content)
    last = [-1, *(entry.last_offset for entry in entries)]
    wrong = [
        entry.version != 0
        or (entry.producer_id, entry.last_offset) not in known
        or not before < entry.last_offset
        or entry.first_offset > entry.last_offset
        for entry, before in zip(entries, last, strict=False)
    ]
    return entry_faults(
        path,
        np.array(wrong, dtype=np.bool_),
        entry_bytes=TXN_ENTRY_BYTES,
        problem="does not name a marker of the .log",
    )
