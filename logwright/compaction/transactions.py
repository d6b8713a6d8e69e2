"""The walk over the batches that decides which transactions' data and markers can go
(CleanedTransactionMetadata, Kafka 4.3.0); its rules are 8, 9 and 11 to 13 of `cleaner_rules`.

1. Batches are visited in the order of the log. Before each one, the aborted transactions that begin
   at or below its last offset are opened.
2. For the offset map (`mark_unmapped`) the walk decides which data is not mapped; for the copy
   (`decide_fates`) which batches are discarded, and which ABORT markers keep their entry in the
   ``.txnindex`` of the cleaned segment.

A transaction index is a hint: before it is used, it is compared with the markers (`outcomes`).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from logwright import cleaner_rules as rules
from logwright.batches.outcomes import require_agreement
from logwright.batches.source import Source
from logwright.compaction.coordination import held_markers, keep_held
from logwright.compaction.model import ReadablePlan
from logwright.format.batch import CONTROL, TRANSACTIONAL
from logwright.format.index import AbortedTransaction, check_txn_index
from logwright.format.names import INDEX, TXNINDEX, segment_file_name
from logwright.kernel import kernel
from logwright.log.model import ReadableLog
from logwright.log.producers import active_producers
from logwright.place.mapped import map_file
from logwright.place.model import Place
from logwright.rewrite.kept_ends import keep_ends
from logwright.units import INT64_MAX

UNMAPPED: Final = TRANSACTIONAL | CONTROL
"""A batch that has neither of these bits is mapped, and stays or goes by its records alone."""


@kernel
def _walk(
    batches: Any,
    numbers: Any,
    aborted: Any,
    first_pending: int,
    state: Any,
    can_discard: Any,
    markers: Any,
) -> Any:
    """Visit the batches of one segment; return (aborted transactions taken so far, markers that
    stay with their entry).

    Args:
        batches: BATCH[n]. numbers: int64[n], a small number for each batch's producer, -1 without
            one.
        aborted: int64[k, 2]: first offset and producer's number, ascending by first offset.
        first_pending: how many of them were taken before.
        state: TransactionState.
        can_discard: bool[n], is set.
        markers: int64[n], is filled with the transactions whose markers stay.
    """
    pending = first_pending
    kept = 0
    for row in range(len(batches)):
        batch = batches[row]
        while pending < len(aborted) and aborted[pending, 0] <= batch.last_offset:
            rules.open_aborted(state, aborted[pending, 1], pending)
            pending += 1
        producer = numbers[row]
        if batch.attributes & CONTROL == 0:
            can_discard[row] = rules.on_batch_read(batch, producer, state)
            continue
        can_discard[row], keeps_entry = rules.on_control_batch_read(batch, producer, state)
        if keeps_entry:
            markers[kept] = state.number[producer]
            kept += 1
    return pending, kept


class TransactionState(NamedTuple):
    """The state of each producer while batches are visited; the rules change it.

    Attributes:
        aborted: int8[producers], of `rules.NOT_ABORTED` and following.
        number: int64[producers], which aborted transaction that is.
        committed: bool[producers], data was seen that no aborted transaction claims.
    """

    aborted: NDArray[np.int8]
    number: NDArray[np.int64]
    committed: NDArray[np.bool_]

    @classmethod
    def new(cls, producers: int) -> Self:
        """Return the state before the first batch."""
        return cls(
            aborted=np.zeros(producers, dtype=np.int8),
            number=np.zeros(producers, dtype=np.int64),
            committed=np.zeros(producers, dtype=np.bool_),
        )


class TransactionIndexes:
    """The aborted transactions of a log, read from its ``.txnindex`` files. Effects: reads them.

    Args:
        log: as observed. Entries that end below its start offset are left out, as by Kafka.

    Raises:
        CorruptIndex, UnsupportedFormatError: see `check_txn_index`.
    """

    def __init__(self, log: ReadableLog) -> None:
        self._log = log
        self._bases = [segment.base_offset for segment in log.segments]
        self._entries = [
            _read(log, segment.base_offset) if segment.txnindex_bytes else ()
            for segment in log.segments
        ]
        self._having = [number for number, entries in enumerate(self._entries) if entries]
        self._later = self._begins()

    def _begins(self) -> list[int]:
        """Return the first offset at which an entry of a segment, or of a later one, begins: of
        each segment.
        """
        begins = [
            min((entry.first_offset for entry in entries), default=INT64_MAX)
            for entries in self._entries
        ]
        return list(accumulate(reversed(begins), min))[::-1]

    @property
    def producer_ids(self) -> set[int]:
        """All entries."""
        return {entry.producer_id for entries in self._entries for entry in entries}

    def require_agreement(self, sources: Sequence[Source], *, end_offset: int) -> None:
        """Check that the entries agree with the markers of `sources`, all segments below
        `end_offset`. Effects and errors: see `outcomes.require_agreement`.
        """
        by_base = {self._bases[number]: self._entries[number] for number in self._having}
        require_agreement(self._log, sources, by_base, end_offset=end_offset)

    def between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the entries that concern [start, end): from the segment that contains the start
        on, those that begin below the end.

        Kafka stops at an entry whose last stable offset is not below the end
        (LogSegments.collectAbortedTxns), and can miss transactions: those that a follower writes
        can be too large, see `outcomes`.
        """
        first = max(bisect_right(self._bases, start) - 1, 0)
        entries = []
        for number in self._having[bisect_left(self._having, first) :]:
            if self._later[number] >= end:
                break
            entries += [entry for entry in self._entries[number] if entry.first_offset < end]
        return entries


