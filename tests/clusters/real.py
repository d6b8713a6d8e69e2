"""A cluster of three real brokers, for the same histories as the model's."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from confluent_kafka import (
    Consumer,
    ElectionType,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import NewTopic

from logwright.locks import wait_for
from tests.clusters.history import BROKERS, MIN_ISR, PARTITION
from tests.clusters.metadata import forget_metadata, metadata_end, newest_ids
from tests.clusters.replica import Batch, batches_on_disk
from tests.clusters.written import Produced
from tests.e2e.brokers import CONTROLLER, Brokers
from tests.e2e.command import Answer, call
from tests.e2e.rolling_cluster import IN_TIME

TOPIC: Final = "t"
CLIENT_SECONDS: Final = 60.0
TRANSACTION_SECONDS: Final = 10.0
DELIVERY_MS: Final = 5_000
"""A producer that is not heard by then is not acknowledged."""
NEWEST_IDS: Final = 0.5
"""How often a lost quorum takes the newest producer ids with it."""
MOST_FORGOTTEN: Final = 60
"""Records of the metadata, of which a controller writes two a second at least."""


class RealCluster:
    """Brokers that were started as a context, with the topic."""

    def __init__(self, brokers: Brokers, draw: random.Random) -> None:
        self._brokers = brokers
        self._draw = draw
        self._transactions = 0
        config = {
            "min.insync.replicas": str(MIN_ISR),
            "cleanup.policy": "compact",
            "segment.bytes": "1048576",
        }
        topic = NewTopic(TOPIC, 1, len(BROKERS), config=config)
        brokers.admin.create_topics([topic])[TOPIC].result(CLIENT_SECONDS)

    def log_dir(self, broker: int) -> Path:
        """Of a broker."""
        return self._brokers.log_dir(broker)

    @property
    def leader(self) -> int:
        """Who leads, -1: nobody."""
        return self._about()[0]

    @property
    def isr(self) -> set[int]:
        """Who is in sync."""
        return self._about()[1]

    def _about(self) -> tuple[int, set[int]]:
        try:
            listed = self._brokers.admin.list_topics(TOPIC, timeout=5)
        except KafkaException:  # no broker runs
            return -1, set()
        partition = listed.topics[TOPIC].partitions.get(0)
        if partition is None:  # a broker has not loaded the metadata
            return -1, set()
        return partition.leader, set(partition.isrs)

    def start(self, broker: int) -> None:
        """Start one, and wait until it is in the cluster."""
        self._brokers.start(broker)
        assert wait_for(lambda: broker in self._brokers.alive() or None, IN_TIME)

    def stop(self, broker: int) -> None:
        """Stop one cleanly."""
        self._brokers.stop(broker)

    def kill(self, broker: int) -> None:
        """End one at once."""
        self._brokers.kill(broker)

    def elect_unclean(self) -> None:
        """Let any replica lead."""
        partition = TopicPartition(TOPIC, 0)
        with suppress(KafkaException):
            self._brokers.admin.elect_leaders(ElectionType.UNCLEAN, [partition]).result()

    def produce(self, records: Sequence[Produced], how: str) -> bool:
        """Whether all of the records were acknowledged by all in sync."""
        settings: dict[str, object] = {
            "bootstrap.servers": self._brokers.bootstrap,
            "acks": "1" if how == "unheard" else "all",
            "message.timeout.ms": DELIVERY_MS,
            "enable.idempotence": how in ("idempotent", "commit", "abort"),
            "log_level": 0,
        }
        transactional = how in ("commit", "abort")
        if transactional:
            self._transactions += 1
            settings["transactional.id"] = f"t{self._transactions}"
            settings["transaction.timeout.ms"] = DELIVERY_MS
        producer = Producer(settings)
        try:
            if transactional:
                producer.init_transactions(TRANSACTION_SECONDS)
                producer.begin_transaction()
            done = self._sent(producer, records)
            if transactional and how == "commit":
                producer.commit_transaction(TRANSACTION_SECONDS)
            elif transactional:
                producer.abort_transaction(TRANSACTION_SECONDS)
        except KafkaException:
            return False
        return done and how != "unheard"

    def _sent(self, producer: Producer, records: Sequence[Produced]) -> bool:
        failures: list[object] = []
        for each in records:
            producer.produce(
                TOPIC,
                key=each.key,
                value=each.value,
                partition=0,
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        return 0 == producer.flush(CLIENT_SECONDS) and not failures

    def lose_quorum(self) -> Answer:
        """The controller's disk is lost while all brokers are stopped, and of what brokers have of
        the metadata the end: from the batch that gave out the newest producer ids on, or what is
        some seconds old. The cluster is rescued.
        """
        self._brokers.kill(CONTROLLER)
        directory = self._brokers.log_dir(CONTROLLER)
        shutil.rmtree(directory)
        newest = self._draw.random() < NEWEST_IDS and newest_ids(self.log_dir(BROKERS[0]))
        ends = [metadata_end(self.log_dir(broker)) for broker in BROKERS]
        first = newest or max(ends) - self._draw.randint(0, MOST_FORGOTTEN)
        for broker in BROKERS:
            forget_metadata(self.log_dir(broker), first)
        words = ("--to", directory, "--node-id", CONTROLLER, "--yes", "--output", "json")
        answer = call("quorum", *map(self.log_dir, BROKERS), *words)
        self._brokers.start(CONTROLLER)
        return answer

    def all_in_sync(self) -> bool:
        """Whether all replicas are, once they had time."""
        everybody = set(BROKERS)
        return bool(wait_for(lambda: self.isr == everybody or None, IN_TIME))

    def consumed(self) -> list[tuple[bytes, bytes | None]]:
        """Key and value of all that a consumer of committed records gets, once no transaction is
        open.
        """
        assert wait_for(self._is_settled, IN_TIME), "a transaction stays open"
        consumer = self._consumer("read_committed")
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        seen: list[tuple[bytes, bytes | None]] = []
        while (message := consumer.poll(CLIENT_SECONDS)) is not None:
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                break
            seen.append((message.key() or b"", message.value()))
        consumer.close()
        assert message is not None, "no end"
        return seen

    def _is_settled(self) -> bool | None:
        ends = set()
        for isolation in ("read_committed", "read_uncommitted"):
            consumer = self._consumer(isolation)
            with suppress(KafkaException):
                partition = TopicPartition(TOPIC, 0)
                ends.add(consumer.get_watermark_offsets(partition, timeout=CLIENT_SECONDS)[1])
            consumer.close()
        return True if len(ends) == 1 else None

    def _consumer(self, isolation: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._brokers.bootstrap,
                "group.id": "g",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "log_level": 0,
            }
        )

    def logs(self) -> dict[int, list[Batch]]:
        """The batches of each replica, by its files."""
        return {each: batches_on_disk(self.log_dir(each) / PARTITION) for each in BROKERS}
