"""Check from the log's bytes that truncating it to its state before an interrupted append removes
only that append.

The journal has the log's state before the append, and the list of batches what was appended. Both
are hints, so these conditions are checked:

1. The active ``.log`` is the same file. Its batches end exactly at the old size and the old log end
   offset.
2. After that come batches of the list, in order; the last one may be torn or zeros.
3. Every later segment was created by the append and has the next batches of the list.
4. The remaining index entries are those of offsets below the old log end offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from logwright.errors import UncleanLogDir
from logwright.format.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    parse_offset_index,
    parse_time_index,
)
from logwright.format.names import (
    CLEANED,
    INDEX,
    LOG,
    SNAPSHOT,
    SWAP,
    TIMEINDEX,
    parse_segment_file_name,
    segment_file_name,
)
from logwright.format.valid import valid_batches
from logwright.place.mapped import map_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numpy.typing import NDArray

    from logwright.ingest.journal import Pending

_SUFFIXES: Final = (LOG, INDEX, TIMEINDEX)
_CRC_AT: Final = 17
_HEAD: Final = 21
_SIGN: Final = 0x80

RECOVER: Final = (
    "Recover it with `logwright recover`, or start a broker on the directory and shut it down"
    " cleanly; then retry."
)

Batches = list[tuple[int, int]]
"""(base offset, CRC) of each batch, in order."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file in the partition's directory."""

    bytes: int
    inode: int


def kept_end(
    listed: Batches, present: Iterable[tuple[tuple[int, int], int]], pending: Pending, log_end: int
) -> int | None:
    """Find how many batches of a pending append are in the log.

    Later batches may come from a broker, which appended after them. They may also be what a
    compaction or a retention left of the append: these leave a gap, or a batch with the same first
    and last offset. Checkpoints are not used to decide that.

    Args:
        listed: the batches of the append.
        present: ((base offset, CRC), next offset) of the log's batches from the old log end offset.
        log_end: the log end offset.

    Returns:
        the offset after the last batch of the append; None if that cannot be decided.
    """
    end = pending.log_end_offset
    next_offsets = [*(base for base, _ in listed[1:]), pending.end_offset]
    for number, (batch, next_offset) in enumerate(present):
        if number == len(listed):
            return end
        if batch != listed[number]:
            foreign = batch[0] == end and next_offset != next_offsets[number]
            return end if foreign else None
        end = next_offset
    return end if end == log_end else None


def prove_cut(
    directory: Path, pending: Pending, listed: Batches, files: Mapping[str, Found]
) -> None:
    """Check that truncating a log to its state before a pending append removes only that append.
    Effects: reads the log's files.

    Args:
        directory: the partition's directory.
        pending: the append in its journal.
        listed: the batches of the append; empty if unknown.
        files: name → regular file of the directory.

    Raises:
        UncleanLogDir: it would remove more, or that cannot be decided.
        UnreadableFile, StalePlan: a file cannot be read, or changed.
    """
    later = _later_logs(pending, files)
    if not all(_may_be_created(name, pending) for name in pending.created):
        raise _refused(directory, "its journal lists files that an append does not create")
    if any(name.endswith((CLEANED, SWAP)) for name in files):
        raise _refused(directory, "another operation was interrupted since")
    if any(segment_file_name(base, LOG) not in pending.created for base in later):
        raise _refused(directory, "it has segments that the append did not create")
    matched = 0
    whole = True
    if pending.base_offset is not None:
        _check_tail(directory, pending, files)
        path = directory / segment_file_name(pending.base_offset, LOG)
        data = map_file(path, expected_bytes=files[path.name].bytes)
        matched, whole = _match(path, data, pending.log_bytes, listed, 0)
    elif pending.log_end_offset != 0:
        raise _refused(directory, "its journal has a log end offset but no log before the append")
    for base in later:
        path = directory / segment_file_name(base, LOG)
        if not whole:
            raise _refused(path, "it comes after a torn batch")
        matched, whole = _match(path, map_file(path), 0, listed, matched)


