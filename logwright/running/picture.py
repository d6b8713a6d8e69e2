"""What is shown of a partition's directory at one moment: the files, and how many bytes of each."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from logwright.errors import unreadable_file
from logwright.format import names
from logwright.format.checkpoints import parse_leader_epochs
from logwright.format.names import parse_segment_file_name, segment_file_name
from logwright.place.local import is_named
from logwright.running.bounds import (
    End,
    end_of_log,
    first_epoch,
    has_abort,
    holding,
    is_of,
    same_history,
    size_of_index,
    size_of_timeindex,
    size_of_txnindex,
)
from logwright.running.bytes import HeldFile, RunningBytes
from logwright.units import Offset

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from logwright.batches.runtime import Throttle
    from logwright.format.checkpoints import LeaderEpoch
    from logwright.running.snapshot import Snapshot
    from logwright.running.watermark import Watermarks

TRANSIENT: Final = (names.CLEANED, names.DELETED, names.SWAP)
"""Suffixes of files that are not part of a log: not yet, or no more."""

_OF_SEGMENTS: Final = (names.LOG, names.INDEX, names.TIMEINDEX, names.TXNINDEX)
_LOOKS_AT_TORN: Final = 50
_TORN_SECONDS: Final = 0.02
"""A batch is written in less than this many looks."""
_PART_BYTES: Final = 1 << 20


UNSERVED_NS: Final = 60_000_000_000
"""So much older than a checkpoint without an entry of it is a log that the broker does not serve: a
multiple of the time in which it loads or makes one, and records the high watermarks."""


class Again(str):
    """Why the files must be looked at again."""

    __slots__ = ()


class Later(str):
    """Why another checkpoint of the high watermarks is needed."""

    __slots__ = ()


class Never(str):
    """Why no later checkpoint will be of use."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What limits the picture of one log.

    Attributes:
        end_offset: what is below is shown.
        high_watermark: as the broker recorded it.
        recorded_ms: when it did so, ms since the epoch.
        taken_ms: when the files were looked at, ms since the epoch.
    """

    end_offset: Offset
    high_watermark: Offset
    recorded_ms: int
    taken_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One log as it is shown.

    Attributes:
        snapshot: its files.
        sizes: bytes that are shown, by name; other files are not shown.
        empty: files that are not there, shown without content, with the status of the last
            segment: those of an empty segment where the log ends in a gap, so that it ends where
            the bound is; and indexes that its broker has not made yet.
        bound: None if all whole batches are shown.
        epochs: the log's leader epochs at that time.
        active_base: base offset of the segment that was active.
        end_offset: the offset after the last whole batch, of a log that is shown whole; None: not
            known.
    """

    snapshot: Snapshot
    sizes: Mapping[str, int]
    empty: Mapping[str, os.stat_result] = field(default_factory=dict)
    bound: Bound | None = None
    epochs: tuple[LeaderEpoch, ...] = ()
    active_base: int = 0
    end_offset: Offset | None = None


class Facts(NamedTuple):
    """What else is known of a log when it is shown.

    Attributes:
        high_watermark: as recorded; None without an entry.
        marks: the checkpoint that it is of.
        log_start_offset: as recorded.
        started_ns: when the broker began, ns since the epoch; 0: not known.
    """

    high_watermark: Offset | None
    marks: Watermarks
    log_start_offset: int
    started_ns: int


class _Epochs(NamedTuple):
    """A ``leader-epoch-checkpoint``; `modified_ns`: ns since the epoch."""

    entries: tuple[LeaderEpoch, ...]
    modified_ns: int


def read_epochs(snapshot: Snapshot) -> _Epochs | None:
    """Return the present leader epochs of a log; None without a file. Effects: reads it.

    Raises:
        UnreadableFile, CorruptCheckpoint, UnsupportedFormatError: it cannot be read.
    """
    directory, name = snapshot.directory, names.LEADER_EPOCH_CHECKPOINT
    if not directory.exists(name):
        return None
    with directory.open(name) as file:
        size, modified_ns, _ = file.seen
        content = file.span(0, size)
    return _Epochs(parse_leader_epochs(content, directory.file(name)), modified_ns)


