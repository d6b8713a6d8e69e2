"""Runs pairs of old brokers, and packs the log directories that they leave.

    python tests/oracle/old-brokers/directories.py [VERSION ...] [--work DIR] [--to FILE]

For each version two brokers, with its own ZooKeeper, or, from 3.3 on, with a controller in broker
1, and its own clients. Broker 1 leads all partitions. Broker 2 follows; while it is down, broker 1
gets more, so that broker 2 fetches many batches at once when it is back. Both are stopped cleanly
(`stopped-1`, `stopped-2`), started again, and killed while a producer writes (`killed-1`,
`killed-2`). Versions that are not named are taken over from the file, if it is there.

It needs Maven, JDK 17 and a minute or two for each version.
"""

from __future__ import annotations

import argparse
import base64
import io
import lzma
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).parent
ARCHIVE: Final = HERE.parents[1] / "data" / "old-directories.tar.xz"
WAIT_SECONDS: Final = 240
RUN_SECONDS: Final = 400


@dataclass(frozen=True, kw_only=True)
class Version:
    """A version of Kafka.

    Attributes:
        scala: of its jars.
        codecs: that its producers know.
        older: the topic config for records of an older message format; empty: it has none.
        has_transactions: from 0.11 on.
        has_zookeeper: else a controller in broker 1.
        zookeeper: the version of its jar, if not the one that Kafka names: 3.4.13 resolves no
            address on JDK 14 and newer.
    """

    scala: str
    codecs: str = "none,gzip,snappy,lz4"
    older: str = ""
    has_transactions: bool = True
    has_zookeeper: bool = True
    zookeeper: str = ""


ZSTD: Final = "none,gzip,snappy,lz4,zstd"
V1: Final = "message.format.version=0.10.2"
VERSIONS: Final = {
    "0.10.2.2": Version(scala="2.11", older="message.format.version=0.9.0", has_transactions=False),
    "1.1.1": Version(scala="2.12", older=V1),
    "2.1.1": Version(scala="2.12", older=V1, codecs=ZSTD, zookeeper="3.4.10"),
    "2.8.2": Version(scala="2.13", older=V1, codecs=ZSTD),
    "3.3.2": Version(scala="2.13", codecs=ZSTD, has_zookeeper=False),
    "3.9.1": Version(scala="2.13", codecs=ZSTD, has_zookeeper=False),
}

SETTINGS: Final = {
    "num.network.threads": "1",
    "num.io.threads": "2",
    "log.segment.bytes": "3000",
    "log.index.interval.bytes": "200",
    "log.index.size.max.bytes": "4096",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.cleaner.io.buffer.size": "524288",
    "log.cleaner.backoff.ms": "200",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.flush.offset.checkpoint.interval.ms": "5000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "zookeeper.session.timeout.ms": "60000",
}


def free_port() -> int:
    """A port of this machine that nobody listens to."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def wait_for(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: it did not within WAIT_SECONDS.
    """
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.2)


def listens(port: int) -> bool:
    """Whether a server listens to the port."""
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) == 0


