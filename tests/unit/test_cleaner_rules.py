"""Each rule of the cleaner agrees with its plain twin, over the full table of its inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from logwright import cleaner_rules as rules
from logwright.compaction.transactions import TransactionState
from logwright.config.kafka_version import VERSIONS
from logwright.format.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL, RecordBatch
from logwright.format.control import ControlType, serialize_control_key
from logwright.format.index import AbortedTransaction
from logwright.format.record import Record
from logwright.format.scan import BATCH
from logwright.format.snapshot import ProducerEntry
from logwright.units import INT64_MAX, Offset, TimestampMs
from tests import twins

NOW_MS = 1000
HORIZONS = (None, NOW_MS - 1, NOW_MS, NOW_MS + 1)
FATES = {
    rules.DELETE: "delete",
    rules.RETAIN: "retain",
    rules.RETAIN_EMPTY: "retain empty",
    rules.REBUILD: "rebuild",
}


def batch_of(
    *, attributes: int = 0, horizon_ms: int | None = None, records: int = 1, last_offset: int = 10
) -> RecordBatch:
    """A batch that ends at an offset."""
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON
    return RecordBatch(
        base_offset=Offset(last_offset),
        batch_length=100,
        partition_leader_epoch=0,
        crc=0,
        attributes=attributes,
        last_offset_delta=0,
        base_timestamp=TimestampMs(7 if horizon_ms is None else horizon_ms),
        max_timestamp=TimestampMs(7),
        producer_id=5,
        producer_epoch=2,
        base_sequence=0,
        records_count=records,
    )


def row_of(batch: RecordBatch, **fields: object) -> np.void:
    """The same as a BATCH row, with what a cleaning has set in it."""
    row = np.zeros(1, dtype=BATCH)
    row["last_offset"], row["base_offset"] = batch.last_offset, batch.base_offset
    row["base_timestamp"], row["max_timestamp"] = batch.base_timestamp, batch.max_timestamp
    row["attributes"], row["count"] = batch.attributes, batch.records_count
    row["producer_id"], row["producer_epoch"] = batch.producer_id, batch.producer_epoch
    row["control_type"] = -1
    for name, value in fields.items():
        row[name] = value
    (only,) = row
    assert isinstance(only, np.void)
    return only


def record_of(offset: int = 10, key: bytes | None = b"k", value: bytes | None = b"v") -> Record:
    return Record(
        offset=Offset(offset),
        timestamp_ms=TimestampMs(7),
        sequence=0,
        key=key,
        value=value,
        headers=(),
    )


def length_of(field: bytes | None) -> int:
    return -1 if field is None else len(field)


@pytest.mark.parametrize("attributes", [0, TRANSACTIONAL, CONTROL, CONTROL | TRANSACTIONAL])
@pytest.mark.parametrize("horizon_ms", HORIZONS)
def test_which_records_are_retained(attributes: int, horizon_ms: int | None) -> None:
    """Rules 2 to 6, by key, value, the map's last offset and the latest record of the key."""
    batch = batch_of(attributes=attributes, horizon_ms=horizon_ms)
    row = row_of(batch)
    reached = rules.delete_horizon_reached(row, NOW_MS, INT64_MAX)
    assert reached == (horizon_ms is not None and horizon_ms <= NOW_MS)
    for key, value, last, latest in product(
        (None, b"", b"k"), (None, b"", b"v"), (9, 10, 11), (-1, 9, 10, 11)
    ):
        record = record_of(10, key, value)
        mapped = {} if key is None or latest < 0 else {key: latest}
        kind = rules.kind_of_record(length_of(key), length_of(value), reached)
        removed = (
            kind == rules.NULL_KEY
            or rules.is_superseded(10, -1 if key is None else latest)
            or kind == rules.EXPIRED
        )
        retained = rules.skips_map(row, False) or rules.is_above_map(10, last) or not removed
        assert twins.should_retain_record(record, batch, mapped, last, NOW_MS) == retained
        if kind != rules.NULL_KEY:
            assert (kind == rules.KEYED) == (value is not None)


def test_which_batches_skip_the_map() -> None:
    """Control batches always, aborted data while inserting, discarded data while probing."""
    for control, unmapped, discard, inserting in product((False, True), repeat=4):
        row = row_of(batch_of(attributes=CONTROL * control), unmapped=unmapped, discard=discard)
        expected = control or (unmapped if inserting else discard)
        assert expected == rules.skips_map(row, inserting)


@pytest.mark.parametrize("horizon_ms", HORIZONS)
@pytest.mark.parametrize("attributes", [0, TRANSACTIONAL, CONTROL, CONTROL | TRANSACTIONAL])
@pytest.mark.parametrize("can_discard", [False, True])
def test_which_batches_are_discarded_and_get_a_horizon(
    *, attributes: int, horizon_ms: int | None, can_discard: bool
) -> None:
    """Rules 7 and 8."""
    batch = batch_of(attributes=attributes, horizon_ms=horizon_ms)
    discarded = rules.should_discard_batch(row_of(batch), can_discard, NOW_MS, INT64_MAX)
    assert twins.should_discard_batch(batch, NOW_MS, can_discard=can_discard) == discarded
    is_empty_marker = rules.is_marker_of_empty_transaction(row_of(batch), can_discard)
    assert is_empty_marker == (batch.is_control and can_discard)
    row = row_of(batch, empty_marker=is_empty_marker)
    for value in (b"v",) if batch.is_control else (b"v", None):
        sets_horizon = rules.sets_delete_horizon(row, value is None)
        kept = [record_of(value=b"v"), record_of(value=value)]
        assert twins.sets_delete_horizon(batch, kept, can_discard=can_discard) == sets_horizon
        base_ms = rules.rebuilt_base_timestamp(row, sets_horizon, NOW_MS + 50, 8)
        if horizon_ms is not None:
            assert horizon_ms == base_ms
        else:
            assert (NOW_MS + 50 if sets_horizon else 8) == base_ms


