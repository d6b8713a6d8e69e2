"""A partition as the controller knows it: the rules of PartitionChangeBuilder and
ReplicationControlManager, Kafka 4.4.0, with and without eligible leader replicas (KIP-966).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NOBODY: Final = -1


class Known(NamedTuple):
    """What the controller's log has of the partition and of the brokers' registrations."""

    isr: tuple[int, ...]
    elr: tuple[int, ...]
    leader: int
    leader_epoch: int
    last_leader: int | None
    epochs: dict[int, int]


@dataclass(slots=True, kw_only=True)
class Controller:
    """One partition with a replica on each broker.

    Attributes:
        eligible: whether the cluster has eligible leader replicas.
        isr, elr: who is in sync, who is an eligible leader replica.
        last_leader: the last known leader of a partition without one (`lastKnownElr`).
        epochs: of each broker's last registration.
        active: brokers that are not fenced.
    """

    replicas: tuple[int, ...]
    min_isr: int
    eligible: bool
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    leader: int = NOBODY
    leader_epoch: int = 0
    last_leader: int | None = None
    epochs: dict[int, int] = field(default_factory=dict)
    active: set[int] = field(default_factory=set)
    _next_epoch: int = 100

    def known(self) -> Known:
        """What is in its log."""
        return Known(
            self.isr, self.elr, self.leader, self.leader_epoch, self.last_leader, {**self.epochs}
        )

    def restore(self, known: Known) -> None:
        """Start with a state, while no broker runs: their heartbeats end one after the other."""
        self.isr, self.elr, self.leader, self.leader_epoch, self.last_leader, epochs = known
        self.epochs, self.active = {**epochs}, {*self.isr}
        for broker in self.isr:
            self.leave(broker)

    def register(self, broker: int, previous_epoch: int) -> int:
        """A broker starts, with the epoch of its marker, -1: none; its new epoch."""
        if broker in self.epochs and self.epochs[broker] != previous_epoch:
            self._unclean_shutdown(broker)
        self._next_epoch += 10
        self.epochs[broker] = self._next_epoch
        return self._next_epoch

    def unfence(self, broker: int) -> None:
        """A broker has caught up with the metadata."""
        self.active.add(broker)
        if self.leader == NOBODY:
            self._change(self.isr)

    def leave(self, broker: int) -> None:
        """A broker stops, or its heartbeats have ended."""
        self.active.discard(broker)
        if broker in self.isr:
            self._change([each for each in self.isr if each != broker])
        elif broker == self.leader:
            self._change(self.isr)

    def alter(self, isr: Iterable[int]) -> None:
        """The leader changes who is in sync."""
        self._change(tuple(isr))

    def elect_unclean(self) -> None:
        """An operator asks for any leader."""
        if self.leader == NOBODY:
            self._change(self.isr, unclean=True)

    def _unclean_shutdown(self, broker: int) -> None:
        if not self.eligible:
            self._change([each for each in self.isr if each != broker], gone=broker)
            return
        if broker in self.isr or broker in self.elr:
            self._change([each for each in self.isr if each != broker], gone=broker)

    def _change(
        self, isr: Iterable[int], *, gone: int | None = None, unclean: bool = False
    ) -> None:
        """`PartitionChangeBuilder.build`."""
        wanted = [each for each in self.replicas if each in set(isr)]
        elr = self._next_elr(wanted, gone)
        leader, forced = self._elect(wanted, elr, gone, unclean=unclean)
        if leader in elr:
            wanted, elr = [leader], [each for each in elr if each != leader]
        if forced:
            wanted, elr = [leader], []
        if not wanted and not self.eligible:
            wanted = list(self.isr)  # the last one stays
        if self.eligible and not wanted and self.isr and self.leader != NOBODY:
            self.last_leader = self.leader
        elif leader != NOBODY:
            self.last_leader = None
        if leader != self.leader:
            self.leader_epoch += 1
        self.leader, self.isr, self.elr = leader, tuple(wanted), tuple(elr)

    def _next_elr(self, isr: list[int], gone: int | None) -> list[int]:
        if not self.eligible or len(isr) >= self.min_isr:
            return []
        candidates = {*self.elr, *self.isr} - {*isr, gone}
        return [each for each in self.replicas if each in candidates]

    def _elect(
        self, isr: list[int], elr: list[int], gone: int | None, *, unclean: bool
    ) -> tuple[int, bool]:
        """Who leads, and whether that may lose records."""

        def is_valid(broker: int) -> bool:
            there = broker in self.active and broker != gone
            return there and (broker in isr or (not isr and broker in elr))

        for each in (self.leader, *self.replicas):
            if is_valid(each):
                return each, False
        last = self.last_leader
        if self.eligible and not isr and not elr and last in self.active - {gone}:
            assert last is not None
            return last, True
        if unclean:
            for each in self.replicas:
                if each in self.active:
                    return each, True
        return NOBODY, False
