"""A quorum is rescued with a state that is older than its replicas: one that has left the ISR since
does not lead, and nothing that was acknowledged is lost.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from logwright.locks import wait_for
from logwright.metadata.find import METADATA_DIRECTORY as METADATA
from logwright.metadata.read import read_metadata
from tests.e2e.brokers import CONTROLLER, Brokers
from tests.e2e.command import call
from tests.e2e.rolling_cluster import IN_TIME, whole

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

TOPIC = "t"
LAGGING, NOT_GIVEN = 3, 2
"""Brokers: one whose replica lacks records; one whose metadata log is newer than what is given."""
SECONDS = 60.0
EARLIER, LATER = ([f"{when}-{number}" for number in range(20)] for when in ("earlier", "later"))


def produce(brokers: Brokers, values: list[str]) -> None:
    """Produce records; all are acknowledged by all in sync."""
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(TOPIC, value=value, partition=0)
    assert 0 == producer.flush(SECONDS)


def consume(brokers: Brokers, count: int) -> list[str]:
    """A number of records from the beginning, or those that there are in time."""
    consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    messages = consumer.consume(count, SECONDS)
    consumer.close()
    return [(message.value() or b"").decode() for message in messages]


def make_topic(brokers: Brokers) -> None:
    """One partition, with a replica on each broker."""
    topic = NewTopic(TOPIC, 1, len(brokers.ids), config={"min.insync.replicas": "2"})
    brokers.admin.create_topics([topic])[TOPIC].result(SECONDS)
    assert wait_for(lambda: whole(brokers) or None, IN_TIME), brokers.said()


def forget(brokers: Brokers, earlier: dict[int, Path]) -> Path:
    """All brokers are stopped. The controller's disk is lost, and what is given of brokers has
    metadata of an earlier time; where one of them has its own.
    """
    brokers.kill(CONTROLLER)
    shutil.rmtree(brokers.log_dir(CONTROLLER))
    for broker, copy in earlier.items():
        path = brokers.log_dir(broker) / METADATA
        newer = path.rename(brokers.work / f"newer-{broker}")
        copy.rename(path)
    return newer.with_name(f"newer-{NOT_GIVEN}")


@pytest.mark.rotates(4)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("level", [0, 1])
def test_a_replica_that_lacks_records_does_not_lead(
    tmp_path: Path, level: int, *, dynamic: bool
) -> None:
    """By the state that is left it is in sync, and it starts first, after a clean stop. All brokers
    take the new state, also those that have the old one, or more; with voters in the settings
    (kraft.version 0) and in the metadata (1, KIP-853).
    """
    features = (f"eligible.leader.replicas.version={level}",)
    with Brokers(tmp_path, apart=True, features=features, dynamic=dynamic) as brokers:
        make_topic(brokers)
        produce(brokers, EARLIER)
        copies = {each: tmp_path / f"metadata-{each}" for each in brokers.ids}
        for each, copy in copies.items():
            shutil.copytree(brokers.log_dir(each) / METADATA, copy)
        brokers.stop(LAGGING)
        produce(brokers, LATER)
        for each in brokers.ids:
            brokers.stop(each)
        newer = forget(brokers, copies)
        dirs = [brokers.log_dir(each) for each in brokers.ids]
        new = brokers.log_dir(CONTROLLER)
        words = ("--to", new, "--node-id", CONTROLLER, "--yes", "--output", "json")
        answer = call("quorum", *dirs, *words)
        assert 0 == answer.status, answer.out + answer.err
        (line,) = [line for line in answer.lines if "demoted" in line]
        demoted = {each["topicPartition"]: each for each in line["demoted"]}
        assert {str(LAGGING)} == set(demoted[f"{TOPIC}-0"]["lacking"])
        assert {} == line["notCompared"]
        state = read_metadata(new / METADATA).topics[TOPIC].partitions[0]
        assert {1, 2} == set(state.in_sync)
        shutil.rmtree(brokers.log_dir(NOT_GIVEN) / METADATA)
        newer.rename(brokers.log_dir(NOT_GIVEN) / METADATA)
        brokers.start(CONTROLLER)
        brokers.start(LAGGING)
        assert wait_for(lambda: LAGGING in brokers.alive() or None, IN_TIME), brokers.said()
        for each in brokers.ids:
            brokers.start(each)
        assert wait_for(lambda: whole(brokers) or None, IN_TIME), brokers.said()
        count = len(EARLIER) + len(LATER)
        assert [*EARLIER, *LATER] == consume(brokers, count)
