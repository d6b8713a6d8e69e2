"""Simulate how Kafka loads a partition, without changing anything (LogLoader.load, 4.3.0).

1. Indexes without a log are removed.
2. A segment without an offset index, or with a wrong transaction index, is recovered. One without
   a time index gets an empty one. Without --like-kafka the other indexes are checked too, and a
   segment whose time index is missing is recovered.
3. Without the clean-shutdown marker every segment from the recovery point on is recovered: its
   batches are checked, it is cut before the first that is not whole, and all segments after it are
   dropped. With the marker, and without --like-kafka, the last segment is recovered if its tail is
   torn.
4. A log that ends below its start offset is dropped and starts again there. A log without segments
   gets an empty one at its start offset.
   Kafka forgets the producers if an index is rebuilt after a clean stop; without --like-kafka the
   snapshots stay.
5. A segment whose offsets overflow is split (`splitting`), and the pass that found it starts again.
6. Leader epochs and producer snapshots follow from the remaining batches.
7. Offsets are looked up by the offset indexes. Without --like-kafka an index that misleads such a
   look-up is built again (`lookup`).

Kafka empties a segment whose offsets are out of order, if it notices that (only when it makes an
index entry). Without --like-kafka the segment is cut before the first batch that is out of order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from logwright.errors import CorruptBatch
from logwright.format.checkpoints import LeaderEpoch
from logwright.format.names import (
    INDEX,
    LOG,
    TIMEINDEX,
    TXNINDEX,
    segment_file_name,
)
from logwright.format.reindex import build_indexes
from logwright.format.valid import ValidBatches
from logwright.log.kinds import file_kinds
from logwright.place.mapped import map_file
from logwright.recovery.epochs import assign_batches, epochs_of, trim
from logwright.recovery.indexes import index_problem
from logwright.recovery.lookup import (
    FAILS,
    MISLEADING,
    first_unstable_offset,
    last_entry_misleads,
    misled_at,
    next_offset,
)
from logwright.recovery.model import Action, Finding, Observed
from logwright.recovery.producers import ProducerState, SnapshotFiles
from logwright.recovery.segments import ENDS, LoadedSegment, OffsetOverflow
from logwright.recovery.splitting import index_transactions, overflows, parts_of
from logwright.units import INT64_MAX, Offset, TimestampMs


@dataclass(slots=True, kw_only=True)
class Loading:
    """A loading in progress.

    Attributes:
        files: final name to name on disk, after the leftovers are handled.
        segments: those loaded so far, ascending.
        dropped: those that were dropped, ascending.
        split: those that were replaced by others, ascending.
        created: base offset of the empty segment that was made.
    """

    observed: Observed
    files: Mapping[str, str]
    like_kafka: bool
    now_ms: TimestampMs
    expiration_ms: int
    index_interval_bytes: int
    segments: list[LoadedSegment] = field(default_factory=list)
    dropped: list[LoadedSegment] = field(default_factory=list)
    split: list[LoadedSegment] = field(default_factory=list)
    created: int | None = None
    orphans: tuple[str, ...] = ()
    epochs: tuple[LeaderEpoch, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    snapshots: SnapshotFiles = field(init=False)
    end_offset: int = 0
    first_unstable_offset: int | None = None

    def __post_init__(self) -> None:
        self.epochs = self.observed.epochs or ()
        self.snapshots = self._snapshots_on_disk()

    def _snapshots_on_disk(self) -> SnapshotFiles:
        return SnapshotFiles.of(self.observed.directory, self.files)

    @property
    def log_start_offset(self) -> int:
        """The checkpointed one, or the first segment's if that is larger."""
        first = self.segments[0].base_offset if self.segments else self.created
        return max(self.observed.log_start_offset, first or 0)

    def run(self) -> None:
        """Run it. Effects: reads indexes and snapshots, and the logs that are recovered.

        Raises:
            CorruptBatch: Kafka's loading would fail on it, or a control batch cannot be read.
            UnsupportedFormatError: a batch of another format, or no offset is left.
            UnreadableFile, StalePlan: a file cannot be read, or changed.
        """
        self._remove_orphans()
        bases = sorted(int(name[:20]) for name in self.files if name.endswith(LOG))
        for base, following in pairwise([*bases, INT64_MAX]):
            self._open(base, following)
        if self.observed.clean_shutdown:
            self._recover_torn_tail()
        else:
            self._recover_unflushed()
        self._find_end()
        if self.observed.epochs_malformed:
            self.epochs = epochs_of(self.segments)
        self.epochs = trim(
            self.epochs,
            log_start_offset=self.observed.log_start_offset,
            log_end_offset=Offset(self.end_offset),
        )
        self._load_producers()
        self._look_up_unstable()

    def _remove_orphans(self) -> None:
        self.orphans = file_kinds(self.files).orphans
        if self.orphans:
            self._find("removed", self.orphans, "indexes without a log")

    def _open(self, base: int, following: int) -> None:
        """Open one segment, and recover it if its indexes say so (loadSegmentFiles)."""
        name = segment_file_name(base, LOG)
        source = self.files[name]
        stamp = self.observed.stamps[source]
        has = [segment_file_name(base, suffix) in self.files for suffix in _INDEXES]
        segment = LoadedSegment(
            base_offset=base,
            path=self.observed.directory / source,
            stamp=stamp,
            log_bytes=stamp.bytes,
            size=stamp.bytes,
            has_index=has[0],
            has_timeindex=has[1],
            has_txnindex=has[2],
            end_offset=None if self.like_kafka else following,
        )
        if not self.like_kafka and overflows(segment.path, base, following):
            self.segments += self._split(segment, following)
            return
        why = index_problem(segment, self._content, like_kafka=self.like_kafka)
        if why is not None:
            as_kafka = index_problem(segment, self._content, like_kafka=True) is not None
            try:
                refused_at = self._recover(segment, why, as_kafka=as_kafka)
            except OffsetOverflow as overflow:
                self._assign_epochs(overflow.found)
                self.segments += self._split(segment, following)
                return
            if refused_at is not None:
                why = "the offsets of the record batches do not ascend."
                raise CorruptBatch(why, path=segment.path, remedy=FAILS)
        elif not segment.has_timeindex:
            self._find("created", [segment_file_name(base, TIMEINDEX)], "it was missing")
        self.segments.append(segment)

    def _content(self, segment: LoadedSegment, suffix: str) -> bytes:
        name = self.files[segment_file_name(segment.base_offset, suffix)]
        return map_file(self.observed.directory / name).tobytes()

    def _recover_torn_tail(self) -> None:
        """Recover a torn tail despite the marker: after a clean stop Kafka reads no batch."""
        if self.like_kafka or not self.segments:
            return
        last = self.segments[-1]
        if last.recovered and last.split_from is None:
            return
        if not last.is_sound():
            self._recover(last, "its tail is torn, in spite of the clean-shutdown marker")
        elif not last.recovered and last_entry_misleads(last, self._content):
            self._recover(last, MISLEADING)

    def _recover_unflushed(self) -> None:
        """Recover what may not be flushed, from the beginning again after each split
        (LogLoader.retryOnOffsetOverflow).
        """
        while True:
            try:
                self._recover_from_point()
            except OffsetOverflow as overflow:
                self._assign_epochs(overflow.found)
                at = self.segments.index(overflow.segment)
                after = self.segments[at + 1 :]
                del self.segments[at:]
                self.segments += [*self._split(overflow.segment, INT64_MAX), *after]
                self.segments.sort(key=lambda segment: segment.base_offset)
            else:
                return

    def _recover_from_point(self) -> None:
        """Recover the segments from that of the recovery point on (LogLoader.recoverLog)."""
        point = self.observed.recovery_point
        bases = [segment.base_offset for segment in self.segments]
        first = max((n for n, base in enumerate(bases) if base <= point), default=0)
        for number in range(first, len(self.segments)):
            segment = self.segments[number]
            before = segment.size
            why = "no clean shutdown, and it is not below the recovery point"
            refused_at = self._recover(segment, why)
            if refused_at is not None:
                self._find_cut(segment, 0, "an offset does not ascend: the segment is emptied")
                segment.size, segment.aborted = 0, ()
            if segment.size < before:
                later = self.segments[number + 1 :]
                self._drop(later, f"segment {segment.base_offset} before it was cut")
                return

    def _recover(self, segment: LoadedSegment, why: str, *, as_kafka: bool = True) -> int | None:
        """Recover one segment (LogSegment.recover). Effects: reads it whole.

        Args:
            as_kafka: a broker recovers it, too, and takes no later snapshot then. Where it does
                not, it does not read what is before its snapshots.

        Returns:
            the row at which an index refused an entry; None if none did.
        """
        in_doubt = self.like_kafka or (as_kafka and not self.observed.clean_shutdown)
        snapshots = (
            self.snapshots if in_doubt else SnapshotFiles.of(self.observed.directory, self.files)
        )
        state = self._state_before(segment, snapshots)
        state.replay.aborted.clear()
        valid = segment.batches(check_crcs=True)
        refused_at = self._refused_at(segment, valid)
        rows = len(valid.batches) if refused_at is None else refused_at
        self._assign_epochs(valid, rows)
        state.append(valid, segment, rows)
        if not segment.recovered:
            names = [segment_file_name(segment.base_offset, suffix) for suffix in _INDEXES[:2]]
            self._find("rebuilt", names, why)
        segment.recovered = True
        segment.aborted = tuple(state.replay.aborted)
        # An existing index stays, even if a second recovery finds no entry for it.
        segment.has_txnindex |= bool(segment.aborted)
        if refused_at is not None:
            return refused_at
        if valid.valid_bytes < segment.size:
            self._find_cut(segment, valid.valid_bytes, ENDS[valid.end], valid)
            segment.size, segment.end = valid.valid_bytes, valid.end
        state.take_snapshot()
        return None

    def _assign_epochs(self, valid: ValidBatches, rows: int | None = None) -> None:
        self.epochs = assign_batches(self.epochs, valid.batches[:rows], valid.epochs[:rows])

    def _split(self, segment: LoadedSegment, following: int) -> list[LoadedSegment]:
        """Return the parts that replace a segment; `segments` has those before it. Effects: reads
        the segment, and the batches and snapshots that its producers depend on.
        """
        parts = parts_of(
            segment, present=self.files, following=following, like_kafka=self.like_kafka
        )
        index_transactions(
            parts,
            self._state_before(segment, self._snapshots_on_disk()),
        )
        self.split.append(segment)
        names = [segment_file_name(part.base_offset, LOG) for part in parts]
        own = segment_file_name(segment.base_offset, LOG)
        if parts[0].base_offset != segment.base_offset:
            self.snapshots.remove([segment.base_offset])
        reason = f"its offsets are too far from its base offset: now {', '.join(names)}"
        self._find("split", [own], reason, size=segment.size)
        return parts

    def _refused_at(self, segment: LoadedSegment, valid: ValidBatches) -> int | None:
        if not self.like_kafka:
            return None
        return build_indexes(
            valid.batches,
            base_offset=segment.base_offset,
            interval_bytes=self.index_interval_bytes,
        ).refused_at

    def _new_state(self, snapshots: SnapshotFiles) -> ProducerState:
        return ProducerState(snapshots, now_ms=self.now_ms, expiration_ms=self.expiration_ms)

    def _state_before(self, segment: LoadedSegment, snapshots: SnapshotFiles) -> ProducerState:
        """Return the producers at a segment's beginning; removes later ones from `snapshots`."""
        state = self._new_state(snapshots)
        state.load(
            self.segments,
            log_start_offset=self.observed.log_start_offset,
            end_offset=segment.base_offset,
            clean_shutdown=False,
        )
        return state

    def _find_end(self) -> None:
        """Set the log end offset; a log that ends below its start starts again there."""
        start = self.observed.log_start_offset
        if self.segments:
            last = self.segments[-1]
            self.end_offset = next_offset(last, self._content, like_kafka=self.like_kafka)
            if self.end_offset >= start:
                return
            reason = f"the log ends at {self.end_offset}, below its start offset {start}"
            self._drop(list(self.segments), reason)
            self.epochs = ()
            self.snapshots.remove(self.snapshots.numbers())
        self.created = self.end_offset = start
        names = [segment_file_name(start, suffix) for suffix in (LOG, INDEX, TIMEINDEX)]
        self._find("created", names, "there is no segment")

    def _look_up_unstable(self) -> None:
        """Recover the segments in which a broker's look-up of the first unstable offset fails.
        Their batches have leader epochs already.
        """
        epochs = self.epochs
        while (offset := self.first_unstable_offset) is not None:
            offset = max(offset, self.log_start_offset)
            segment = misled_at(self.segments, offset, self._content)
            if segment is None:
                break
            if self.like_kafka:
                raise CorruptBatch(f"{MISLEADING}.", path=segment.path, remedy=FAILS)
            self._recover(segment, MISLEADING)
            self._load_producers()
        self.epochs = epochs

    def _load_producers(self) -> None:
        started_anew = self.created is not None and bool(self.dropped)
        bases = [segment.base_offset for segment in self.segments] or [self.end_offset]
        self.snapshots.remove_strays(bases)
        state = self._new_state(self.snapshots)
        if started_anew:
            state.end_offset = self.end_offset
        state.load(
            self.segments,
            log_start_offset=self.log_start_offset,
            end_offset=self.end_offset,
            clean_shutdown=self.observed.clean_shutdown and self.like_kafka,
        )
        self.first_unstable_offset = first_unstable_offset(state.replay)

    def _drop(self, segments: Sequence[LoadedSegment], reason: str) -> None:
        for segment in segments:
            self.segments.remove(segment)
            self.dropped.append(segment)
            self.snapshots.remove([segment.base_offset])
            self._find(
                "dropped",
                [segment_file_name(segment.base_offset, LOG)],
                reason,
                first_offset=segment.base_offset,
                size=segment.size,
            )

    def _find_cut(
        self,
        segment: LoadedSegment,
        valid_bytes: int,
        reason: str,
        valid: ValidBatches | None = None,
    ) -> None:
        kept = None if valid is None or not len(valid.batches) else valid.batches[-1]
        offset = segment.base_offset if kept is None else int(kept["last_offset"]) + 1
        self._find(
            "cut",
            [segment_file_name(segment.base_offset, LOG)],
            reason,
            first_offset=offset,
            position=valid_bytes,
            size=segment.size - valid_bytes,
            is_empty=not segment.data()[valid_bytes:].any(),
        )

    def _find(
        self,
        action: Action,
        files: Sequence[str],
        reason: str,
        *,
        first_offset: int | None = None,
        position: int | None = None,
        size: int = 0,
        is_empty: bool = False,
    ) -> None:
        self.findings.append(
            Finding(
                action=action,
                files=tuple(files),
                reason=reason,
                first_offset=first_offset,
                position=position,
                bytes=size,
                is_empty=is_empty,
            )
        )


_INDEXES = (INDEX, TIMEINDEX, TXNINDEX)
