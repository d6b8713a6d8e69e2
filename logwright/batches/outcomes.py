"""How transactions ended, by their markers in the log. A transaction index is a hint: it is checked
against the markers here.

1. A marker ends all transactional data of its producer since the producer's marker before it. As
   long as such data is in the log, its marker is too, and so is the marker before it if it has
   data left.
2. An entry of a transaction index names an ABORT marker of its segment. It begins after the
   producer's marker before that one, and not after the first data that is in the log. Its last
   stable offset says nothing: a follower appends what it fetched as a whole, so that transactions
   which began after the marker count, and those of the same producer do not
   (ProducerStateManager.lastStableOffset, Kafka 4.4.0).
3. Every ABORT marker with data in the log has an entry in its segment's index.
4. Below the first uncleanable offset every transaction has ended.

Data below the log start offset is ignored: Kafka drops entries that end there, then the
markers, and keeps the data.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.batches.source import Source, open_source
from logwright.errors import CorruptIndex, CorruptProducerSnapshot
from logwright.format.batch import CONTROL, TRANSACTIONAL
from logwright.format.names import LOG, SNAPSHOT, TXNINDEX, segment_file_name
from logwright.format.scan import ABORT, COMMIT
from logwright.place.mapped import MappedFiles
from logwright.units import INT64_MAX

if TYPE_CHECKING:
    from logwright.format.index import AbortedTransaction
    from logwright.log.model import ReadableLog, Segment

_NONE: Final = -1
_REBUILD: Final = (
    "The log was left untouched. Remove this file and the segment's .index: `logwright recover`, or"
    " a broker at its start, then rebuilds both from the log."
)
_FORGET: Final = (
    "The log was left untouched. Remove the partition's .snapshot files: `logwright recover` then"
    " makes new ones from the log."
)


class Ended(NamedTuple):
    """Transactions by their markers, int64[n] each, bool[n] `aborted`, ascending by producer and
    marker.

    Attributes:
        previous: offset of the producer's marker before it, -1 without one.
        begin, first: base and last offset of the first batch of its data that is in the log and
            has records; the largest int64 without one.
        marker: offset of its marker; the largest int64 of those that have none yet.
    """

    producer_id: NDArray[np.int64]
    previous: NDArray[np.int64]
    begin: NDArray[np.int64]
    first: NDArray[np.int64]
    marker: NDArray[np.int64]
    aborted: NDArray[np.bool_]


def is_end(batches: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which batches, BATCH[n], are markers that end a transaction; bool[n]."""
    kind = batches["control_type"]
    control = ((batches["attributes"] & CONTROL) != 0) & (batches["count"] > 0)
    result: NDArray[np.bool_] = (
        control & ((kind == ABORT) | (kind == COMMIT)) & (batches["producer_id"] >= 0)
    )
    return result


def is_data(batches: NDArray[np.void], log_start_offset: int) -> NDArray[np.bool_]:
    """Return which batches are data of transactions, with records, at or above the log start
    offset; bool[n].
    """
    kind = batches["attributes"] & (CONTROL | TRANSACTIONAL)
    shown = (batches["count"] > 0) & (batches["last_offset"] >= log_start_offset)
    result: NDArray[np.bool_] = (kind == TRANSACTIONAL) & shown & (batches["producer_id"] >= 0)
    return result


def transactions(batches: NDArray[np.void], log_start_offset: int) -> Ended:
    """Return the transactions of batches in log order: those that ended, and those that are open
    after the last marker of their producer. Pure.
    """
    rows = batches[is_end(batches) | is_data(batches, log_start_offset)]
    rows = rows[np.argsort(rows["producer_id"], kind="stable")]
    ids, ends = rows["producer_id"], is_end(rows)
    begins_producer = np.ones(len(rows), dtype=np.bool_)
    begins_producer[1:] = ids[1:] != ids[:-1]
    begins = begins_producer.copy()
    begins[1:] |= ends[:-1]
    starts = np.flatnonzero(begins)
    if not len(starts):
        nothing = np.zeros(0, dtype=np.int64)
        return Ended(nothing, nothing, nothing, nothing, nothing, nothing.astype(np.bool_))
    last = np.append(starts[1:], len(rows)) - 1
    ended, has_data = ends[last], ~ends[starts]
    marker = np.where(ended, rows["base_offset"][last], INT64_MAX)
    previous = np.full(len(starts), _NONE, dtype=np.int64)
    follows = np.flatnonzero(~begins_producer[starts])
    previous[follows] = marker[follows - 1]
    return Ended(
        producer_id=ids[starts],
        previous=previous,
        begin=np.where(has_data, rows["base_offset"][starts], INT64_MAX),
        first=np.where(has_data, rows["last_offset"][starts], INT64_MAX),
        marker=marker,
        aborted=ended & (rows["control_type"][last] == ABORT),
    )


