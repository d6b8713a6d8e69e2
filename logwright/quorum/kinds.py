"""The kinds of records of the metadata log, and how many of each there are."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType
from typing import Final

from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.messages import MalformedMessage, read_varint
from logwright.metadata.records import FRAME_VERSION
from logwright.quorum.model import KindCount
from logwright.units import Offset

CONTROL: Final = -1
"""Stands for the control records of the quorum, which have no api key."""
NO_OP: Final = 20
NAMES: Final = MappingProxyType(
    {
        CONTROL: "control",
        0: "RegisterBrokerRecord",
        1: "UnregisterBrokerRecord",
        2: "TopicRecord",
        3: "PartitionRecord",
        4: "ConfigRecord",
        5: "PartitionChangeRecord",
        7: "FenceBrokerRecord",
        8: "UnfenceBrokerRecord",
        9: "RemoveTopicRecord",
        10: "DelegationTokenRecord",
        11: "UserScramCredentialRecord",
        12: "FeatureLevelRecord",
        14: "ClientQuotaRecord",
        15: "ProducerIdsRecord",
        17: "BrokerRegistrationChangeRecord",
        18: "AccessControlEntryRecord",
        19: "RemoveAccessControlEntryRecord",
        NO_OP: "NoOpRecord",
        21: "ZkMigrationStateRecord",
        22: "RemoveUserScramCredentialRecord",
        23: "BeginTransactionRecord",
        24: "EndTransactionRecord",
        25: "AbortTransactionRecord",
        26: "RemoveDelegationTokenRecord",
        27: "RegisterControllerRecord",
        28: "ClearElrRecord",
        29: "UnregisterControllerRecord",
    }
)
"""Api key → record (org.apache.kafka.common.metadata of Kafka 4.4.0)."""


def api_key(value: bytes | None) -> int:
    """Return the api key of a record's value.

    Raises:
        CorruptBatch: it is null or malformed.
        UnsupportedFormatError: the frame has an unknown version.
    """
    if value is None:
        raise CorruptBatch("its value is null.")
    try:
        frame_version, position = read_varint(value, 0)
        key, _ = read_varint(value, position)
    except MalformedMessage as error:
        raise CorruptBatch(f"it {error.reason}.") from error
    if frame_version != FRAME_VERSION:
        raise UnsupportedFormatError(
            f"its frame version is {frame_version}, supported is {FRAME_VERSION}."
        )
    return key


class Tally:
    """Counts records by kind."""

    def __init__(self) -> None:
        self._counts: dict[int, KindCount] = {}

    def add(self, keys: Iterable[tuple[Offset, int]]) -> None:
        """Count records: offset, api key."""
        for offset, key in keys:
            kind = NAMES.get(key, f"api key {key}")
            before = self._counts.get(key, KindCount(kind, 0, offset, offset))
            self._counts[key] = before._replace(records=before.records + 1, last_offset=offset)

    def clear(self) -> None:
        """Forget all."""
        self._counts.clear()

    def counts(self) -> tuple[KindCount, ...]:
        """Return the counts, in the order of the first offsets."""
        return tuple(sorted(self._counts.values(), key=lambda one: one.first_offset))
