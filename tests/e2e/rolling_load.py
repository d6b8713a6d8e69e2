"""A producer with ``acks=all``, a consumer, and samples of the ISRs of a cluster, in threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

STATE: Final = "state"
"""Compacted: three partitions, on three brokers, `min.insync.replicas` 2."""
EVENTS: Final = "events"
"""With retention by time only."""
MIN_ISR: Final = 2
PARTITIONS: Final = 3
_VALUE: Final = b"x" * 1000
_COMMON: Final = {"min.insync.replicas": str(MIN_ISR), "segment.bytes": "1048576"}


def make_topics(admin: AdminClient, replicas: int = 3) -> None:
    """Create both topics."""
    topics = [
        NewTopic(STATE, PARTITIONS, replicas, config={**_COMMON, "cleanup.policy": "compact"}),
        NewTopic(EVENTS, PARTITIONS, replicas, config=_COMMON),
    ]
    for answer in admin.create_topics(topics).values():
        answer.result()


def fill(bootstrap: str, topic: str = STATE, records: int = 4000) -> None:
    """Write some segments of few keys to each partition of a topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 50})
    failed: list[object] = []
    for number in range(records * PARTITIONS):
        producer.produce(
            topic,
            key=f"k{number % 50}".encode(),
            value=_VALUE,
            partition=number % PARTITIONS,
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0)
        if number % 5000 == 0:
            producer.flush(30)
    assert 0 == producer.flush(60)
    assert [] == failed


class Load:
    """Produces, consumes and samples while the context is open.

    Attributes:
        errors: of the producer, and of samples that saw too few in sync.
        acknowledged: the values that the cluster confirmed.
        consumed: those that the consumer got.
        samples: how often the ISRs were looked at.
        smallest: the fewest replicas in sync that a sample saw.
    """

    def __init__(self, bootstrap: str, *, topic: str = EVENTS) -> None:
        self.errors: list[str] = []
        self.acknowledged: set[bytes] = set()
        self.consumed: list[bytes] = []
        self.samples = 0
        self.smallest = PARTITIONS
        self._topic = topic
        self._sent = 0
        self._settings: Mapping[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._stop = threading.Event()
        self._drained = threading.Event()
        jobs: tuple[Callable[[], None], ...] = (self._produce, self._consume, self._sample)
        self._threads = [threading.Thread(target=job, daemon=True) for job in jobs]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)

    def _delivered(self, error: Any, message: Any) -> None:  # noqa: ANN401 -- of the client
        if error is not None:
            self.errors.append(f"producer: {error}")
        else:
            self.acknowledged.add(message.value())

    def _produce(self) -> None:
        producer = Producer({**self._settings, "acks": "all", "enable.idempotence": True})
        while not self._stop.is_set():
            producer.produce(
                self._topic,
                value=str(self._sent).encode(),
                partition=self._sent % PARTITIONS,
                on_delivery=self._delivered,
            )
            self._sent += 1
            producer.poll(0.005)
        left = producer.flush(60)
        if left:
            self.errors.append(f"producer: {left} not sent")
        self._drained.set()

    def _consume(self) -> None:
        consumer = Consumer({**self._settings, "group.id": "load", "enable.auto.commit": False})
        consumer.assign([TopicPartition(self._topic, number, 0) for number in range(PARTITIONS)])
        deadline = None
        while True:
            messages = consumer.consume(500, timeout=0.5)
            for message in messages:
                if message.error() is None:
                    self.consumed.append(message.value() or b"")
            if self._drained.is_set():
                deadline = deadline or time.monotonic() + 20
                done = len(self.consumed) >= len(self.acknowledged)
                if (done and not messages) or time.monotonic() > deadline:
                    break
        consumer.close()

    def _sample(self) -> None:
        admin = AdminClient(dict(self._settings))
        while not self._stop.is_set():
            with suppress(KafkaException):  # of a broker that is away
                self._look(admin.list_topics(timeout=5).topics)
            time.sleep(0.05)

    def _look(self, topics: Mapping[str, Any]) -> None:
        self.samples += 1
        for topic in (STATE, EVENTS):
            for number, about in topics[topic].partitions.items():
                self.smallest = min(self.smallest, len(about.isrs))
                if len(about.isrs) < MIN_ISR:
                    self.errors.append(f"{topic}-{number} has the ISR {about.isrs}")
