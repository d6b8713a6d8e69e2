"""The values of a recovery: what was observed, what is done and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from logwright.errors import LogwrightError
from logwright.format.checkpoints import LeaderEpoch
from logwright.format.index import AbortedTransaction
from logwright.format.names import LOG, TopicPartition
from logwright.log.absence import Absence
from logwright.log.checkpoints import Checkpoints
from logwright.place.model import FileStamp
from logwright.recovery.root import Root
from logwright.units import ByteCount, Offset, TimestampMs

Action = Literal[
    "removed",
    "rolled back",
    "swapped in",
    "split",
    "rebuilt",
    "cut",
    "trimmed",
    "dropped",
    "created",
    "snapshot written",
    "snapshot removed",
    "epochs trimmed",
    "topic id written",
    "missing",
    "kept",
]
"""What happens to files. Nothing does to what is ``missing``: records were there, and are not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryOptions:
    """The options of a recovery.

    Attributes:
        like_kafka: do exactly what Kafka's loader does; nothing is kept of what is removed.
        accept_loss: allow dropping whole segments with data, and cutting a segment that is not the
            last.
    """

    like_kafka: bool = False
    accept_loss: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One change, and its reason.

    Attributes:
        files: names in the partition's directory.
        reason: a sentence without a full stop.
        first_offset, end_offset: the offsets concerned, where they are known.
        position: where in the file it begins.
        bytes: how many are concerned.
        is_empty: these are zeros, as a broker allocates them (``preallocate``).
    """

    action: Action
    files: tuple[str, ...]
    reason: str
    first_offset: int | None = None
    end_offset: int | None = None
    position: int | None = None
    bytes: int = 0
    is_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A partition before it is recovered.

    Attributes:
        name: of its directory: the partition's, or that of a future or stray log.
        stamps: its plain files, by name.
        epochs: its leader epochs; None if there is no readable file.
        epochs_malformed: there is such a file, and a broker does not read it.
        topic_id_problem: why a broker does not read its ``partition.metadata``; None if it does, or
            if there is none.
        clean_shutdown: the log directory has the broker's marker.
        directory: the partition's directory.
    """

    log_dir: Path
    partition: TopicPartition
    name: str
    stamps: Mapping[str, FileStamp]
    epochs: tuple[LeaderEpoch, ...] | None
    epochs_malformed: bool
    topic_id_problem: str | None
    checkpoints: Checkpoints
    clean_shutdown: bool
    directory: Path = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "directory", self.log_dir / self.name)

    @property
    def log_start_offset(self) -> Offset:
        """From the checkpoint, 0 without an entry."""
        return self.checkpoints.log_start_offset.get(self.partition, Offset(0))

    @property
    def recovery_point(self) -> Offset:
        """From the checkpoint, 0 without an entry."""
        return self.checkpoints.recovery_point.get(self.partition, Offset(0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Files that interrupted operations left, and what happens to them (LogLoader, passes 1 to 3).

    Attributes:
        deleted: names of retired files.
        cleaned: names of output that was being built.
        rolled_back: ``.swap`` files of a swap that was not committed.
        swaps: ``.swap`` files that get their final names.
        covered: files that the content of those replaces.
        files: final name to present name of all remaining files.
    """

    deleted: tuple[str, ...]
    cleaned: tuple[str, ...]
    rolled_back: tuple[str, ...]
    swaps: tuple[str, ...]
    covered: tuple[str, ...]
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPart:
    """One of the segments that replace one whose offsets overflow.

    Attributes:
        begin, end: bytes of the old segment's log that are its log.
        aborted: entries of its transaction index.
    """

    base_offset: Offset
    begin: int
    end: int
    aborted: tuple[AbortedTransaction, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSplit:
    """A segment whose offsets overflow.

    Attributes:
        parts: ascending, all of its bytes.
        files: names of the old segment's files, ``.log`` first.
        modified_ns: modification time of its log.
    """

    base_offset: Offset
    parts: tuple[SplitPart, ...]
    files: tuple[str, ...]
    modified_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRepair:
    """One segment whose files change.

    Attributes:
        log_bytes: size of its log, when swaps are finished and segments are split.
        valid_bytes: what is kept of it.
        rebuild: all of its indexes are rebuilt; otherwise an empty ``.timeindex`` is made.
        aborted: entries of the new transaction index.
        has_txnindex: there is a ``.txnindex`` already.
        txnindex_last: the transaction index was wrong, so it is replaced last; else the offset
            index is.
        modified_ns: modification time of the log.
    """

    base_offset: Offset
    log_bytes: ByteCount
    valid_bytes: ByteCount
    rebuild: bool
    aborted: tuple[AbortedTransaction, ...]
    has_txnindex: bool
    txnindex_last: bool
    modified_ns: int

    @property
    def cut_bytes(self) -> ByteCount:
        """Bytes that are truncated."""
        return ByteCount(self.log_bytes - self.valid_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlan:
    """A recovery of one partition before it is done.

    Attributes:
        files: final names of all files after swaps are finished and segments are split.
        splits: segments that are replaced by several, ascending.
        repairs: ascending by base offset.
        trimmed: name to size of the indexes that are truncated to whole entries.
        dropped: base offsets of the dropped segments, ascending.
        dropped_files: final names of their files, snapshots among them.
        created: base offset of the empty segment that is made, None if none is.
        orphans: indexes without a log.
        snapshots: number to content of the producer snapshots that are written.
        removed_snapshots: names of the removed ones.
        epochs: leader epochs that are written; None if the file stays as it is.
        topic_id: that is written into ``partition.metadata``; None if the file stays as it is.
        log_start_offset, log_end_offset, high_watermark: of the recovered log; the high watermark
            is None if it is not recorded.
        first_base_offset: of the first segment then.
        kept_deleted: retired files that are not logwright's, and stay.
        ledger: content of the ledger of retired files, empty if there is none.
        missing: offsets that the log had, and of which it will have no segment.
    """

    observed: Observed
    now_ms: TimestampMs
    options: RecoveryOptions
    index_interval_bytes: int
    findings: tuple[Finding, ...]
    leftovers: Leftovers
    files: frozenset[str]
    splits: tuple[SegmentSplit, ...]
    repairs: tuple[SegmentRepair, ...]
    trimmed: Mapping[str, ByteCount]
    dropped: tuple[Offset, ...]
    dropped_files: tuple[str, ...]
    created: Offset | None
    orphans: tuple[str, ...]
    snapshots: Mapping[Offset, bytes]
    removed_snapshots: tuple[str, ...]
    epochs: tuple[LeaderEpoch, ...] | None
    topic_id: str | None
    log_start_offset: Offset
    log_end_offset: Offset
    high_watermark: Offset | None
    first_base_offset: Offset
    kept_deleted: tuple[str, ...]
    ledger: bytes
    missing: tuple[Absence, ...]

    @property
    def partition(self) -> TopicPartition:
        """The partition."""
        return self.observed.partition

    @property
    def name(self) -> str:
        """Path of the partition directory."""
        return self.observed.name

    @property
    def is_marked(self) -> bool:
        """Whether it is a future or stray log."""
        return self.name != self.partition.directory_name

    @property
    def changes(self) -> bool:
        """Whether a file of the partition changes, or what the checkpoints have of it."""
        return any(finding.action != "kept" for finding in self.findings)

    @property
    def cuts(self) -> bool:
        """Whether a tail or segments go."""
        return bool(self.dropped) or any(repair.cut_bytes for repair in self.repairs)

    @property
    def lacks(self) -> bool:
        """Whether the log will have less than its replica may have acknowledged: a tail or segments
        go, or are missing.
        """
        return self.cuts or self.created is not None or bool(self.missing)

    @property
    def gone(self) -> tuple[Absence, ...]:
        """What is missing, without the end of a log of which the recovery itself cuts the end."""
        end = self.log_end_offset
        return tuple(one for one in self.missing if not (self.cuts and one.first_offset == end))

    @property
    def loses(self) -> tuple[Finding, ...]:
        """Changes that remove data, other than the tail of the last remaining segment."""
        names = [name for name in self.files if name.endswith(LOG)]
        last = max({int(name[:20]) for name in names} - set(self.dropped), default=-1)
        return tuple(
            finding
            for finding in self.findings
            if finding.bytes
            and (
                finding.action == "dropped"
                or (finding.action == "cut" and int(finding.files[0][:20]) != last)
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryPlan:
    """A recovery of a log directory before it is done.

    Attributes:
        marker: content of the clean-shutdown marker, None if there is none.
        plans: those of the partitions that can be recovered, then of future and stray logs.
        failures: why other partitions cannot.
        marked_failures: why other future and stray logs cannot, by directory name.
        left_out: directories that a broker loads too and that are not recovered here.
        root: what was found in the log directory's root.
        now_ms: the command's clock.
    """

    log_dir: Path
    marker: bytes | None
    plans: tuple[RecoveryPlan, ...]
    failures: Mapping[TopicPartition, LogwrightError]
    marked_failures: Mapping[str, LogwrightError]
    left_out: tuple[str, ...]
    root: Root
    now_ms: TimestampMs

    @property
    def changes(self) -> bool:
        """Something will change."""
        logs = any(plan.changes for plan in self.plans)
        return logs or bool(self.root.malformed) or self.becomes_clean or self.doubts

    @property
    def doubts(self) -> bool:
        """The broker epoch in the marker goes: a log has less than was acknowledged."""
        return bool(self.marker and self.lacking)

    @property
    def lacking(self) -> tuple[TopicPartition, ...]:
        """The partitions of which a log has less than was acknowledged. Future and stray logs are
        not replicas.
        """
        return tuple(plan.partition for plan in self.plans if plan.lacks and not plan.is_marked)

    @property
    def becomes_clean(self) -> bool:
        """The directory gets a marker that it did not have."""
        failed = self.failures or self.marked_failures or self.root.stops_a_broker
        return self.marker is None and not failed and not self.left_out


@dataclass(slots=True, kw_only=True)
class DirectoryResult:
    """The result of a recovery.

    Attributes:
        recovered: the partitions' plans that were executed, those without changes included.
        failures: why others were not.
        marked, marked_failures: the same of future and stray logs, the failures by directory name.
        clean: the directory has the clean-shutdown marker now.
        cut: where data cut out of a log is kept, by the name of its directory.
        damaged: where malformed checkpoints are kept, by their names.
    """

    recovered: list[RecoveryPlan] = field(default_factory=list)
    failures: dict[TopicPartition, LogwrightError] = field(default_factory=dict)
    marked: list[RecoveryPlan] = field(default_factory=list)
    marked_failures: dict[str, LogwrightError] = field(default_factory=dict)
    clean: bool = False
    cut: dict[str, Path] = field(default_factory=dict)
    damaged: dict[str, Path] = field(default_factory=dict)

    def fail(self, plan: RecoveryPlan, error: LogwrightError) -> None:
        """Record that a plan could not be executed."""
        if plan.is_marked:
            self.marked_failures[plan.name] = error
        else:
            self.failures[plan.partition] = error
