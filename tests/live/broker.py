"""A real broker that can be killed and started again, on the loopback interface."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from math import inf
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)

from tests.e2e.command import free_port
from tests.live.rows import Isolation
from tests.oracle_runner import oracle_jvm

SECONDS = 100_000
"""A broker that nobody stops ends then."""
STOP_SECONDS = 60
WAIT_SECONDS = 90
BUSY = {
    "log.cleaner.backoff.ms": "50",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.retention.check.interval.ms": "700",
    "log.initial.task.delay.ms": "500",
    "log.segment.delete.delay.ms": "300",
    "log.flush.start.offset.checkpoint.interval.ms": "3000",
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "300",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
"""A cleaner and a retention that never rest."""
QUIET = {"log_level": 0}
_FIRST, _NEXT = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
_URL_SAFE = str.maketrans("+/", "-_")
"""The client writes topic ids in another alphabet than Kafka."""


class BrokerFailed(Exception):
    """The broker did not start; with its last words."""


class Broker:
    """A broker on `directory`, which is its own. Effects: a process, ended by the context.

    Attributes:
        up_since: when it was last started, by the monotonic clock; infinite while it is down.
    """

    def __init__(
        self, directory: Path, *, settings: Mapping[str, str], port: int | None = None
    ) -> None:
        self.directory = directory
        self.settings = {**BUSY, **settings}
        self.port = port or free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self.log_dir = directory / "logs"
        self.up_since = inf
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.stop()
        else:
            self.kill()

    def start(self) -> None:
        """Start it and wait until it listens."""
        broker = (*oracle_jvm("-Xmx640m"), "oracle.Main", "broker")
        place = ("--dir", str(self.directory), "--port", str(self.port))
        config = [f"{name}={value}" for name, value in self.settings.items()]
        words = (*place, "--seconds", str(SECONDS), "--server-config", *config)
        with self._log.open("a") as output:
            self._process = subprocess.Popen(
                [*broker, *words], stdout=subprocess.PIPE, stderr=output, text=True
            )
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise BrokerFailed(self.log()[-300:])
        self.up_since = time.monotonic()

    def kill(self) -> None:
        """End it as a crash does (SIGKILL)."""
        self.up_since = inf
        if self._process is not None:
            with self._process:
                self._process.kill()
            self._process = None

    def stop(self) -> None:
        """Stop it cleanly."""
        self.up_since = inf
        if self._process is not None:
            self._process.terminate()
            self._process.communicate(timeout=STOP_SECONDS)
            self._process = None

    def log(self) -> str:
        """What it logged."""
        return self._log.read_text()

    @property
    def _log(self) -> Path:
        return self.directory.with_suffix(".txt")


class Topics:
    """What an Admin client does to topics of one partition. It is done again while the broker
    answers with an error, as it does when it has just started.
    """

    def __init__(self, bootstrap: str) -> None:
        self._config: dict[str, Any] = {"bootstrap.servers": bootstrap, **QUIET}

    def create(self, topic: str, config: Mapping[str, str], *, nodes: Sequence[int] = (1,)) -> str:
        """Create a topic on these brokers; its id, as it is written in the log directory."""
        new = NewTopic(topic, 1, replica_assignment=[list(nodes)], config=dict(config))
        self._ask(lambda of: of.create_topics([new]), done=KafkaError.TOPIC_ALREADY_EXISTS)
        return str(self._described(topic).topic_id).translate(_URL_SAFE)

    def replicas(self, topic: str) -> tuple[int | None, set[int]]:
        """The broker that leads it, if there is one, and those that are in sync."""
        (partition,) = self._described(topic).partitions
        return getattr(partition.leader, "id", None), {node.id for node in partition.isr}

    def _described(self, topic: str) -> TopicDescription:
        described: TopicDescription = self._ask(
            lambda of: of.describe_topics(TopicCollection([topic]))
        )
        return described

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._ask(lambda of: of.delete_topics([topic]), done=KafkaError.UNKNOWN_TOPIC_OR_PART)

    def start(self, topic: str) -> int:
        """Its log start offset."""
        return self._offset(topic, _FIRST, "read_uncommitted")

    def end(self, topic: str, isolation: Isolation) -> int:
        """Its high watermark; of committed records its last stable offset."""
        return self._offset(topic, _NEXT, isolation)

    def _offset(self, topic: str, place: OffsetSpec, isolation: Isolation) -> int:
        asked_for = {TopicPartition(topic, 0): place}
        level = IsolationLevel[isolation.upper()]
        answer = self._ask(lambda of: of.list_offsets(asked_for, isolation_level=level))
        return int(answer.offset)

    def delete_records(self, topic: str, end: int) -> None:
        """Delete the records below an offset."""
        self._ask(lambda of: of.delete_records([TopicPartition(topic, 0, end)]))

    def _ask(
        self,
        request: Callable[[AdminClient], Mapping[Any, Future[Any]]],
        *,
        done: int | None = None,
    ) -> Any:  # noqa: ANN401 -- each request has its own answer
        """The answer to a request for one thing; `done`: the error that says that it is done.

        Each request has a client of its own: one that outlives a broker keeps an old leader epoch.
        """
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            client = AdminClient(self._config)
            (future,) = request(client).values()
            try:
                return future.result(timeout=WAIT_SECONDS)
            except KafkaException as error:
                if error.args[0].code() == done:
                    return None
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