def _read(log: ReadableLog, base_offset: int) -> tuple[AbortedTransaction, ...]:
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
        self._state = TransactionState.new(len(self._ids))
        self._taken: list[AbortedTransaction] = []

    def add(self, transactions: Sequence[AbortedTransaction]) -> None:
        """Add more aborted transactions, in the order of their first offsets."""
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
            batches, numbers, aborted, len(self._taken), self._state, can_discard, markers
        )
        stay = [queue[int(number)] for number in markers[:kept]]
        self._taken, self._pending = queue[:pending], queue[pending:]
        return can_discard, stay

    def _number(self, producer_id: int) -> int:
        return int(np.searchsorted(self._ids, producer_id))


def mark_unmapped(
    sources: Sequence[Source], plan: ReadablePlan, indexes: TransactionIndexes
) -> None:
    """Set `unmapped` of the batches whose records do not enter the offset map: control batches,
    aborted data.

    The walk begins with the segment that holds the first dirty offset, so that every transaction
    ends at its marker. Kafka's begins where the offset index points, and takes an ended
    transaction for one that continues: what its producer commits next is not mapped. The index is
    used only with ``like_kafka``, and never above the first dirty batch.
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
        batches["unmapped"][first:], _ = walk.visit(batches[first:])


def _row_by_index(source: Source, directory: Place, offset: int) -> int:
    """Return the row of the batch at the position that the offset index has for an offset."""
    path = directory / segment_file_name(source.base_offset, INDEX)
    entries = map_file(path)
    whole = entries[: len(entries) // 8 * 8].view(
        np.dtype([("offset", ">i4"), ("position", ">i4")])
    )
    offsets = whole["offset"].astype(np.int64) + source.base_offset
    at = int(np.searchsorted(offsets, offset, side="right")) - 1
    position = int(whole["position"][at]) if at >= 0 else 0
    return int(np.searchsorted(source.batches["position"], position, side="left"))


def decide_fates(
    groups: Sequence[Sequence[Source]], plan: ReadablePlan, indexes: TransactionIndexes
) -> tuple[tuple[AbortedTransaction, ...], ...]:
    """Set `discard`, `empty_marker` and `keep_empty` of all batches, group by group; return for
    each group the transactions whose ABORT markers stay: its ``.txnindex``.

    Raises:
        CorruptProducerSnapshot: a producer has a later batch than the snapshots.
    """
    sources = [source for group in groups for source in group]
    set_kept_ends(sources, plan)
    return decide_transactions(groups, plan, indexes)


def set_kept_ends(sources: Sequence[Source], plan: ReadablePlan) -> None:
    """Set `keep_empty` of all batches.

    Raises:
        CorruptProducerSnapshot: a producer has a later batch than the snapshots.
    """
    producers = active_producers(
        plan.log.producers,
        now_ms=plan.now_ms,
        expiration_ms=plan.config.producer_id_expiration_ms,
    )
    bound = plan.compaction.first_uncleanable_offset
    end = rules.end_kept(plan.cleaner.kafka, bound, plan.log.high_watermark)
    for source in sources:
        keep_ends(plan.log, source.batches, producers, end_offset=end)


def decide_transactions(
    groups: Sequence[Sequence[Source]], plan: ReadablePlan, indexes: TransactionIndexes
) -> tuple[tuple[AbortedTransaction, ...], ...]:
    """Set `discard` and `empty_marker` of all batches; return as `decide_fates`. It needs no batch
    but those of transactions, and the last one of each segment.
    """
    sources = [source for group in groups for source in group]
    if not any(source.attributes & UNMAPPED for source in sources):
        return ((),) * len(groups)
    held = held_markers(sources, plan.removal.data)
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
            _set_fates(batches, can_discard, plan.now_ms, plan.removal.end)
            keep_held(batches, held)
        entries.append(tuple(stay))
    return tuple(entries)


@kernel
def _set_fates(batches: Any, can_discard: Any, now_ms: int, removable_end: int) -> None:
    """Set `discard` and `empty_marker` of each batch."""
    for row in range(len(batches)):
        batch, free = batches[row], can_discard[row]
        batch.discard = rules.should_discard_batch(batch, free, now_ms, removable_end)
        batch.empty_marker = rules.is_marker_of_empty_transaction(batch, free)
