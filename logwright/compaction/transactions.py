"""Which batches a transaction lets go (CleanedTransactionMetadata and Cleaner.shouldDiscardBatch,
Kafka 4.3.0).

Batches are visited in the order of the log. Of each producer two things are known:

- *aborted now*: an aborted transaction, taken from the ``.txnindex`` files, has begun and its
  marker has not come;
- *committed so far*: transactional data was seen that no aborted transaction claims.

1. Before each batch the aborted transactions that begin at or below its last offset become "aborted
   now".
2. Transactional data of a producer that is "aborted now" can go; other transactional data is
   committed.
3. An ABORT marker ends "aborted now". If data of the transaction was seen, the marker stays and its
   entry goes into the cleaned segment's ``.txnindex``; else the marker can go.
4. A COMMIT marker can go if no data of its transaction was seen. A marker without a record can go.
   Other control batches cannot.

A transaction index is a hint: before it is used, it is held against the markers (`outcomes`).

The same walk serves both passes: while mapping, data that can go is not mapped; while copying, it
is dropped. What can go of a marker goes only after its delete horizon (KIP-534). The last batch of
an active producer, and the last batch of the cleaned range, stay without records.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.compaction.model import CleanPlan
from logwright.compaction.outcomes import outdated_snapshot, require_agreement
from logwright.compaction.source import Source
from logwright.format.batch import CONTROL, DELETE_HORIZON, TRANSACTIONAL
from logwright.format.index import AbortedTransaction, check_txn_index
from logwright.format.names import INDEX, TXNINDEX, segment_file_name
from logwright.format.scan import ABORT, COMMIT
from logwright.format.snapshot import ProducerEntry
from logwright.kernel import kernel
from logwright.log.mapped import map_file
from logwright.log.model import PartitionLog
from logwright.log.producers import active_producers

UNMAPPED: Final = TRANSACTIONAL | CONTROL
"""A batch that has neither of these bits is mapped, and stays or goes by its records alone."""

_NOT_ABORTED: Final = 0
_ABORTED: Final = 1
_DATA_SEEN: Final = 2


@kernel
def _walk(
    batches: Any,
    numbers: Any,
    aborted: Any,
    first_pending: int,
    states: Any,
    can_discard: Any,
    markers: Any,
) -> Any:
    """Visit the batches of one segment; (aborted transactions taken so far, markers that stay with
    their entry).

    Args:
        batches: BATCH[n]. numbers: int64[n], a small number for each batch's producer, -1 without
            one.
        aborted: int64[k, 2]: first offset and producer's number, ascending by first offset.
        first_pending: how many of them were taken before.
        states: (int8[producers]: aborted now, int64[producers]: which of `aborted`,
            bool[producers]: committed so far).
        can_discard: bool[n], is set.
        markers: int64[n], is filled with the transactions whose markers stay.
    """
    aborted_now, which, committed = states
    pending = first_pending
    kept = 0
    for row in range(len(batches)):
        batch = batches[row]
        while pending < len(aborted) and aborted[pending, 0] <= batch.last_offset:
            producer = aborted[pending, 1]
            if aborted_now[producer] == _NOT_ABORTED:
                aborted_now[producer] = _ABORTED
                which[producer] = pending
            pending += 1
        producer = numbers[row]
        if batch.attributes & CONTROL != 0:
            if batch.count == 0:
                can_discard[row] = True
            elif batch.control_type == ABORT and producer >= 0:
                if aborted_now[producer] == _DATA_SEEN:
                    markers[kept] = which[producer]
                    kept += 1
                else:
                    can_discard[row] = True
                aborted_now[producer] = _NOT_ABORTED
            elif batch.control_type == COMMIT and producer >= 0:
                can_discard[row] = not committed[producer]
                committed[producer] = False
        elif batch.attributes & TRANSACTIONAL != 0 and producer >= 0:
            if aborted_now[producer] != _NOT_ABORTED:
                aborted_now[producer] = _DATA_SEEN
                can_discard[row] = True
            else:
                committed[producer] = True
    return pending, kept


class TransactionIndexes:
    """The aborted transactions of a log, read from its ``.txnindex`` files. Effects: reads them.

    Args:
        log: as observed. Entries that end below its start offset are left out, as by Kafka.

    Raises:
        CorruptIndex, UnsupportedFormatError: see `check_txn_index`.
    """

    def __init__(self, log: PartitionLog) -> None:
        self._log = log
        self._bases = [segment.base_offset for segment in log.segments]
        self._entries = [
            _read(log, segment.base_offset) if segment.txnindex_bytes else ()
            for segment in log.segments
        ]
        self._having = [number for number, entries in enumerate(self._entries) if entries]

    @property
    def producer_ids(self) -> set[int]:
        """Of all entries."""
        return {entry.producer_id for entries in self._entries for entry in entries}

    def require_agreement(self, sources: Sequence[Source], *, end_offset: int) -> None:
        """That they say what the markers say of `sources`, all segments below `end_offset`. Effects
        and errors: see `outcomes.require_agreement`.
        """
        by_base = {self._bases[number]: self._entries[number] for number in self._having}
        require_agreement(self._log, sources, by_base, end_offset=end_offset)

    def between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Those that concern [start, end) (LogSegments.collectAbortedTxns): from the segment that
        contains the start on, those that begin below the end, up to an entry after which nothing
        below the end was open.
        """
        first = max(bisect_right(self._bases, start) - 1, 0)
        found = []
        for number in self._having[bisect_left(self._having, first) :]:
            for entry in self._entries[number]:
                if entry.first_offset < end:
                    found.append(entry)
                if entry.last_stable_offset >= end:
                    return found
        return found


