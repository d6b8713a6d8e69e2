"""Read what one directory has of the metadata log: its longest state, and what proves more.

1. The newest whole snapshot.
2. The log from there on, up to its end or the first damage. The log may end in records that were
   never committed, since the high watermark is not on disk.
3. What a damage hides is not applied. What proves that the log had more than the state: the name of
   a newer snapshot or segment, or whole batches after a damage.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from logwright.errors import CorruptBatch, LogwrightError, NotALogDir, UnreadableFile
from logwright.format.control import ControlType
from logwright.format.names import LOG, segment_file_name
from logwright.metadata.files import Snapshot, segments, snapshots
from logwright.metadata.find import METADATA_DIRECTORY
from logwright.metadata.model import NO_IDS, DirectoryIds
from logwright.metadata.quorum import QUORUM_STATE, read_quorum_leader
from logwright.metadata.read import META_PROPERTIES, read_directory_ids
from logwright.place.files import open_bytes, open_log_dir
from logwright.quorum.batches import LogFile, ReadBatch
from logwright.quorum.builder import Builder
from logwright.quorum.kinds import CONTROL, Tally, api_key
from logwright.quorum.model import Damage, Later, Note, Proof, Survivor
from logwright.units import Offset

_START: Final = Offset(0)
_MOST_NOTE_BYTES: Final = 65_536


def read_survivor(
    log_dir: Path, proof: Proof | None = None, *, applied: Offset = _START
) -> Survivor:
    """Read a directory. Effects: reads it.

    Args:
        log_dir: the directory with ``meta.properties`` and ``__cluster_metadata-0``.
        proof: what another directory proves to be committed.
        applied: end of the newest state of all directories: of what follows a damage, only records
            from there on are counted.

    Raises:
        NotALogDir: there is no such directory, or no metadata log in it.
    """
    directory = log_dir / METADATA_DIRECTORY
    with open_log_dir(log_dir) as opened:
        if METADATA_DIRECTORY not in opened.names():
            raise NotALogDir(
                f"has no {METADATA_DIRECTORY}.",
                path=log_dir,
                remedy="Give the directory of metadata.log.dir, or the first one of log.dirs."
                " Nothing was changed.",
            )
    with open_log_dir(directory) as opened:
        names = opened.names()
    damages: list[Damage] = []
    ids, note = _ids(log_dir, damages), _note(directory, damages)
    empty = Survivor(
        log_dir=log_dir, ids=ids, note=note, state=None, later=None, damages=tuple(damages)
    )
    try:
        builder, snapshot = _snapshot(directory, snapshots(names), proof, damages)
        bases = segments(names)
        if snapshot is None and (not bases or bases[0] > _START):
            later = _later(directory, names, Tally(), _START)
            return replace(empty, later=later, damages=tuple(damages))
        paths = {base: directory / segment_file_name(base, LOG) for base in bases}
        after = _log(paths, builder, note, applied, damages)
    except LogwrightError as error:
        return replace(empty, damages=tuple(damages), error=error)
    state = builder.state(snapshot)
    later = _later(directory, names, after, state.end_offset)
    return replace(empty, state=state, later=later, damages=tuple(damages))


def _ids(log_dir: Path, damages: list[Damage]) -> DirectoryIds:
    try:
        return read_directory_ids(log_dir)
    except LogwrightError as error:
        damages.append(Damage(log_dir / META_PROPERTIES, None, error.problem))
        return NO_IDS


def _note(directory: Path, damages: list[Damage]) -> Note | None:
    """Return what the node noted of the quorum, None if it cannot be read."""
    path = directory / QUORUM_STATE
    try:
        leader = read_quorum_leader(directory)
        if leader is None:
            damages.append(Damage(path, None, "is missing."))
            return None
        with open_bytes(path) as file:
            given = json.loads(file.span(0, _MOST_NOTE_BYTES)).get("currentVoters") or ()
        voters = frozenset(int(one["voterId"]) for one in given)
    except (LogwrightError, ValueError, TypeError, KeyError) as error:
        problem = error.problem if isinstance(error, LogwrightError) else "names no voters."
        damages.append(Damage(path, None, problem))
        return None
    return Note(epoch=leader.epoch, leader=leader.leader, voters=voters)


def _snapshot(
    directory: Path, newest_first: list[Snapshot], proof: Proof | None, damages: list[Damage]
) -> tuple[Builder, Snapshot | None]:
    """Return the state of the newest whole snapshot, and that snapshot.

    Raises:
        LogwrightError: a record of it is inconsistent or of an unknown version.
    """
    for snapshot in newest_first:
        builder = Builder(proof)
        path = directory / snapshot.name
        try:
            file = LogFile(path, _START)
            frame: list[ControlType] = []
            for batch in file.batches(_START):
                kinds = [kind for kind, _ in batch.controls] if batch.header.is_control else []
                frame = [*frame[:1], *(kinds or [ControlType.UNKNOWN])]
                builder.load(batch, snapshot)
        except (CorruptBatch, UnreadableFile) as error:
            damages.append(Damage(path, None, error.problem))
            continue
        if file.damage is not None:
            damages.append(file.damage)
        elif _is_framed(frame):
            builder.loaded(snapshot)
            return builder, snapshot
        else:
            damages.append(Damage(path, None, "the snapshot is incomplete."))
    return Builder(proof), None


def _is_framed(frame: list[ControlType]) -> bool:
    ends = (frame[0], frame[-1]) if frame else ()
    return ends == (ControlType.SNAPSHOT_HEADER, ControlType.SNAPSHOT_FOOTER)


def _log(
    paths: Mapping[Offset, Path],
    builder: Builder,
    note: Note | None,
    applied: Offset,
    damages: list[Damage],
) -> Tally:
    """Apply the log from the builder's end on, and return the whole records after a damage.

    Raises:
        LogwrightError: a record is inconsistent or of an unknown version.
    """
    after = Tally()
    wanted = [base for base in paths if base <= builder.end_offset][-1:]
    wanted += [base for base in paths if base > builder.end_offset]
    is_broken = False
    for base in wanted:
        try:
            file = LogFile(paths[base], base)
        except UnreadableFile as error:
            damages.append(Damage(paths[base], None, error.problem))
            is_broken = True
            continue
        if not is_broken and base > builder.end_offset:
            problem = f"the segment starts at offset {base}, the log before it ends at"
            damages.append(Damage(file.path, None, f"{problem} {builder.end_offset}."))
            is_broken = True
        if is_broken:
            _count(after, file.batches(base), max(applied, builder.end_offset))
        else:
            later = next((paths[each] for each in wanted if each > base), None)
            _append(file, builder, later, None if note is None else note.epoch)
            is_broken = file.damage is not None
        if file.damage is not None:
            damages.append(file.damage)
            start = max(applied, builder.end_offset)
            _count(after, file.after_damage(builder.end_offset), start)
    return after


def _append(file: LogFile, builder: Builder, later: Path | None, noted: int | None) -> None:
    """Apply a segment up to its end or damage.

    Args:
        later: the segment after it.
        noted: the newest epoch that the node noted; None: any is possible.
    """
    batches = file.batches(builder.end_offset)
    batch = next(batches, None)
    while batch is not None:
        following = next(batches, None)
        if following is None and file.damage is None:
            following = _first(later, batch.end_offset)
        try:
            if batch.begins_epoch:
                _check_begun(batch, following, noted)
            builder.append(batch)
        except CorruptBatch as error:
            file.damage = Damage(file.path, batch.position, error.problem)
            return
        batch = following


def _first(path: Path | None, base_offset: Offset) -> ReadBatch | None:
    """Return the first batch of a segment, None if it is not whole, or does not start there."""
    if path is None:
        return None
    try:
        return next(LogFile(path, base_offset).batches(base_offset), None)
    except UnreadableFile:
        return None


def _check_begun(batch: ReadBatch, following: ReadBatch | None, noted: int | None) -> None:
    """Check the epoch of the batch that begins one, which no CRC covers, by what follows: a batch
    of that epoch, or one that begins a newer one. Where nothing follows, by what the node noted.

    Raises:
        CorruptBatch: it is another epoch.
    """
    epoch = batch.header.partition_leader_epoch
    begins = True
    if following is not None:
        noted = following.header.partition_leader_epoch
        begins = following.begins_epoch
    if noted is not None and (noted < epoch or (noted > epoch and not begins)):
        raise CorruptBatch(f"an epoch {epoch} begins here, and {noted} follows.")


def _count(tally: Tally, batches: Iterable[ReadBatch], start: Offset) -> None:
    """Count the records from an offset on of batches that cannot be applied."""
    for batch in batches:
        with suppress(LogwrightError):
            keys = [
                CONTROL if batch.header.is_control else api_key(record.value)
                for record in batch.records
            ]
            offsets = [one.offset for one in batch.records]
            tally.add(one for one in zip(offsets, keys, strict=True) if one[0] >= start)


def _later(directory: Path, names: list[str], after: Tally, end: Offset) -> Later | None:
    """Return what proves that the log had more than up to an offset."""
    records = after.counts()
    proofs = [
        Proof(base, f"the segment {directory / segment_file_name(base, LOG)}")
        for base in segments(names)
    ]
    proofs += [
        Proof(each.end_offset, f"the snapshot {directory / each.name}") for each in snapshots(names)
    ]
    proofs += [
        Proof(Offset(kind.last_offset + 1), f"whole batches in {directory}") for kind in records
    ]
    newest = max(proofs, default=Proof(_START, ""))
    if newest.end_offset <= end:
        return None
    return Later(end_offset=newest.end_offset, by=newest.by, records=records)
