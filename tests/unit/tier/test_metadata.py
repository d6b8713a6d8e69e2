"""Which segments the events say are readable."""

from __future__ import annotations

import struct
import uuid
from pathlib import Path

import pytest

from logwright.errors import UnsupportedFormatError
from logwright.format.names import TopicPartition
from logwright.tier.metadata import (
    COPY_FINISHED,
    COPY_STARTED,
    DELETE_FINISHED,
    DELETE_STARTED,
    RemoteLogMetadata,
    read_remote_log_metadata,
)
from tests.tiers import PARTITIONS, TIERS, unpacked

TOPIC = uuid.UUID(int=7).bytes
LOG = (TopicPartition("t", 3), "AAAAAAAAAAAAAAAAAAAABw")


def log_id() -> bytes:
    return b"\x02t" + TOPIC + struct.pack(">i", 3) + b"\0"


def segment_id(number: int) -> bytes:
    return log_id() + uuid.UUID(int=number).bytes + b"\0"


def copy_started(number: int, *, tags: bytes = b"\0", version: int = 0) -> bytes:
    """An event of kind 0, with one leader epoch."""
    fields = struct.pack(">qqiqq", 10, 19, 1, 5, 6) + b"\x02" + struct.pack(">iqB", 0, 10, 0)
    fields += struct.pack(">i", 999) + b"\0" + bytes([COPY_STARTED]) + tags
    return bytes([1, 0, version]) + segment_id(number) + fields


def update(number: int, state: int, custom: bytes = b"\0") -> bytes:
    return (
        b"\x01\x01\0" + segment_id(number) + struct.pack(">iq", 1, 6) + custom + bytes([state, 0])
    )


def partition_deleted(state: int) -> bytes:
    return b"\x01\x02\0" + log_id() + struct.pack(">iqbB", 1, 6, state, 0)


def states(*values: bytes) -> list[int]:
    metadata = RemoteLogMetadata()
    for value in values:
        metadata.apply(value)
    return [known.state for known in (metadata.of(LOG) or {}).values()]


def test_a_life_of_a_segment() -> None:
    """Started, finished, being deleted, gone; an update of an unknown one says nothing."""
    begun, done = copy_started(1), update(1, COPY_FINISHED, b"\x03xy")
    assert [COPY_STARTED] == states(begun)
    assert [COPY_FINISHED] == states(begun, done)
    assert [DELETE_STARTED] == states(begun, done, update(1, DELETE_STARTED))
    assert [] == states(begun, done, update(1, DELETE_STARTED), update(1, DELETE_FINISHED))
    assert [] == states(done)
    assert [COPY_FINISHED, COPY_STARTED] == states(begun, done, copy_started(2))
    assert [COPY_STARTED] == states(copy_started(1, tags=b"\x01\x00\x01\x01"))
    assert [COPY_STARTED] == states(copy_started(1, tags=b"\x01\x01\x04\0\0\0\x05", version=1))


def test_a_partition_is_deleted() -> None:
    """When it is over, none of its segments is left."""
    begun = copy_started(1), update(1, COPY_FINISHED)
    assert [COPY_FINISHED] == states(*begun, partition_deleted(1))
    assert [] == states(*begun, partition_deleted(2))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x01",
        b"\x02\x00\x00",
        b"\x01\x09\x00",
        b"\x01\x00\x09" + copy_started(1)[3:],
        copy_started(1)[:-1],
        copy_started(1) + b"x",
        update(1, 1)[:20],
    ],
)
def test_an_event_that_is_not_known(value: bytes) -> None:
    """It is an error: nobody knows what it says."""
    with pytest.raises(UnsupportedFormatError, match="an event of remote storage is not known"):
        RemoteLogMetadata().apply(value)


@pytest.mark.parametrize("name", TIERS)
def test_the_events_of_a_real_broker(name: str, tmp_path: Path) -> None:
    """11 segments were copied, of which 2 were deleted; those of a deleted topic are gone."""
    metadata = read_remote_log_metadata([unpacked(name, tmp_path).logs])
    assert {0, 1, 2} == metadata.partitions
    named = {str(log[0]): known for log, known in metadata.segments.items()}
    assert {*PARTITIONS, "gone-0"} == set(named)
    assert {} == named["gone-0"]
    known = [only for segments in named.values() for only in segments.values()]
    assert 9 == len(known)
    assert all(only.is_readable for only in known)
    assert {"plain", "shortened", "tx", "zstd-by-producer"} == metadata.topics
    (only,) = named["shortened-0"].values()
    epochs = [(each.epoch, each.start_offset) for each in only.span.epochs]
    assert (141, 280, [(0, 141)]) == (only.span.start, only.span.end, epochs)