def visited(log: ReadableLog, sources: Sequence[Source]) -> Iterator[tuple[Segment, Source]]:
    """Yield the segments of `sources` that have transactions, and those between and after them in
    which such transactions continue or end. Effects: maps the latter, and reads their headers.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: see `open_source`.
    """
    by_base = {source.base_offset: source for source in sources}
    files = MappedFiles()
    is_open: set[int] = set()
    ends = [following.base_offset for _, following in pairwise(log.segments)]
    for segment, end in zip(log.segments, [*ends, log.log_end_offset], strict=True):
        source = by_base.get(segment.base_offset)
        if source is None:
            if not is_open or not segment.log_bytes:
                continue
            source = open_source(log.readable, segment, files, end_offset=end, first_ordinal=0)
        if source.attributes & (CONTROL | TRANSACTIONAL):
            _follow(is_open, source.batches, log.log_start_offset)
            yield segment, source


def _follow(is_open: set[int], batches: NDArray[np.void], log_start_offset: int) -> None:
    """Set `is_open` to the producers that have a transaction open after these batches."""
    rows = batches[is_end(batches) | is_data(batches, log_start_offset)][::-1]
    ids, at = np.unique(rows["producer_id"], return_index=True)
    ends = is_end(rows[at])
    is_open.difference_update(ids[ends].tolist())
    is_open.update(ids[~ends].tolist())