@dataclass(kw_only=True)
class Cluster:
    """Two brokers of a version, and what they need.

    Attributes:
        name: the version.
        place: an empty directory.
        processes: those that run, by name.
        ports: of ``zookeeper`` or ``controller``, and of each broker.
    """

    name: str
    place: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    ports: dict[str, int] = field(default_factory=dict)

    @property
    def version(self) -> Version:
        """What is known of the version."""
        return VERSIONS[self.name]

    @property
    def bootstrap(self) -> str:
        """Where clients find broker 1."""
        return f"127.0.0.1:{self.ports['1']}"

    def jvm(self, *words: object) -> list[str]:
        """The words of a command of this version's class path."""
        log4j = HERE / "log4j.properties"
        options = ("-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
        defined = (f"-Dlog4j.configuration=file:{log4j}", "-Dzookeeper.admin.enableServer=false")
        class_path = ("-cp", f"{self.place / 'lib'}/*")
        return ["java", *options, *defined, *class_path, *map(str, words)]

    def start(self, name: str, *words: object) -> None:
        """Start a process. Effects: its output is in a file of its name."""
        with (self.place / f"{name}.out").open("ab") as out:
            self.processes[name] = subprocess.Popen(
                self.jvm(*words), stdout=out, stderr=subprocess.STDOUT, cwd=self.place
            )

    def end(self, name: str, with_signal: int = signal.SIGTERM) -> None:
        """End a process, and wait for its end."""
        process = self.processes.pop(name)
        process.send_signal(with_signal)
        process.wait(WAIT_SECONDS)

    def run(self, *words: object) -> None:
        """Run a program to its end.

        Raises:
            CalledProcessError: it failed; its output is in ``clients.out``.
        """
        with (self.place / "clients.out").open("ab") as out:
            subprocess.run(
                self.jvm(*words), stdout=out, stderr=out, check=True, timeout=RUN_SECONDS
            )

    def prepare(self) -> None:
        """Get the jars, and start or format what brokers need. Effects: writes below `place`."""
        target = f"-DoutputDirectory={self.place / 'lib'}"
        words = [f"-Dscala={self.version.scala}", f"-Dkafka={self.name}", target]
        if self.version.zookeeper:
            words.append(f"-Dzookeeper={self.version.zookeeper}")
        maven = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        subprocess.run([*maven, *words], cwd=HERE, check=True)
        for name in ("controller", "1", "2"):
            self.ports[name] = free_port()
        for broker in ("1", "2"):
            self.configure(broker)
        if self.version.has_zookeeper:
            main = "org.apache.zookeeper.server.ZooKeeperServerMain"
            self.start("zookeeper", main, self.ports["controller"], self.place / "zk")
            wait_for(lambda: listens(self.ports["controller"]), "ZooKeeper")
            return
        cluster = base64.urlsafe_b64encode(b"cluster-of-tests").decode().rstrip("=")
        for broker in ("1", "2"):
            config = self.place / f"{broker}.properties"
            self.run("kafka.tools.StorageTool", "format", "-t", cluster, "-c", config)

    def configure(self, broker: str) -> None:
        """Write a broker's settings."""
        settings = {**SETTINGS, "log.dirs": str(self.place / f"logs-{broker}")}
        listener = f"PLAINTEXT://127.0.0.1:{self.ports[broker]}"
        controller = f"127.0.0.1:{self.ports['controller']}"
        settings |= {"listeners": listener}
        if self.version.has_zookeeper:
            settings |= {"broker.id": broker, "zookeeper.connect": controller}
        else:
            is_controller = broker == "1"
            settings |= {
                "node.id": broker,
                "process.roles": "broker,controller" if is_controller else "broker",
                "controller.quorum.voters": f"1@{controller}",
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            }
            if is_controller:
                settings["listeners"] += f",CONTROLLER://{controller}"
        lines = (f"{name}={value}\n" for name, value in settings.items())
        (self.place / f"{broker}.properties").write_text("".join(lines))

    def start_broker(self, broker: str) -> None:
        """Start a broker, and wait until it listens."""
        self.start(broker, "kafka.Kafka", self.place / f"{broker}.properties")
        process = self.processes[broker]
        wait_for(lambda: listens(self.ports[broker]) or process.poll() is not None, "a broker")
        if process.poll() is not None:
            raise RuntimeError(f"broker {broker} ended: see {self.place / broker}.out")

    def topics(self, operation: str, *topics: str) -> None:
        """Create topics, or change their configs, as Topics.java says."""
        if self.version.has_transactions:
            self.run(HERE / "Topics.java", self.bootstrap, operation, *topics)
            return
        for topic in topics:
            name, _, pairs = topic.partition(":")
            words = [f"--{operation}", "--topic", name]
            if operation == "create":
                words += ["--replica-assignment", "1:2"]
            words += [each for pair in pairs.split(",") if pair for each in ("--config", pair)]
            zookeeper = f"127.0.0.1:{self.ports['controller']}"
            self.run("kafka.admin.TopicCommand", "--zookeeper", zookeeper, *words)

    def produce(self, seed: int, rounds: int) -> None:
        """Write to all topics."""
        self.run(*self.producer(seed, rounds))
        if self.version.has_transactions:
            self.transact(seed, 7, "ended")

    def producer(self, seed: int, rounds: int) -> list[object]:
        """The words of Produce.java."""
        topics = ["plain", "compacted", *(["older"] if self.version.older else [])]
        return [HERE / "Produce.java", self.bootstrap, seed, rounds, self.version.codecs, *topics]

    def transact(self, seed: int, count: int, last: str) -> None:
        """Write transactions, as Transactions.java says."""
        topics = ("tx", "tx-compacted")
        self.run(HERE / "Transactions.java", self.bootstrap, seed, count, last, *topics)

    def size(self, broker: str, topic: str) -> int:
        """The bytes of a partition's live segments."""
        directory = self.place / f"logs-{broker}" / f"{topic}-0"
        return sum(path.stat().st_size for path in directory.glob("*.log"))

    def wait_for_follower(self) -> None:
        """Wait until broker 2 has what broker 1 has of the topics that are not compacted."""
        topics = ["plain", *(["tx"] if self.version.has_transactions else [])]

        def has_all() -> bool:
            return all(self.size("1", topic) == self.size("2", topic) for topic in topics)

        wait_for(has_all, "broker 2 has not fetched all")
        time.sleep(3)

    def keep(self, state: str) -> None:
        """Copy both log directories, as they are."""
        for broker in ("1", "2"):
            source, to = self.place / f"logs-{broker}", self.place / "kept" / f"{state}-{broker}"
            shutil.copytree(source, to, copy_function=shutil.copy2)


def live(cluster: Cluster) -> None:
    """The life of two brokers. Effects: their directories are in ``kept``."""
    older = cluster.version.older
    cluster.prepare()
    for broker in ("1", "2"):
        cluster.start_broker(broker)
    topics = ["plain", "compacted:cleanup.policy=compact"]
    topics += [f"older:{older}"] if older else []
    topics += ["tx", "tx-compacted:cleanup.policy=compact"] * cluster.version.has_transactions
    wait_for(lambda: has_begun(cluster, topics), "two brokers")
    cluster.produce(1, 4)
    cluster.wait_for_follower()
    cluster.end("2")
    cluster.produce(2, 8)
    cluster.start_broker("2")
    cluster.wait_for_follower()
    if older:
        newest = "1.1" if cluster.version.has_transactions else "0.10.2"
        cluster.topics("alter", f"older:message.format.version={newest}")
    cluster.produce(3, 4)
    cluster.wait_for_follower()
    cluster.end("2")
    cluster.end("1")
    cluster.keep("stopped")
    for broker in ("1", "2"):
        cluster.start_broker(broker)
    cluster.produce(4, 3)
    if cluster.version.has_transactions:
        cluster.transact(5, 2, "open")
    cluster.wait_for_follower()
    before = cluster.size("1", "plain")
    cluster.start("producer", *cluster.producer(6, 1000))
    wait_for(lambda: cluster.size("1", "plain") > before + 2000, "a producer that writes")
    for broker in ("2", "1"):
        cluster.processes[broker].kill()
    for name in ("2", "1", "producer"):
        cluster.end(name, signal.SIGKILL)
    cluster.keep("killed")


def has_begun(cluster: Cluster, topics: list[str]) -> bool:
    """Whether the topics could be made: both brokers must be known for it."""
    try:
        cluster.topics("create", *topics)
    except subprocess.CalledProcessError:
        return False
    return True


def members(name: str, kept: Path) -> Iterable[tuple[tarfile.TarInfo, bytes]]:
    """What lies below the kept directories of a version, but their locks."""
    for path in sorted(kept.rglob("*")):
        entry = tarfile.TarInfo(f"old-directories/{name}/{path.relative_to(kept)}")
        entry.mtime = int(path.stat().st_mtime)
        if path.is_dir():
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            yield entry, b""
        elif path.name != ".lock":
            data = path.read_bytes()
            entry.size = len(data)
            yield entry, data


def packed(archive: Path, names: list[str]) -> list[tuple[tarfile.TarInfo, bytes]]:
    """What an archive has of versions."""
    if not archive.exists():
        return []
    with tarfile.open(archive, "r:xz") as tar:
        entries = []
        for entry in tar.getmembers():
            file = tar.extractfile(entry) if entry.isfile() else None
            if entry.name.split("/")[1] in names:
                entries.append((entry, b"" if file is None else file.read()))
        return entries


def pack(archive: Path, entries: list[tuple[tarfile.TarInfo, bytes]]) -> None:
    """Write an archive; like files of a version lie together."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for entry, data in sorted(entries, key=order):
            tar.addfile(entry, io.BytesIO(data))
    archive.write_bytes(lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def order(member: tuple[tarfile.TarInfo, bytes]) -> tuple[str, bool, str, str]:
    """By version, directories first, kind of file, name within the log directory."""
    entry, _ = member
    version, state, *rest = [*entry.name.split("/")[1:], "", ""]
    return version, entry.isfile(), Path(entry.name).suffix, "/".join([*rest, state])


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", help="[default: all]")
    parser.add_argument("--work", type=Path, help="a directory to work in, which is kept")
    parser.add_argument("--to", type=Path, default=ARCHIVE)
    given = parser.parse_args()
    with ExitStack() as stack:
        work = given.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        for name in given.versions or VERSIONS:
            place = work.resolve() / name
            place.mkdir(parents=True)
            cluster = Cluster(name=name, place=place)
            try:
                live(cluster)
            finally:
                for process in cluster.processes.values():
                    process.kill()
                    process.wait()
            others = packed(given.to, [one for one in VERSIONS if one != name])
            pack(given.to, [*others, *members(name, place / "kept")])
            sys.stdout.write(f"{name}: {given.to} has {given.to.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