def test_the_delete_horizon_that_is_set_now() -> None:
    """Rule 7: ``delete.retention.ms`` from now, at most what a timestamp can hold."""
    assert 1050 == rules.delete_horizon_ms(NOW_MS, 50)
    assert INT64_MAX == rules.delete_horizon_ms(NOW_MS, INT64_MAX)


def test_which_batches_are_the_last_of_a_producer() -> None:
    """Rule 9, by offset, epoch and control batch."""
    for control, last, epoch in product((0, CONTROL), (-1, 0, 9, 10, 11), (1, 2, 3)):
        batch = batch_of(attributes=control)
        producer = ProducerEntry(
            producer_id=5,
            producer_epoch=epoch,
            last_sequence=0,
            last_offset=last,
            offset_delta=0,
            timestamp_ms=TimestampMs(7),
            coordinator_epoch=0,
            current_txn_first_offset=None,
        )
        (kept,) = rules.is_last_of_producer(
            np.array([row_of(batch)]), np.array([last]), np.array([epoch])
        )
        assert twins.is_retained_empty(batch, INT64_MAX, [producer]) == kept
        assert not twins.is_retained_empty(
            batch, INT64_MAX, [replace(producer, producer_id=batch.producer_id + 1)]
        )


def test_which_batch_ends_where_an_end_is_kept() -> None:
    """Rule 9: at the end of the range until Kafka 4.3, at the high watermark from 4.4 on."""
    batch = batch_of(last_offset=10)
    for bound, watermark in product((10, 11, 12), (10, 11, 12)):
        for kafka in VERSIONS:
            end = rules.end_kept(kafka, bound, watermark)
            assert (bound if kafka.name == "4.3" else watermark) == end
            assert twins.is_retained_empty(batch, end, ()) == rules.is_last_before(10, end)


def test_what_is_written_for_a_batch() -> None:
    """Rule 10, by records, retained records, tombstones, a marker without data and a horizon."""
    for horizon_ms, control, count, has_tombstone, is_free, retained_empty in product(
        HORIZONS, (0, CONTROL), (0, 1, 3), (False, True), (False, True), (False, True)
    ):
        if has_tombstone and (control or not count):
            continue
        batch = batch_of(attributes=control, horizon_ms=horizon_ms, records=count)
        row = row_of(
            batch,
            has_tombstone=has_tombstone,
            empty_marker=bool(control) and is_free,
            keep_empty=retained_empty,
        )
        records = [record_of(n, value=None if has_tombstone else b"v") for n in range(count)]
        for retained in range(count + 1):
            kept = records[:retained]
            expected = twins.batch_fate(
                records,
                kept,
                retained_empty=retained_empty,
                sets_horizon=twins.sets_delete_horizon(batch, kept, can_discard=is_free),
            )
            assert expected == FATES[rules.batch_fate(row, retained)]


EVENTS = ("data", "transactional", "ABORT", "COMMIT", "empty marker", "LEADER_CHANGE")


def visited(events: tuple[str, ...]) -> Iterator[tuple[RecordBatch, tuple[Record, ...], np.void]]:
    """A batch of one producer for each event, at the offsets 0, 1, 2 and so on."""
    for offset, event in enumerate(events):
        attributes = {"data": 0, "transactional": TRANSACTIONAL}.get(event, CONTROL | TRANSACTIONAL)
        count = int(event != "empty marker")
        batch = batch_of(attributes=attributes, last_offset=offset, records=count)
        kind = ControlType[event] if event in ControlType.__members__ else None
        key = b"k" if kind is None else serialize_control_key(kind)
        row = row_of(batch, control_type=-1 if kind is None else kind.value)
        yield batch, (record_of(offset, key),) * count, row


def test_which_batches_a_transaction_lets_go() -> None:
    """Rules 11 to 13: every sequence of four batches, with aborted transactions from each offset
    on, alone or before a second one.
    """
    firsts = [(), *((n,) for n in range(4)), *((n, m) for n in range(4) for m in range(n, 4))]
    for events, begins in product(product(EVENTS, repeat=4), firsts):
        listed = [
            AbortedTransaction(
                version=0,
                producer_id=5,
                first_offset=Offset(first),
                last_offset=Offset(100 + number),
                last_stable_offset=Offset(200),
            )
            for number, first in enumerate(begins)
        ]
        twin, state = twins.Transactions(), TransactionState.new(1)
        twin.add(listed)
        kept: list[AbortedTransaction] = []
        pending = 0
        for batch, records, row in visited(events):
            while pending < len(begins) and begins[pending] <= batch.last_offset:
                rules.open_aborted(state, 0, pending)
                pending += 1
            if batch.is_control:
                can_discard, keeps_entry = rules.on_control_batch_read(row, 0, state)
                if keeps_entry:
                    kept.append(listed[state.number[0]])
            else:
                can_discard = rules.on_batch_read(row, 0, state)
            assert twin.visit(batch, records) == can_discard
            assert twin.kept_entries == kept


def test_a_batch_without_a_producer_is_in_no_transaction() -> None:
    """Not even if its header says so."""
    state = TransactionState.new(1)
    rules.open_aborted(state, 0, 0)
    for event in ("transactional", "ABORT", "COMMIT"):
        ((_, _, row),) = visited((event,))
        if event == "transactional":
            assert not rules.on_batch_read(row, -1, state)
        else:
            assert (False, False) == rules.on_control_batch_read(row, -1, state)
    assert (rules.ABORTED, False) == (state.aborted[0], state.committed[0])
