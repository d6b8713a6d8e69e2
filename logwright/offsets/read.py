"""Read all records of a log of an internal topic: whose they are, and which are the newest.

Each segment is read up to its first batch that is corrupt. The records of a
transaction count once its marker commits it, as for a group's coordinator (GroupMetadataManager).
Memory: each key once, with its newest value.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from logwright.batches.runtime import Progress
from logwright.decode.internal_facts import (
    Facts,
    group_key,
    group_value,
    transaction_key,
    transaction_value,
)
from logwright.decode.internal_messages import CONSUMER_OFFSETS, TRANSACTION_STATE, RecordType
from logwright.decode.refusal import Refused
from logwright.errors import CorruptBatch
from logwright.format.batch import MAGIC, crc_is_valid, parse_batch, walk_batches
from logwright.format.control import ControlType, parse_control_key
from logwright.format.legacy import is_whole, legacy_batch_at, legacy_records
from logwright.format.names import LOG, segment_file_name
from logwright.format.record import read_records
from logwright.log.model import ReadableLog, Segment
from logwright.offsets.model import Contents, Coordinated, Damage, Owner
from logwright.place.mapped import map_file
from logwright.place.model import below
from logwright.units import TimestampMs

TOPICS: Final = (CONSUMER_OFFSETS, TRANSACTION_STATE)
_COMMIT: Final = "committed_topic"


class _WrongCrc(CorruptBatch):
    """A batch whose records are perhaps whole."""


class _Live(NamedTuple):
    """The newest record of a key."""

    owner: str
    bytes: int
    time_ms: int | None
    is_commit: bool = False
    is_metadata: bool = False
    shows_member: bool = False


@dataclass(slots=True)
class _Key:
    """A key, and its newest record that counts.

    Attributes:
        facts: of the key. size: records and bytes of its owner, shared by all of its keys.
        offset: -1 if none counts. value: as it is written; None of a tombstone.
    """

    kind: RecordType
    owner: str
    facts: Facts
    size: list[int]
    offset: int = -1
    value: bytes | None = None
    bytes: int = 0


class _Change(NamedTuple):
    """A record of a key; `bytes`: its share of the batch."""

    key: _Key
    offset: int
    value: bytes | None
    bytes: int


class _Batch(NamedTuple):
    """A batch; `marker`: the transaction of the producer ends so."""

    records: list[tuple[int, bytes | None, bytes | None]]
    size: int
    legacy: bool
    producer_id: int
    transactional: bool
    marker: ControlType | None
    time_ms: int
    next_offset: int


@dataclass(slots=True)
class _Reading:
    """What is known of a log's records so far."""

    topic: str
    keys: dict[bytes | None, _Key | None] = field(default_factory=dict)
    open: dict[int, list[_Change]] = field(default_factory=dict)
    began_ms: dict[int, TimestampMs] = field(default_factory=dict)
    sizes: dict[str, list[int]] = field(default_factory=dict)
    bytes_read: int = 0
    legacy_bytes: int = 0
    undecoded: int = 0

    def add(self, batch: _Batch) -> None:
        """Take a batch."""
        self.bytes_read += batch.size
        self.legacy_bytes += batch.size if batch.legacy else 0
        if batch.marker is not None:
            self._end(batch.producer_id, batch.marker)
            return
        share = batch.size // max(len(batch.records), 1)
        changes = []
        for offset, content, value in batch.records:
            key = self.keys[content] if content in self.keys else self._new_key(content)
            if key is None:
                self.undecoded += 1
                continue
            key.size[0] += 1
            key.size[1] += share
            changes.append(_Change(key, offset, value, share))
        if batch.transactional:
            self.began_ms.setdefault(batch.producer_id, TimestampMs(batch.time_ms))
            self.open.setdefault(batch.producer_id, []).extend(changes)
        else:
            _apply(changes)

    def _end(self, producer_id: int, marker: ControlType) -> None:
        if not marker.ends_transaction:
            return
        changes = self.open.pop(producer_id, [])
        self.began_ms.pop(producer_id, None)
        if marker is ControlType.COMMIT:
            _apply(changes)

    def _new_key(self, content: bytes | None) -> _Key | None:
        """Return a key that was not read before; None if it is not known."""
        made = None
        with suppress(Refused):
            is_group = self.topic == CONSUMER_OFFSETS
            kind, facts = (group_key if is_group else transaction_key)(self.topic, content)
            owner = facts["group_id"] if is_group else facts["transactional_id"]
            made = _Key(kind, owner, facts, self.sizes.setdefault(owner, [0, 0]))
        self.keys[content] = made
        return made

    def contents(self, damages: list[Damage]) -> Contents:
        """Return what all records say."""
        live: list[_Live] = []
        states: list[Coordinated] = []
        for key in self.keys.values():
            if key is None or key.value is None:
                continue
            try:
                if self.topic == CONSUMER_OFFSETS:
                    live.append(_live(key, key.facts | group_value(key.kind, key.value)))
                else:
                    states.append(_state(key.owner, transaction_value(key.kind, key.value)))
                    live.append(_Live(key.owner, key.bytes, states[-1].update_ms))
            except Refused:
                self.undecoded += 1
        return Contents(
            bytes_read=self.bytes_read,
            old_format_bytes=self.legacy_bytes,
            undecoded=self.undecoded,
            damages=tuple(damages),
            owners=self._owners(live),
            began_ms=self.began_ms,
            states=tuple(states),
        )

    def _owners(self, live: list[_Live]) -> tuple[Owner, ...]:
        """Return the owners of all records, the one with the most bytes first."""
        by_owner: dict[str, list[_Live]] = {}
        for newest in live:
            by_owner.setdefault(newest.owner, []).append(newest)
        pending = {
            change.key.owner
            for changes in self.open.values()
            for change in changes
            if change.value is not None
        }
        made = [
            _owner(name, (records, size), by_owner.get(name, []), pending=name in pending)
            for name, (records, size) in self.sizes.items()
        ]
        return tuple(sorted(made, key=lambda owner: (-owner.bytes, owner.name)))


