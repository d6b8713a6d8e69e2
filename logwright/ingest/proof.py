"""What an interrupted append left in a log, and whether it can be cut off: shown by the log's own
bytes.

The journal says what the log was, and the list of batches what was appended. Both are hints: a cut
that follows them must take away batches of that list and nothing else.

1. The active ``.log`` is the file that it was. Its batches fill exactly the bytes that it had, and
   end at the offset at which it ended.
2. What follows is batches of the list, in their order; the last one may be torn, or zeros.
3. Every later segment is one that the append made, and has the following batches of the list.
4. The index entries that stay are those of offsets below the old log end offset.
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
from logwright.log.mapped import map_file

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
    "Recover it with `logwright recover`, or start a broker on the directory and stop it cleanly;"
    " then run it again."
)

Batches = list[tuple[int, int]]
"""(base offset, CRC) of each, in their order."""


@dataclass(frozen=True, slots=True)
class Found:
    """A file of the partition's directory."""

    bytes: int
    inode: int


def kept_end(
    listed: Batches, found: Iterable[tuple[tuple[int, int], int]], pending: Pending, log_end: int
) -> int | None:
    """How far a log has the batches of a pending append.

    What follows them may be a broker's, appended where they ended. It may also be what a compaction
    or a retention left of the others: they leave a gap, or a batch with the same first and last
    offset. No checkpoint is asked whether there was one.

    Args:
        listed: of the append, as its list says.
        found: ((base offset, CRC), next offset) of the log's batches from the old log end offset.
        log_end: the log end offset.

    Returns:
        the offset behind the last one that is there; None if it cannot be told.
    """
    end = pending.log_end_offset
    next_offsets = [*(base for base, _ in listed[1:]), pending.end_offset]
    for number, (batch, next_offset) in enumerate(found):
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
    """Stop unless cutting a log back to what it was before a pending append takes away nothing but
    that append. Effects: reads the log's files.

    Args:
        directory: the partition's.
        pending: as its journal says.
        listed: the batches that were to be appended; empty if that is not known.
        files: the plain files of the directory, by name.

    Raises:
        UncleanLogDir: it would, or that cannot be told.
        UnreadableFile, StalePlan: a file cannot be read, or changed.
    """
    later = _later_logs(pending, files)
    if not all(_may_be_created(name, pending) for name in pending.created):
        raise _refused(directory, "its journal names files that no append makes")
    if any(name.endswith((CLEANED, SWAP)) for name in files):
        raise _refused(directory, "another operation was interrupted since")
    if any(segment_file_name(base, LOG) not in pending.created for base in later):
        raise _refused(directory, "it has segments that the append did not make")
    matched = 0
    whole = True
    if pending.base_offset is not None:
        _check_tail(directory, pending, files)
        path = directory / segment_file_name(pending.base_offset, LOG)
        data = map_file(path, expected_bytes=files[path.name].bytes)
        matched, whole = _match(path, data, pending.log_bytes, listed, 0)
    elif pending.log_end_offset != 0:
        raise _refused(directory, "its journal gives an end to a log that was not there")
    for base in later:
        path = directory / segment_file_name(base, LOG)
        if not whole:
            raise _refused(path, "it comes after a torn batch")
        matched, whole = _match(path, map_file(path), 0, listed, matched)


def _refused(path: Path, why: str, position: int | None = None) -> UncleanLogDir:
    return UncleanLogDir(
        f"an append was interrupted and is not cut back: {why}.",
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
    """Base offsets of the segments behind the one that was active, ascending."""
    parsed = [parse_segment_file_name(name) for name in files]
    bases = sorted(one[0] for one in parsed if one is not None and one[1] == LOG)
    return [base for base in bases if pending.base_offset is None or base > pending.base_offset]


def _check_tail(directory: Path, pending: Pending, files: Mapping[str, Found]) -> None:
    """Stop unless the active segment is the one that was appended to."""
    base = pending.base_offset or 0
    log, index, timeindex = (directory / segment_file_name(base, one) for one in _SUFFIXES)
    if not files.keys() >= {log.name, index.name, timeindex.name}:
        raise _refused(log, "the active segment is not whole")
    if files[log.name].inode != pending.inode:
        raise _refused(log, "the active segment is another file now")
    if files[log.name].bytes < pending.log_bytes:
        raise _refused(log, f"the log is shorter than the {pending.log_bytes} bytes that it had")
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
            raise _refused(path, f"the entries of before the append have not {size} bytes")


def _below(offsets: NDArray[np.int64], pending: Pending) -> int:
    """How many of the first entries are of offsets below the old log end offset."""
    above = np.flatnonzero(offsets >= pending.log_end_offset)
    return int(above[0]) if len(above) else len(offsets)


def _match(
    path: Path, data: NDArray[np.uint8], position: int, listed: Batches, matched: int
) -> tuple[int, bool]:
    """Go through a log from a position on, batch by batch of the list.

    Returns:
        how many of the list are there, those matched before included; whether the last is whole.

    Raises:
        UncleanLogDir: there is anything else.
    """
    while position < len(data):
        if not data[position:].any():
            return matched, False
        if matched == len(listed) or not _begins(
            data[position : position + _HEAD], listed[matched]
        ):
            raise _refused(path, "what is here was not appended by it", position)
        if position + _HEAD > len(data):
            return matched, False
        position += int.from_bytes(data[position + 8 : position + 12].tobytes(), "big") + 12
        if position > len(data):
            return matched, False
        matched += 1
    return matched, True


def _begins(found: NDArray[np.uint8], batch: tuple[int, int]) -> bool:
    """Whether these first bytes, 21 or as many as there are, are those of this batch."""
    head = found.tobytes()
    base, crc = (number.to_bytes(size, "big") for number, size in zip(batch, (8, 4), strict=True))
    if head[:8] != base[: len(head)]:
        return False
    return len(head) < _HEAD or (head[_CRC_AT:] == crc and head[8] < _SIGN)
