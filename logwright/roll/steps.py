"""The file steps of a roll of a log at rest, and what a crash leaves (UnifiedLog.roll,
LocalLog.roll; 4.3.0).

=====  =======================================  ===============================================
steps  what they do                             a log that is opened after any of them
=====  =======================================  ===============================================
1      producer snapshot at the new base        as before: that offset is the log end, where
       offset, written aside and renamed        Kafka keeps a snapshot after a clean stop anyway
2      old ``.index`` and ``.timeindex`` cut    as before: only space for further entries is cut
       to their entries, final time entry       off; a partial time entry is not counted
3      new indexes, empty                       as before: indexes without a log are deleted
4      new ``.log``, empty                      rolled
=====  =======================================  ===============================================

Each line is durable before the next begins. The log comes after its indexes: a ``.log`` without an
``.index`` would be recovered, and under a clean-shutdown marker that can cost producer state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from logwright.errors import invariant
from logwright.format.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    parse_offset_index,
    parse_time_index,
    serialize_time_index,
)
from logwright.format.names import INDEX, LOG, SNAPSHOT, TIMEINDEX, TXNINDEX, segment_file_name
from logwright.format.snapshot import serialize_snapshot
from logwright.steps.replace import replace_file
from logwright.steps.step import (
    Append,
    FileStep,
    FsyncDir,
    FsyncFile,
    SetMtime,
    Truncate,
    Unlink,
    WriteFile,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from logwright.log.model import PartitionLog
    from logwright.roll.plan import RollDecision
    from logwright.units import Offset, TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveIndexes:
    """The indexes of the segment that is rolled, as they are on disk, and what its records contain.

    Attributes:
        index: content of the ``.index``.
        timeindex: content of the ``.timeindex``, None if there is none.
        largest_timestamp_ms: largest batch maxTimestamp of the segment, -1 if no batch has one.
        offset_of_largest: last offset of the first batch that has it.
    """

    index: bytes
    timeindex: bytes | None
    largest_timestamp_ms: TimestampMs
    offset_of_largest: Offset


def roll_steps(
    log: PartitionLog, decision: RollDecision, active: ActiveIndexes
) -> tuple[FileStep, ...]:
    """Return the steps that seal the active segment and begin a new one; none if no roll is due.

    Args:
        log: the log as it was observed.
        decision: with the new base offset, which is the log end offset.
        active: the active segment's indexes.
    """
    if decision.new_base_offset is None:
        return ()
    base = decision.new_base_offset
    invariant(base == log.log_end_offset, "a log at rest is rolled at its end")
    invariant(base > log.active.base_offset, "an empty active segment is not rolled")
    fresh = decision.applied_to(log).active
    return (
        *_snapshot(log, base),
        *_seal(log, active),
        *_begin(log, base, fresh.modified_ns),
    )


def _snapshot(log: PartitionLog, base: Offset) -> tuple[FileStep, ...]:
    """Return the producer state at the log's end, if no snapshot has it yet."""
    if base in log.snapshot_offsets:
        return ()
    path = log.directory / segment_file_name(base, SNAPSHOT)
    return replace_file(path, serialize_snapshot(log.producers), like=_active_log(log))


def _seal(log: PartitionLog, active: ActiveIndexes) -> tuple[FileStep, ...]:
    base = log.active.base_offset
    index = log.directory / segment_file_name(base, INDEX)
    timeindex = log.directory / segment_file_name(base, TIMEINDEX)
    steps: list[FileStep] = []
    used = _ascending(parse_offset_index(active.index, base)) * OFFSET_ENTRY_BYTES
    if used != len(active.index):
        steps += [Truncate(index, used), FsyncFile(index)]
    entries = parse_time_index(active.timeindex or b"", base)
    entries = entries[: _ascending(entries)]
    used = len(entries) * TIME_ENTRY_BYTES
    last_ms = int(entries[-1, 0]) if len(entries) else -1
    final = b""
    if active.largest_timestamp_ms > last_ms:
        pair = np.array([[active.largest_timestamp_ms, active.offset_of_largest]], dtype=np.int64)
        final = serialize_time_index(pair, base)
    if active.timeindex is None:
        steps += [WriteFile(timeindex, final, like=_active_log(log)), FsyncFile(timeindex)]
        return (*steps, FsyncDir(log.directory))
    if used != len(active.timeindex):
        steps.append(Truncate(timeindex, used))
    if final:
        steps.append(Append(timeindex, final))
    if used != len(active.timeindex) or final:
        steps.append(FsyncFile(timeindex))
    return tuple(steps)


def _ascending(entries: NDArray[np.int64]) -> int:
    """Return how many entries are in use: an index that was not trimmed ends in zeros."""
    if len(entries) == 0:
        return 0
    rising = np.flatnonzero(np.diff(entries[:, 0]) <= 0)
    count = int(rising[0]) + 1 if len(rising) else len(entries)
    only_zeros = count == 1 and len(entries) > 1 and entries[0, 0] == entries[1, 0]
    return 0 if only_zeros else count


def _begin(log: PartitionLog, base: Offset, modified_ns: int) -> tuple[FileStep, ...]:
    directory = log.directory
    like = _active_log(log)
    steps: list[FileStep] = [Unlink(directory / segment_file_name(base, TXNINDEX), missing_ok=True)]
    for suffix in (INDEX, TIMEINDEX, LOG):
        path = directory / segment_file_name(base, suffix)
        if suffix == LOG:
            steps.append(FsyncDir(directory))
        steps += [WriteFile(path, b"", like=like), SetMtime(path, modified_ns), FsyncFile(path)]
    return (*steps, FsyncDir(directory))


def _active_log(log: PartitionLog) -> Path:
    return log.directory / segment_file_name(log.active.base_offset, LOG)