def _apply(changes: list[_Change]) -> None:
    """Count records. A commit of a transaction that ended late does not replace a newer one."""
    for key, offset, value, size in changes:
        if offset > key.offset:
            key.offset, key.value, key.bytes = offset, value, size


def read_contents(log: ReadableLog, progress: Progress) -> Contents:
    """Read the records of a log. Effects: reads its segments.

    Args:
        log: of one of `TOPICS`.
        progress: called with the bytes that were read and those that there are.

    Raises:
        UnreadableFile, StalePlan: a segment cannot be read, or is not the one that was looked at.
        UnsupportedFormatError: a codec or magic that is not known.
    """
    reading, damages, done = _Reading(log.partition.topic), [], 0
    ends = [*(segment.base_offset for segment in log.segments[1:]), log.log_end_offset]
    for segment, end in zip(log.segments, ends, strict=True):
        damage = _read_segment(log, segment, end, reading)
        if damage is not None:
            damages.append(damage)
        done += segment.log_bytes
        progress("read", done, log.log_bytes)
    return reading.contents(damages)


def _read_segment(log: ReadableLog, segment: Segment, end: int, reading: _Reading) -> Damage | None:
    """Read a segment up to its first batch that cannot be read, and return that."""
    name = segment_file_name(segment.base_offset, LOG)
    if not segment.log_bytes:
        return None
    content = map_file(below(log.readable, name), expected_bytes=segment.log_bytes).data
    position, offset = 0, int(segment.base_offset)
    problem, stops = "the record batch is truncated.", None
    try:
        for batch in _batches(content):
            if not offset <= batch.next_offset <= end:
                raise CorruptBatch("the offsets of the record batch are outside its segment.")
            reading.add(batch)
            position += batch.size
            offset = batch.next_offset
    except _WrongCrc as error:
        problem, stops = error.problem, False
    except CorruptBatch as error:
        problem, stops = error.problem, _has_impossible_length(content, position) or None
    if position == segment.log_bytes:
        return None
    return Damage(
        path=log.directory / name,
        position=position,
        offset=offset,
        unread_bytes=segment.log_bytes - position,
        problem=problem,
        stops=stops,
    )


