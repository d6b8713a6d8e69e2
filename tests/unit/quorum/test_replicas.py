"""Which replicas must not be in sync in a rescued state."""

from __future__ import annotations

from logwright.format.names import TopicPartition
from logwright.metadata.model import PartitionMetadata, TopicMetadata
from logwright.metadata.records import PartitionChangeRecord, decode_metadata_record
from logwright.quorum.replicas import Demotion, End, demotions, not_compared, partition_change
from tests.metadata_builder import int32, int32s, uuid_text
from tests.metadata_builder import partition_change as change

TOPIC_ID = uuid_text(7)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def topics(*in_sync: int, replicas: tuple[int, ...] = (1, 2, 3)) -> dict[str, TopicMetadata]:
    """A topic of two partitions, of which the second one has one replica."""
    partitions = {
        0: PartitionMetadata(replicas=replicas, directories=(), in_sync=dict.fromkeys(in_sync, 0)),
        1: PartitionMetadata(replicas=(1,), directories=(), in_sync={1: 0}),
    }
    return {"t": TopicMetadata(name="t", topic_id=TOPIC_ID, partitions=partitions)}


def test_who_lacks_records_is_not_in_sync() -> None:
    """Neither one that is shorter, nor a longer one of an older leader epoch; nor who ends as they
    do.
    """
    ends = {T0: {1: End(4, 10), 2: End(4, 9), 3: End(3, 99)}, T1: {1: End(0, 5)}}
    (demotion,) = demotions(topics(1, 2, 3), ends)
    assert (T0, 1, End(4, 10)) == (demotion.partition, demotion.other, demotion.most)
    assert {2: End(4, 9), 3: End(3, 99)} == demotion.lacking
    assert (1,) == demotion.in_sync
    assert () == demotions(topics(1, 2, 3), {T0: {1: End(4, 9), 2: End(4, 9)}})


def test_who_was_not_looked_at_stays_in_sync() -> None:
    """It may have more; it is counted."""
    ends = {T0: {1: End(4, 10), 2: End(4, 9)}}
    (demotion,) = demotions(topics(2, 3), ends)
    assert (3,) == demotion.in_sync
    assert {3: 1} == not_compared(topics(2, 3), ends)
    assert {1: 1, 2: 1, 3: 1} == not_compared(topics(2, 3), {T1: {1: End(0, 0)}})
    assert {} == not_compared(topics(2, 3), {T0: {**ends[T0], 3: End(4, 10)}})


def test_nobody_in_sync_has_the_most() -> None:
    """Then who has it is in sync; never one that should not have a replica."""
    ends = {T0: {1: End(4, 10), 2: End(4, 9), 8: End(9, 9)}}
    (demotion,) = demotions(topics(2), ends)
    assert (1,) == demotion.in_sync
    assert () == demotions(topics(2), {T0: {2: End(4, 9), 8: End(9, 9)}})


def test_the_record() -> None:
    """Who is in sync, and that one of them leads; without eligible leader replicas where there may
    be some. `tests/e2e/test_quorum_replicas.py` has Kafka read it.
    """
    demotion = Demotion(
        partition=T0, topic_id=TOPIC_ID, lacking={}, other=300, most=End(1, 1), in_sync=(300, 2)
    )
    fields = {0: int32s((300, 2)), 1: int32(300)}
    plain, eligible = (partition_change(demotion, eligible=each) for each in (False, True))
    assert change(7, 0, fields, version=0) == plain
    assert change(7, 0, fields | {6: int32s(()), 7: int32s(())}, version=2) == eligible
    for each in (plain, eligible):
        record = decode_metadata_record(each)
        assert isinstance(record, PartitionChangeRecord)
        assert (300, 2) == record.in_sync
