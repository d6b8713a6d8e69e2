"""The published scenarios of replicas that are cleaned independently, as directories: a follower is
away, the leader is cleaned meanwhile, the follower comes back and fetches the rest.

Sources: KIP-534 (tombstones and markers go by time alone); Redpanda's "Kafka's log compaction
corrupts data" (June 2026) and its pull requests 28087 and 29043.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from logwright.audit.model import Kind, PartitionAudit
from logwright.audit.run import audit_partition
from tests.log_builder import START_MS
from tests.replicas import DELETE_RETENTION_MS, PARTITION, ReplicaDir, Writer

Cleaner = Literal["logwright", "kafka", "coordinated"]
NOW_MS: Final = START_MS + 2 * 86_400_000
"""Every producer of the histories is forgotten by then (``producer.id.expiration.ms``)."""


@dataclass(slots=True)
class Pair:
    """A leader and a follower.

    Attributes:
        cleaner: who cleans the leader.
    """

    leader: ReplicaDir
    follower: ReplicaDir
    cleaner: Cleaner
    writer: Writer
    now_ms: int = NOW_MS
    sent: int = 0

    @classmethod
    def new(cls, root: Path, cleaner: Cleaner) -> Pair:
        """Two empty replicas. Effects: makes them."""
        leader, follower = (ReplicaDir.new(root / f"broker-{n}") for n in (1, 2))
        return cls(leader, follower, cleaner, Writer())

    def send(self) -> None:
        """The leader gets what was written; then its active segment rolls."""
        self.leader.append(self.writer.batches[self.sent :], now_ms=self.now_ms)
        self.leader.roll(self.now_ms)
        self.sent = len(self.writer.batches)

    def fetch(self) -> None:
        """The follower comes back and gets what the leader has."""
        self.follower.fetch(self.leader, now_ms=self.now_ms)
        self.follower.roll(self.now_ms)

    def clean_leader(self, times: int) -> None:
        """The leader is cleaned, each time after a further record and ``delete.retention.ms``."""
        for _ in range(times):
            self.writer.batch(("secret-filler", "secret-f"))
            self.send()
            clean(self.leader, self.follower, self.cleaner, self.now_ms)
            self.now_ms += DELETE_RETENTION_MS + 1

    def audit(self) -> PartitionAudit:
        """The audit of both."""
        both = [self.leader.log_dir, self.follower.log_dir]
        return audit_partition(PARTITION, both, high_watermark="end")


def clean(replica: ReplicaDir, other: ReplicaDir, cleaner: Cleaner, now_ms: int) -> None:
    """Clean a replica, coordinated with the other one or not. Effects: changes it."""
    if cleaner == "kafka":
        replica.clean_by_kafka(now_ms)
    else:
        replica.clean(now_ms, others=[other] if cleaner == "coordinated" else [])


def key_back(pair: Pair) -> None:
    """A tombstone is written and removed while the follower is away."""
    pair.writer.batch(("secret-person", "secret-here"), ("secret-other", "secret-1"))
    pair.send()
    pair.fetch()
    pair.writer.batch(("secret-person", None))
    pair.clean_leader(2)


def marker_gone(pair: Pair) -> None:
    """A transaction ends, its record is replaced, and the marker is removed, while the follower,
    which has the record, is away.
    """
    pair.writer.batch(("secret-person", "secret-1"), producer_id=5, transactional=True)
    pair.send()
    pair.fetch()
    pair.writer.marker(5, "commit")
    pair.writer.batch(("secret-person", "secret-2"))
    pair.clean_leader(4)


def aborted_shown(pair: Pair) -> None:
    """A transaction is aborted and its marker removed while the follower, which has the record, is
    away; then the same producer commits another one.
    """
    pair.writer.batch(("secret-person", "secret-old"))
    pair.writer.batch(("secret-person", "secret-2"), producer_id=5, transactional=True)
    pair.send()
    pair.fetch()
    pair.writer.marker(5, "abort")
    pair.clean_leader(4)
    pair.writer.batch(("secret-another", "secret-3"), producer_id=5, transactional=True)
    pair.writer.marker(5, "commit")
    pair.send()


HISTORIES: Final[dict[str, tuple[Callable[[Pair], None], Kind]]] = {
    "replica away for longer than delete.retention.ms": (key_back, "resurrected key"),
    "marker removed before its data": (marker_gone, "frozen last stable offset"),
    "aborted record shown as committed": (aborted_shown, "aborted record shown"),
}
"""What happens, and what it comes to when the follower is back."""


def diverged(pair: Pair) -> None:
    """The leader gets a record that the follower does not; the follower is elected all the same
    (``unclean.leader.election.enable``) and gets another one at that offset.
    """
    pair.writer.batch(("secret-person", "secret-1"))
    pair.send()
    pair.fetch()
    other = Writer(end=pair.writer.end, epoch=1)
    pair.writer.batch(("secret-person", "secret-of the old leader"))
    pair.send()
    other.batch(("secret-person", "secret-of the new leader"))
    pair.follower.append(other.batches, now_ms=pair.now_ms)
    pair.follower.roll(pair.now_ms)
