"""Offsets that a log had, and that no segment of it has now. Pure.

A broker loads such a log without a word (LogLoader, Kafka 4.3.0): indexes without a log go, and so
do snapshots and leader epochs after the end, and the checkpoints are lowered. They prove that the
log reached at least

====================================  ==========================================================
file                                  offset
====================================  ==========================================================
``replication-offset-checkpoint``     the high watermark: what is below it is committed
``recovery-point-offset-checkpoint``  the recovery point
a producer snapshot                   that in its name, where the log ended or a segment begins
                                      (ProducerStateManager.takeSnapshot)
an index without its ``.log``         its base offset, and the last one in its entries
``leader-epoch-checkpoint``           where its newest epoch begins (LeaderEpochFileCache.assign);
                                      after a clean stop its oldest one begins at the log start
                                      (LeaderEpochFileCache.truncateFromStartAsyncFlush)
====================================  ==========================================================

An index that an interrupted deletion or a merge of segments left proves nothing: its ``.log`` is
retired, or another segment reaches beyond its base offset. Gaps between segments prove nothing,
either: a compaction leaves some. Without a clean stop, what was after the high watermark may have
been truncated, in an order that leaves such files (UnifiedLog.truncateTo).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from logwright.format.names import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    SNAPSHOT,
    segment_file_name,
)
from logwright.units import Offset

_MOST_NAMED: Final = 3
BRING_BACK: Final = (
    "Bring the files back from where this directory came from, or look whether another replica has"
    " the records."
)
"""What to do before a log is taken for what is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A file, and up to which offset it proves that there were records (exclusive)."""

    name: str
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """A range of offsets of which no segment is left.

    Attributes:
        first_offset: the first of them.
        end_offset: the one after the last that is proved; there may have been more.
        committed: how many of them are below the high watermark; None if no file has it.
        proofs: at least one.
    """

    first_offset: Offset
    end_offset: Offset
    committed: int | None
    proofs: tuple[Proof, ...]

    @property
    def offsets(self) -> int:
        """How many offsets it has: records, unless a compaction had removed some."""
        return self.end_offset - self.first_offset

    @property
    def reason(self) -> str:
        """What is missing, what proves it, and whether it was committed; without a full stop."""
        names = [f"{proof.name} (up to {proof.end_offset})" for proof in self.proofs]
        more = len(names) - _MOST_NAMED
        named = ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        last = self.end_offset - 1
        which = f"offset {last}" if self.offsets == 1 else f"offsets {self.first_offset} to {last}"
        return f"no segment has {which}, and there were records: {named}; {self._committed}"

    @property
    def _committed(self) -> str:
        if self.committed is None:
            return "whether they were committed is not known"
        if self.committed == self.offsets:
            return "all of it is committed"
        return f"{self.committed} of {self.offsets} offsets are committed"


def without(absence: Absence, files: Collection[str]) -> Absence | None:
    """Return what is left of an absence if some files prove nothing; None if nothing is."""
    proofs = tuple(proof for proof in absence.proofs if proof.name not in files)
    if not proofs:
        return None
    end = Offset(max(proof.end_offset for proof in proofs))
    known = absence.committed is not None and HIGH_WATERMARK_CHECKPOINT not in files
    committed = min(absence.committed or 0, end - absence.first_offset) if known else None
    return replace(absence, end_offset=end, committed=committed, proofs=proofs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """A log without its records.

    Attributes:
        segments: base offset to the offset after the last batch, ascending. Only those before an
            index without a log, and the last one, need the latter; others may have their base.
        log_start_offset, log_end_offset: as a broker has them after it loaded the log.
        is_tiered: the checkpoint of the log starts has an entry below the first segment, as of logs
            of which older segments are in remote storage only (LogManager, KIP-405).
        orphans: name of an index without a log, and without a retired one, to the offset after the
            last that it names; at least its base offset.
        snapshots: offsets in the names of the producer snapshots.
        epochs: where the leader epochs begin, ascending.
        recovery_point, high_watermark: None without an entry in the checkpoint.
        clean: the log was closed, and all of these files written.
        is_young: the checkpoint of the high watermarks was read, and has no entry of this log: it
            is younger than ``replica.high.watermark.checkpoint.interval.ms``, unless it was closed.
        deleted_to: where the newest retired segment begins; -1 if none is.
    """

    segments: Mapping[int, int]
    log_start_offset: int
    log_end_offset: int
    is_tiered: bool
    orphans: Mapping[str, int]
    snapshots: tuple[int, ...]
    epochs: tuple[int, ...]
    recovery_point: int | None
    high_watermark: int | None
    clean: bool
    is_young: bool
    deleted_to: int


def absences(traces: Traces) -> tuple[Absence, ...]:
    """Return what is missing at a log's beginning, inside it and at its end, ascending."""
    ranges = [*_before(traces), *_inside(traces), *_after(traces)]
    return tuple(_with_commits(one, traces.high_watermark) for one in ranges if one.offsets > 0)