def bounded(
    snapshot: Snapshot, facts: Facts, throttle: Throttle
) -> Picture | Again | Later | Never:
    """Return the picture of a log below its high watermark, or why there is none. Effects:
    reads headers and index entries.

    Raises:
        UnreadableFile, CorruptCheckpoint, UnsupportedFormatError: a file cannot be read.
    """
    epochs = read_epochs(snapshot)
    bases = _bases(snapshot)
    if not bases:
        return Again("it has no segment")
    high_watermark = facts.high_watermark
    if high_watermark is None and not any(_log(snapshot, each, throttle).seen[0] for each in bases):
        high_watermark = Offset(bases[-1])
    elif high_watermark is None:
        return _without_entry(snapshot, epochs, facts)
    elif facts.marks.written_ns < max(_youngest(snapshot, epochs), facts.started_ns):
        return Later("it was written before the broker began with this log")
    at, end = _end(snapshot, bases, high_watermark, throttle)
    rolled = not end.reached and _has_rolled(snapshot, bases[-1])
    if rolled:  # nothing more is appended to it: all of it is shown, and who reads it finds damage
        at, end = _end(snapshot, bases, high_watermark, throttle)
        end = end if end.reached else end._replace(size=_log(snapshot, bases[at], throttle).seen[0])
    if facts.log_start_offset > end.offset or not (end.reached or rolled):
        return Later("it does not lie between the log's start and its end")
    entries = () if epochs is None else epochs.entries
    why = _why_changed(snapshot, bases, (at, end), entries, throttle)
    if why is not None:
        return Again(why)
    return Picture(
        snapshot=snapshot,
        sizes=_sizes(snapshot, bases[: at + 1], end, throttle),
        empty=_empty_segment(snapshot, bases[at], end) | _missing_indexes(snapshot, bases, at),
        bound=Bound(
            end_offset=end.offset,
            high_watermark=high_watermark,
            recorded_ms=facts.marks.written_ns // 1_000_000,
            taken_ms=snapshot.taken_ns // 1_000_000,
        ),
        epochs=entries,
        active_base=bases[-1],
    )


def _why_changed(
    snapshot: Snapshot,
    bases: Sequence[int],
    shown: tuple[int, End],
    epochs: Sequence[LeaderEpoch],
    throttle: Throttle,
) -> str | None:
    """Return why a snapshot is not of the log as it is at its bound, None if it is. Effects: reads
    headers; opens a transaction index.

    Args:
        shown: the segment in which the bound is, by its place in `bases`, and its end.
        epochs: of the log at its bound.

    Raises:
        UnreadableFile: a file cannot be read.
    """
    at, end = shown
    firsts = (first_epoch(_log(snapshot, base, throttle)) for base in bases[: at + 1])
    if any(first is not None and not is_of(epochs, *first) for first in firsts):
        return "the log was truncated"
    if _is_being_cut(snapshot, bases, end.offset):
        return "the log is being truncated"
    if any(_has_changed(snapshot, base) for base in bases[:-1][: at + 1]):
        return "a sealed segment was changed"
    if not _has_txnindex(snapshot, bases, shown, throttle):
        return "the active segment was replaced"
    return None


def _has_changed(snapshot: Snapshot, base: int) -> bool:
    """Return whether a file of a segment that was sealed has changed since. A follower that
    truncates its log and fetches again appends to it, and begins the next one elsewhere: what
    follows it in the snapshot, and its indexes there, are those of another history. A broker that
    was killed makes the indexes again when it starts: what the snapshot has are parts of them.
    Effects: looks at them.
    """
    held = (snapshot.files.get(segment_file_name(base, suffix)) for suffix in _OF_SEGMENTS)
    return any(_is_changed(each) for each in held if each is not None)


def _is_changed(held: HeldFile) -> bool:
    now = os.fstat(held.fd)
    return (now.st_size, now.st_mtime_ns) != (held.status.st_size, held.status.st_mtime_ns)


def _is_being_cut(snapshot: Snapshot, bases: Sequence[int], end_offset: int) -> bool:
    """Return whether a segment below an offset was deleted by a truncation, which deletes one after
    the other, the first one first (LocalLog.truncateTo, Kafka 4.4.0). A cleaner deletes what it
    replaced before the segment that stands for it gets its name (LocalLog.replaceSegments), and
    retention nothing that has a segment before it. Pure.
    """
    for base, deleted_ns in snapshot.deleted_ns.items():
        at = bisect_left(bases, base)
        if at == 0 or base >= end_offset or base in bases[at:]:
            continue
        before = snapshot.files[segment_file_name(bases[at - 1], names.LOG)]
        if before.status.st_ctime_ns < deleted_ns:
            return True
    return False


