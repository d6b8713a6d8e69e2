"""A cluster of three brokers and one partition, by Kafka's replication rules, on the same files
that real brokers leave.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.clusters.controller import Controller
from tests.clusters.metadata import TOPIC_ID, MetadataLog, forget_metadata, newest_ids
from tests.clusters.replica import Batch, Replica, stamped
from tests.clusters.written import Produced, batch_of, marker_of
from tests.e2e.command import Answer, call
from tests.metadata_builder import uuid_text

PARTITION: Final = "t-0"
BROKERS: Final = (1, 2, 3)
MIN_ISR: Final = 2
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qk"


@dataclass(slots=True)
class ModelCluster:
    """It runs until somebody stops its brokers. Effects: writes directories below `root`.

    Attributes:
        eligible: whether the cluster has eligible leader replicas.
    """

    root: Path
    draw: random.Random
    eligible: bool
    up: dict[int, Replica] = field(default_factory=dict)
    controller: Controller = field(init=False)
    _metadata: MetadataLog = field(init=False)
    _is_rescued: bool = False

    def __post_init__(self) -> None:
        self.controller = Controller(
            replicas=BROKERS, min_isr=MIN_ISR, eligible=self.eligible, isr=BROKERS
        )
        self._metadata = MetadataLog(self.controller, BROKERS)
        for broker in BROKERS:
            self.log_dir(broker).mkdir(parents=True)
            meta = f"version=1\ncluster.id={CLUSTER_ID}\nnode.id={broker}\n"
            own = f"directory.id={uuid_text(1000 + broker)}\n"
            (self.log_dir(broker) / "meta.properties").write_text(meta + own)

    def log_dir(self, broker: int) -> Path:
        """Of a broker."""
        return self.root / f"logs-{broker}"

    @property
    def leader(self) -> int:
        """Who leads, -1: nobody."""
        return self.controller.leader

    @property
    def isr(self) -> set[int]:
        """Who is in sync."""
        return set(self.controller.isr)

    def start(self, broker: int) -> None:
        """A broker loads its directory, registers, and takes part."""
        if broker in self.up:
            return
        replica = Replica(self.log_dir(broker), PARTITION)
        epoch = replica.load()
        self._id_of_topic(broker)
        self._registered(broker, epoch)
        self.up[broker] = replica
        self.controller.unfence(broker)
        self._lead()
        if self.draw.random() < 0.5:
            self.replicate()

    def _registered(self, broker: int, epoch: int) -> None:
        self.controller.register(broker, epoch)
        self._lead()

    def stop(self, broker: int) -> None:
        """Stop one cleanly: it hands its leadership over."""
        replica = self.up.get(broker)
        if replica is None:
            return
        if self.draw.random() < 0.7:
            self.replicate()
        self.controller.leave(broker)
        del self.up[broker]
        replica.write(self.controller.epochs[broker])
        self._write_metadata(broker)
        self._lead()

    def kill(self, broker: int) -> None:
        """End one at once."""
        replica = self.up.pop(broker, None)
        if replica is None:
            return
        replica.write(None)
        self._write_metadata(broker)
        self.controller.leave(broker)
        self._lead()

    def elect_unclean(self) -> None:
        """What ``kafka-leader-election.sh --election-type unclean`` asks for."""
        self.controller.elect_unclean()
        self._lead()

    def produce(self, records: Sequence[Produced], how: str) -> bool:
        """Produce records as one batch; whether all in sync have acknowledged it.

        Args:
            how: plain, idempotent; commit, abort: a transaction that ends so; unheard: the
                producer dies before it hears of it.
        """
        if len(self.isr) < MIN_ISR:
            self.replicate()  # a producer tries again
        leader = self.up.get(self.leader)
        if leader is None or len(self.isr) < MIN_ISR:
            return False
        pid = None
        if how in {"idempotent", "commit", "abort"}:
            pid = self._metadata.give_id()
            if known := [each for each in leader.batches if each.producer == pid]:
                return known[-1].is_duplicate(len(records))
        transactional = how in {"commit", "abort"}
        self._append(leader, batch_of(records, pid, transactional=transactional))
        if how == "unheard":
            for broker, replica in self.up.items():
                if broker != self.leader and self.draw.random() < 0.5:
                    replica.follow(leader)
            return False
        self.replicate()
        if transactional:
            assert pid is not None
            self._append(leader, marker_of(pid, how))
            self.replicate()
        return len(self.isr) >= MIN_ISR

    def _append(self, leader: Replica, content: bytes) -> None:
        leader.append(stamped(content, leader.end, self.controller.leader_epoch))

    def replicate(self) -> None:
        """All that run fetch all that the leader has; who has caught up is in sync."""
        leader = self.up.get(self.leader)
        if leader is None:
            return
        for _ in range(2):
            for broker, replica in sorted(self.up.items()):
                if broker != self.leader:
                    replica.follow(leader)
            in_sync = {*self.controller.isr, *self.up} & {*self.up}
            self.controller.alter(each for each in BROKERS if each in in_sync)
            self._metadata.note()
            ends = [self.up[each].end for each in self.controller.isr]
            if len(ends) >= MIN_ISR:
                leader.hw = max(leader.hw, min(ends))

    def _lead(self) -> None:
        """The new leader takes its epoch."""
        self._metadata.note()
        leader = self.up.get(self.leader)
        if leader is not None:
            leader.lead(self.controller.leader_epoch)

    def all_in_sync(self) -> bool:
        """Whether all replicas are, once they had time."""
        self.replicate()
        return self.isr == set(BROKERS)

    def consumed(self) -> list[tuple[bytes, bytes | None]]:
        """Key and value of all that a consumer of committed records gets from the leader."""
        leader = self.up[self.leader]
        batches = [each for each in leader.batches if each.last < leader.hw]
        ended = _outcomes(batches)
        committed = [each for at, each in enumerate(batches) if ended.get(at) == "commit"]
        return [(one.key or b"", one.value) for batch in committed for one in batch.records()]

    def logs(self) -> dict[int, list[Batch]]:
        """The batches of each replica."""
        return {broker: replica.batches for broker, replica in self.up.items()}

    def _id_of_topic(self, broker: int) -> None:
        path = self.log_dir(broker) / PARTITION / "partition.metadata"
        path.write_text(f"version: 0\ntopic_id: {uuid_text(TOPIC_ID)}\n")

    def _write_metadata(self, broker: int) -> None:
        """The metadata as the broker knows it."""
        path = self.log_dir(broker) / "__cluster_metadata-0"
        shutil.rmtree(path, ignore_errors=True)
        self._metadata.note()
        self._metadata.write(self.log_dir(broker))

    def lose_quorum(self) -> Answer | None:
        """The disks of the controllers are lost while all brokers are stopped, and of what brokers
        have of the metadata the batch that gave out the newest producer id. The cluster is rescued.
        None: it was before.
        """
        if self._is_rescued:
            return None
        for broker in BROKERS:
            first = newest_ids(self.log_dir(broker))
            assert first is not None, "a producer has just got one"
            forget_metadata(self.log_dir(broker), first)
        log_dirs = map(self.log_dir, BROKERS)
        directory = self.root / "controller"
        answer = call("quorum", *log_dirs, "--to", directory, "--yes", "--output", "json")
        if answer.status == 0:
            self._is_rescued = True
            self._metadata.rescued(directory, answer.lines[-1]["endOffset"])
        return answer


def _outcomes(batches: list[Batch]) -> dict[int, str]:
    """How the transaction of each batch of records ended; without one: as if committed."""
    outcomes: dict[int, str] = {}
    waiting: dict[int, list[int]] = {}
    for at, batch in enumerate(batches):
        flags = int.from_bytes(batch.content[21:23], "big")
        is_transactional, is_control = flags & 16, flags & 32
        if is_control:
            kinds = [int.from_bytes((each.key or b"")[2:4], "big") for each in batch.records()]
            for open_at in waiting.pop(batch.producer, ()):
                outcomes[open_at] = "commit" if kinds and kinds[0] == 1 else "abort"
        elif is_transactional:
            waiting.setdefault(batch.producer, []).append(at)
        else:
            outcomes[at] = "commit"
    return outcomes
