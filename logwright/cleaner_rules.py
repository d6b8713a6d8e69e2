"""The retention rules of Kafka's cleaner; both passes call them. Batches of formats v0 and v1 are
read as of v2; what differs for them is said.

A record is judged by the first rule that applies (Cleaner.shouldRetainRecord); `keys/read.py`
calls 2, 3, 4 and 6, then 5:

1. The records of a discarded batch are removed, see 8.
2. A control record has no key to compare: it stays as long as its batch (`skips_map`).
3. A record above the last offset of the offset map stays, whatever it holds (`is_above_map`).
4. A record without a key is removed (`kind_of_record`).
5. A record is removed if the map holds a later one with its key (`is_superseded`).
6. A tombstone is removed once now is at or past its batch's delete horizon (KIP-534;
   `delete_horizon_reached`); until then, and without a horizon, it stays. So do all other records.
   In a batch of an old format it goes if its segment is old enough (`compaction.legacy`).

A batch (Cleaner.checkBatchRetention, MemoryRecords.filterTo):

7. A batch gets a delete horizon, now + ``delete.retention.ms`` (at most 2^63 - 1), when it retains
   a tombstone or is the marker of a transaction without data (KIP-534; `sets_delete_horizon`,
   `delete_horizon_ms`). A horizon never moves (`rebuilt_base_timestamp`).
8. Data of an aborted transaction is discarded at once. Its marker, when no data is left (13), gets
   a horizon (7), and is discarded once that is reached (Cleaner.shouldDiscardBatch).
9. The header of a batch stays, even if the batch is discarded, when it is the last of an active
   producer, for its sequence number (Cleaner.isBatchLastRecordOfProducer), or when it ends where an
   end is kept: at the end of the cleaned range until Kafka 4.3, at the high watermark from 4.4 on
   (KAFKA-20452; `end_kept`). Either is enough: `rewrite.kept_ends` sets ``keep_empty``. That of a
   batch of an old format never stays: there Kafka's cleaner fails.
10. A batch without a retained record is deleted or stays as a header (9); one that retains all of
    its records and gets no horizon is copied as it is; any other is rebuilt (`batch_fate`). Of an
   old format a rebuilt batch begins and ends at its first and last record.

A transaction (CleanedTransactionMetadata); batches are visited in the order of the log:

11. An aborted transaction of a ``.txnindex`` file is open from its first offset to its marker
    (`open_aborted`).
12. Transactional data of a producer with an open aborted transaction can go; other transactional
    data is committed (`on_batch_read`).
13. An ABORT marker closes the transaction. It can go if no data of it was seen; else its index
    entry stays as well. A COMMIT marker can go if no committed data was seen. A control batch
    without records can go; others, and those without a producer, stay (`on_control_batch_read`).

A coordinated cleaning (docs/adr/0030); without other replicas neither rule has an effect:

14. A tombstone or marker goes only if its whole batch is below the lowest clean offset of all
    replicas (`delete_horizon_reached`; `compaction.coordination.lowest_clean_offset`). It keeps
    its horizon.
15. A marker stays as long as another replica has data of its transaction
    (`compaction.coordination.held_markers`).

``tests/twins.py`` states the same plainly, on decoded records; tests hold each function against it.
The checks of the output (`logwright.checks`, and the receipts that they read) have rules of their
own on purpose: they could not notice a fault in a rule that they share. `batch` is one BATCH row.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from logwright.config.kafka_version import KafkaVersion
from logwright.format.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from logwright.format.legacy import LEGACY_EXPIRED
from logwright.format.scan import ABORT, COMMIT
from logwright.kernel import inline_kernel
from logwright.units import INT64_MAX

KEYED, NULL_KEY, EXPIRED, TOMBSTONE = (np.uint8(kind) for kind in range(4))
"""What a record is to the map; EXPIRED is a tombstone that may go, TOMBSTONE one that stays."""
DELETE, RETAIN, RETAIN_EMPTY, REBUILD = range(4)
"""What is written for a batch: nothing, its bytes as they are, its header alone, or a batch of the
retained records, which may be all of them with a delete horizon."""
NOT_ABORTED, ABORTED, DATA_SEEN = range(3)
"""What is known of a producer's aborted transaction."""


@inline_kernel
def skips_map(batch: Any, inserting: bool) -> Any:
    """Decide whether a batch is left out of the map while inserting, or not looked up in it (2)."""
    discarded = batch.unmapped if inserting else batch.discard
    return discarded or batch.attributes & CONTROL != 0


@inline_kernel
def is_above_map(offset: int, last_mapped_offset: int) -> Any:
    """Decide whether a record stays because the map ends before it (3)."""
    return offset > last_mapped_offset


@inline_kernel
def kind_of_record(key_length: int, value_length: int, horizon_reached: bool) -> Any:
    """Return NULL_KEY (4), EXPIRED (6), TOMBSTONE or KEYED; a length of -1 stands for null."""
    if key_length < 0:
        return NULL_KEY
    if value_length >= 0:
        return KEYED
    return EXPIRED if horizon_reached else TOMBSTONE