def _read(log: PartitionLog, base_offset: int) -> tuple[AbortedTransaction, ...]:
    path = log.directory / segment_file_name(base_offset, TXNINDEX)
    entries = check_txn_index(map_file(path).tobytes(), base_offset=base_offset, path=path)
    return tuple(entry for entry in entries if entry.last_offset >= log.log_start_offset)


class TransactionWalk:
    """The walk over a cleaning's batches, segment by segment.

    Args:
        sources: all segments of the cleaning.
        indexes: the log's aborted transactions.
    """

    def __init__(self, sources: Sequence[Source], indexes: TransactionIndexes) -> None:
        with_producers = [source.batches["producer_id"] for source in sources]
        known = np.concatenate([*with_producers, np.array([*indexes.producer_ids], dtype=np.int64)])
        self._ids = np.unique(known[known >= 0])
        self._pending: list[AbortedTransaction] = []
        self._states = (
            np.zeros(len(self._ids), dtype=np.int8),
            np.zeros(len(self._ids), dtype=np.int64),
            np.zeros(len(self._ids), dtype=np.bool_),
        )
        self._taken: list[AbortedTransaction] = []

    def add(self, transactions: Sequence[AbortedTransaction]) -> None:
        """More aborted transactions, to be taken in the order of their first offsets."""
        self._pending = sorted([*self._pending, *transactions], key=lambda each: each.first_offset)

    def visit(
        self, batches: NDArray[np.void]
    ) -> tuple[NDArray[np.bool_], list[AbortedTransaction]]:
        """Visit the next batches, BATCH[n].

        Returns:
            which of them can go, bool[n]; the transactions whose ABORT markers stay.
        """
        can_discard = np.zeros(len(batches), dtype=np.bool_)
        queue = [*self._taken, *self._pending]
        aborted = np.array(
            [(each.first_offset, self._number(each.producer_id)) for each in queue],
            dtype=np.int64,
        ).reshape(-1, 2)
        numbers = np.searchsorted(self._ids, batches["producer_id"]).astype(np.int64)
        numbers[batches["producer_id"] < 0] = -1
        markers = np.empty(len(batches), dtype=np.int64)
        pending, kept = _walk(
            batches, numbers, aborted, len(self._taken), self._states, can_discard, markers
        )
        stay = [queue[int(number)] for number in markers[:kept]]
        self._taken, self._pending = queue[:pending], queue[pending:]
        return can_discard, stay

    def _number(self, producer_id: int) -> int:
        return int(np.searchsorted(self._ids, producer_id))


def mark_unmapped(sources: Sequence[Source], plan: CleanPlan, indexes: TransactionIndexes) -> None:
    """Set `unmapped` of the batches whose records do not enter the offset map: control batches,
    aborted data.

    The walk begins with the segment that holds the first dirty offset, so that every transaction
    ends at its marker. Kafka's begins where the offset index says, and takes a transaction that has
    ended before for one that goes on: what its producer commits next is not mapped. Only with
    ``like_kafka`` the index is asked, and never believed above the first dirty batch.
    """
    start, end = plan.compaction.first_dirty_offset, plan.compaction.first_uncleanable_offset
    walk = TransactionWalk(sources, indexes)
    walk.add(indexes.between(start, end))
    for number, source in enumerate(sources):
        following = sources[number + 1].base_offset if number + 1 < len(sources) else end
        batches = source.batches
        if following <= start:
            continue
        first = 0
        if source.base_offset < start and plan.options.like_kafka:
            by_index = _row_by_index(source, plan.log.directory, start)
            first = min(by_index, source.first_row("last_offset", start))
        can_discard, _ = walk.visit(batches[first:])
        control = (batches["attributes"][first:] & CONTROL) != 0
        batches["unmapped"][first:] = control | can_discard


