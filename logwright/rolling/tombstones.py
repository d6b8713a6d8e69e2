"""Which tombstones an erasure lacks in a running cluster, and where. Pure.

1. A tombstone is for a key whose latest committed record in a partition has a value, and goes to
   that partition: it need not be the one that a partitioner would choose.
2. Only a compacted topic gets any: in others a tombstone is one more record, and theirs go by their
   retention.
3. Kafka's internal topics get none: their keys are not those of requests, and brokers let no
   client produce to them.
4. A key that is a tombstone already gets none: so a run that was interrupted is repeated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from logwright.config.policy_models import INTERNAL_TOPICS
from logwright.erasure.topics import match_nothing
from logwright.rolling.model import ClusterNow, PartitionNow

_MOST_NAMED: Final = 3


class Requested(Protocol):
    """The requested keys, as a `KeySet`."""

    @property
    def topics_asked(self) -> Collection[str]:
        """What the requests give as topics."""

    def for_topic(self, topic: str, /) -> Requested:
        """Return the set with only the requests that apply to a topic."""

    @property
    def is_empty(self) -> bool:
        """Whether no request is in it."""


class KeyRecord(NamedTuple):
    """A committed record of a requested key. Nothing of it is shown.

    Attributes:
        deleted: it is a tombstone.
        offset: where it is.
    """

    key: bytes
    deleted: bool
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Concerned:
    """Where an erasure looks for its keys.

    Attributes:
        partitions: those that are read.
        without_leader: those that cannot be read now.
        not_compacted: topics that get no tombstones.
        unknown: what the requests give as topics and the cluster has not.
    """

    partitions: tuple[PartitionNow, ...]
    without_leader: tuple[PartitionNow, ...]
    not_compacted: tuple[str, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """What was found in a partition.

    Attributes:
        partition: its name.
        keys: that get a tombstone, in the order of their latest records; not in its `repr`.
        undecided: the first offset of an open transaction, beyond which nothing was read; None: all
            was read that was there.
        unclear: number of keys that cannot be decoded, or are requested ones in another form.
    """

    partition: str
    keys: tuple[bytes, ...] = field(repr=False)
    undecided: int | None = None
    unclear: int = 0


def concerned(now: ClusterNow, keys: Requested) -> Concerned:
    """Return where an erasure looks for its keys in a cluster."""
    applies: dict[str, bool] = {}
    for each in now.partitions:
        if each.topic not in applies:
            applies[each.topic] = (
                each.topic not in INTERNAL_TOPICS and not keys.for_topic(each.topic).is_empty
            )
    own = [each for each in now.partitions if applies[each.topic]]
    compacted = [each for each in own if each.delete_retention_ms is not None]
    return Concerned(
        partitions=tuple(each for each in compacted if each.leader is not None),
        without_leader=tuple(each for each in compacted if each.leader is None),
        not_compacted=tuple(sorted({each.topic for each in own} - {e.topic for e in compacted})),
        unknown=match_nothing(keys.topics_asked, applies.keys()),
    )


def latest(records: Iterable[KeyRecord]) -> tuple[KeyRecord, ...]:
    """Return the latest record of each key, in the order of their offsets.

    Args:
        records: of one partition, in the order of their offsets.
    """
    by_key: dict[bytes, KeyRecord] = {}
    for record in records:
        by_key.pop(record.key, None)
        by_key[record.key] = record
    return tuple(by_key.values())


def left_alone(where: Concerned) -> Iterator[str]:
    """Yield a sentence for each kind of topic that gets no tombstones by its rules."""
    if where.not_compacted:
        yield (
            f"{_named(where.not_compacted)} is not compacted and gets no tombstones: its records go"
            " by its retention."
        )


def not_looked_at(where: Concerned, looked_at: Iterable[Lacking] = ()) -> Iterator[str]:
    """Yield a sentence for each kind of what may have the keys and was not read, as far as it is
    not.
    """
    if where.without_leader:
        names = _named([each.name for each in where.without_leader])
        yield f"{names} has no leader and was not looked at: it got no tombstones."
    for topics in where.unknown:
        yield f"no topic of the cluster is {topics}: its keys were looked for in none."
    for each in looked_at:
        if each.undecided is not None:
            yield (
                f"{each.partition} has an open transaction and was looked at only up to offset"
                f" {each.undecided}."
            )
        if each.unclear:
            yield (
                f"{each.partition} has {each.unclear} keys that cannot be decoded, or are requested"
                " ones in another form: they got no tombstones."
            )


def _named(names: Collection[str]) -> str:
    shown = ", ".join(list(names)[:_MOST_NAMED])
    more = len(names) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown
