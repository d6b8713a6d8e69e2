"""What the records of the metadata log add up to."""

from __future__ import annotations

import pytest

from logwright.errors import CorruptBatch
from logwright.metadata.image import At, Image
from logwright.metadata.model import ConfigEntry, PartitionMetadata, TopicMetadata, is_reserved
from logwright.metadata.records import TransactionRecord, decode_metadata_record
from logwright.units import Offset, TimestampMs
from tests.metadata_builder import (
    ABORT,
    BEGIN,
    END,
    config,
    feature,
    int32s,
    partition,
    partition_change,
    remove_topic,
    topic,
    uuid_text,
    uuids,
)


def built(*values: bytes) -> Image:
    """The image of records at offsets from 10 on."""
    image = Image()
    for offset, value in enumerate(values, 10):
        record = decode_metadata_record(value)
        assert record is not None
        image.apply(record, At(Offset(offset), TimestampMs(offset * 100)))
    return image


def test_topics_and_partitions() -> None:
    """A topic has its id and its partitions in the order of their numbers."""
    image = built(topic("t", 1), partition(1, 1, [2]), partition(1, 0, [1, 2], [5, 6]))
    expected = TopicMetadata(
        name="t",
        topic_id=uuid_text(1),
        partitions={
            0: PartitionMetadata(
                replicas=(1, 2),
                directories=(uuid_text(5), uuid_text(6)),
                in_sync={1: TimestampMs(0), 2: TimestampMs(0)},
            ),
            1: PartitionMetadata(replicas=(2,), directories=(), in_sync={2: TimestampMs(0)}),
        },
    )
    assert {"t": expected} == image.topics
    assert [0, 1] == list(image.topics["t"].partitions)


def test_a_change_leaves_what_it_does_not_name() -> None:
    """A change without replicas or directories keeps those that are there."""
    image = built(
        topic("t", 1),
        partition(1, 0, [1], [5]),
        partition_change(1, 0, {8: uuids([6])}),
        partition_change(1, 0, {0: int32s([1])}),
    )
    expected = PartitionMetadata(
        replicas=(1,), directories=(uuid_text(6),), in_sync={1: TimestampMs(0)}
    )
    assert expected == image.topics["t"].partitions[0]


def test_a_replica_is_in_sync_since_it_is_so_again() -> None:
    """One that stays in sync is so since before."""
    image = built(
        topic("t", 1),
        partition(1, 0, [1, 2, 3]),
        partition_change(1, 0, {0: int32s([1, 2])}),
        partition_change(1, 0, {0: int32s([2, 3])}),
        partition_change(1, 0, {8: uuids([4, 5, 6])}),
    )
    since = {2: TimestampMs(0), 3: TimestampMs(1300)}
    assert since == image.topics["t"].partitions[0].in_sync


def test_in_a_snapshot_a_replica_is_in_sync_since_its_end() -> None:
    """Nobody knows whether it was so before."""
    image = Image()
    for value in (topic("t", 1), partition(1, 0, [1])):
        record = decode_metadata_record(value)
        assert record is not None
        image.apply(record, At(Offset(9), TimestampMs(700), is_snapshot=True))
    assert {1: TimestampMs(700)} == image.topics["t"].partitions[0].in_sync


def test_directories_that_are_none() -> None:
    """All of them migrating is the same as none; the first hundred ids are not directories."""
    image = built(topic("t", 1), partition(1, 0, [1, 2], [0, 0]), partition(1, 1, [1, 2], [0, 100]))
    partitions = image.topics["t"].partitions
    assert ((), (uuid_text(0), uuid_text(100))) == tuple(p.directories for p in partitions.values())
    expected = {0: True, 99: True, 100: False, 1 << 64: False}
    assert expected == {number: is_reserved(uuid_text(number)) for number in expected}