def _has_impossible_length(content: memoryview, position: int) -> bool:
    """Return whether a batch's length alone shows that it cannot be one."""
    try:
        next(walk_batches(content[position:]), None)
    except CorruptBatch:
        return True
    return False


def _batches(content: memoryview) -> Iterator[_Batch]:
    """Yield the batches of a segment.

    Raises:
        CorruptBatch: the next one cannot be read.
    """
    for span in walk_batches(content):
        whole = content[span.position : span.position + span.bytes]
        yield _legacy(whole) if 0 <= span.magic < MAGIC else _batch(bytes(whole))


def _batch(content: bytes) -> _Batch:
    batch = parse_batch(content)
    if not crc_is_valid(batch, content):
        raise _WrongCrc("the CRC of the record batch is wrong.")
    records = read_records(batch, content)
    marker = None
    if batch.is_control and records:
        marker = parse_control_key(records[0].key)
    return _Batch(
        records=[(one.offset, one.key, one.value) for one in records if not batch.is_control],
        size=batch.size_bytes,
        legacy=False,
        producer_id=batch.producer_id,
        transactional=batch.is_transactional and not batch.is_control,
        marker=marker,
        time_ms=batch.max_timestamp,
        next_offset=batch.next_offset,
    )


def _legacy(content: memoryview) -> _Batch:
    if not is_whole(content):
        raise _WrongCrc("the CRC of the message is wrong.")
    batch = legacy_batch_at(content)
    return _Batch(
        records=[(one.offset, _bytes(one.key), _bytes(one.value)) for one in legacy_records(batch)],
        size=batch.size,
        legacy=True,
        producer_id=-1,
        transactional=False,
        marker=None,
        time_ms=batch.timestamp,
        next_offset=batch.offset + 1,
    )


def _bytes(content: memoryview | None) -> bytes | None:
    return None if content is None else bytes(content)


def _live(key: _Key, facts: Facts) -> _Live:
    """Return the newest record of a key of ``__consumer_offsets``."""
    return _Live(
        owner=key.owner,
        bytes=key.bytes,
        is_commit=_COMMIT in facts,
        is_metadata=_COMMIT not in facts and "member_id" not in facts,
        shows_member=bool(facts["members"]) if "members" in facts else "member_id" in facts,
        time_ms=facts.get("commit_time", facts.get("state_time")),
    )


def _state(transactional_id: str, facts: Facts) -> Coordinated:
    return Coordinated(
        transactional_id=transactional_id,
        producer_id=facts["producer_id"],
        producer_epoch=facts["producer_epoch"],
        state=facts["state"],
        timeout_ms=facts["timeout_ms"],
        start_ms=facts["start_time"],
        update_ms=facts["update_time"],
        partitions=frozenset(
            f"{named['topic']}-{number}"
            for named in facts["partitions"] or ()
            for number in named["partitions"]
        ),
    )


def _owner(name: str, size: tuple[int, int], live: list[_Live], *, pending: bool) -> Owner:
    times = [one.time_ms for one in live if one.time_ms is not None]
    return Owner(
        name=name,
        records=size[0],
        bytes=size[1],
        live_records=len(live),
        live_bytes=sum(one.bytes for one in live),
        commits=sum(one.is_commit for one in live),
        members=any(one.shows_member for one in live),
        metadata=any(one.is_metadata for one in live),
        active_ms=TimestampMs(max(times)) if times else None,
        pending=pending,
    )
