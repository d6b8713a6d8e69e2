"""What a broker writes for producers next to their batches: transaction indexes and snapshots.

The rules of ProducerStateManager (4.3.0) on an append, as plainly as can be; the package's own
replay is not used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from logwright.format.batch import MAGIC, MAGIC_AT, RecordBatch, parse_batch
from logwright.format.control import parse_control_key, parse_marker_value
from logwright.format.index import AbortedTransaction
from logwright.format.record import read_records
from logwright.format.snapshot import ProducerEntry
from logwright.units import Offset


@dataclass(slots=True)
class _Producer:
    epoch: int
    last_sequence: int = -1
    last_offset: int = -1
    delta: int = 0
    timestamp_ms: int = -1
    coordinator_epoch: int = -1
    open_since: int | None = None


@dataclass(slots=True)
class ProducerState:
    """The producers of a log while its batches are appended.

    Attributes:
        aborted: the transactions that an ABORT marker ended, in the order of the markers.
    """

    producers: dict[int, _Producer] = field(default_factory=dict)
    aborted: list[AbortedTransaction] = field(default_factory=list)

    def append(self, contents: Iterable[bytes]) -> None:
        """Append whole batches; those of old formats have no producer."""
        for content in contents:
            if content[MAGIC_AT] < MAGIC:
                continue
            batch = parse_batch(content)
            if batch.has_producer_id:
                self._append(batch, content)

    def _append(self, batch: RecordBatch, content: bytes) -> None:
        producer = self.producers.setdefault(batch.producer_id, _Producer(batch.producer_epoch))
        if producer.epoch != batch.producer_epoch:
            producer.epoch = batch.producer_epoch
            producer.last_sequence = producer.last_offset = -1
            producer.delta = 0
        if batch.is_control:
            for record in read_records(batch, content):
                self._end(batch, producer, parse_control_key(record.key).name == "ABORT")
                producer.timestamp_ms = record.timestamp_ms
                producer.coordinator_epoch = parse_marker_value(record.value)
            return
        producer.last_sequence = batch.last_sequence
        producer.last_offset = batch.last_offset
        producer.delta = batch.last_offset_delta
        producer.timestamp_ms = batch.max_timestamp
        if batch.is_transactional and producer.open_since is None:
            producer.open_since = batch.base_offset

    def _end(self, marker: RecordBatch, producer: _Producer, aborts: bool) -> None:
        first, producer.open_since = producer.open_since, None
        if first is None or not aborts:
            return
        still_open = [p.open_since for p in self.producers.values() if p.open_since is not None]
        self.aborted.append(
            AbortedTransaction(
                version=0,
                producer_id=marker.producer_id,
                first_offset=Offset(first),
                last_offset=marker.last_offset,
                last_stable_offset=Offset(min([*still_open, marker.last_offset + 1])),
            )
        )

    def entries(self) -> Sequence[ProducerEntry]:
        """For a snapshot."""
        return [
            ProducerEntry(
                producer_id=number,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_offset=producer.last_offset,
                offset_delta=producer.delta,
                timestamp_ms=producer.timestamp_ms,  # type: ignore[arg-type]
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_first_offset=None
                if producer.open_since is None
                else Offset(producer.open_since),
            )
            for number, producer in sorted(self.producers.items())
        ]
