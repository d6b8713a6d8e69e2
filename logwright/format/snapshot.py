"""Parse and serialize producer snapshots of version 1 (ProducerStateManager, 4.3.0).

::

    version        int16   1
    crc            uint32  CRC-32C of byte 6 to the end
    entry count    int32
    each entry     int64 producerId, int16 epoch, int32 lastSequence, int64 lastOffset,
                   int32 offsetDelta, int64 timestamp, int32 coordinatorEpoch,
                   int64 currentTxnFirstOffset
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from logwright.errors import CorruptProducerSnapshot, UnsupportedFormatError
from logwright.format.crc import crc32c
from logwright.units import Offset, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION: Final = 1

_HEADER: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_START: Final = 6
_REMEDY: Final = (
    "The log was not changed. A broker that loads the directory deletes such a snapshot and"
    " rebuilds the producer state from an older one."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerEntry:
    """The state of one producer.

    Attributes:
        last_sequence: last sequence of its last data batch, -1 if unknown.
        last_offset: last offset of its last data batch, -1 if unknown.
        offset_delta: from that batch's first to its last offset.
        timestamp_ms: that batch's maxTimestamp, or a later marker's timestamp.
        coordinator_epoch: epoch in its last marker, -1 if unknown.
        current_txn_first_offset: first offset of its open transaction, None if none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: TimestampMs
    coordinator_epoch: int
    current_txn_first_offset: Offset | None


def parse_snapshot(content: bytes, path: object) -> tuple[ProducerEntry, ...]:
    """Parse the producers of a snapshot file, in file order.

    Raises:
        CorruptProducerSnapshot: its length, count or CRC is wrong.
        UnsupportedFormatError: another version than 1.
    """
    if content == _NO_PRODUCERS:
        return ()
    if len(content) < _HEADER.size:
        raise _corrupt(f"{len(content)} bytes are too short.", path, len(content))
    version, crc, count = _HEADER.unpack_from(content)
    if version != VERSION:
        raise UnsupportedFormatError(
            f"the producer snapshot's version is {version}.",
            path=path,
            position=0,
            remedy="Only version 1 is supported; the log was not changed.",
        )
    if crc32c(memoryview(content)[_CRC_START:]) != crc:
        raise _corrupt("the CRC is wrong.", path, 2)
    if len(content) != _HEADER.size + count * _ENTRY.size:
        raise _corrupt(f"{len(content)} bytes do not match {count} entries.", path, _CRC_START)
    return tuple(
        ProducerEntry(
            producer_id=producer_id,
            producer_epoch=epoch,
            last_sequence=sequence,
            last_offset=last_offset,
            offset_delta=delta,
            timestamp_ms=TimestampMs(timestamp),
            coordinator_epoch=coordinator_epoch,
            current_txn_first_offset=Offset(txn_first) if txn_first >= 0 else None,
        )
        for (
            producer_id,
            epoch,
            sequence,
            last_offset,
            delta,
            timestamp,
            coordinator_epoch,
            txn_first,
        ) in _ENTRY.iter_unpack(memoryview(content)[_HEADER.size :])
    )


def serialize_snapshot(entries: Sequence[ProducerEntry]) -> bytes:
    """Return the file's content, with the producers in this order."""
    body = struct.pack(">i", len(entries)) + b"".join(
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.timestamp_ms,
            entry.coordinator_epoch,
            -1 if entry.current_txn_first_offset is None else entry.current_txn_first_offset,
        )
        for entry in entries
    )
    return struct.pack(">hI", VERSION, crc32c(body)) + body


_NO_PRODUCERS: Final = serialize_snapshot(())


def _corrupt(problem: str, path: object, position: int) -> CorruptProducerSnapshot:
    return CorruptProducerSnapshot(problem, path=path, position=position, remedy=_REMEDY)
