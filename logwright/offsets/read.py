"""Read all records of a log of an internal topic: whose they are, and which are the newest.

Each segment is read up to its first batch that Kafka's cleaner cannot read either. The records of a
transaction count once its marker commits it, as for a group's coordinator (GroupMetadataManager).
Memory: a digest and some numbers for each key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from logwright.batches.runtime import Progress
from logwright.decode.internal_facts import (
    group_key,
    group_value,
    transaction_key,
    transaction_value,
)
from logwright.decode.internal_messages import CONSUMER_OFFSETS, TRANSACTION_STATE
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
_DIGEST_BYTES: Final = 16


class _Live(NamedTuple):
    """The newest record of a key; `what`: commit, metadata, member or state."""

    offset: int
    owner: str
    bytes: int
    what: str
    time_ms: int | None
    has_members: bool


class _Change(NamedTuple):
    """A record; `live` is None if it is a tombstone."""

    offset: int
    key: bytes
    live: _Live | None
    state: Coordinated | None


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
    last_offset: dict[bytes, int] = field(default_factory=dict)
    live: dict[bytes, _Live] = field(default_factory=dict)
    states: dict[bytes, Coordinated] = field(default_factory=dict)
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
        changes = [
            change
            for offset, key, value in batch.records
            if (change := self._change(offset, key, value, share)) is not None
        ]
        if batch.transactional:
            self.began_ms.setdefault(batch.producer_id, TimestampMs(batch.time_ms))
            self.open.setdefault(batch.producer_id, []).extend(changes)
        else:
            self._apply(changes)

    def _end(self, producer_id: int, marker: ControlType) -> None:
        if not marker.ends_transaction:
            return
        changes = self.open.pop(producer_id, [])
        self.began_ms.pop(producer_id, None)
        if marker is ControlType.COMMIT:
            self._apply(changes)

    def _apply(self, changes: list[_Change]) -> None:
        for change in changes:
            if self.last_offset.get(change.key, -1) > change.offset:
                continue
            self.last_offset[change.key] = change.offset
            self.live.pop(change.key, None)
            self.states.pop(change.key, None)
            if change.live is not None:
                self.live[change.key] = change.live
            if change.state is not None:
                self.states[change.key] = change.state

    def _change(
        self, offset: int, key: bytes | None, value: bytes | None, share: int
    ) -> _Change | None:
        is_group = self.topic == CONSUMER_OFFSETS
        try:
            kind, facts = (group_key if is_group else transaction_key)(self.topic, key)
            owner = facts["group_id"] if is_group else facts["transactional_id"]
            size = self.sizes.setdefault(owner, [0, 0])
            size[0] += 1
            size[1] += share
            if value is not None:
                facts |= (group_value if is_group else transaction_value)(kind, value)
        except Refused:
            self.undecoded += 1
            return None
        digest = blake2b(key or b"", digest_size=_DIGEST_BYTES).digest()
        if value is None:
            return _Change(offset, digest, None, None)
        time_ms = facts.get("commit_time", facts.get("state_time", facts.get("update_time")))
        what, members = _what(facts)
        live = _Live(offset, owner, share, what, time_ms, members)
        return _Change(offset, digest, live, None if is_group else _state(owner, facts))

    def owners(self) -> tuple[Owner, ...]:
        """Return the owners of all records, the one with the most bytes first."""
        by_owner: dict[str, list[_Live]] = {}
        for live in self.live.values():
            by_owner.setdefault(live.owner, []).append(live)
        pending = {
            change.live.owner
            for changes in self.open.values()
            for change in changes
            if change.live is not None
        }
        made = [
            _owner(name, (records, size), by_owner.get(name, []), pending=name in pending)
            for name, (records, size) in self.sizes.items()
        ]
        return tuple(sorted(made, key=lambda owner: (-owner.bytes, owner.name)))


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
    return Contents(
        bytes_read=reading.bytes_read,
        old_format_bytes=reading.legacy_bytes,
        undecoded=reading.undecoded,
        damages=tuple(damages),
        owners=reading.owners(),
        began_ms=reading.began_ms,
        states=tuple(reading.states.values()),
    )


def _read_segment(log: ReadableLog, segment: Segment, end: int, reading: _Reading) -> Damage | None:
    """Read a segment up to its first batch that cannot be read, and return that."""
    name = segment_file_name(segment.base_offset, LOG)
    if not segment.log_bytes:
        return None
    content = map_file(below(log.readable, name), expected_bytes=segment.log_bytes).data
    position, offset = 0, int(segment.base_offset)
    problem = "the record batch is truncated."
    try:
        for batch in _batches(content):
            if not offset <= batch.next_offset <= end:
                raise CorruptBatch("the offsets of the record batch are outside its segment.")
            reading.add(batch)
            position += batch.size
            offset = batch.next_offset
    except CorruptBatch as error:
        problem = error.problem
    if position == segment.log_bytes:
        return None
    return Damage(
        path=log.directory / name,
        position=position,
        offset=offset,
        unread_bytes=segment.log_bytes - position,
        problem=problem,
    )


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
        raise CorruptBatch("the CRC of the record batch is wrong.")
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
        raise CorruptBatch("the CRC of the message is wrong.")
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


def _what(facts: dict[str, Any]) -> tuple[str, bool]:
    """Return what a record of a type is, and whether it shows a member."""
    if _COMMIT in facts:
        return "commit", False
    if "members" in facts:
        return "metadata", bool(facts["members"])
    return ("member", True) if "member_id" in facts else ("metadata", False)


def _state(transactional_id: str, facts: dict[str, Any]) -> Coordinated:
    return Coordinated(
        transactional_id=transactional_id,
        producer_id=facts["producer_id"],
        producer_epoch=facts["producer_epoch"],
        state=facts["state"],
        timeout_ms=facts["timeout_ms"],
        start_ms=facts["start_time"],
        update_ms=facts["update_time"],
        partitions=frozenset(
            f"{one['topic']}-{number}"
            for one in facts["partitions"] or ()
            for number in one["partitions"]
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
        commits=sum(one.what == "commit" for one in live),
        members=any(one.has_members for one in live),
        metadata=any(one.what == "metadata" for one in live),
        active_ms=TimestampMs(max(times)) if times else None,
        pending=pending,
    )
