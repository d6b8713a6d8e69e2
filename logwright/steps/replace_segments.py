"""Replace segments of a live log by others, in an order of renames that survives any crash.

Two shapes are proved: many old segments by one (a cleaning), and one old segment by many (the undo
of a cleaning, the split of a segment whose offsets overflow). The first old and the first new
segment have the same base offset, b1.

A crash inside a phase may leave any subset of its renames, since a file system may reorder what is
not synced. Each phase ends with an fsync of the partition directory, so the next one begins on
what is durable. Replacements run one after the other, never interleaved.

=====  ====================================  ==========================  ===========================
phase  what it does                          what Kafka's loader makes   what logwright makes of a
                                             of a state inside it        state inside it
=====  ====================================  ==========================  ===========================
R0     new files get their ``.cleaned``      the old log: it deletes     refused as unclean until a
       names, the files of old b1 a second   all ``.cleaned`` and        purge, which removes the
       name ``.deleted``                     ``.deleted``                ``.cleaned``
R1     ``.cleaned`` to ``.swap``: first      the old log, while b1 has   as in R0; the purge removes
       those of new b2...bk, then, after an  a ``.cleaned``: every       the ``.swap`` files first,
       fsync, those of b1. The last fsync    ``.swap`` from that base    their guard ``.cleaned``
       is the commit point                   on is dropped. With the     after them
                                             last rename: the new one
R2     old b2...bk to ``.deleted``; of a     the new log: it deletes     refused as unclean: the
       tail (see below) only the ``.log``    all files in [b1, next      ``.swap`` files are needed.
                                             offset) except ``.swap``    A recovery, by logwright or
                                             and renames the ``.swap``;  a broker, finishes the
                                             a tail that still exists    replacement
                                             is old data that compaction
                                             would have dropped
R3     ``.log.swap`` to its name, for b1     the new log, as in R2;      as in R2
       over the old log                      index ``.swap`` files are
                                             renamed even if their log
                                             has its final name already
R4     index ``.swap`` to their names; the   the new log: it renames     as in R2, and an index
       tails' indexes to ``.deleted``. R3    what is left and deletes    without a log as well
       and R4 are repeated for each new      indexes without a log
       segment, ascending
R5     temporary files are removed;          the new log; a snapshot     the new log; an empty
       snapshots of vanished bases to        without a segment is        segment in front of it may
       ``.deleted``                          deleted                     stay
=====  ====================================  ==========================  ===========================

- **The guard.** If files went from staging to ``.swap`` directly, a ``.log.swap`` could exist
  without its indexes. The loader opens such a log with zero-filled indexes, and keeps them.
- **Old b1 keeps its name** until R3 renames the new log over it: there is always a log at b1. The
  hard links of R0 give its files the delay and the undo that the other retired files have.
- **Tails** are old segments whose base is at or above the new content's next offset: no record of
  them was kept, so they are outside the range that the loader takes the ``.swap`` to replace. They
  go one after the other, with an fsync in between. If a later one went first, the segment of a
  tombstone could be removed while that of the older value still exists.
- **Temporary files.** If old b1 has a ``.txnindex`` and new b1 has none, the old one would stay
  with the new log; an empty file replaces it and is removed last. A split whose first part begins
  above b1 creates an empty segment at b1 for the same reason.
- **Many new segments** get their final names in ascending order: what the loader finds as ``.swap``
  replaces everything from its base to the end of the last ``.swap``, so a log that already has its
  name must not come after one that is still ``.swap``.
- R3 must be durable before the next replacement's R1: between two ``.log.swap`` the loader deletes
  the live segments.

Sources: LogLoader and LocalLog.replaceSegments (4.3.0), whose own order, with one fsync at its end,
loses records under reordering; Cleaner.cleanSegments for snapshots.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from logwright.errors import invariant
from logwright.format.names import CLEANED, SWAP, TXNINDEX
from logwright.steps.retire import deleted_names, record_retirement
from logwright.steps.step import FileStep, FsyncDir, FsyncFile, Link, Rename, Unlink, WriteFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from logwright.format.deletions import Origin
    from logwright.units import TimestampMs


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """Which files of a partition directory take the place of which, by name.

    Attributes:
        directory: the partition directory.
        new: final names of each new segment's files, ascending by base offset, ``.log`` first.
        staged: final name to the present path of each new file; a file that is not in it has its
            ``.cleaned`` name already.
        bring_in: the step that gives a staged file its ``.cleaned`` name.
        old: files of the first old segment, which has the base offset of the first new one.
        covered: files of the other old segments inside the new content's range.
        tails: files of each old segment after that range, ascending, ``.log`` first.
        snapshots: producer snapshots of the bases that vanish.
        temporary: new files that are removed at the end.
    """

    directory: str
    new: tuple[tuple[str, ...], ...]
    staged: Mapping[str, str] = field(default_factory=dict)
    bring_in: type[Rename | Link] = Rename
    old: tuple[str, ...]
    covered: tuple[str, ...] = ()
    tails: tuple[tuple[str, ...], ...] = ()
    snapshots: tuple[str, ...] = ()
    temporary: tuple[str, ...] = ()

    def live(self, name: str) -> str:
        """Return the path of a file in the partition directory."""
        return f"{self.directory}/{name}"


def replace_segments(
    change: Replacement,
    *,
    present: Collection[str],
    now_ms: TimestampMs,
    origin: Origin | None = None,
    undoable: bool = True,
) -> tuple[FileStep, ...]:
    """Return the steps of a replacement: the ledger's record, then R0 to R5.

    Args:
        change: what is replaced. The content of its staged files is durable.
        present: names of the plain files in the partition directory.
        now_ms: the command's clock, from which the delay of the retired files counts.
        origin: the operation, for an undo.
        undoable: record it. Without a record the retired files are to be removed at once.
    """
    invariant(
        len(change.new) == 1 or not (change.covered or change.tails),
        "many segments for many: no order is proved",
    )
    tail_files = (name for tail in change.tails for name in tail)
    retired = (*change.old, *change.covered, *tail_files, *change.snapshots)
    deleted = deleted_names(retired, present=present)
    guard = f"{change.new[0][0].partition('.')[0]}{TXNINDEX}"
    guards = (guard,) if guard in change.old and guard not in change.new[0] else ()
    first = (*change.new[0], *guards)
    names = deleted.values()
    record = record_retirement(change.directory, names, now_ms=now_ms, origin=origin)
    return (
        *(record if undoable else ()),
        *_guard(change, guards, deleted),
        *_commit(change, first),
        *_retire(change, deleted),
        *_install(change, first, deleted),
        *_finish(change, guards, deleted),
    )


def _guard(
    change: Replacement, guards: tuple[str, ...], deleted: Mapping[str, str]
) -> list[FileStep]:
    """Return R0: all new files under ``.cleaned``, and second names for the files of old b1."""
    live, staged = change.live, change.staged
    steps: list[FileStep] = [
        change.bring_in(staged[name], live(f"{name}{CLEANED}"))
        for segment in change.new
        for name in segment
        if name in staged
    ]
    for name in guards:
        empty = live(f"{name}{CLEANED}")
        steps += [WriteFile(empty, b"", like=live(name)), FsyncFile(empty)]
    steps += [Link(live(name), live(deleted[name])) for name in change.old]
    sources = (path.rpartition("/")[0] for path in staged.values())
    return [*steps, *map(FsyncDir, dict.fromkeys((change.directory, *sources)))]


def _commit(change: Replacement, first: tuple[str, ...]) -> list[FileStep]:
    """Return R1: its last fsync is the commit point."""
    others = [name for segment in change.new[1:] for name in segment]
    return [
        *_synced(change, _renames(change, others, CLEANED, SWAP)),
        *_synced(change, _renames(change, first, CLEANED, SWAP)),
    ]


def _retire(change: Replacement, deleted: Mapping[str, str]) -> list[FileStep]:
    """Return R2: the covered files and the first tail's log together, each further tail's log
    alone.
    """
    logs = [tail[0] for tail in change.tails]
    return [
        *_synced(change, _retired(change, (*change.covered, *logs[:1]), deleted)),
        *(step for log in logs[1:] for step in _synced(change, _retired(change, [log], deleted))),
    ]


def _install(
    change: Replacement, first: tuple[str, ...], deleted: Mapping[str, str]
) -> list[FileStep]:
    """Return R3 and R4 of each new segment: its log, then its indexes."""
    indexes_of_tails = [name for tail in change.tails for name in tail[1:]]
    steps: list[FileStep] = []
    for log, *indexes in (first, *change.new[1:]):
        steps += _synced(change, _renames(change, [log], SWAP, ""))
        late = _retired(change, indexes_of_tails, deleted)
        steps += _synced(change, [*_renames(change, indexes, SWAP, ""), *late])
    return steps


def _finish(
    change: Replacement, guards: tuple[str, ...], deleted: Mapping[str, str]
) -> list[FileStep]:
    """Return R5: remove or retire what must stay until the new segments are whole."""
    removed = [Unlink(change.live(name)) for name in (*guards, *change.temporary)]
    return _synced(change, [*removed, *_retired(change, change.snapshots, deleted)])


def _synced(change: Replacement, steps: Sequence[FileStep]) -> list[FileStep]:
    """Return a phase: its steps in any order, then the sync of the directory."""
    return [*steps, FsyncDir(change.directory)] if steps else []


def _renames(change: Replacement, names: Iterable[str], source: str, target: str) -> list[FileStep]:
    """Return the steps that change the suffix after these files' final names."""
    live = change.live
    return [Rename(live(f"{name}{source}"), live(f"{name}{target}")) for name in names]


def _retired(
    change: Replacement, names: Iterable[str], deleted: Mapping[str, str]
) -> list[FileStep]:
    """Return the steps that give these files their ``.deleted`` names."""
    return [Rename(change.live(name), change.live(deleted[name])) for name in names]