def _has_txnindex(
    snapshot: Snapshot, bases: Sequence[int], shown: tuple[int, End], throttle: Throttle
) -> bool:
    """Return whether the active segment has its transaction index, if it is shown. A broker makes
    this file when the first transaction is aborted, which may be after the snapshot, and before the
    high watermark: then it is held now. Effects: opens it; reads headers if the segment was
    replaced or deleted since.

    Args:
        shown: the segment in which the bound is, by its place in `bases`, and its end.

    Raises:
        UnreadableFile: it cannot be opened.
    """
    (at, end), active = shown, bases[-1]
    name, directory = segment_file_name(active, names.TXNINDEX), snapshot.directory
    if at < len(bases) - 1 or name in snapshot.files:
        return True
    made: HeldFile | None = None
    try:
        made = HeldFile(name, directory.fd, directory.file(name))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise unreadable_file(error, directory.file(name)) from error
    log = segment_file_name(active, names.LOG)
    if not is_named(snapshot.files[log].fd, directory, log):  # the file is not of these batches
        return not has_abort(_log(snapshot, active, throttle), end.size)
    if made is not None:
        snapshot.files[name] = made
    return True


def _without_entry(snapshot: Snapshot, epochs: _Epochs | None, facts: Facts) -> Later | Never:
    """Return whether an entry can still come: a broker records all logs that it serves, also one
    that was made or moved here since the last time.
    """
    since_ns = max(_youngest(snapshot, epochs), snapshot.entry.changed_ns, facts.started_ns)
    if facts.marks.written_ns - since_ns > UNSERVED_NS:
        return Never("it has no entry of this log, which the broker does not serve")
    return Later("it has no entry of this log")


def whole(snapshot: Snapshot, throttle: Throttle, *, grows: bool) -> Picture:
    """Return the picture of all files: also what is not committed, being written, or about to be
    deleted. Effects: reads headers and index entries, and what a cleaner is writing; waits while a
    batch is being written.

    Args:
        grows: a broker may append to the log: it is shown to its last whole batch, if what follows
            is nothing, or zeros. Else all of it is shown: who reads it says what is wrong.
    """
    bases = _bases(snapshot)
    sizes = {name: held.status.st_size for name, held in snapshot.files.items()}
    if not grows:
        return Picture(snapshot=snapshot, sizes=sizes)
    end = _end_of_whole(snapshot, bases[-1], throttle) if bases else None
    if end is not None:
        sizes |= _sizes(snapshot, bases, end, throttle)
    elif bases:
        active = segment_file_name(bases[-1], names.LOG)
        sizes[active] = _size_now(snapshot.files[active].fd)
    for name, held in snapshot.files.items():
        if name.endswith(names.LOG + names.CLEANED):
            log = RunningBytes(held, snapshot.directory.file(name), _size_now(held.fd), throttle)
            sizes[name] = end_of_log(log, None, base_offset=int(name.partition(".")[0])).size
    return Picture(
        snapshot=snapshot, sizes=sizes, end_offset=None if end is None else end.following
    )


def _end_of_whole(snapshot: Snapshot, base: int, throttle: Throttle) -> End | None:
    """Return the end of the active segment; None if something else follows."""
    for _ in range(_LOOKS_AT_TORN):
        log = _log(snapshot, base, throttle)
        index = _file(snapshot, base, names.INDEX, throttle)
        end = end_of_log(log, index, base_offset=base)
        if _is_zeros(log, end.size):
            return end
        time.sleep(_TORN_SECONDS)
    return None


def _is_zeros(log: RunningBytes, position: int) -> bool:
    """Return whether nothing, or only zeros, are from a position on."""
    while part := log.span(position, _PART_BYTES):
        if part.count(0) < len(part):
            return False
        position += len(part)
    return True


def is_still_true(picture: Picture) -> bool:
    """Return whether what a picture shows is still the log's history: no file became shorter than
    what is shown of it (a broker truncates the indexes first), no sealed segment that is shown
    changed, and no leader epoch says that the log was truncated below the bound. Effects: looks at
    the files; reads the leader epochs.
    """
    snapshot = picture.snapshot
    if any(
        _size_now(snapshot.files[name].fd) < size
        for name, size in picture.sizes.items()
        if picture.bound is not None or name.endswith(names.LOG)
    ):
        return False
    shown = (
        base for base in _bases(snapshot) if segment_file_name(base, names.LOG) in picture.sizes
    )
    sealed = (base for base in shown if base < picture.active_base)
    if any(_has_changed(snapshot, base) for base in sealed):
        return False
    epochs = read_epochs(snapshot)
    if picture.bound is None or epochs is None:  # of a log that was deleted meanwhile
        return True
    return same_history(picture.epochs, epochs.entries, picture.bound.end_offset)


def _bases(snapshot: Snapshot) -> list[int]:
    parsed = map(parse_segment_file_name, snapshot.files)
    return sorted(each[0] for each in parsed if each is not None and each[1] == names.LOG)


def _size_now(fd: int) -> int:
    return os.fstat(fd).st_size


