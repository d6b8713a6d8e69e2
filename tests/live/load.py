"""What clients do to the topics while they are read: plain and transactional producers, in a
process of their own.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.synchronize import Event
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from tests.live.broker import QUIET
from tests.live.rows import key_of

SEGMENT_BYTES = 1 << 20
"""A broker takes no smaller segments."""
SEGMENTS = {"segment.bytes": str(SEGMENT_BYTES), "segment.ms": "1500"}
"""They roll by time long before they are full: logs stay small, and change all the time."""
COMPACT = {
    "cleanup.policy": "compact",
    **SEGMENTS,
    "min.cleanable.dirty.ratio": "0.01",
    "min.compaction.lag.ms": "0",
    "delete.retention.ms": "500",
    "file.delete.delay.ms": "300",
}
RETENTION = {"retention.bytes": str(SEGMENT_BYTES // 2)}
"""Longer than a transaction is open: a consumer with read_committed has to get all records."""
DELETE = {
    "cleanup.policy": "delete",
    **SEGMENTS,
    **RETENTION,
    "file.delete.delay.ms": "300",
}
KEYS = 400
VALUE_BYTES = 300
TOMBSTONES, ABORTS, LONG = 0.2, 0.35, 0.15
"""Shares: of records, of transactions, and of transactions that are open over several segments."""
FLUSH_SECONDS = 5
INIT_SECONDS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic and who writes to it.

    Attributes:
        keys: how many there are.
        plain_per_second: records of its plain producer; 0: it has none.
        transactional: how many transactional producers it has.
        codecs: compression of its producers in turn.
        is_recreated: whether it is deleted and made again, again and again.
        is_cut: whether its records are deleted up to an offset (DeleteRecords), again and again.
    """

    name: str
    config: dict[str, str]
    keys: int = KEYS
    plain_per_second: int = 0
    transactional: int = 0
    codecs: tuple[str, ...] = ("none",)
    is_recreated: bool = False
    is_cut: bool = False

    @property
    def log(self) -> str:
        """Its partition's directory name."""
        return f"{self.name}-0"

    @property
    def is_compacted(self) -> bool:
        """Whether the cleaner works on it."""
        return "compact" in self.config["cleanup.policy"]

    @property
    def is_compacted_only(self) -> bool:
        """Whether its newest records stay."""
        return self.config["cleanup.policy"] == "compact"


TOPICS = (
    Topic(name="compacted", config=COMPACT, plain_per_second=80, transactional=2),
    Topic(
        name="zipped",
        config={**COMPACT, "preallocate": "true"},
        plain_per_second=60,
        transactional=1,
        codecs=("zstd", "lz4", "gzip", "snappy"),
    ),
    Topic(name="again", config=COMPACT, keys=150, plain_per_second=60, is_recreated=True),
    Topic(name="sized", config=DELETE, plain_per_second=60, transactional=1, is_cut=True),
    Topic(
        name="both",
        config={**COMPACT, **RETENTION, "cleanup.policy": "compact,delete"},
        plain_per_second=50,
        transactional=1,
    ),
)
"""What the broker has."""


def produce(bootstrap: str, topics: tuple[Topic, ...], seed: int, stop: Event) -> None:
    """Write to the topics until `stop` is set. Effects: threads, requests to the broker."""
    numbers = itertools.count()  # its `next` is atomic
    threads = []
    for topic in topics:
        codecs = itertools.cycle(topic.codecs)
        if topic.plain_per_second:
            writer = Writer(bootstrap, topic, next(codecs), numbers, stop)
            threads.append(threading.Thread(target=writer.plain, args=(seed,)))
        for number in range(topic.transactional):
            writer = Writer(bootstrap, topic, next(codecs), numbers, stop)
            own = f"{topic.name}-{number}"
            threads.append(threading.Thread(target=writer.transactions, args=(own, seed)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Writer:
    """One producer's records."""

    def __init__(
        self, bootstrap: str, topic: Topic, codec: str, numbers: Iterator[int], stop: Event
    ) -> None:
        self._topic, self._numbers, self._stop = topic, numbers, stop
        self._config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "linger.ms": 10,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "reconnect.backoff.max.ms": 500,
            "message.timeout.ms": 10_000,
            **QUIET,
        }

    def plain(self, seed: int) -> None:
        """Write one record after the other."""
        draw = random.Random(f"{seed} {self._topic.name}")
        producer = Producer(self._config)
        while not self._stop.is_set():
            for _ in range(20):
                self._send(producer, draw)
            producer.poll(0)
            time.sleep(20 / self._topic.plain_per_second)
        producer.flush(FLUSH_SECONDS)

    def transactions(self, own: str, seed: int) -> None:
        """Write transactions; after an error of the broker a new producer takes up the id."""
        draw = random.Random(f"{seed} {own}")
        while not self._stop.is_set():
            producer = Producer({**self._config, "transactional.id": own})
            try:
                producer.init_transactions(INIT_SECONDS)
                while not self._stop.is_set():
                    self._transaction(producer, draw)
            except KafkaException:
                time.sleep(0.2)

    def _transaction(self, producer: Producer, draw: random.Random) -> None:
        producer.begin_transaction()
        pause = 0.1 if draw.random() < LONG else 0.005
        for _ in range(draw.randrange(5, 60)):
            self._send(producer, draw)
            producer.poll(0)
            time.sleep(pause)
        if draw.random() < ABORTS:
            producer.flush(FLUSH_SECONDS)  # an abort drops what was not sent
            producer.abort_transaction(INIT_SECONDS)
        else:
            producer.commit_transaction(INIT_SECONDS)

    def _send(self, producer: Producer, draw: random.Random) -> None:
        value = None
        if draw.random() >= TOMBSTONES:
            half = draw.randbytes(VALUE_BYTES // 2)
            value = b"%d " % next(self._numbers) + half + bytes(VALUE_BYTES // 2)
        try:
            key = key_of(draw.randrange(self._topic.keys))
            producer.produce(self._topic.name, key=key, value=value)
        except BufferError:  # the broker is away
            producer.poll(0.2)
        except KafkaException as error:  # the topic is being made again
            if error.args[0].code() != KafkaError._UNKNOWN_TOPIC:
                raise
            producer.poll(0.2)
