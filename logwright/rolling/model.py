"""A running cluster as a value, and what is known of a broker's maintenance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from logwright.errors import PreconditionError, StepFailed

Step = Literal["check", "stop", "maintain", "start", "verify"]
STEPS: Final[tuple[Step, ...]] = ("check", "stop", "maintain", "start", "verify")
"""The steps of a broker's maintenance, in order."""


WAIT_SECONDS: Final = 15.0
"""How long an answer of a cluster is waited for."""


class ClusterUnavailable(PreconditionError):
    """No broker of the cluster responds, or they respond with an error."""


class HookFailed(StepFailed):
    """A stop or start hook failed, or took too long."""


class NotInTime(PreconditionError):
    """What was waited for has not come about within its time limit."""


class MaintenanceFailed(PreconditionError):
    """A command of logwright failed on a broker that was stopped; its exit status is kept."""

    def __init__(self, problem: str, *, status: int, remedy: str | None = None) -> None:
        super().__init__(problem, remedy=remedy)
        self.exit_status = status  # type: ignore[misc]  # the command's own


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionNow:
    """A partition, as the cluster describes it.

    Attributes:
        topic, number: its name.
        leader: the broker that leads it, None if none does.
        replicas: the brokers that should have it, the preferred leader first.
        isr: those of them that are in sync.
        min_isr: ``min.insync.replicas`` of the topic.
        delete_retention_ms: ``delete.retention.ms`` of a compacted topic, None of any other.
    """

    topic: str
    number: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: frozenset[int]
    min_isr: int
    delete_retention_ms: int | None

    @property
    def name(self) -> str:
        """``topic-number``."""
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorum:
    """The nodes that elect the active controller; a majority of them must be up (KIP-595).

    Attributes:
        voters: their ids (``controller.quorum.voters``); empty if they are not known: the quorum is
            dynamic (KIP-853), or the user may not describe configs of brokers.
        up: those of them that are in the cluster as brokers, or accept a connection.
    """

    voters: frozenset[int] = frozenset()
    up: frozenset[int] = frozenset()

    def without(self, node: int) -> str | None:
        """Return how many voters are left without a node, if no active controller can be elected by
        them; None if one can, if the node is not a voter, or if the voters are not known.
        """
        left = self.up - {node}
        if node not in self.voters or 2 * len(left) > len(self.voters):
            return None
        return f"{len(left)} of {len(self.voters)} voters of the controllers"

    def can_pass(self, node: int) -> bool:
        """Return whether there is a majority without a node if all others are up."""
        return 2 * len(self.voters - {node}) > len(self.voters)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterNow:
    """A running cluster at one moment.

    Attributes:
        cluster_id: as the brokers have it.
        brokers: those that are in the cluster.
        partitions: of all topics.
        quorum: of its controllers.
    """

    cluster_id: str
    brokers: frozenset[int]
    partitions: tuple[PartitionNow, ...]
    quorum: Quorum = Quorum()

    def of(self, broker: int) -> tuple[PartitionNow, ...]:
        """Return the partitions of which a broker should have a replica."""
        return tuple(each for each in self.partitions if broker in each.replicas)

    def led_by(self, broker: int) -> int:
        """Return how many partitions a broker leads."""
        return sum(each.leader == broker for each in self.partitions)

    def below_min_isr(self) -> tuple[PartitionNow, ...]:
        """Return the partitions that a producer with ``acks=all`` cannot write to."""
        return tuple(each for each in self.partitions if len(each.isr) < each.min_isr)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveController:
    """Which node of a KRaft cluster is the active controller.

    Attributes:
        node: its id, None if that is not known.
        problem: why it is not known.
    """

    node: int | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a broker stands in its cluster at one moment.

    Attributes:
        brokers: those that are in the cluster, ascending.
        replicas: of how many partitions the broker should have a replica.
        in_sync: in how many of their ISRs it is.
        leads: how many partitions it leads.
        below_min_isr: how many partitions of the cluster are below ``min.insync.replicas``.
    """

    brokers: tuple[int, ...]
    replicas: int
    in_sync: int
    leads: int
    below_min_isr: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """What a round over the brokers has done: only a hint of where it was (`plan.resumed`).

    Attributes:
        done: the brokers that are maintained and back.
        broker: the one that was being maintained, None if none was.
        step: where that was.
    """

    done: tuple[int, ...] = ()
    broker: int | None = None
    step: Step = "check"
