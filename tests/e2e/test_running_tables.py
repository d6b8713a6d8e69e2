"""Tables of topics next to a real broker, with its cleaner, transactions and tombstones: after
each update a table is what a consumer of committed records knows that has read up to the same
offset.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as Assigned
from confluent_kafka.admin import AdminClient, NewTopic

from logwright.config.topic import CleanerConfig
from logwright.format.names import TopicPartition
from logwright.log.load import observe
from logwright.place.model import is_running
from logwright.reading import reading
from logwright.running.place import as_it_runs, look_at
from logwright.running.watermark import read_watermarks
from logwright.tables.logs import offsets_of, topic_log
from logwright.tables.topic import update_topic
from logwright.tables.work import PartitionResult
from tests.e2e.broker_life import STOP_SECONDS, broker
from tests.e2e.kafka_tools import COMPACT, SERVER
from tests.table_rows import table_rows
from tests.table_world import place

pytestmark = [pytest.mark.e2e, pytest.mark.oracle]

BUSY = (
    *(one for one in SERVER if not one.startswith("log.cleaner.enable")),
    "log.cleaner.backoff.ms=50",
    "file.delete.delay.ms=300",
    "replica.high.watermark.checkpoint.interval.ms=500",
)
"""A cleaner that never rests, and high watermarks that are recorded twice a second."""
TOPIC = COMPACT | {"delete.retention.ms": "100"}
KEYS = 300
RARE = 20
VALUE_BYTES = 600
"""Of each record: 2,000 of them fill a segment."""
PATIENCE_SECONDS = 60.0


class Reader:
    """A consumer of committed records that follows the topic t. Effects: a thread."""

    def __init__(self, bootstrap: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "reader",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 20,
            }
        )
        self._consumer.assign([Assigned("t", 0, 0)])
        self._stop = Event()
        self._records: list[tuple[int, bytes, bytes | None]] = []
        self.end = 0
        self._thread = Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        while not self._stop.is_set():
            message = self._consumer.poll(0.1)
            if message is None:
                continue
            if message.error() is None:
                self._records.append((message.offset(), message.key(), message.value()))
            else:
                self.end = message.offset()  # of the end that it has reached

    def state(self, end: int) -> list[tuple[int, int, bytes, bytes]]:
        """The rows of a table that ends there."""
        self.reach(end)
        newest = {key: (offset, value) for offset, key, value in self._records if offset < end}
        return sorted(
            (0, offset, key, value) for key, (offset, value) in newest.items() if value is not None
        )

    def reach(self, end: int) -> None:
        """Wait until it has read up to an offset."""
        until = time.monotonic() + PATIENCE_SECONDS
        while self.end < end:
            assert time.monotonic() < until, f"it has read up to {self.end}, not {end}"
            time.sleep(0.01)

    def close(self) -> None:
        """Stop reading."""
        self._stop.set()
        self._thread.join()
        self._consumer.close()


class World:
    """A broker with the topic t, who writes to it, who reads it, and its table."""

    def __init__(self, work: Path, bootstrap: str, seed: int) -> None:
        self.log_dir = work / "broker" / "logs"
        self.table = place("delta", work / "table", buckets=2)
        self.path = work / "table"
        self._bootstrap = bootstrap
        self._draw = random.Random(seed)
        self._admin = AdminClient({"bootstrap.servers": bootstrap})
        self.make_topic()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": "writer",
                "linger.ms": 1,
                "log_level": 0,  # it outlives the broker
            }
        )
        self._producer.init_transactions(PATIENCE_SECONDS)
        self.reader = Reader(bootstrap)
        self.visits: list[PartitionResult] = []

    def make_topic(self) -> None:
        """Make it, and wait for its log."""
        for done in self._admin.create_topics([NewTopic("t", 1, 1, config=TOPIC)]).values():
            done.result()
        until = time.monotonic() + PATIENCE_SECONDS
        while not (self.log_dir / "t-0").is_dir():
            assert time.monotonic() < until
            time.sleep(0.05)

    def make_topic_again(self) -> None:
        """Delete it, wait until its log is gone, and make it; the consumer begins again."""
        self.reader.close()
        for done in self._admin.delete_topics(["t"]).values():
            done.result()
        until = time.monotonic() + PATIENCE_SECONDS
        while (self.log_dir / "t-0").exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        self.make_topic()
        self.reader = Reader(self._bootstrap)

    def write(self, count: int, *, dead: float = 0.1) -> None:
        """Transactions of some records, a third of them aborted; until the consumer has them."""
        offsets: list[int] = []
        while count > 0:
            size = self._draw.randrange(1, 600)
            self._producer.begin_transaction()
            for _ in range(size):
                value = None if self._draw.random() < dead else self._draw.randbytes(VALUE_BYTES)
                self._producer.produce(
                    "t",
                    key=f"k{self._draw.randrange(KEYS)}",
                    value=value,
                    on_delivery=lambda error, message: offsets.append(message.offset()),
                )
            self._producer.flush()
            if self._draw.random() < 1 / 3:
                self._producer.abort_transaction(PATIENCE_SECONDS)
            else:
                self._producer.commit_transaction(PATIENCE_SECONDS)
            count -= size
        self.reader.reach(max(offsets) + 1)

    def write_rare(self, value: bytes | None) -> set[int]:
        """A record of each of some keys that nothing else has; their offsets."""
        offsets: list[int] = []
        self._producer.begin_transaction()
        for number in range(RARE):
            self._producer.produce(
                "t",
                key=f"rare{number}",
                value=value,
                on_delivery=lambda error, message: offsets.append(message.offset()),
            )
        self._producer.commit_transaction(PATIENCE_SECONDS)
        self.reader.reach(max(offsets) + 1)
        assert RARE == len(offsets)
        return set(offsets)

    def recorded(self) -> None:
        """Wait until the broker has recorded what the consumer has read."""
        until = time.monotonic() + PATIENCE_SECONDS
        part = TopicPartition("t", 0)
        while (read_watermarks(self.log_dir).offsets.get(part) or 0) < self.reader.end:
            assert time.monotonic() < until
            time.sleep(0.02)

    def visit(self) -> PartitionResult:
        """Update the table, and compare it with what the consumer knows."""
        there = as_it_runs(self.log_dir, exact=True)
        assert is_running(there)
        with reading(there):
            look_at(there, ["t-0"])
            log = observe(there, TopicPartition("t", 0), high_watermark="checkpoint")
            read = topic_log(log, CleanerConfig())
            update = update_topic(self.table, [read], now_ms=time.time_ns() // 1_000_000)
        assert {} == update.result.failures
        (done,) = update.result.partitions
        assert self.reader.state(done.held) == table_rows("delta", self.path)
        self.visits.append(done)
        return done

    def clean_away(self, offsets: set[int]) -> None:
        """Write until the cleaner has removed the records of these offsets."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            self.write(1000)
            log = observe(
                as_it_runs(self.log_dir), TopicPartition("t", 0), high_watermark="checkpoint"
            )
            left = offsets_of(log, log.last_stable_offset)
            if log.last_stable_offset > max(offsets) and not any(one in left for one in offsets):
                return
            assert time.monotonic() < until, "the cleaner does not come"