def aborted_intervals(log: ReadableLog, sources: Sequence[Source]) -> NDArray[np.int64]:
    """Return int64[n, 3], ascending: producer id, first offset and marker's offset of each aborted
    transaction, as far as `sources` show, by the markers alone: the producer's transactional data
    within it is aborted. Effects and errors: see `visited`.
    """
    ends = [source.batches[is_end(source.batches)] for _, source in visited(log, sources)]
    if not ends:
        return np.zeros((0, 3), dtype=np.int64)
    ended = transactions(np.concatenate(ends), log.log_start_offset)
    columns = np.stack([ended.producer_id, ended.previous + 1, ended.marker], axis=1)
    return columns[ended.aborted & (ended.marker >= log.log_start_offset)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entries:
    """The entries of some segments' transaction indexes.

    Attributes:
        by_base: those of each segment, by its base offset.
    """

    log: ReadableLog
    by_base: Mapping[int, Sequence[AbortedTransaction]]

    def refuse(self, base: int, number: int, problem: str) -> CorruptIndex:
        """Return the error for a wrong entry."""
        path = self.log.directory / segment_file_name(base, TXNINDEX)
        return CorruptIndex(f"entry {number} {problem}.", path=path, remedy=_REBUILD)


def require_agreement(
    log: ReadableLog,
    sources: Sequence[Source],
    by_base: Mapping[int, Sequence[AbortedTransaction]],
    *,
    end_offset: int,
) -> None:
    """Require that the transaction indexes agree with the markers. Effects: see `visited`.

    Args:
        log: as observed.
        sources: all of its segments below `end_offset`.
        by_base: entries of each segment's transaction index, by base offset, without those that
            end below the log start offset.
        end_offset: of what is cleaned.

    Raises:
        CorruptIndex: an entry is wrong or missing.
        CorruptProducerSnapshot: a transaction is open that the snapshots do not have.
        CorruptBatch, UnsupportedFormatError, UnreadableFile, StalePlan: see `visited`.
    """
    parts = list(visited(log, sources))
    entries = _Entries(log=log, by_base=by_base)
    batches = [source.batches for _, source in parts]
    ended = transactions(np.concatenate(batches), log.log_start_offset) if batches else None
    if ended is not None:
        _require_all_ended(log, ended, end_offset)
    known = {} if ended is None else _aborted_by_marker(log, ended)
    here = {segment.base_offset for segment, _ in parts} | {each.base_offset for each in sources}
    bases = [segment.base_offset for segment in log.segments]
    for base, listed in by_base.items():
        for number, entry in enumerate(listed):
            if base in here:
                if bases[bisect_right(bases, entry.last_offset) - 1] != base:
                    raise entries.refuse(base, number, "names a marker of another segment")
                _require_marker(entries, base, number, entry, known)
            elif entry.first_offset < end_offset and ended is not None:
                _require_no_data(entries, base, number, entry, ended)
    _require_entries(entries, bases, known)


def outdated_snapshot(log: ReadableLog, problem: str) -> CorruptProducerSnapshot:
    """Return the error for a newest producer snapshot that contradicts the log."""
    newest = max(log.snapshot_offsets, default=log.log_end_offset)
    path = log.directory / segment_file_name(newest, SNAPSHOT)
    return CorruptProducerSnapshot(f"{problem}.", path=path, remedy=_FORGET)


class _Aborted(NamedTuple):
    """An aborted transaction, see `Ended`."""

    previous: int
    first: int


def _aborted_by_marker(log: ReadableLog, ended: Ended) -> dict[tuple[int, int], _Aborted]:
    """Return the aborted transactions by producer and marker."""
    rows = np.flatnonzero(ended.aborted & (ended.marker >= log.log_start_offset))
    columns = (ended.producer_id, ended.marker, ended.previous, ended.first)
    return {
        (producer, marker): _Aborted(*rest)
        for producer, marker, *rest in zip(
            *(column[rows].tolist() for column in columns), strict=True
        )
    }


def _require_all_ended(log: ReadableLog, ended: Ended, end_offset: int) -> None:
    is_open = (ended.marker == INT64_MAX) & (ended.begin < end_offset)
    for row in np.flatnonzero(is_open)[:1]:
        raise outdated_snapshot(
            log,
            f"it does not know of the transaction that producer {ended.producer_id[row]} has open"
            f" from offset {ended.begin[row]} on",
        )


def _require_marker(
    entries: _Entries,
    base: int,
    number: int,
    entry: AbortedTransaction,
    known: Mapping[tuple[int, int], _Aborted],
) -> None:
    marker = known.get((entry.producer_id, entry.last_offset))
    if marker is None:
        raise entries.refuse(base, number, "names no ABORT marker of its producer in the log")
    if entry.first_offset <= marker.previous:
        raise entries.refuse(
            base, number, f"begins before the producer's marker at {marker.previous}"
        )
    if entry.first_offset > marker.first:
        raise entries.refuse(base, number, f"begins after its first data, up to {marker.first}")


def _require_no_data(
    entries: _Entries, base: int, number: int, entry: AbortedTransaction, ended: Ended
) -> None:
    """Require that an entry after the visited segments concerns no data of the log."""
    own = ended.producer_id == entry.producer_id
    if (own & (ended.marker >= entry.first_offset)).any():
        raise entries.refuse(base, number, "begins before a transaction that has ended earlier")


def _require_entries(
    entries: _Entries,
    bases: Sequence[int],
    known: Mapping[tuple[int, int], _Aborted],
) -> None:
    """Require an entry for each ABORT marker with data, in the index of the marker's segment."""
    listed = {
        (base, entry.producer_id, entry.last_offset)
        for base, some in entries.by_base.items()
        for entry in some
    }
    for (producer, marker), transaction in known.items():
        base = bases[bisect_right(bases, marker) - 1]
        if transaction.first != INT64_MAX and (base, producer, marker) not in listed:
            raise CorruptIndex(
                f"the transaction that producer {producer} aborted at {marker} has no entry, and"
                f" its data is in {segment_file_name(base, LOG)} or before.",
                path=entries.log.directory / segment_file_name(base, TXNINDEX),
                remedy=_REBUILD,
            )
