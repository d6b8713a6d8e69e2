"""The controller's log of a model's cluster, as brokers have it, and what is left of it after a
rescue of the quorum.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from logwright.metadata.find import METADATA_DIRECTORY
from logwright.metadata.read import read_metadata
from logwright.quorum.counters import leader_epoch_at, next_producer_id, producer_ids
from tests.clusters.controller import Controller, Known
from tests.clusters.replica import Batch, batches_of
from tests.metadata_builder import (
    MetadataBuilder,
    config,
    feature,
    int32,
    int32s,
    partition,
    partition_change,
    register_broker,
    topic,
)

TOPIC: Final = "t"
TOPIC_ID: Final = 7
_PARTITION: Final = 3
_PRODUCER_IDS: Final = 15
"""Types of records."""


class Entry(NamedTuple):
    """A batch of one record.

    Attributes:
        known: the state after it.
    """

    record: bytes
    known: Known


@dataclass(slots=True)
class MetadataLog:
    """What the controller has written.

    Attributes:
        next_id: the first producer id that was not given out.
    """

    controller: Controller
    brokers: tuple[int, ...]
    next_id: int = 1_000
    _first: list[list[bytes]] = field(init=False)
    _entries: list[Entry] = field(default_factory=list)
    _known: Known = field(init=False)

    def __post_init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        """A log that begins with the state as it is."""
        eligible = self.controller.eligible
        level = [feature("eligible.leader.replicas.version", 1)] if eligible else []
        self._known, self._entries = self.controller.known(), []
        registered = [_registration(*each) for each in self._known.epochs.items()]
        self._first = [
            [feature("metadata.version", 25), *level],
            [topic(TOPIC, TOPIC_ID), partition(TOPIC_ID, 0, self.brokers)],
            [config(2, TOPIC, "cleanup.policy", "compact")],
            [_change(self._known, led=True), *registered],
        ]

    def note(self) -> None:
        """Write what the controller has changed since."""
        now, before = self.controller.known(), self._known
        for each in now.epochs.items() - before.epochs.items():
            self._entries.append(Entry(_registration(*each), now))
        if now._replace(epochs=before.epochs) != before:
            led = now.leader_epoch != before.leader_epoch
            self._entries.append(Entry(_change(now, led=led), now))
        self._known = now

    def give_id(self) -> int:
        """A producer id that no other producer has had."""
        self.note()
        self.next_id += 1
        self._entries.append(Entry(producer_ids(self.next_id), self._known))
        return self.next_id - 1

    def write(self, log_dir: Path) -> None:
        """Write it as a broker has it that has read all. Effects: makes its directory."""
        MetadataBuilder(log_dir).segment(
            0, *self._first, *([each.record] for each in self._entries)
        )

    def rescued(self, directory: Path, end: int) -> None:
        """Continue with what a rescue wrote. Effects: reads it.

        Args:
            end: the rescued state has all before this offset.
        """
        left = self._entries[: end - sum(map(len, self._first))]
        raised, self.next_id = _counters(directory)
        known = left[-1].known
        known = known._replace(leader_epoch=known.leader_epoch + raised)
        rescued = read_metadata(directory / METADATA_DIRECTORY).topics[TOPIC].partitions[0]
        if {*rescued.in_sync} != {*known.isr}:
            first, *others = rescued.in_sync
            epoch = known.leader_epoch + 1
            known = known._replace(isr=(first, *others), elr=(), leader=first, leader_epoch=epoch)
        self.controller.restore(known)
        self._begin()


def _change(known: Known, *, led: bool) -> bytes:
    fields = {0: int32s(known.isr)} | ({1: int32(known.leader)} if led else {})
    return partition_change(TOPIC_ID, 0, fields)


def _registration(broker: int, epoch: int) -> bytes:
    return register_broker(broker, {"metadata.version": 25}, epoch=epoch)


def newest_ids(log_dir: Path) -> int | None:
    """The offset of the batch that gave out the newest producer ids, in what a broker has; None:
    only a snapshot has it.
    """
    given = [each.base for each in _log(log_dir)[1] if _kind(each) == _PRODUCER_IDS]
    return max(given, default=None)


def metadata_end(log_dir: Path) -> int:
    """The end of what a broker has."""
    path, batches = _log(log_dir)
    return batches[-1].last + 1 if batches else int(path.stem)


def forget_metadata(log_dir: Path, first: int) -> None:
    """Damage what a broker has from an offset on. Effects: changes the file."""
    path, batches = _log(log_dir)
    before = b"".join(each.content for each in batches if each.last < first)
    path.write_bytes(before + bytes(path.stat().st_size - len(before)))


def _log(log_dir: Path) -> tuple[Path, list[Batch]]:
    """The newest segment of the metadata."""
    path = max(log_dir.glob("__cluster_metadata-0/*.log"))
    return path, batches_of(path.read_bytes())


def _kind(batch: Batch) -> int:
    return (batch.records()[0].value or b"\0\0")[1]


def _counters(directory: Path) -> tuple[int, int]:
    """By how much a rescue raised the leader epoch, and the next producer id."""
    (path,) = directory.glob("__cluster_metadata-0/*.checkpoint")
    raised = next_id = 0
    for batch in batches_of(path.read_bytes()):
        for record in batch.records():
            value = record.value or b""
            if value[1] == _PARTITION:
                at = leader_epoch_at(value)
                raised = int.from_bytes(value[at : at + 4], "big")
            elif value[1] == _PRODUCER_IDS:
                next_id = next_producer_id(value)
    return raised, next_id
