"""The offsets of a stream, as Spark keeps them."""

from __future__ import annotations

import json

import pytest

from logwright.errors import PolicyError
from logwright.format.names import TopicPartition
from logwright.spark.kafka_log_offsets import Position, from_json, shares, to_json, without_facts

ID = "AbCdEfGhIjKlMnOpQrSt-_"
A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b.c", 0)


def test_offsets_are_those_of_sparks_kafka_source() -> None:
    """By topic and partition; what that source does not know is a topic without partitions."""
    positions = {B0: Position(7), A1: Position(5, 3, ID), A0: Position(23, -1, ID)}
    document = to_json(positions)
    assert '{"a": {"0": 23, "1": 5}, "b.c": {"0": 7}, "a#' + ID + '#0:-1,1:3": {}}' == json.dumps(
        document
    )
    assert positions == from_json(document)
    assert {"a": {"0": 23, "1": 5}, "b.c": {"0": 7}} == without_facts(document)


def test_an_epoch_is_kept_without_a_topic_id() -> None:
    """Logs of before Kafka 2.8 have none."""
    positions = {A0: Position(23, 4)}
    assert {"a": {"0": 23}, "a##0:4": {}} == to_json(positions)
    assert positions == from_json(to_json(positions))


def test_a_checkpoint_of_sparks_kafka_source_is_continued() -> None:
    """Its offsets have nothing else."""
    assert {A0: Position(23), B0: Position(0)} == from_json({"a": {"0": 23}, "b.c": {"0": 0}})


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"a": 5},
        {"a": {"0": "5"}},
        {"a": {"0": -1}},
        {"a": {"0": True}},
        {"a": {"0": 2**63}},
        {"a": {"x": 5}},
        {"a/b": {"0": 5}},
        {"a": {"0": 5}, "a#x#0:1": {}},
        {"a": {"0": 5}, f"a#{ID}#1:1": {}},
        {"a": {"0": 5}, f"a#{ID}#0:1": {"0": 1}},
        {"a": {"0": 5}, f"a#{ID}#0:2147483648": {}},
    ],
)
def test_other_offsets_are_refused(document: object) -> None:
    """A checkpoint of another source, or one that somebody changed."""
    with pytest.raises(PolicyError, match="not the offsets of a stream of kafka-log"):
        from_json(document)


def test_shares_are_in_proportion() -> None:
    """Nobody starves, and nobody gets more than there is."""
    assert {A0: 10, A1: 0, B0: 5} == shares({A0: 10, A1: 0, B0: 5}, 15)
    assert {A0: 66, A1: 33, B0: 0} == shares({A0: 2000, A1: 1000, B0: 0}, 100)
    assert {A0: 99, A1: 1} == shares({A0: 2**62, A1: 1}, 100) | {A0: 99}
    assert {A0: 1, A1: 1, B0: 1} == shares({A0: 5, A1: 5, B0: 5}, 1)