@contextmanager
def world(tmp_path: Path, seed: int) -> Iterator[World]:
    words = [word for setting in BUSY for word in ("--server-config", setting)]
    with broker(tmp_path, "running", *words) as (process, bootstrap):
        made = World(tmp_path, bootstrap, seed)
        try:
            yield made
        finally:
            made.reader.close()
        (tmp_path / "running.stop").touch()
        assert 0 == process.wait(STOP_SECONDS)


@pytest.mark.rotates(4)
def test_next_to_a_broker(tmp_path: Path, seed: int) -> None:
    """The table continues from update to update, also when tombstones that it has not read are
    gone; of a topic that was made again it is made again.
    """
    with world(tmp_path, seed) as made:
        made.write(3000, dead=0)
        made.write_rare(b"live")
        made.recorded()
        first = made.visit()
        assert "rebuild" == first.step.kind
        made.write(500)
        made.recorded()
        assert "upsert" == made.visit().step.kind
        made.clean_away(made.write_rare(None))
        made.recorded()
        cleaned = made.visit()
        assert ("upsert", True) == (cleaned.step.kind, cleaned.step.compares)
        made.make_topic_again()
        made.write(1000)
        made.recorded()
        again = made.visit()
        assert ("rebuild", True) == (again.step.kind, "the topic id was" in again.step.reason)


@pytest.mark.nightly
def test_next_to_a_broker_for_long(tmp_path: Path, seed: int) -> None:
    """Many updates, few of which make the table again."""
    with world(tmp_path, seed) as made:
        draw = random.Random(seed)
        for _ in range(60):
            made.write(draw.randrange(1, 3000), dead=draw.choice([0.05, 0.3, 1]))
            made.visit()
        kinds = [visit.step.kind for visit in made.visits]
        assert any(visit.step.compares for visit in made.visits)
        assert kinds.count("rebuild") <= 3
