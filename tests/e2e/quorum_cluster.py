"""A KRaft cluster of three controllers and a broker, each a process of its own that can be killed;
its quorum is dynamic (KIP-853) or static.
"""

from __future__ import annotations

import base64
import re
import subprocess
import time
import uuid
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from tests.e2e.command import free_port
from tests.oracle_runner import oracle_jvm

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
CONTROLLERS: Final = (1, 2, 3)
BROKER: Final = 11
IN_TIME: Final = 180.0
"""How long anything may take that is waited for, s."""
_SETTINGS: Final = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
    "initial.broker.registration.timeout.ms": "240000",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "broker.session.timeout.ms": "9000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "2000",
    "controller.quorum.fetch.timeout.ms": "8000",
}


def directory_id() -> str:
    """An id as Kafka makes them."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


class QuorumCluster:
    """The cluster. Effects: processes, which end with the context.

    Attributes:
        start_seconds: how long it took to start.
    """

    def __init__(self, work: Path, *, dynamic: bool, **settings: str) -> None:
        self.work = work
        self.dynamic = dynamic
        self.ports = {node: free_port() for node in (*CONTROLLERS, BROKER)}
        self.bootstrap = f"127.0.0.1:{self.ports[BROKER]}"
        self._program = oracle_jvm("-Xmx256m")
        self._settings = _SETTINGS | {
            name.replace("_", "."): value for name, value in settings.items()
        }
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        ids = {node: directory_id() for node in (*CONTROLLERS, BROKER)}
        for node in ids:
            self.configure(node, self.log_dir(node))
        self._format(ids)

    def __enter__(self) -> Self:
        began = time.monotonic()
        for node in (*CONTROLLERS, BROKER):
            self.start(node)
        self.wait_for_topics(set())
        self.start_seconds = time.monotonic() - began
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in list(self._processes):
            self.kill(node)

    @property
    def admin(self) -> AdminClient:
        """A new client: an old one may have noted what is no longer so."""
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def log_dir(self, node: int) -> Path:
        """The only log directory of a node, as it was formatted."""
        return self.work / f"node-{node}"

    def configure(self, node: int, log_dir: Path, *, voters: tuple[int, ...] = CONTROLLERS) -> None:
        """Write a node's properties.

        Args:
            voters: whose endpoints are in them.
        """
        name = "PLAINTEXT" if node == BROKER else "CONTROLLER"
        endpoint = f"{name}://127.0.0.1:{self.ports[node]}"
        if self.dynamic:
            quorum = {
                "controller.quorum.bootstrap.servers": ",".join(
                    f"127.0.0.1:{self.ports[voter]}" for voter in voters
                )
            }
        else:
            quorum = {
                "controller.quorum.voters": ",".join(
                    f"{voter}@127.0.0.1:{self.ports[voter]}" for voter in voters
                )
            }
        own = {
            "process.roles": "broker" if node == BROKER else "controller",
            "node.id": str(node),
            "listeners": endpoint,
            "advertised.listeners": endpoint,
            "log.dirs": str(log_dir),
        }
        lines = (self._settings | quorum | own).items()
        self.properties(node).write_text("".join(f"{name}={text}\n" for name, text in lines))

    def start(self, node: int) -> None:
        """Start a node. Effects: a process."""
        with (self.work / f"{node}.log").open("ab") as output:
            self._processes[node] = subprocess.Popen(
                [*self._program, "kafka.Kafka", str(self.properties(node))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def kill(self, node: int) -> None:
        """SIGKILL; waits for the end."""
        process = self._processes.pop(node, None)
        if process is not None:
            process.kill()
            process.wait()

    def kill_all(self) -> None:
        """SIGKILL to all at once."""
        for process in self._processes.values():
            process.kill()
        for node in list(self._processes):
            self.kill(node)

    def make_topic(self, name: str, partitions: int = 1, **config: str) -> None:
        """Make a topic, with configs."""
        settings = {key.replace("_", "."): value for key, value in config.items()}
        topic = NewTopic(name, partitions, 1, config=settings)
        admin = self.admin
        admin.create_topics([topic], operation_timeout=60)[name].result(IN_TIME)

    def config(self, topic: str, name: str) -> str:
        """The value of a topic's setting, by the broker."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        admin = self.admin
        (answer,) = admin.describe_configs([resource]).values()
        value: str = answer.result(IN_TIME)[name].value
        return value

    def topics(self) -> set[str]:
        """The users' topics that a broker serves, each with leaders; raises if none answers."""
        admin = self.admin
        cluster = admin.list_topics(timeout=5)
        assert BROKER in cluster.brokers
        return {
            name
            for name, topic in cluster.topics.items()
            if not name.startswith("__")
            and all(one.leader == BROKER for one in topic.partitions.values())
        }

    def wait_for_topics(self, names: set[str]) -> None:
        """Wait until the broker serves these topics."""
        deadline = time.monotonic() + IN_TIME
        while True:
            with suppress(Exception):
                if names <= self.topics():
                    return
            assert time.monotonic() < deadline, self.output()
            time.sleep(0.2)

    def produce(self, topic: str, values: list[str]) -> None:
        """Produce records, and wait until all are acknowledged."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "log_level": 0})
        errors: list[Any] = []
        for value in values:
            producer.produce(topic, value, value, on_delivery=lambda error, _: errors.append(error))
        assert 0 == producer.flush(IN_TIME)
        assert {None} == set(errors)

    def consume(self, topic: str, count: int) -> list[str]:
        """This many records of partition 0, from the start."""
        settings = {"group.id": "readers", "bootstrap.servers": self.bootstrap, "log_level": 0}
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[str] = []
        deadline = time.monotonic() + IN_TIME
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                values.append((message.value() or b"").decode())
        consumer.close()
        return values

    def quorum(self, *words: str, config: int | None = None) -> str:
        """What ``kafka-metadata-quorum`` prints."""
        controllers = [node for node in CONTROLLERS if node in self._processes]
        address = f"127.0.0.1:{self.ports[controllers[0]]}"
        command = ["--bootstrap-controller", address]
        if config is not None:
            command += ["--command-config", str(self.properties(config))]
        return self.tool("org.apache.kafka.tools.MetadataQuorumCommand", *command, *words)

    def leader(self) -> int:
        """The active controller."""
        (leader,) = re.findall(
            r"^LeaderId:\s+(\d+)$", self.quorum("describe", "--status"), re.MULTILINE
        )
        return int(leader)

    def tool(self, main_class: str, *words: str) -> str:
        """What one of Kafka's tools prints; it must succeed."""
        done = subprocess.run(
            [*self._program, main_class, *words], capture_output=True, text=True, check=False
        )
        assert 0 == done.returncode, done.stdout + done.stderr
        return done.stdout

    def output(self) -> str:
        """The end of what the nodes have logged."""
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-3000:]}"
            for path in sorted(self.work.glob("*.log"))
        )

    def properties(self, node: int) -> Path:
        """The file of a node's properties."""
        return self.work / f"{node}.properties"

    def _format(self, ids: dict[int, str]) -> None:
        """Format the first one's directory with Kafka's tool, and make the others' of it."""
        first = CONTROLLERS[0]
        words = ["format", "--cluster-id", CLUSTER_ID, "--config", str(self.properties(first))]
        if self.dynamic:
            initial = (f"{node}@127.0.0.1:{self.ports[node]}:{ids[node]}" for node in CONTROLLERS)
            words += ["--initial-controllers", ",".join(initial)]
        self.tool("kafka.tools.StorageTool", *words)
        meta = self.log_dir(first) / "meta.properties"
        for node, own_id in ids.items():
            own = self.log_dir(node)
            own.mkdir(exist_ok=True)
            if node not in (first, BROKER):
                for path in self.log_dir(first).rglob("*.checkpoint"):
                    copied = own / path.relative_to(self.log_dir(first))
                    copied.parent.mkdir(exist_ok=True)
                    copied.write_bytes(path.read_bytes())
            if not (node == first and self.dynamic):
                text = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={node}\n"
                (own / meta.name).write_text(f"{text}directory.id={own_id}\n")
