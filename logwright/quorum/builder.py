"""A state of the metadata log, built of its batches in order.

1. All in a snapshot was committed (KIP-630).
2. A leader begins its epoch with a control batch. Its controller writes its first record once that
   batch, and all before it, is committed (KafkaRaftClient.maybeFireLeaderChange). So a record of an
   epoch proves that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from logwright.errors import CorruptBatch, CorruptLogError
from logwright.format.control import ControlType
from logwright.metadata.files import Snapshot
from logwright.metadata.image import At, Image
from logwright.metadata.records import MetadataRecord, decode_metadata_record
from logwright.quorum.batches import ReadBatch
from logwright.quorum.control import parse_kraft_version, parse_voters
from logwright.quorum.kinds import CONTROL, Tally, api_key
from logwright.quorum.model import EpochStart, Proof, State, Voter
from logwright.units import Offset, TimestampMs

_START: Final = Offset(0)
_NO_TIME: Final = TimestampMs(0)
_NOTHING: Final = "nothing"


@dataclass(slots=True)
class Builder:
    """A state under construction.

    Attributes:
        proof: what another directory proves to be committed, None if nothing.
    """

    proof: Proof | None = None
    image: Image = field(default_factory=Image)
    end_offset: Offset = _START
    epoch: int = 0
    committed_end: Offset = _START
    committed_by: str = _NOTHING
    kraft_version: int = 0
    voters: tuple[Voter, ...] = ()
    timestamp_ms: TimestampMs = _NO_TIME
    _epochs: list[EpochStart] = field(default_factory=list)
    _tally: Tally = field(default_factory=Tally)
    _epoch_end: Offset | None = None
    """End of the first batch of the epoch, until a record of the epoch follows it."""

    def __post_init__(self) -> None:
        if self.proof is not None:
            self.committed_end, self.committed_by = self.proof

    def load(self, batch: ReadBatch, snapshot: Snapshot) -> None:
        """Apply a batch of a snapshot.

        Raises:
            LogwrightError: a record is inconsistent or of an unknown version.
        """
        self.timestamp_ms = batch.header.max_timestamp
        if batch.header.is_control:
            self._control(batch)
            return
        for raw in batch.records:
            at = At(snapshot.end_offset, raw.timestamp_ms, is_snapshot=True)
            self._apply(decode_metadata_record(raw.value), at)

    def loaded(self, snapshot: Snapshot) -> None:
        """Note that a snapshot is complete: all of it was committed."""
        self.end_offset, self.epoch = snapshot.end_offset, snapshot.epoch
        self._epochs = [EpochStart(snapshot.epoch, Offset(snapshot.end_offset - 1))]
        if snapshot.end_offset > self.committed_end:
            self.committed_end, self.committed_by = snapshot.end_offset, snapshot.name

    def append(self, batch: ReadBatch) -> None:
        """Apply a batch of the log.

        Raises:
            CorruptBatch: its epoch cannot be right, or a value is malformed.
            CorruptLogError: a record is inconsistent.
            UnsupportedFormatError: a record has an unknown version.
        """
        epoch = batch.header.partition_leader_epoch
        self._check_epoch(batch)
        keys = [
            (raw.offset, CONTROL if batch.header.is_control else api_key(raw.value))
            for raw in batch.records
        ]
        if batch.header.is_control:
            self._control(batch)
        else:
            self._records(batch)
        if epoch > self.epoch:
            self._epochs.append(EpochStart(epoch, batch.header.base_offset))
        self.end_offset, self.epoch = batch.end_offset, epoch
        self.timestamp_ms = batch.header.max_timestamp
        self._tally.add(one for one in keys if one[0] >= self.committed_end)

    def _check_epoch(self, batch: ReadBatch) -> None:
        """Check that a batch begins an epoch, or is of the one that has begun."""
        epoch, base = batch.header.partition_leader_epoch, batch.header.base_offset
        if epoch < self.epoch or batch.begins_epoch != (epoch > self.epoch):
            raise CorruptBatch(f"the batch at offset {base} has epoch {epoch} after {self.epoch}.")
        if batch.begins_epoch:
            self._epoch_end = batch.end_offset

    def _records(self, batch: ReadBatch) -> None:
        records = [(decode_metadata_record(one.value), one) for one in batch.records]
        for record, raw in records:
            self._apply(record, At(raw.offset, raw.timestamp_ms))
        if self._epoch_end is not None:
            epoch = batch.header.partition_leader_epoch
            self._commit(self._epoch_end, f"a record of the leader of epoch {epoch}")
            self._epoch_end = None

    def _apply(self, record: MetadataRecord | None, at: At) -> None:
        try:
            if record is not None:
                self.image.apply(record, at)
        except CorruptBatch as error:  # the image is spoilt: part of the batch is applied
            raise CorruptLogError(f"the record at {at.offset}: {error.problem}") from error

    def _commit(self, end: Offset, by: str) -> None:
        if end > self.committed_end:
            self.committed_end, self.committed_by = end, by
            self._tally.clear()

    def _control(self, batch: ReadBatch) -> None:
        for kind, value in batch.controls:
            if kind is ControlType.KRAFT_VERSION:
                self.kraft_version = parse_kraft_version(value)
            elif kind is ControlType.KRAFT_VOTERS:
                self.voters = parse_voters(value)

    def state(self, snapshot: Snapshot | None) -> State:
        """Return what was built."""
        return State(
            snapshot=None if snapshot is None else snapshot.name,
            snapshot_end=_START if snapshot is None else snapshot.end_offset,
            end_offset=self.end_offset,
            epoch=self.epoch,
            epochs=tuple(self._epochs),
            committed_end=min(self.committed_end, self.end_offset),
            committed_by=self.committed_by,
            uncertain=self._tally.counts(),
            image=self.image,
            kraft_version=self.kraft_version,
            voters=self.voters,
            timestamp_ms=self.timestamp_ms,
        )
