"""The specification of a cleaning, as plain as can be: what the kernels must agree with.

1. The rules, on decoded batches and records; the numbers are those of `logwright.cleaner_rules`.
2. A whole cleaning by these rules (`clean`).
3. The hash of the keys (`siphash128`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from logwright.format.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    RecordBatch,
    emptied_batch,
    parse_batch,
    serialize_batch,
    walk_batches,
)
from logwright.format.codec import compress
from logwright.format.control import ControlType, parse_control_key
from logwright.format.index import AbortedTransaction
from logwright.format.record import Record, encode_records, read_records
from logwright.format.snapshot import ProducerEntry
from logwright.units import TimestampMs

Fate = Literal["delete", "retain", "retain empty", "rebuild"]
"""What is written for a batch."""


def should_retain_record(
    record: Record, batch: RecordBatch, latest: Mapping[bytes, int], reached: int, now_ms: int
) -> bool:
    """Rules 2 to 6: Cleaner.shouldRetainRecord (4.3.0).

    latest: offset of the latest record of each mapped key. reached: last offset of the map.
    """
    if batch.is_control:
        return True
    if record.offset > reached:
        return True
    if record.key is None:
        return False
    if latest.get(record.key, -1) > record.offset:
        return False
    if record.value is not None or batch.delete_horizon_ms is None:
        return True
    return now_ms < batch.delete_horizon_ms


def sets_delete_horizon(batch: RecordBatch, kept: Sequence[Record], *, can_discard: bool) -> bool:
    """Rule 7: RecordBatch.deleteHorizonMs and MemoryRecords.filterTo (4.3.0, KIP-534)."""
    if batch.delete_horizon_ms is not None:
        return False
    if batch.is_control:
        return can_discard
    return any(record.value is None for record in kept)


def should_discard_batch(batch: RecordBatch, now_ms: int, *, can_discard: bool) -> bool:
    """Rules 1 and 8: Cleaner.shouldDiscardBatch (4.3.0)."""
    if not batch.is_control:
        return can_discard
    horizon_ms = batch.delete_horizon_ms
    return can_discard and horizon_ms is not None and horizon_ms <= now_ms


def is_retained_empty(batch: RecordBatch, end: int, producers: Sequence[ProducerEntry]) -> bool:
    """Rule 9: Cleaner.isBatchLastRecordOfProducer (4.3.0), or the end that is kept: of the cleaned
    range (4.3.0), or the high watermark (4.4.0).
    """
    if batch.next_offset == end:
        return True
    for producer in producers:
        if producer.producer_id == batch.producer_id:
            if producer.last_offset >= 0:
                return producer.last_offset == batch.last_offset
            return batch.is_control and producer.producer_epoch == batch.producer_epoch
    return False


def batch_fate(
    records: Sequence[Record], kept: Sequence[Record], *, retained_empty: bool, sets_horizon: bool
) -> Fate:
    """Rule 10: Cleaner.checkBatchRetention and MemoryRecords.filterTo (4.3.0)."""
    if not kept:
        return "retain empty" if retained_empty else "delete"
    return "retain" if len(kept) == len(records) and not sets_horizon else "rebuild"


class Transactions:
    """Rules 11 to 13: CleanedTransactionMetadata (4.3.0)."""

    def __init__(self) -> None:
        self.to_come: list[AbortedTransaction] = []
        self.aborted_now: dict[int, AbortedTransaction] = {}
        self.with_data: set[int] = set()
        self.committed: set[int] = set()
        self.kept_entries: list[AbortedTransaction] = []

    def add(self, transactions: list[AbortedTransaction]) -> None:
        """Add aborted transactions; duplicates do no harm."""
        self.to_come = sorted([*self.to_come, *transactions], key=lambda one: one.first_offset)

    def visit(self, batch: RecordBatch, records: tuple[Record, ...]) -> bool:
        """Return whether the batch can go."""
        while self.to_come and self.to_come[0].first_offset <= batch.last_offset:
            transaction = self.to_come.pop(0)
            self.aborted_now.setdefault(transaction.producer_id, transaction)
        if not batch.is_control:
            return self._data(batch)
        if not records:
            return True
        kind = parse_control_key(records[0].key)
        if kind == ControlType.ABORT:
            ended = self.aborted_now.pop(batch.producer_id, None)
            if ended is None or batch.producer_id not in self.with_data:
                return True
            self.with_data.discard(batch.producer_id)
            self.kept_entries.append(ended)
            return False
        if kind == ControlType.COMMIT:
            had_data = batch.producer_id in self.committed
            self.committed.discard(batch.producer_id)
            return not had_data
        return False

    def _data(self, batch: RecordBatch) -> bool:
        if not batch.is_transactional:
            return False
        if batch.producer_id in self.aborted_now:
            self.with_data.add(batch.producer_id)
            return True
        self.committed.add(batch.producer_id)
        return False


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A segment as batches with their records.

    Attributes:
        index: (offset, position) of its offset index.
        aborted: its transaction index.
    """

    base_offset: int
    batches: list[tuple[RecordBatch, bytes, tuple[Record, ...]]]
    index: tuple[tuple[int, int], ...] = ()
    aborted: tuple[AbortedTransaction, ...] = ()

    @property
    def end_offset(self) -> int:
        """Offset after its last batch."""
        return self.batches[-1][0].next_offset if self.batches else self.base_offset


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What a cleaning depends on, next to the batches.

    Attributes:
        capacity: of Kafka's map, None without ``like_kafka``. Only with it the reading begins
            where the offset index says.
        all_segments: of the log, the active one too: where aborted transactions are looked for.
        groups: base offsets of the segments that become one.
        end_kept: an emptied batch that ends there keeps its header.
        producers: that are active.
    """

    first_dirty: int
    bound: int
    end_kept: int
    now_ms: int
    delete_retention_ms: int
    capacity: int | None = None
    log_start: int = 0
    all_segments: list[Segment]
    groups: list[list[int]]
    producers: Sequence[ProducerEntry] = ()


def read_segment(base_offset: int, content: bytes) -> Segment:
    batches = []
    for span in walk_batches(content):
        whole = content[span.position : span.position + span.bytes]
        batch = parse_batch(whole)
        batches.append((batch, whole, read_records(batch, whole)))
    return Segment(base_offset=base_offset, batches=batches)


def aborted_between(rules: Rules, start: int, end: int) -> list[AbortedTransaction]:
    """LogSegments.collectAbortedTxns (4.3.0)."""
    holding = [one.base_offset for one in rules.all_segments if one.base_offset <= start]
    aborted = []
    for segment in rules.all_segments:
        if holding and segment.base_offset < holding[-1]:
            continue
        for entry in segment.aborted:
            if entry.last_offset >= rules.log_start and entry.first_offset < end:
                aborted.append(entry)
            if entry.last_stable_offset >= end:
                return aborted
    return aborted


def latest_offsets(segments: list[Segment], rules: Rules) -> tuple[dict[bytes, int], int]:
    """The offset map as a dict, and its latest offset (Cleaner.buildOffsetMap, 4.3.0)."""
    latest: dict[bytes, int] = {}
    reached = rules.first_dirty - 1
    transactions = Transactions()
    transactions.add(aborted_between(rules, rules.first_dirty, rules.bound))
    dirty = [segment for segment in segments if segment.base_offset < rules.bound]
    for number, segment in enumerate(dirty):
        following = dirty[number + 1].base_offset if number + 1 < len(dirty) else rules.bound
        if following <= rules.first_dirty:
            continue
        start = 0
        if rules.capacity is not None:
            start = max((p for o, p in segment.index if o <= rules.first_dirty), default=0)
        position = 0
        for batch, whole, records in segment.batches:
            position += len(whole)
            if position <= start:
                continue
            mapped = () if transactions.visit(batch, records) or batch.is_control else records
            for record in mapped:
                if record.key is None or record.offset < rules.first_dirty:
                    continue
                if rules.capacity is not None and len(latest) >= rules.capacity:
                    return latest, reached
                latest[record.key] = reached = record.offset
            if batch.last_offset >= rules.first_dirty:
                reached = batch.last_offset
        reached = following - 1
    return latest, reached


def rebuild(batch: RecordBatch, kept: list[Record], horizon_ms: int | None) -> bytes:
    """Return the batch of the kept records, at least one; it may get a delete horizon (7)."""
    base_ms = kept[0].timestamp_ms
    attributes = batch.attributes
    if batch.delete_horizon_ms is not None:
        base_ms = batch.delete_horizon_ms
    elif horizon_ms is not None:
        base_ms = TimestampMs(horizon_ms)
        attributes |= DELETE_HORIZON
    largest = batch.max_timestamp
    if not batch.is_log_append_time:
        largest = TimestampMs(max(one.timestamp_ms for one in kept))
    header = replace(
        batch,
        attributes=attributes,
        base_timestamp=base_ms,
        max_timestamp=largest,
        records_count=len(kept),
    )
    payload = encode_records(header, kept)
    codec = attributes & CODEC_MASK
    return serialize_batch(header, compress(codec, payload) if codec else payload)


def clean_segment(
    segment: Segment, transactions: Transactions, mapped: tuple[dict[bytes, int], int], rules: Rules
) -> list[bytes]:
    """The batches that are written for one segment (Cleaner.cleanInto, 4.3.0)."""
    out = []
    for batch, whole, records in segment.batches:
        can_discard = transactions.visit(batch, records)
        kept = []
        if not should_discard_batch(batch, rules.now_ms, can_discard=can_discard):
            kept = [r for r in records if should_retain_record(r, batch, *mapped, rules.now_ms)]
        sets_horizon = sets_delete_horizon(batch, kept, can_discard=can_discard)
        retained_empty = is_retained_empty(batch, rules.end_kept, rules.producers)
        match batch_fate(records, kept, retained_empty=retained_empty, sets_horizon=sets_horizon):
            case "retain":
                out.append(whole)
            case "retain empty":
                out.append(serialize_batch(emptied_batch(batch), b""))
            case "rebuild":
                horizon_ms = rules.now_ms + rules.delete_retention_ms if sets_horizon else None
                out.append(rebuild(batch, kept, horizon_ms))
    return out


@dataclass(frozen=True, kw_only=True)
class Cleaned:
    """What the plain rules leave.

    Attributes:
        written: the batches of each rewritten source segment, by base offset.
        aborted: the transaction index of each group, by its base offset.
        end_offset: the next first dirty offset.
    """

    written: dict[int, list[bytes]]
    aborted: dict[int, list[AbortedTransaction]]
    end_offset: int


def clean(segments: list[Segment], rules: Rules) -> Cleaned:
    """One cleaning of these sealed segments."""
    mapped = latest_offsets(segments, rules)
    transactions = Transactions()
    by_base = {segment.base_offset: segment for segment in segments}
    written: dict[int, list[bytes]] = {}
    aborted: dict[int, list[AbortedTransaction]] = {}
    for group in rules.groups:
        transactions.kept_entries = aborted[group[0]] = []
        for number, base in enumerate(group):
            segment = by_base[base]
            end = group[number + 1] if number + 1 < len(group) else segment.end_offset
            transactions.add(aborted_between(rules, base, end))
            written[base] = clean_segment(segment, transactions, mapped, rules)
    rewritten = [base for base in by_base if base <= mapped[1] and base < rules.bound]
    assert rewritten == list(written)
    return Cleaned(written=written, aborted=aborted, end_offset=mapped[1] + 1)


_MASK = (1 << 64) - 1


def siphash128(
    data: bytes, low: int, high: int, *, rounds: tuple[int, int] = (1, 3)
) -> tuple[int, int]:
    """SipHash-c-d with 128 bits of output, after the authors' description."""

    def rotate(word: int, bits: int) -> int:
        return ((word << bits) | (word >> (64 - bits))) & _MASK

    v = [
        0x736F6D6570736575 ^ low,
        0x646F72616E646F6D ^ high ^ 0xEE,
        0x6C7967656E657261 ^ low,
        0x7465646279746573 ^ high,
    ]

    def mix(times: int) -> None:
        for _ in range(times):
            v[0] = (v[0] + v[1]) & _MASK
            v[1] = rotate(v[1], 13) ^ v[0]
            v[0] = rotate(v[0], 32)
            v[2] = (v[2] + v[3]) & _MASK
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = (v[0] + v[3]) & _MASK
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = (v[2] + v[1]) & _MASK
            v[1] = rotate(v[1], 17) ^ v[2]
            v[2] = rotate(v[2], 32)

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        mix(rounds[0])
        v[0] ^= word
    v[2] ^= 0xEE
    mix(rounds[1])
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    mix(rounds[1])
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]
