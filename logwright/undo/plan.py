"""Decide what an undo restores: the segments that the last swap or retention retired.

The ledger records which operation retired which files. The last operation that was not undone yet
can be undone while all of its files exist and the log is as it left it. Files are restored by hard
link, so that a crash, or a broker that loads the log and deletes all ``.deleted`` files, removes
nothing that was restored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from logwright.errors import CannotUndo
from logwright.format.checkpoints import LeaderEpoch, trimmed_epochs
from logwright.format.deletions import Retirement, parse_retirements
from logwright.format.names import (
    CLEANER_OFFSET_CHECKPOINT,
    INDEX,
    LOG,
    LOG_START_OFFSET_CHECKPOINT,
    SNAPSHOT,
    TIMEINDEX,
    live_file_name,
    parse_segment_file_name,
    segment_file_name,
)
from logwright.units import ByteCount, Offset, TimestampMs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from logwright.format.deletions import Operation
    from logwright.log.model import PartitionLog
    from logwright.place.model import FileStamp

_OF_EVERY_SEGMENT: Final = (LOG, INDEX, TIMEINDEX)
_NOT_THERE: Final = (
    "some of its files are missing: it was interrupted, or a purge or a broker has deleted them."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comeback:
    """Segments that are restored together.

    Attributes:
        bases: ascending; of a swap the first is that of the cleaned segment.
        names: live name to the ``.deleted`` name that it has.
    """

    bases: tuple[Offset, ...]
    names: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoPlan:
    """An undo before it is done.

    Attributes:
        log: as it was observed.
        operation: what is undone, and its `id`, and `at_ms`, when it was done.
        groups: in the order in which they come back; those that an interrupted undo brought back
            already are left out.
        snapshots: live name to ``.deleted`` name of those that an interrupted undo did not get to.
        finished: ``.deleted`` names that are not needed any more afterwards.
        checkpoints: this partition's entry by file name, as before the operation.
        epochs: the leader epochs as before; None if they stay.
        bytes: of the ``.log`` files that are restored.
        replayed: the ``.log`` files of the whole log, present name by live name in the order of
            their offsets, if its producers must be read from them: no snapshot has them. A
            recovery drops all snapshots, as Kafka does, where a retention took every record.
    """

    log: PartitionLog
    operation: Operation
    id: str
    at_ms: TimestampMs
    groups: tuple[Comeback, ...]
    snapshots: Mapping[str, str]
    finished: tuple[str, ...]
    checkpoints: Mapping[str, int | None]
    epochs: tuple[LeaderEpoch, ...] | None
    bytes: ByteCount
    replayed: Mapping[str, str]

    @property
    def bases(self) -> tuple[Offset, ...]:
        """Base offsets of the restored segments, ascending."""
        return tuple(sorted(base for group in self.groups for base in group.bases))


def plan_undo(log: PartitionLog, ledger: bytes | None, epochs: Sequence[LeaderEpoch]) -> UndoPlan:
    """Decide what to restore.

    Args:
        log: as it was observed; its fingerprint lists the ``.deleted`` files too.
        ledger: content of the partition's ledger, None if there is none.
        epochs: the leader epochs as they are.

    Raises:
        CannotUndo: there is nothing, or it is purged, or the log moved on.
    """
    lines = _last_operation(log, ledger or b"")
    origin = lines[0].origin
    assert origin is not None  # noqa: S101 -- _last_operation returns such lines only
    stamps = {stamp.name: stamp for stamp in log.fingerprint.files}
    for line in lines:
        missing = [name for name in line.files if name not in stamps]
        if line.incomplete or missing:
            raise _refuse(log, _NOT_THERE)
    if origin.operation == "swap":
        candidates = [_swapped(log, line, stamps) for line in reversed(lines)]
        cleaner = _number(origin.facts.get("cleaner"))
        checkpoints = {CLEANER_OFFSET_CHECKPOINT: cleaner}
        before = None
    else:
        candidates = [_retained(log, lines[0], stamps)]
        checkpoints, before = _start_before(log, lines[0], epochs)
    groups = tuple(group for group in candidates if group is not None)
    back = {live: name for group in groups for live, name in group.names.items()}
    snapshots = _left_behind(lines, groups, stamps)
    has_snapshot = any(live.endswith(SNAPSHOT) for live in (*stamps, *back, *snapshots))
    replays = origin.operation == "retain" and not has_snapshot
    return UndoPlan(
        log=log,
        operation=origin.operation,
        id=origin.id,
        at_ms=TimestampMs(lines[0].at_ms),
        groups=groups,
        snapshots=snapshots,
        finished=tuple(name for line in lines for name in line.files),
        checkpoints=checkpoints,
        epochs=before,
        bytes=ByteCount(
            sum(stamps[name].bytes for live, name in back.items() if live.endswith(LOG))
        ),
        replayed=_all_logs(log, back) if replays else {},
    )


def _all_logs(log: PartitionLog, back: Mapping[str, str]) -> dict[str, str]:
    """Return the present name of every ``.log`` by its live name, including those to restore."""
    live = (segment_file_name(segment.base_offset, LOG) for segment in log.segments)
    logs = dict.fromkeys(live) | {name: old for name, old in back.items() if name.endswith(LOG)}
    return {name: logs[name] or name for name in sorted(logs)}


def _left_behind(
    lines: Sequence[Retirement], groups: Sequence[Comeback], stamps: Mapping[str, FileStamp]
) -> dict[str, str]:
    """Return the snapshots of groups whose segments are restored."""
    coming = {live for group in groups for live in group.names}
    return {
        live: name
        for line in lines
        for live, name in _names(line).items()
        if live.endswith(SNAPSHOT) and live not in coming and live not in stamps
    }


def _last_operation(log: PartitionLog, ledger: bytes) -> list[Retirement]:
    """Return the lines of the last operation that is not undone, in file order."""
    lines = [line for line in parse_retirements(ledger) if line.origin is not None]
    undone = {
        line.origin.facts.get("of")
        for line in lines
        if line.origin is not None and line.origin.operation == "undo"
    }
    chosen: list[Retirement] = []
    for line in reversed(lines):
        if line.origin is None or line.origin.operation == "undo" or line.origin.id in undone:
            continue
        if chosen and chosen[0].origin is not None and line.origin.id != chosen[0].origin.id:
            break
        if not chosen and line.origin.operation == "erase":
            raise _refuse(log, "it erased records permanently.")
        chosen.insert(0, line)
    if not chosen:
        raise _refuse(log, "no compaction or retention is on record whose files still exist.")
    return chosen


def _swapped(
    log: PartitionLog, line: Retirement, stamps: Mapping[str, FileStamp]
) -> Comeback | None:
    """Return one group of a swap; None if it is restored already."""
    facts = line.origin.facts if line.origin is not None else {}
    bases = _numbers(facts.get("sources"))
    names = _names(line)
    if not bases or not _are_whole(bases, names):
        raise _refuse(log, "its record is not complete.")
    _require_sizes(log, line, bases, stamps)
    group = Comeback(bases=tuple(Offset(base) for base in bases), names=names)
    if _is_back(group, stamps):
        return None
    live = [one for one in log.segments if bases[0] <= one.base_offset <= bases[-1]]
    if [one.base_offset for one in live] != bases[:1] or live[0].log_bytes != facts.get(
        "log_bytes"
    ):
        raise _refuse(log, f"the cleaned segment {bases[0]} is not as the swap left it.")
    if live[0] is log.active:
        raise _refuse(log, f"the cleaned segment {bases[0]} is the active one now.")
    return group


def _retained(
    log: PartitionLog, line: Retirement, stamps: Mapping[str, FileStamp]
) -> Comeback | None:
    """Return the segments of a retention that are not restored yet."""
    facts = line.origin.facts if line.origin is not None else {}
    bases, first = _numbers(facts.get("bases")), _number(facts.get("first"))
    names = _names(line)
    if first is None or not bases or not _are_whole(bases, names):
        raise _refuse(log, "its record is not complete.")
    _require_sizes(log, line, bases, stamps)
    whole = Comeback(bases=tuple(Offset(base) for base in bases), names=names)
    back = [base for base in whole.bases if _is_back(_only(whole, [base]), stamps)]
    expected = min(back, default=first)
    if log.segments[0].base_offset != expected or back != bases[len(bases) - len(back) :]:
        raise _refuse(log, f"the log does not begin with segment {expected} any more.")
    left = bases[: len(bases) - len(back)]
    return _only(whole, left) if left else None


def _require_sizes(
    log: PartitionLog, line: Retirement, bases: Sequence[int], stamps: Mapping[str, FileStamp]
) -> None:
    """Require that the ``.deleted`` logs are those that were retired: a broker may have made others
    since.
    """
    names = _names(line)
    sizes = [stamps[names[segment_file_name(base, LOG)]].bytes for base in bases]
    facts = line.origin.facts if line.origin is not None else {}
    if sizes != _numbers(facts.get("sizes")):
        raise _refuse(log, "a retired file is not the one that was retired.")


def _start_before(
    log: PartitionLog, line: Retirement, epochs: Sequence[LeaderEpoch]
) -> tuple[dict[str, int | None], tuple[LeaderEpoch, ...]]:
    """Return the log start offset's entry and the leader epochs before a retention."""
    facts = line.origin.facts if line.origin is not None else {}
    start, first = _number(facts.get("start")), _number(facts.get("first"))
    entries = facts.get("checkpoints")
    before = _epochs(facts.get("epochs"))
    if start is None or first is None or not isinstance(entries, dict) or before is None:
        raise _refuse(log, "its record is not complete.")
    entry = _number(entries.get(LOG_START_OFFSET_CHECKPOINT))
    now = dict(log.fingerprint.checkpoints)[LOG_START_OFFSET_CHECKPOINT]
    if now not in (start if start > first else None, entry):
        raise _refuse(log, "the log start offset was moved since.")
    if tuple(epochs) not in (before, trimmed_epochs(before, Offset(start))):
        raise _refuse(log, "the leader epochs were changed since.")
    return {LOG_START_OFFSET_CHECKPOINT: entry}, before


