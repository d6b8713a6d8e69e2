"""What is known of a cluster's metadata from the directories that are left."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from logwright.errors import LogwrightError
from logwright.metadata.image import Image
from logwright.metadata.model import DirectoryIds
from logwright.units import Offset, TimestampMs


class Damage(NamedTuple):
    """Where a file cannot be read.

    Attributes:
        position: in bytes, None if it is about the whole file.
        problem: a sentence.
    """

    path: Path
    position: int | None
    problem: str


class Proof(NamedTuple):
    """Records before an offset were in the log, or were committed.

    Attributes:
        by: what proves that.
    """

    end_offset: Offset
    by: str


class Endpoint(NamedTuple):
    """Where a controller listens."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """A member of the quorum (VotersRecord).

    Attributes:
        min_version, max_version: the levels of kraft.version that its software supports.
    """

    node_id: int
    directory_id: str
    endpoints: tuple[Endpoint, ...]
    min_version: int
    max_version: int


class KindCount(NamedTuple):
    """Records of one kind.

    Attributes:
        kind: Kafka's name, such as ``TopicRecord``; of control records ``control``.
    """

    kind: str
    records: int
    first_offset: Offset
    last_offset: Offset


class EpochStart(NamedTuple):
    """From an offset on, records of the log are of an epoch."""

    epoch: int
    first_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The longest state that a directory has: a snapshot, and the log from there on up to its end,
    or to the first damage.

    Attributes:
        snapshot: name of its file, None if the log has all.
        snapshot_end: end offset of the snapshot (exclusive), 0 without one.
        end_offset: end of what was read (exclusive).
        epoch: of the last record.
        epochs: of the log, ascending; of what a snapshot has only that of its last record.
        committed_end: all records before this offset were committed for certain.
        committed_by: what proves that.
        uncertain: the records from there on, in the order of their first offsets.
        image: the state; a transaction that is open at the end has no effect.
        kraft_version: 0: the voters are in the properties of the nodes; 1: in the log.
        voters: of the log; empty with kraft.version 0.
        timestamp_ms: of the last batch.
    """

    snapshot: str | None
    snapshot_end: Offset
    end_offset: Offset
    epoch: int
    epochs: tuple[EpochStart, ...]
    committed_end: Offset
    committed_by: str
    uncertain: tuple[KindCount, ...]
    image: Image = field(repr=False)
    kraft_version: int
    voters: tuple[Voter, ...]
    timestamp_ms: TimestampMs

    def epoch_at(self, offset: Offset) -> int | None:
        """Return the epoch of the record at an offset before the end, None if it is not known."""
        known = [one.epoch for one in self.epochs if one.first_offset <= offset]
        return known[-1] if known else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a node noted of the quorum (``quorum-state``).

    Attributes:
        leader: of the epoch, None if it knew none.
        voters: node ids, only with kraft.version 0.
    """

    epoch: int
    leader: int | None
    voters: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """What proves that the log had more than its state.

    Attributes:
        end_offset: the log had all offsets before this one.
        by: what proves that.
        records: whole records that were found after a damage, and cannot be applied.
    """

    end_offset: Offset
    by: str
    records: tuple[KindCount, ...] = ()


class LeftOut(NamedTuple):
    """A directory whose last records are not in the newest state. They were never committed: the
    leader of a newer epoch was elected without them (KIP-595).

    Attributes:
        end_offset: of its log (exclusive).
        epoch: of its last record.
    """

    log_dir: Path
    end_offset: Offset
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """A directory that is left.

    Attributes:
        log_dir: the directory with ``meta.properties`` and ``__cluster_metadata-0``.
        state: None if no state can be read.
        later: None if nothing proves that there was more.
        damages: of files that matter to the state, or that could have had a newer one.
        error: why there is no state, None if damages say it.
    """

    log_dir: Path
    ids: DirectoryIds
    note: Note | None
    state: State | None
    later: Later | None
    damages: tuple[Damage, ...]
    error: LogwrightError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What all directories together say.

    Attributes:
        source: the one with the newest state.
        state: its state.
        cluster_id: None if no directory has it.
        voters: node ids of the quorum; empty if not known.
        whole: of the voters, those whose directories have no damage.
        left_out: the directories whose logs part from the state before their ends. One that does so
            at an offset that the state has in a snapshot may be missing.
        lost: what proves that a log had more than the state, None if nothing does. Whether that
            was committed is known only of snapshots.
        newer_leader: an epoch newer than all records of the state that had a leader, None if no
            directory has noted one.
        last_epoch: the newest epoch that was seen.
    """

    source: Survivor
    state: State
    cluster_id: str | None
    voters: frozenset[int]
    whole: frozenset[int]
    left_out: tuple[LeftOut, ...]
    lost: Later | None
    newer_leader: int | None
    last_epoch: int

    @property
    def has_quorum(self) -> bool:
        """Whether a majority of the voters is whole: they can elect a leader among themselves."""
        return 2 * len(self.whole) > len(self.voters) > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDirectory:
    """The directory to be written.

    Attributes:
        directory: must not exist.
        epoch: that its ``quorum-state`` begins with.
        voter: None with kraft.version 0.
    """

    directory: Path
    cluster_id: str
    node_id: int
    directory_id: str
    epoch: int
    voter: Voter | None