def _row_by_index(source: Source, directory: Path, offset: int) -> int:
    """Row of the batch at the position that the offset index gives for an offset."""
    path = directory / segment_file_name(source.base_offset, INDEX)
    entries = map_file(path)
    whole = entries[: len(entries) // 8 * 8].view(
        np.dtype([("offset", ">i4"), ("position", ">i4")])
    )
    offsets = whole["offset"].astype(np.int64) + source.base_offset
    at = int(np.searchsorted(offsets, offset, side="right")) - 1
    position = int(whole["position"][at]) if at >= 0 else 0
    return int(np.searchsorted(source.batches["position"], position, side="left"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fates:
    """What becomes of the batches beside what the offset map says.

    Attributes:
        aborted: for each group the transactions whose ABORT markers stay: its ``.txnindex``.
    """

    aborted: tuple[tuple[AbortedTransaction, ...], ...]


def decide_fates(
    groups: Sequence[Sequence[Source]], plan: CleanPlan, indexes: TransactionIndexes
) -> Fates:
    """Set `discard`, `empty_marker` and `keep_empty` of all batches, group by group.

    Raises:
        CorruptProducerSnapshot: a producer has a later batch than the snapshots know.
    """
    bound = plan.compaction.first_uncleanable_offset
    producers = active_producers(
        plan.log.producers,
        now_ms=plan.now_ms,
        expiration_ms=plan.config.producer_id_expiration_ms,
    )
    sources = [source for group in groups for source in group]
    for source in sources:
        _keep_ends(plan.log, source.batches, bound, producers)
    if not any(source.attributes & UNMAPPED for source in sources):
        return Fates(aborted=((),) * len(groups))
    walk = TransactionWalk(sources, indexes)
    entries: list[tuple[AbortedTransaction, ...]] = []
    for group in groups:
        stay: list[AbortedTransaction] = []
        for number, source in enumerate(group):
            batches = source.batches
            last = int(batches["last_offset"][-1]) + 1 if len(batches) else source.base_offset
            end = group[number + 1].base_offset if number + 1 < len(group) else last
            walk.add(indexes.between(source.base_offset, end))
            can_discard, markers = walk.visit(batches)
            stay += markers
            _set_fates(batches, can_discard, plan.now_ms)
        entries.append(tuple(stay))
    return Fates(aborted=tuple(entries))


def _set_fates(batches: NDArray[np.void], can_discard: NDArray[np.bool_], now_ms: int) -> None:
    """A marker goes only once its delete horizon is reached; aborted data at once."""
    control = (batches["attributes"] & CONTROL) != 0
    reached = ((batches["attributes"] & DELETE_HORIZON) != 0) & (
        batches["base_timestamp"] <= now_ms
    )
    batches["discard"] = can_discard & (~control | reached)
    batches["empty_marker"] = can_discard & control


def _keep_ends(
    log: PartitionLog, batches: NDArray[np.void], bound: int, producers: Sequence[ProducerEntry]
) -> None:
    """The last batch of the cleaned range stays, and that of each active producer."""
    keep = batches["keep_empty"]
    if producers:
        keep[:] = _last_of_producer(log, batches, producers)
    if len(batches) and int(batches["last_offset"][-1]) + 1 == bound:
        keep[-1] = True


def _last_of_producer(
    log: PartitionLog, batches: NDArray[np.void], producers: Sequence[ProducerEntry]
) -> NDArray[np.bool_]:
    """Which batches are the last of an active producer: by its last data offset, or, if only a
    marker of a new epoch is known, the control batches of that epoch
    (Cleaner.isBatchLastRecordOfProducer).
    """
    ids = np.array([each.producer_id for each in producers], dtype=np.int64)
    order = np.argsort(ids)
    ids = ids[order]
    last = np.array([each.last_offset for each in producers], dtype=np.int64)[order]
    epochs = np.array([each.producer_epoch for each in producers], dtype=np.int64)[order]
    at = np.minimum(np.searchsorted(ids, batches["producer_id"]), len(ids) - 1)
    known = (batches["producer_id"] >= 0) & (ids[at] == batches["producer_id"])
    by_data = (last[at] >= 0) & (batches["last_offset"] == last[at])
    control = (batches["attributes"] & CONTROL) != 0
    later = known & ~control & (last[at] >= 0) & (batches["last_offset"] > last[at])
    for row in np.flatnonzero(later & (epochs[at] == batches["producer_epoch"]))[:1]:
        raise outdated_snapshot(
            log,
            f"producer {ids[at][row]} has its last batch at {last[at][row]}, the log at"
            f" {batches['last_offset'][row]}",
        )
    by_marker = (last[at] < 0) & control & (epochs[at] == batches["producer_epoch"])
    result: NDArray[np.bool_] = known & (by_data | by_marker)
    return result
