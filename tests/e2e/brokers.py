"""A cluster of real Kafka brokers, each a process with a stop and a start script, as an operator
has them.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka.admin import AdminClient

from tests.e2e.command import free_port
from tests.oracle_runner import oracle_jvm

CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"
START_SECONDS: Final = 300
CONTROLLER: Final = 100
"""Of a cluster whose brokers do not vote, the node that is one."""
_SETTINGS: Final = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "3600000",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "500",
    "controller.quorum.fetch.timeout.ms": "1000",
    "unstable.api.versions.enable": "false",
}
_START: Final = """#!/bin/sh
# Starts the broker, unless it runs.
cd {work} || exit 1
pid=$(cat {id}.pid 2>/dev/null)
if grep -q "^State:.[^Z]" "/proc/$pid/status" 2>/dev/null; then exit 0; fi
{java} >>{id}.log 2>&1 </dev/null &
echo $! >{id}.pid
"""
_STOP: Final = """#!/bin/sh
# Stops the broker and waits for it.
cd {work} || exit 1
pid=$(cat {id}.pid)
kill -TERM "$pid" 2>/dev/null
while grep -q "^State:.[^Z]" "/proc/$pid/status" 2>/dev/null; do sleep 0.1; done
"""


def _quorum(controllers: Mapping[int, int], *, dynamic: bool) -> dict[str, str]:
    """The settings that say where the controllers listen: node to port."""
    addresses = {node: f"127.0.0.1:{port}" for node, port in controllers.items()}
    if dynamic:
        return {"controller.quorum.bootstrap.servers": ",".join(addresses.values())}
    voters = ",".join(f"{node}@{address}" for node, address in addresses.items())
    return {"controller.quorum.voters": voters}


class Brokers:
    """Some brokers, ids from 1. Effects: processes, which end with the context."""

    def __init__(
        self,
        work: Path,
        count: int = 3,
        *,
        apart: bool = False,
        two_dirs: bool = False,
        features: Sequence[str] = (),
        dynamic: bool = False,
    ) -> None:
        """Write what they need.

        Args:
            apart: the controller is a process of its own, which continues when all brokers are
                stopped; else each broker is one, too.
            two_dirs: each broker has a second log directory (`second_dir`).
            features: levels other than the usual ones, as NAME=LEVEL.
            dynamic: the voters are in the metadata (KIP-853), one at first; else in the settings.
        """
        self._features, self._two_dirs, self._dynamic = features, two_dirs, dynamic
        self.work = work
        self.ids = tuple(range(1, count + 1))
        controlling = (CONTROLLER,) if apart else self.ids
        self._nodes = (CONTROLLER, *self.ids) if apart else self.ids
        ports = {broker: free_port() for broker in self.ids}
        controllers = {node: free_port() for node in controlling}
        quorum = _quorum(controllers, dynamic=dynamic)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports.values())
        self._program = program = oracle_jvm("-Xmx512m", version="4.4")
        for broker in self._nodes:
            listeners = {
                "PLAINTEXT": ports.get(broker),
                "CONTROLLER": controllers.get(broker),
            }
            own = {name: f"{name}://127.0.0.1:{port}" for name, port in listeners.items() if port}
            roles = {"PLAINTEXT": "broker", "CONTROLLER": "controller"}
            settings = (
                _SETTINGS
                | {
                    "process.roles": ",".join(roles[name] for name in own),
                    "node.id": str(broker),
                    "listeners": ",".join(own.values()),
                    "log.dirs": ",".join(map(str, self._log_dirs(broker))),
                    "offsets.topic.replication.factor": str(count),
                    "transaction.state.log.replication.factor": str(count),
                    "transaction.state.log.min.isr": str(min(count, 2)),
                    "transaction.state.log.num.partitions": "1",
                }
                | quorum
            )
            if "PLAINTEXT" in own:
                settings["advertised.listeners"] = own["PLAINTEXT"]
            lines = "".join(f"{name}={value}\n" for name, value in settings.items())
            self._properties(broker).write_text(lines)
            line = " ".join([*program, "kafka.Kafka", str(self._properties(broker))])
            for name, text in (("start", _START), ("stop", _STOP)):
                script = self.script(name, broker)
                script.write_text(text.format(work=work, id=broker, java=line))
                script.chmod(0o755)
        self._format(program)

    def __enter__(self) -> Self:
        for broker in self._nodes:
            self.start(broker)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        deadline = time.monotonic() + START_SECONDS
        while len(self.alive()) < len(self.ids):
            if time.monotonic() > deadline:
                self.__exit__(None, None, None)  # what did not start in time must not stay
                raise AssertionError(self.said())
            time.sleep(0.1)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for broker in self._nodes:
            self.kill(broker)

    def log_dir(self, broker: int) -> Path:
        """The log directory of a broker."""
        return self.work / f"logs-{broker}"

    def second_dir(self, broker: int) -> Path:
        """The second log directory of a broker."""
        return self.work / f"logs-{broker}-more"

    def _log_dirs(self, broker: int) -> list[Path]:
        return [self.log_dir(broker), *([self.second_dir(broker)] if self._two_dirs else [])]

    def script(self, name: str, broker: int) -> Path:
        """The script that starts or stops a broker."""
        return self.work / f"{name}-{broker}"

    def start(self, broker: int) -> None:
        """Start one. Effects: a process."""
        subprocess.run([self.script("start", broker)], check=True)

    def stop(self, broker: int) -> None:
        """Stop one cleanly. Effects: its process ends."""
        subprocess.run([self.script("stop", broker)], check=True)

    def kill(self, broker: int) -> None:
        """End one at once, and wait for that."""
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):
            pid = int((self.work / f"{broker}.pid").read_text())
            os.kill(pid, signal.SIGKILL)
            while "State:\tZ" not in Path(f"/proc/{pid}/status").read_text():
                time.sleep(0.02)

    def alive(self) -> set[int]:
        """The brokers that are in the cluster. Without fresh metadata the client may wait for a
        broker that has gone.
        """
        with suppress(Exception):
            self.admin.list_topics(timeout=5)
            answer = self.admin.describe_cluster(request_timeout=5).result()
            return {node.id for node in answer.nodes}
        return set()

    def active_controller(self) -> int:
        """The node that leads the quorum, by Kafka's own tool."""
        words = ["--bootstrap-server", self.bootstrap, "describe", "--status"]
        told = subprocess.run(
            [*self._program, "org.apache.kafka.tools.MetadataQuorumCommand", *words],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        (leader,) = re.findall(r"^LeaderId:\s+(\d+)$", told, re.MULTILINE)
        return int(leader)

    def said(self) -> str:
        """The end of what the brokers have logged."""
        return "\n".join(
            path.read_text(errors="replace")[-2000:] for path in sorted(self.work.glob("*.log"))
        )

    def _properties(self, broker: int) -> Path:
        return self.work / f"{broker}.properties"

    def _format(self, program: list[str]) -> None:
        """Format the directory of a controller with Kafka's tool, and make the others' of it."""
        first = self._nodes[0]
        words = ["format", "--cluster-id", CLUSTER_ID, "--config", self._properties(first)]
        for feature in self._features:
            words += ["--feature", feature]
        words += ["--standalone"] if self._dynamic else []
        subprocess.run(
            [*program, "kafka.tools.StorageTool", *map(str, words)], check=True, capture_output=True
        )
        meta = self.log_dir(first) / "meta.properties"
        lines = [
            line for line in meta.read_text().splitlines() if not line.startswith("directory.id")
        ]
        for broker in self._nodes[1:]:
            own = [f"node.id={broker}" if line.startswith("node.id") else line for line in lines]
            text = "".join(f"{line}\n" for line in own)
            shutil.copytree(
                self.log_dir(first),
                self.log_dir(broker),
                ignore=shutil.ignore_patterns("__cluster_metadata-0"),
            )
            for log_dir in self._log_dirs(broker):
                log_dir.mkdir(exist_ok=True)
                (log_dir / "meta.properties").write_text(text)
