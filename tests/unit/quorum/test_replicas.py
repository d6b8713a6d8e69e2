"""Which replicas must not be in sync in a rescued state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logwright.errors import PreconditionError
from logwright.format.names import TopicPartition
from logwright.metadata.model import PartitionMetadata, TopicMetadata
from logwright.metadata.read import read_metadata
from logwright.metadata.records import PartitionChangeRecord, decode_metadata_record
from logwright.quorum.replicas import (
    NOTHING,
    Demotion,
    End,
    demotions,
    has_only_replicas,
    not_compared,
    partition_change,
    read_ends,
)
from tests.e2e.command import call
from tests.metadata_builder import (
    MetadataBuilder,
    feature,
    int32,
    int32s,
    partition,
    topic,
    uuid_text,
)
from tests.metadata_builder import partition_change as change
from tests.quorum_replicas import TOPIC, write_replicas
from tests.quorum_worlds import CLUSTER

TOPIC_ID = uuid_text(TOPIC)
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


def test_nobody_is_in_sync() -> None:
    """An eligible leader replica that was not looked at may have more than all others."""
    ends = {T0: {1: End(4, 10), 2: End(4, 9)}}
    assert () == demotions(topics(), ends)
    (demotion,) = demotions(topics(), {T0: {**ends[T0], 3: End(4, 9)}})
    assert (1,) == demotion.in_sync


def test_where_replicas_end(tmp_path: Path) -> None:
    """By the epoch of the last record; nothing where the log should be and is not; not one of
    another topic with that name, or of a topic that the state has not.
    """
    first = write_replicas(tmp_path / "1", 1, {T0: 3, TopicPartition("u", 0): 4})
    second = write_replicas(tmp_path / "2", 2, {T0: 9}, topic_id=8)
    third = write_replicas(tmp_path / "3", 3, {})
    state = topics(1, 2, 3)
    placed = replace(state["t"].partitions[0], directories=tuple(map(uuid_text, (1, 2, 3))))
    known = {"t": replace(state["t"], partitions={0: placed})}
    dirs = [first, second, third]
    assert {T0: {1: End(5, 3), 3: NOTHING}} == read_ends(dirs, known, CLUSTER)
    assert {T0: {1: End(5, 3)}} == read_ends(dirs, state, None), "the state does not say where"
    assert [True, True, False] == [has_only_replicas(each) for each in dirs]
    moved = write_replicas(tmp_path / "4", 3, {T0: 2})
    for given in ([moved, third], [third, moved]):
        assert {T0: {3: End(5, 2)}} == read_ends(given, known, CLUSTER), "in another directory"
    (first / "__cluster_metadata-0").mkdir()
    assert not has_only_replicas(first)
    with pytest.raises(PreconditionError, match="of another cluster"):
        read_ends(dirs, known, "other")


def test_what_is_said_and_written(tmp_path: Path) -> None:
    """Ten partitions in text, all in JSON; in the new state no replica that lacks records is in
    sync, and one that was not given is.
    """
    partitions = [TopicPartition("t", number) for number in range(12)]
    first = write_replicas(tmp_path / "1", 1, dict.fromkeys(partitions, 2))
    third = write_replicas(tmp_path / "3", 3, dict.fromkeys(partitions, 1))
    made = [topic("t", TOPIC), *(partition(TOPIC, at, (1, 2, 3)) for at in range(12))]
    MetadataBuilder(first).segment(0, [feature("metadata.version", 25)], made)
    text = call("quorum", first, third)
    assert 10 == text.out.count("the replica of broker 3 ends at offset 1 of epoch 5")
    assert "Replicas of 2 more partitions lack records" in text.out
    assert f"{third} has no __cluster_metadata-0: only its replicas are compared" in text.err
    assert "Not looked at: replicas, 12 of broker 2." in text.out
    words = ("--to", tmp_path / "new", "--node-id", 1, "--yes", "--output", "json")
    answer = call("quorum", first, third, *words)
    assert 0 == answer.status, answer.err
    (line,) = [line for line in answer.lines if "demoted" in line]
    assert list(map(str, partitions)) == [each["topicPartition"] for each in line["demoted"]]
    assert {"2": 12} == line["notCompared"]
    written = read_metadata(tmp_path / "new/__cluster_metadata-0").topics["t"].partitions
    assert [{1, 2}] * 12 == [{*each.in_sync} for each in written.values()]


def test_the_record() -> None:
    """Who is in sync, and that one of them leads; without eligible leader replicas where there may
    be some. `tests/e2e/test_quorum_replicas.py` has Kafka read it.
    """
    demotion = Demotion(
        partition=T0, topic_id=TOPIC_ID, lacking={}, other=300, most=End(1, 1), in_sync=(300, 2)
    )
    fields = {0: int32s((300, 2)), 1: int32(300)}
    plain, eligible = (partition_change(demotion, eligible=each) for each in (False, True))
    assert change(TOPIC, 0, fields, version=0) == plain
    assert change(TOPIC, 0, fields | {6: int32s(()), 7: int32s(())}, version=2) == eligible
    for each in (plain, eligible):
        record = decode_metadata_record(each)
        assert isinstance(record, PartitionChangeRecord)
        assert (300, 2) == record.in_sync