def _file(snapshot: Snapshot, base: int, suffix: str, throttle: Throttle) -> RunningBytes | None:
    name = segment_file_name(base, suffix)
    held = snapshot.files.get(name)
    if held is None:
        return None
    return RunningBytes(held, snapshot.directory.file(name), _size_now(held.fd), throttle)


def _log(snapshot: Snapshot, base: int, throttle: Throttle) -> RunningBytes:
    log = _file(snapshot, base, names.LOG, throttle)
    assert log is not None  # noqa: S101 -- the bases are those of these files
    return log


def _end(
    snapshot: Snapshot, bases: Sequence[int], bound: int, throttle: Throttle
) -> tuple[int, End]:
    """Return the segment in which the bound is, by its place in `bases`, and its end."""
    at = holding(bases, bound)
    base = bases[at]
    log, index = _log(snapshot, base, throttle), _file(snapshot, base, names.INDEX, throttle)
    end = end_of_log(log, index, base_offset=base, bound=bound)
    if at < len(bases) - 1 and not end.reached:  # the bound is in a gap: the segment is whole
        end = End(log.seen[0], end.following, Offset(bound), reached=True)
    return at, end


def _empty_segment(snapshot: Snapshot, last: int, end: End) -> dict[str, os.stat_result]:
    """Return the files of an empty segment at the end of a log that ends in a gap."""
    if end.offset == end.following:
        return {}
    status = snapshot.files[segment_file_name(last, names.LOG)].status
    suffixes = (names.LOG, names.INDEX, names.TIMEINDEX)
    return {segment_file_name(end.offset, suffix): status for suffix in suffixes}


def _missing_indexes(
    snapshot: Snapshot, bases: Sequence[int], at: int
) -> dict[str, os.stat_result]:
    """Return the indexes that the active segment lacks, if it is shown: a broker makes those of a
    new one with its second append, which can be hours later (LazyIndex, LogSegment.shouldRoll,
    Kafka 4.4.0).
    """
    if at < len(bases) - 1:
        return {}
    status = snapshot.files[segment_file_name(bases[at], names.LOG)].status
    wanted = (segment_file_name(bases[at], suffix) for suffix in (names.INDEX, names.TIMEINDEX))
    return {name: status for name in wanted if name not in snapshot.files}


def _has_rolled(snapshot: Snapshot, active_base: int) -> bool:
    """Return whether a segment after the active one was made since. Effects: lists the
    directory.
    """
    parsed = map(parse_segment_file_name, snapshot.directory.names())
    return any(
        each is not None and each[1] == names.LOG and each[0] > active_base for each in parsed
    )


def _youngest(snapshot: Snapshot, epochs: _Epochs | None) -> int:
    """Return when the log got its id or its last leader epoch, ns since the epoch."""
    made = snapshot.files.get(names.PARTITION_METADATA)
    return max(
        0 if made is None else made.status.st_mtime_ns, 0 if epochs is None else epochs.modified_ns
    )


def _sizes_of_others(snapshot: Snapshot) -> dict[str, int]:
    """Return the sizes of the files that are not a segment's."""
    return {
        name: held.status.st_size
        for name, held in snapshot.files.items()
        if parse_segment_file_name(name) is None
    }


def _sizes(
    snapshot: Snapshot, bases: Sequence[int], end: End, throttle: Throttle
) -> dict[str, int]:
    """Return the sizes of the files of some segments, the last of which ends there, and of the
    others. Producer snapshots beyond it are not shown, nor an index without its log. One beyond the
    active segment's base is of a clean stop, or of what a truncation has removed: a broker deletes
    those before it fetches again (ProducerStateManager.truncateAndReload, Kafka 4.4.0). Effects:
    looks for it.
    """
    sizes, active = _sizes_of_others(snapshot), _bases(snapshot)[-1]
    shown, last = frozenset(bases), bases[-1]
    for name, held in snapshot.files.items():
        base, suffix = parse_segment_file_name(name) or (-1, "")
        file = RunningBytes(held, name, _size_now(held.fd), throttle)
        if suffix == names.SNAPSHOT:
            is_there = base <= active or is_named(held.fd, snapshot.directory, name)
            if base <= end.offset and is_there:
                sizes[name] = held.status.st_size
        elif base not in shown:
            continue
        elif base < last:
            sizes[name] = held.status.st_size
        elif suffix == names.LOG:
            sizes[name] = end.size
        elif suffix == names.INDEX:
            sizes[name] = size_of_index(file, base_offset=base, end=end)
        elif suffix == names.TIMEINDEX:
            sizes[name] = size_of_timeindex(file, base_offset=base, end=end)
        elif suffix == names.TXNINDEX:
            sizes[name] = size_of_txnindex(file, end=end)
    return sizes