def _refused(path: Path, why: str, position: int | None = None) -> UncleanLogDir:
    return UncleanLogDir(
        f"an append was interrupted and cannot be rolled back: {why}.",
        path=path,
        position=position,
        remedy=RECOVER,
    )


def _may_be_created(name: str, pending: Pending) -> bool:
    parsed = parse_segment_file_name(name)
    if parsed is None or segment_file_name(*parsed) != name:
        return False
    offset, suffix = parsed
    above = pending.base_offset is None or suffix == SNAPSHOT or offset > pending.base_offset
    return above and offset >= pending.log_end_offset


def _later_logs(pending: Pending, files: Mapping[str, Found]) -> list[int]:
    """Return the base offsets of the segments after the formerly active one, ascending."""
    parsed = [parse_segment_file_name(name) for name in files]
    bases = sorted(one[0] for one in parsed if one is not None and one[1] == LOG)
    return [base for base in bases if pending.base_offset is None or base > pending.base_offset]


def _check_tail(directory: Path, pending: Pending, files: Mapping[str, Found]) -> None:
    """Check that the active segment is the one that was appended to."""
    base = pending.base_offset or 0
    log, index, timeindex = (directory / segment_file_name(base, one) for one in _SUFFIXES)
    if not files.keys() >= {log.name, index.name, timeindex.name}:
        raise _refused(log, "files of the active segment are missing")
    if files[log.name].inode != pending.inode:
        raise _refused(log, "the active segment was replaced by another file")
    if files[log.name].bytes < pending.log_bytes:
        raise _refused(
            log, f"the log is shorter than its {pending.log_bytes} bytes before the append"
        )
    data = map_file(log, expected_bytes=files[log.name].bytes)[: pending.log_bytes]
    kept = valid_batches(data, base_offset=base, check_crcs=False, check_range=False)
    end = int(kept.batches[-1]["last_offset"]) + 1 if len(kept.batches) else base
    if kept.valid_bytes != pending.log_bytes or end != pending.log_end_offset:
        raise _refused(log, "the log did not end here", pending.log_bytes)
    for path, entry_bytes, parse, column, size in (
        (index, OFFSET_ENTRY_BYTES, parse_offset_index, 0, pending.index_bytes),
        (timeindex, TIME_ENTRY_BYTES, parse_time_index, 1, pending.timeindex_bytes),
    ):
        entries = map_file(path).tobytes()
        rows = parse(entries[: len(entries) - len(entries) % entry_bytes], base)
        if _below(rows[:, column], pending) * entry_bytes != size:
            raise _refused(path, f"the entries from before the append do not have {size} bytes")


def _below(offsets: NDArray[np.int64], pending: Pending) -> int:
    """Return the number of entries with offsets below the old log end offset."""
    above = np.flatnonzero(offsets >= pending.log_end_offset)
    return int(above[0]) if len(above) else len(offsets)


def _match(
    path: Path, data: NDArray[np.uint8], position: int, listed: Batches, matched: int
) -> tuple[int, bool]:
    """Compare a log from a position on with the batches of the list.

    Returns:
        the number of matched batches, including earlier ones; whether the last one is whole.

    Raises:
        UncleanLogDir: there is anything else.
    """
    while position < len(data):
        if not data[position:].any():
            return matched, False
        if matched == len(listed) or not _begins(
            data[position : position + _HEAD], listed[matched]
        ):
            raise _refused(path, "these bytes were not written by the append", position)
        if position + _HEAD > len(data):
            return matched, False
        position += int.from_bytes(data[position + 8 : position + 12].tobytes(), "big") + 12
        if position > len(data):
            return matched, False
        matched += 1
    return matched, True


def _begins(start: NDArray[np.uint8], batch: tuple[int, int]) -> bool:
    """Return whether the first 21 bytes, or as many as there are, are those of this batch."""
    head = start.tobytes()
    base, crc = (number.to_bytes(size, "big") for number, size in zip(batch, (8, 4), strict=True))
    if head[:8] != base[: len(head)]:
        return False
    return len(head) < _HEAD or (head[_CRC_AT:] == crc and head[8] < _SIGN)