def _with_commits(absence: Absence, high_watermark: int | None) -> Absence:
    if high_watermark is None:
        return absence
    below = min(absence.end_offset, high_watermark) - absence.first_offset
    return replace(absence, committed=max(0, below))


def _absence(first: int, end: int, *proofs: Proof) -> Absence:
    return Absence(
        first_offset=Offset(first), end_offset=Offset(end), committed=None, proofs=proofs
    )


def _before(traces: Traces) -> Iterator[Absence]:
    """Yield what is missing before the first segment."""
    first = min(traces.segments, default=None)
    if first is None:
        return
    proofs = [
        Proof(name=name, end_offset=min(end, first))
        for name, end in traces.orphans.items()
        if _base(name) < first
    ]
    begins = [_base(proof.name) for proof in proofs]
    is_gone = traces.is_tiered or 0 <= traces.deleted_to < first
    if traces.clean and not is_gone and traces.epochs and traces.epochs[0] < first:
        proofs.append(Proof(name=LEADER_EPOCH_CHECKPOINT, end_offset=first))
        begins.append(traces.epochs[0])
    if proofs:
        known_start = traces.log_start_offset if traces.log_start_offset != first else 0
        yield _absence(max(min(begins), known_start), first, *proofs)


def _inside(traces: Traces) -> Iterator[Absence]:
    """Yield what is missing between two segments."""
    bases = sorted(traces.segments)
    by_gap: dict[tuple[int, int], list[Proof]] = {}
    for name, end in traces.orphans.items():
        base = _base(name)
        before = max((one for one in bases if one < base), default=None)
        after = min((one for one in bases if one > base), default=None)
        if before is None or after is None or traces.segments[before] > base:
            continue
        first = max(base, traces.log_start_offset)
        by_gap.setdefault((first, after), []).append(Proof(name=name, end_offset=min(end, after)))
    lowest: dict[int, int] = {}
    for first, after in by_gap:
        lowest[after] = min(first, lowest.get(after, first))
    for after, first in lowest.items():
        proofs = [proof for (_, end), found in by_gap.items() if end == after for proof in found]
        yield _absence(first, after, *proofs)


def _after(traces: Traces) -> Iterator[Absence]:
    """Yield what is missing after the last segment."""
    end, committed = traces.log_end_offset, traces.high_watermark
    is_uncommitted = traces.is_young if committed is None else committed <= end
    if is_uncommitted and not traces.clean:
        return
    ends = [
        *traces.orphans.items(),
        *((segment_file_name(number, SNAPSHOT), number) for number in traces.snapshots),
        *((LEADER_EPOCH_CHECKPOINT, number) for number in traces.epochs[-1:]),
        (RECOVERY_POINT_CHECKPOINT, traces.recovery_point or 0),
        (HIGH_WATERMARK_CHECKPOINT, traces.high_watermark or 0),
    ]
    proofs = [Proof(name=name, end_offset=offset) for name, offset in ends if offset > end]
    if proofs:
        proofs.sort(key=lambda proof: -proof.end_offset)
        yield _absence(end, proofs[0].end_offset, *proofs)


def _base(name: str) -> int:
    return int(name[:20])
