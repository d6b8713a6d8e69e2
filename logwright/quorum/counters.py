"""Counters of the cluster that must not go back with its state.

A rescued state may lack records that others have acted on. Where it counts on from what it knows,
something is given a second time:

- **Producer ids** (ProducerIdsRecord): a new producer gets the id and epoch of another one; a
  broker takes its first batch for a duplicate, acknowledges it, and does not write it.
- **Leader epochs of partitions** (PartitionRecord): below those in the logs, a leader's entries in
  ``leader-epoch-checkpoint`` get lost, and positions that were committed with a newer epoch are
  never reached; of ``__transaction_state``, whose leader epoch is the coordinator's, markers are
  refused for ever.

So both are raised by more than can be missing. Broker epochs need nothing: each broker gets a new
one when it registers, and one that the state does not have counts as an unclean stop (KIP-966).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from logwright.errors import CorruptBatch
from logwright.format.batch import NO_SEQUENCE
from logwright.format.messages import MalformedMessage, read_varint
from logwright.format.record import Record
from logwright.metadata.records import FRAME_VERSION
from logwright.quorum.kinds import api_key
from logwright.units import INT32_MAX, Offset, TimestampMs

LEADER_EPOCHS: Final = 100_000
"""How much newer the leader epoch of each partition is: an election raises it by one."""
PRODUCER_IDS: Final = 1_000_000_000_000
"""How many producer ids are left out: a broker takes a thousand at once."""

_PARTITION: Final = 3
_PRODUCER_IDS: Final = 15
_ARRAYS: Final = 4
"""Of a PartitionRecord: replicas, ISR, those that are removed and added."""
_NODE: Final = 4
_ID: Final = 16
_NO_BROKER: Final = (-1).to_bytes(4, "big", signed=True) + (-1).to_bytes(8, "big", signed=True)


def with_raised(records: Iterable[Record]) -> Iterator[Record]:
    """Yield the records of a state with raised counters, and a last one for the producer ids.

    Raises:
        CorruptBatch: a record is malformed.
    """
    next_id = 0
    last: Record | None = None
    for record in records:
        last = record
        key = api_key(record.value)
        if key == _PRODUCER_IDS:
            next_id = max(next_id, next_producer_id(record.value or b""))
        yield _raised(record) if key == _PARTITION else record
    yield Record(
        offset=Offset(0) if last is None else last.offset,
        timestamp_ms=TimestampMs(0) if last is None else last.timestamp_ms,
        sequence=NO_SEQUENCE,
        key=None,
        value=producer_ids(next_id + PRODUCER_IDS),
        headers=(),
    )


def _raised(record: Record) -> Record:
    """Return a PartitionRecord with a newer leader epoch."""
    value = record.value or b""
    start = leader_epoch_at(value)
    epoch = int.from_bytes(value[start : start + 4], "big", signed=True)
    raised = min(epoch + LEADER_EPOCHS, INT32_MAX - 1)
    content = max(epoch, raised).to_bytes(4, "big", signed=True)
    return replace(record, value=value[:start] + content + value[start + 4 :])


def leader_epoch_at(value: bytes) -> int:
    """Return where a PartitionRecord has its leader epoch, an int32.

    Raises:
        CorruptBatch: it is malformed.
    """
    position = _body(value) + _NODE + _ID
    try:
        for _ in range(_ARRAYS):
            length, position = read_varint(value, position)
            position += max(length - 1, 0) * _NODE
    except MalformedMessage as error:
        raise CorruptBatch(f"it {error.reason}.") from error
    position += _NODE  # the leader
    if position + 4 > len(value):
        raise CorruptBatch("it ends too early.")
    return position


def next_producer_id(value: bytes) -> int:
    """Return the first producer id that a ProducerIdsRecord has not given out.

    Raises:
        CorruptBatch: it is malformed.
    """
    start = _body(value) + len(_NO_BROKER)
    if start + 8 > len(value):
        raise CorruptBatch("it ends too early.")
    return int.from_bytes(value[start : start + 8], "big", signed=True)


def producer_ids(next_id: int) -> bytes:
    """Return the value of a ProducerIdsRecord of no broker."""
    head = bytes([FRAME_VERSION, _PRODUCER_IDS, 0])
    return head + _NO_BROKER + next_id.to_bytes(8, "big", signed=True) + b"\x00"


def _body(value: bytes) -> int:
    """Return where the message begins, after frame version, api key and version."""
    position = 0
    try:
        for _ in range(3):
            _, position = read_varint(value, position)
    except MalformedMessage as error:
        raise CorruptBatch(f"it {error.reason}.") from error
    return position