@inline_kernel
def is_superseded(ordinal: int, latest: int) -> Any:
    """Decide whether the key has a later record (5). Ordinals number records in the log's order."""
    return latest > ordinal


@inline_kernel
def has_delete_horizon(batch: Any) -> Any:
    """Decide whether a batch has a delete horizon: then its base timestamp is the horizon."""
    return batch.attributes & DELETE_HORIZON != 0


@inline_kernel
def delete_horizon_reached(batch: Any, now_ms: int, removable_end: int) -> Any:
    """Decide whether the tombstones, or the marker, of a batch may go (6, 8): only below the end of
    what may be removed (14).
    """
    reached = has_delete_horizon(batch) and batch.base_timestamp <= now_ms
    reached = reached or batch.legacy == LEGACY_EXPIRED
    return reached and batch.last_offset < removable_end


@inline_kernel
def sets_delete_horizon(batch: Any, retains_tombstone: bool) -> Any:
    """Decide whether a batch gets a delete horizon now (7)."""
    return (retains_tombstone or batch.empty_marker) and not has_delete_horizon(batch)


def delete_horizon_ms(now_ms: int, delete_retention_ms: int) -> int:
    """Return the delete horizon that batches get now, ms since the epoch (7)."""
    return min(now_ms + delete_retention_ms, INT64_MAX)


@inline_kernel
def rebuilt_base_timestamp(batch: Any, sets_horizon: bool, horizon_ms: int, first_ms: int) -> Any:
    """Return the base timestamp of a rebuilt batch, ms: a horizon (7), or the first record's."""
    if has_delete_horizon(batch):
        return np.int64(batch.base_timestamp)
    return np.int64(horizon_ms) if sets_horizon else np.int64(first_ms)


@inline_kernel
def should_discard_batch(batch: Any, can_discard: bool, now_ms: int, removable_end: int) -> Any:
    """Decide whether all records of a batch go because its transaction lets it go (8)."""
    if batch.attributes & CONTROL == 0:
        return can_discard
    return can_discard and delete_horizon_reached(batch, now_ms, removable_end)


@inline_kernel
def is_marker_of_empty_transaction(batch: Any, can_discard: bool) -> Any:
    """Decide whether a batch is the marker of a transaction without data (7: ``empty_marker``)."""
    return can_discard and batch.attributes & CONTROL != 0


def is_last_of_producer(
    batches: NDArray[np.void], last_offsets: NDArray[np.int64], epochs: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which batches, BATCH[n], are the last of their active producer, bool[n] (9).

    last_offsets, epochs: int64[n], of each batch's producer the offset of its last data and its
        epoch; -1 if only a marker of a new epoch is known: then control batches of that epoch.
    """
    control = (batches["attributes"] & CONTROL) != 0
    by_data = (last_offsets >= 0) & (batches["last_offset"] == last_offsets)
    by_marker = (last_offsets < 0) & control & (epochs == batches["producer_epoch"])
    return np.asarray(by_data | by_marker)


def end_kept(kafka: KafkaVersion, first_uncleanable_offset: int, high_watermark: int) -> int:
    """Return the offset at which a batch that ends there keeps its header (9)."""
    if kafka.keeps_empty_at == "range end":
        return first_uncleanable_offset
    return high_watermark


def is_last_before(last_offset: int, end: int) -> bool:
    """Decide whether a batch ends at an offset, by its last offset (9)."""
    return last_offset + 1 == end


@inline_kernel
def batch_fate(batch: Any, retained: int) -> Any:
    """Return what is written for a batch, by the number of its retained records (10)."""
    if retained == 0:
        return RETAIN_EMPTY if batch.keep_empty else DELETE
    if retained < batch.count or sets_delete_horizon(batch, batch.has_tombstone):
        return REBUILD
    return RETAIN


@inline_kernel
def open_aborted(state: Any, producer: int, number: int) -> None:
    """Open an aborted transaction (11), unless its producer has one. state: TransactionState."""
    if state.aborted[producer] == NOT_ABORTED:
        state.aborted[producer] = ABORTED
        state.number[producer] = number


@inline_kernel
def on_batch_read(batch: Any, producer: int, state: Any) -> Any:
    """Return whether a data batch can go (12); `producer` is -1 without one."""
    if batch.attributes & TRANSACTIONAL == 0 or producer < 0:
        return False
    if state.aborted[producer] == NOT_ABORTED:
        state.committed[producer] = True
        return False
    state.aborted[producer] = DATA_SEEN
    return True


@inline_kernel
def on_control_batch_read(batch: Any, producer: int, state: Any) -> Any:
    """Return (whether a control batch can go, whether its index entry stays) (13)."""
    if batch.count == 0:
        return True, False
    if batch.control_type == ABORT and producer >= 0:
        has_data = state.aborted[producer] == DATA_SEEN
        state.aborted[producer] = NOT_ABORTED
        return not has_data, has_data
    if batch.control_type == COMMIT and producer >= 0:
        has_data = state.committed[producer]
        state.committed[producer] = False
        return not has_data, False
    return False, False