def test_configs_have_the_offset_of_their_record() -> None:
    """The last record that set a config is the one that it comes from."""
    image = built(
        config(2, "t", "retention.ms", "1"),
        config(2, "t", "retention.ms", "2"),
        config(4, "", "log.retention.ms", "3"),
        config(4, "1", "log.retention.ms", ""),
        config(16, "m", "interval.ms", "4"),
    )
    assert {"t": {"retention.ms": ConfigEntry(value="2", offset=Offset(11))}} == image.topic_configs
    expected = {
        "": {"log.retention.ms": ConfigEntry(value="3", offset=Offset(12))},
        "1": {"log.retention.ms": ConfigEntry(value="", offset=Offset(13))},
    }
    assert expected == image.broker_configs


def test_null_removes_a_config() -> None:
    """A resource without configs is not there; removing what is not there is no error."""
    set_and_removed = (config(2, "t", "retention.ms", "1"), config(2, "t", "retention.ms", None))
    image = built(*set_and_removed, config(2, "u", "retention.ms", None))
    assert {} == image.topic_configs


def test_a_removed_topic_s_configs_go_with_it() -> None:
    """A topic of the same name that comes later has none of them."""
    image = built(
        topic("t", 1),
        config(2, "t", "cleanup.policy", "compact"),
        remove_topic(1),
        topic("t", 2),
    )
    assert {} == image.topic_configs
    assert uuid_text(2) == image.topics["t"].topic_id


def test_features() -> None:
    """Level 0 turns a feature off; the quorum's own is in no record of the log."""
    image = built(
        feature("metadata.version", 30),
        feature("transaction.version", 2),
        feature("group.version", 1),
        feature("group.version", 0),
        feature("kraft.version", 1),
    )
    assert {"metadata.version": 30, "transaction.version": 2} == image.features


def test_a_transaction_happens_at_its_end() -> None:
    """Nothing of it is seen before; then all of it, each record with its own offset."""
    image = built(BEGIN, topic("t", 1), config(2, "t", "retention.ms", "1"))
    assert ({}, {}, 10) == (image.topics, image.topic_configs, image.open_transaction)
    image.apply(TransactionRecord.END, At(Offset(13)))
    assert {"t": {"retention.ms": ConfigEntry(value="1", offset=Offset(12))}} == image.topic_configs
    assert image.open_transaction is None


def test_an_aborted_transaction_did_not_happen() -> None:
    """What lies between its beginning and its abort changes nothing; what follows does."""
    image = built(
        topic("t", 1),
        BEGIN,
        config(2, "t", "retention.ms", "1"),
        remove_topic(1),
        ABORT,
        config(2, "t", "segment.ms", "2"),
    )
    assert {"t": {"segment.ms": ConfigEntry(value="2", offset=Offset(15))}} == image.topic_configs
    assert ["t"] == list(image.topics)


IMPOSSIBLE = {
    "topic twice": (topic("t", 1), topic("t", 2)),
    "id twice": (topic("t", 1), topic("u", 1)),
    "unknown topic removed": (remove_topic(1),),
    "partition of an unknown topic": (partition(1, 0, [1]),),
    "change of an unknown topic": (partition_change(1, 0, {}),),
    "change of an unknown partition": (topic("t", 1), partition_change(1, 0, {})),
    "directories of other replicas": (topic("t", 1), partition(1, 0, [1, 2], [5])),
    "replicas of other directories": (
        topic("t", 1),
        partition(1, 0, [1], [5]),
        partition_change(1, 0, {2: int32s([1, 2])}),
    ),
    "begin in a transaction": (BEGIN, BEGIN),
    "end without a begin": (END,),
    "abort without a begin": (ABORT,),
    "end after an abort": (BEGIN, ABORT, END),
}


@pytest.mark.parametrize("what", IMPOSSIBLE)
def test_a_record_that_contradicts_what_is_there_is_refused(what: str) -> None:
    """No controller writes such a log, so none of it is believed."""
    with pytest.raises(CorruptBatch):
        built(*IMPOSSIBLE[what])
