"""Control records: transaction markers, and KRaft's own (ControlRecordType, 4.3.0)."""

from __future__ import annotations

import struct
from enum import Enum
from typing import Final

from logwright.errors import CorruptBatch

_KEY: Final = struct.Struct(">hh")
_END_TRANSACTION: Final = struct.Struct(">hi")
_VERSION: Final = 0


class ControlType(Enum):
    """Type of a control record; the value is the id in its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    UNKNOWN = -1

    @property
    def ends_transaction(self) -> bool:
        """Whether it is a transaction marker."""
        return self in (ControlType.ABORT, ControlType.COMMIT)


_BY_ID: Final = {kind.value: kind for kind in ControlType}


def parse_control_key(key: bytes | None) -> ControlType:
    """Parse the type in a control record's key; an unknown type is UNKNOWN, not an error.

    Raises:
        CorruptBatch: the key is missing, too short, or of a negative version.
    """
    if key is None or len(key) < _KEY.size:
        raise CorruptBatch("a control record's key has fewer than 4 bytes.")
    version, kind = _KEY.unpack_from(key)
    if version < _VERSION:
        raise CorruptBatch(f"a control record's key has version {version}.")
    return _BY_ID.get(kind, ControlType.UNKNOWN)


def parse_marker_value(value: bytes | None) -> int:
    """Parse the coordinator epoch in a marker's value; later versions are read as version 0.

    Raises:
        CorruptBatch: the value is missing, too short, or of a negative version.
    """
    if value is None or len(value) < _END_TRANSACTION.size:
        raise CorruptBatch("a transaction marker's value has fewer than 6 bytes.")
    version, coordinator_epoch = _END_TRANSACTION.unpack_from(value)
    if version < _VERSION:
        raise CorruptBatch(f"a transaction marker's value has version {version}.")
    return int(coordinator_epoch)


def serialize_control_key(kind: ControlType) -> bytes:
    """Return a control record's key, version 0."""
    return _KEY.pack(_VERSION, kind.value)


def serialize_marker_value(coordinator_epoch: int) -> bytes:
    """Return a transaction marker's value, version 0."""
    return _END_TRANSACTION.pack(_VERSION, coordinator_epoch)