def _names(line: Retirement) -> dict[str, str]:
    """Return the ``.deleted`` name of a line's files by their live names."""
    named = ((live_file_name(name), name) for name in line.files)
    return {live: name for live, name in named if live is not None}


def _only(group: Comeback, bases: Sequence[int]) -> Comeback:
    """Return some of a group's segments, with their snapshots; others' snapshots go with the
    oldest.
    """
    wanted = {Offset(base) for base in bases}
    kept = {
        live: name
        for live, name in group.names.items()
        if _base(live) in wanted or (_base(live) not in group.bases and group.bases[0] in wanted)
    }
    return Comeback(bases=tuple(sorted(wanted)), names=kept)


def _is_back(group: Comeback, stamps: Mapping[str, FileStamp]) -> bool:
    """Return whether each ``.log`` is a live file again: the same file as its ``.deleted``."""
    logs = [(live, name) for live, name in group.names.items() if live.endswith(LOG)]
    return all(
        live in stamps and name in stamps and stamps[live].inode == stamps[name].inode
        for live, name in logs
    )


def _are_whole(bases: Sequence[int], names: Mapping[str, str]) -> bool:
    """Return whether each of the segments has a log and the two indexes that every segment has, and
    no other is named.
    """
    wanted = {segment_file_name(base, suffix) for base in bases for suffix in _OF_EVERY_SEGMENT}
    logs = {_base(live) for live in names if live.endswith(LOG)}
    return wanted <= names.keys() and logs == set(bases)


def _base(live: str) -> int:
    parsed = parse_segment_file_name(live)
    return -1 if parsed is None else parsed[0]


def _number(value: object) -> int | None:
    return value if type(value) is int else None


def _numbers(value: object) -> list[int]:
    return [one for one in value if type(one) is int] if isinstance(value, list) else []


def _epochs(value: object) -> tuple[LeaderEpoch, ...] | None:
    if not isinstance(value, list):
        return None
    pairs = [_numbers(one) for one in value]
    if any(len(pair) != 2 for pair in pairs):  # noqa: PLR2004 -- epoch and offset
        return None
    return tuple(LeaderEpoch(epoch=one, start_offset=Offset(start)) for one, start in pairs)


def _refuse(log: PartitionLog, problem: str) -> CannotUndo:
    return CannotUndo(
        f"the last operation on {log.partition} cannot be undone: {problem}",
        path=log.directory,
        remedy="Nothing was changed.",
    )
