"""The state of a log's producers as a broker loads it (ProducerStateManager, Kafka 4.3.0).

1. The newest producer snapshot within the log is where the state starts; one that cannot be read
   is ignored, as when a broker loads the log. Without any snapshot a cleanly stopped log has no
   producers.
2. The batches from there to the log's end are replayed. After a clean stop there are none.
3. Open transactions give the last stable offset. Producers that have been idle for
   ``producer.id.expiration.ms`` are forgotten.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.errors import CorruptBatch, CorruptProducerSnapshot, UnsupportedFormatError
from logwright.format.batch import (
    CONTROL,
    HEADER_BYTES,
    TRANSACTIONAL,
    RecordBatch,
    parse_batch,
)
from logwright.format.control import ControlType, parse_control_key, parse_marker_value
from logwright.format.index import AbortedTransaction
from logwright.format.names import LOG, SNAPSHOT, segment_file_name
from logwright.format.record import read_first_record
from logwright.format.scan import scan_segment
from logwright.format.snapshot import ProducerEntry, parse_snapshot
from logwright.log.model import Segment
from logwright.place.mapped import map_file
from logwright.place.model import OpenDir, PlaceOrText, below
from logwright.units import Offset, TimestampMs

_LOG = logging.getLogger(__name__)
_base_offset: Final = attrgetter("base_offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class Producers:
    """The producers of a log.

    Attributes:
        entries: by producer id, ascending.
        completed: (first offset, marker's offset) of the transactions whose end was replayed.
    """

    entries: tuple[ProducerEntry, ...] = ()
    completed: tuple[tuple[Offset, Offset], ...] = ()

    def last_stable_offset(self, high_watermark: Offset) -> Offset:
        """Return the offset below which everything is decided: there, no transaction is open, or
        ended at or above the high watermark.
        """
        undecided = [
            entry.current_txn_first_offset
            for entry in self.entries
            if entry.current_txn_first_offset is not None
        ]
        undecided += [first for first, marker in self.completed if marker >= high_watermark]
        return min([high_watermark, *undecided])


def active_producers(
    entries: Sequence[ProducerEntry], *, now_ms: TimestampMs, expiration_ms: int
) -> tuple[ProducerEntry, ...]:
    """Return the producers that a broker would still know: with an open transaction, or active
    within ``producer.id.expiration.ms``.
    """
    return tuple(
        entry
        for entry in entries
        if entry.current_txn_first_offset is not None or now_ms - entry.timestamp_ms < expiration_ms
    )


def load_producers(
    directory: OpenDir,
    segments: Sequence[Segment],
    snapshot_offsets: Sequence[Offset],
    *,
    log_start_offset: Offset,
    log_end_offset: Offset,
    stopped: bool = True,
) -> Producers:
    """Return the producer state at the log's end. Effects: reads the newest snapshot, and the
    batches after it.

    Args:
        stopped: cleanly, so that a log without a snapshot has no producers. A running one without
            a snapshot has not rolled yet: all of it is replayed.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile: a segment that is replayed is refused.
    """
    if stopped and not snapshot_offsets:
        return Producers()
    start, entries = _newest_snapshot(
        directory, segments, snapshot_offsets, log_start_offset, log_end_offset
    )
    if start >= log_end_offset:
        return Producers(entries=entries)
    replayed = Replay(entries={entry.producer_id: entry for entry in entries})
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    for segment, end in zip(segments, ends, strict=True):
        if end > start:
            _replay_segment(directory.path, segment, end, start, replayed)
    return Producers(
        entries=tuple(entry for _, entry in sorted(replayed.entries.items())),
        completed=tuple(replayed.completed),
    )


def _newest_snapshot(
    directory: OpenDir,
    segments: Sequence[Segment],
    snapshot_offsets: Sequence[Offset],
    log_start_offset: Offset,
    log_end_offset: Offset,
) -> tuple[Offset, tuple[ProducerEntry, ...]]:
    """Return (offset, producers) of the newest usable snapshot; the log start and none if there is
    none.
    """
    newest = max(snapshot_offsets, default=None)
    for offset in reversed(snapshot_offsets):
        if not log_start_offset < offset <= log_end_offset:
            continue
        may_be_stray = offset < segments[-1].base_offset or offset != newest
        if may_be_stray and not _is_base(segments, offset):
            continue
        name = segment_file_name(offset, SNAPSHOT)
        try:
            content = directory.read(name)
            return offset, parse_snapshot(content, directory.file(name))
        except (CorruptProducerSnapshot, UnsupportedFormatError) as error:
            _LOG.warning("producer snapshot not used: %s", error)
    return log_start_offset, ()


def _is_base(segments: Sequence[Segment], offset: Offset) -> bool:
    """Return whether a segment begins at an offset."""
    number = bisect_left(segments, offset, key=_base_offset)
    return number < len(segments) and segments[number].base_offset == offset


def first_batch_at(
    directory: PlaceOrText, segments: Sequence[Segment], offset: Offset, *, log_end_offset: Offset
) -> Offset:
    """Return the base offset of the batch that contains an offset, or of the next one; the log's
    end without one. Effects: reads one whole segment, or several if some are empty.

    Raises:
        CorruptBatch, UnsupportedFormatError, UnreadableFile: a segment that is read is refused.
    """
    ends = [*(segment.base_offset for segment in segments[1:]), log_end_offset]
    for segment, end in zip(segments, ends, strict=True):
        if end <= offset or not segment.log_bytes:
            continue
        path = below(directory, segment_file_name(segment.base_offset, LOG))
        data = map_file(path, expected_bytes=segment.log_bytes)
        rows = scan_segment(
            data, path, base_offset=segment.base_offset, end_offset=end, headers_only=True
        )
        reaching = np.flatnonzero(rows["last_offset"] >= offset)
        if reaching.size:
            return Offset(int(rows["base_offset"][reaching[0]]))
    return log_end_offset


@dataclass(slots=True, kw_only=True)
class Replay:
    """The producers while batches are replayed.

    Attributes:
        entries: by producer id.
        completed: see `Producers`.
        aborted: the transaction index entries of the aborted transactions.
        ongoing: producer by first offset of its open transaction; as in Kafka, of two that begin
            at one offset (which only damage makes) the later one counts.
    """

    entries: dict[int, ProducerEntry]
    completed: list[tuple[Offset, Offset]] = field(default_factory=list)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    ongoing: dict[Offset, int] = field(init=False)

    def __post_init__(self) -> None:
        self.ongoing = {
            entry.current_txn_first_offset: producer_id
            for producer_id, entry in self.entries.items()
            if entry.current_txn_first_offset is not None
        }


def _replay_segment(
    directory: PlaceOrText, segment: Segment, end: Offset, start: Offset, replayed: Replay
) -> None:
    path = below(directory, segment_file_name(segment.base_offset, LOG))
    data = map_file(path, expected_bytes=segment.log_bytes)
    rows = scan_segment(
        data, path, base_offset=segment.base_offset, end_offset=end, headers_only=True
    )
    replay_batches(replayed, data, rows[rows["last_offset"] >= start])


def replay_batches(replayed: Replay, data: NDArray[np.uint8], rows: NDArray[np.void]) -> None:
    """Replay BATCH rows in log order, by the rules of replication: sequences are not checked.

    Between two markers all that counts of a producer's batches is the last one, and where its
    transaction began.

    Raises:
        CorruptBatch, UnsupportedFormatError: a control batch cannot be read; with its position.
    """
    rows = rows[rows["producer_id"] >= 0]
    begin = 0
    for at in [*np.flatnonzero(rows["attributes"] & CONTROL).tolist(), len(rows)]:
        _replay_data(replayed, data, rows[begin:at])
        if at < len(rows):
            content = _content(data, rows[at])
            try:
                _replay_marker(replayed, parse_batch(content), content)
            except (CorruptBatch, UnsupportedFormatError) as error:
                position = int(rows[at]["position"])
                raise type(error)(error.problem, position=position) from error
        begin = at + 1


def _content(data: NDArray[np.uint8], row: np.void) -> bytes:
    return data[int(row["position"]) : int(row["position"] + row["size"])].tobytes()


def _replay_data(replayed: Replay, data: NDArray[np.uint8], rows: NDArray[np.void]) -> None:
    if not len(rows):
        return
    transactional = rows[(rows["attributes"] & TRANSACTIONAL) != 0]
    ids, begins = np.unique(transactional["producer_id"], return_index=True)
    opened = dict(zip(ids.tolist(), transactional["base_offset"][begins].tolist(), strict=True))
    for begin in np.sort(begins).tolist():
        producer_id = int(transactional[begin]["producer_id"])
        known = replayed.entries.get(producer_id)
        if known is None or known.current_txn_first_offset is None:
            replayed.ongoing[opened[producer_id]] = producer_id
    _, from_end = np.unique(rows["producer_id"][::-1], return_index=True)
    for row in rows[len(rows) - 1 - from_end]:
        batch = parse_batch(data[int(row["position"]) :][:HEADER_BYTES].tobytes())
        entry = _entry_of(replayed, batch)
        first = entry.current_txn_first_offset
        replayed.entries[batch.producer_id] = replace(
            entry,
            last_sequence=batch.last_sequence,
            last_offset=batch.last_offset,
            offset_delta=batch.last_offset - batch.base_offset,
            timestamp_ms=batch.max_timestamp,
            current_txn_first_offset=opened.get(batch.producer_id) if first is None else first,
        )


def _entry_of(replayed: Replay, batch: RecordBatch) -> ProducerEntry:
    """Return the entry of a batch's producer; another epoch discards its batches."""
    entry = replayed.entries.get(batch.producer_id) or _unknown(batch)
    if entry.producer_epoch == batch.producer_epoch:
        return entry
    return replace(
        entry,
        producer_epoch=batch.producer_epoch,
        last_sequence=-1,
        last_offset=-1,
        offset_delta=0,
    )


def _replay_marker(replayed: Replay, batch: RecordBatch, content: bytes) -> None:
    if batch.records_count == 0:  # emptied by a cleaning: its producer is known, and no more
        nothing = replace(_unknown(batch), producer_epoch=-1)
        replayed.entries.setdefault(batch.producer_id, nothing)
        return
    marker = read_first_record(batch, content)
    kind = parse_control_key(marker.key)
    if not kind.ends_transaction:
        return
    entry = _entry_of(replayed, batch)
    first = entry.current_txn_first_offset
    if first is not None:
        replayed.completed.append((first, batch.last_offset))
        if kind is ControlType.ABORT:
            replayed.aborted.append(_aborted(replayed, batch, first))
        replayed.ongoing.pop(first, None)
    replayed.entries[batch.producer_id] = replace(
        entry,
        timestamp_ms=marker.timestamp_ms,
        coordinator_epoch=parse_marker_value(marker.value),
        current_txn_first_offset=None,
    )


def _aborted(replayed: Replay, batch: RecordBatch, first: Offset) -> AbortedTransaction:
    """Return the entry of an aborted transaction. Its last stable offset is where the earliest open
    transaction of another producer begins.
    """
    others = (one for one, producer in replayed.ongoing.items() if producer != batch.producer_id)
    return AbortedTransaction(
        version=0,
        producer_id=batch.producer_id,
        first_offset=first,
        last_offset=batch.base_offset,
        last_stable_offset=min(others, default=Offset(batch.base_offset + 1)),
    )


def _unknown(batch: RecordBatch) -> ProducerEntry:
    return ProducerEntry(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        last_sequence=-1,
        last_offset=-1,
        offset_delta=0,
        timestamp_ms=TimestampMs(-1),
        coordinator_epoch=-1,
        current_txn_first_offset=None,
    )
