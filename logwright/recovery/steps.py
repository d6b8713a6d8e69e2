"""The file steps of a recovery of one partition, in an order that a crash may interrupt.

The clean-shutdown marker is removed before the first of them (`commit`), so a broker or another
logwright recovery that loads the directory after a crash goes through an unclean loading.

====  ==========================================  ================================================
part  what it does                                a loading after a crash inside it
====  ==========================================  ================================================
1     uncommitted ``.swap`` go, then their guard  a ``.cleaned`` is left as long as any of them is:
      ``.cleaned``                                rolled back
2     what a committed swap covers goes; the log  finished: the ``.log.swap`` is there until its
      gets its final name, then its indexes; of   covered files are gone; then only indexes wait.
      several swaps one after the other,          Of several, no log has its name before the one
      ascending                                   in front of it (`replace_segments`, R3)
S     segments whose offsets overflow are split   see `split_steps`: the old one, to be split
                                                  again, or the parts
K     what will be cut or dropped is copied or    as before: nothing is removed yet
      linked into ``.logwright/cut/``
3     orphans; dropped segments, last one first   the rest is a prefix of the log, and the damage
                                                  that they were dropped for is still there
4     each damaged log is cut, then gets its      recovered again: of the file whose absence or
      indexes, that which called for it last;     state called for it, the new one comes last
      an index is cut to whole entries
5     producer snapshots are written, others go;  the same state is computed again from the same
      leader epochs and topic id                  batches, and the same metadata
====  ==========================================  ================================================

Each part ends with an fsync of the directory. New files are written under a temporary name and
renamed. A log keeps its modification time, which retention may need, and its indexes get it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from logwright.format.checkpoints import serialize_leader_epochs
from logwright.format.index import serialize_txn_index
from logwright.format.names import (
    INDEX,
    LEADER_EPOCH_CHECKPOINT,
    LOG,
    PARTITION_METADATA,
    SNAPSHOT,
    TIMEINDEX,
    TXNINDEX,
    WORK_DIRECTORY,
    segment_file_name,
)
from logwright.format.reindex import build_indexes
from logwright.format.valid import valid_batches
from logwright.place.files import names_in
from logwright.place.mapped import map_file
from logwright.recovery.model import RecoveryPlan, SegmentRepair
from logwright.recovery.split_steps import split_steps
from logwright.steps.retire import deleted_names, record_retirement, recorded_names
from logwright.steps.step import (
    Append,
    FileStep,
    FsyncDir,
    FsyncFile,
    Link,
    Rename,
    SetMtime,
    Truncate,
    Unlink,
    WriteFile,
)

MANIFEST: Final = "manifest.json"
_TEMPORARY: Final = "recover.tmp"
_CHUNK_BYTES: Final = 16 * 1024 * 1024


def recovery_steps(plan: RecoveryPlan, *, cut: Path | None) -> Iterator[FileStep]:
    """Yield the steps one by one: of the rebuilt indexes and the cut bytes only one piece is in
    memory. Effects: reads what the steps before have left.

    Args:
        plan: decided by `plan_recovery`.
        cut: an empty directory in the work directory for what is kept; None if nothing is.
    """
    yield from _roll_back(plan)
    yield from _finish_swaps(plan)
    for split in plan.splits:
        yield from split_steps(plan, split)
    if cut is not None:
        yield from _keep(plan, cut)
    yield from _remove_segments(plan)
    for repair in plan.repairs:
        yield from _repair(plan, repair)
    for name, size in plan.trimmed.items():
        yield Truncate(plan.observed.directory / name, size)
        yield FsyncFile(plan.observed.directory / name)
    yield from _create(plan)
    yield from _settle_producers(plan)
    yield from _settle_epochs(plan)
    yield from _settle_topic_id(plan)


def keeps(plan: RecoveryPlan) -> bool:
    """Return whether something is kept first: data that is removed, or what proves that some is
    missing.
    """
    return not plan.options.like_kafka and (plan.cuts or bool(plan.missing))


def _keep(plan: RecoveryPlan, cut: Path) -> Iterator[FileStep]:
    """Yield the steps K: copies of tails, hard links of whole segments, and of what proves that
    others are missing.
    """
    directory = plan.observed.directory
    for repair in plan.repairs:
        if repair.cut_bytes:
            source = directory / segment_file_name(repair.base_offset, LOG)
            target = cut / _kept_name(repair)
            data = map_file(source, expected_bytes=repair.log_bytes)
            yield WriteFile(target, b"", like=source)
            for start in range(repair.valid_bytes, repair.log_bytes, _CHUNK_BYTES):
                yield Append(target, data[start : start + _CHUNK_BYTES].tobytes())
            yield FsyncFile(target)
    removed = {*plan.orphans, *plan.removed_snapshots} if plan.missing else set()
    present = removed.intersection(plan.files)
    yield from (
        Link(directory / name, cut / name) for name in sorted(present.union(plan.dropped_files))
    )
    manifest = cut / MANIFEST
    yield WriteFile(manifest, _manifest(plan), like=None)
    yield FsyncFile(manifest)
    yield FsyncDir(cut)
    yield FsyncDir(cut.parent)
    yield FsyncDir(directory / WORK_DIRECTORY)


def _kept_name(repair: SegmentRepair) -> str:
    return f"{segment_file_name(repair.base_offset, LOG)}.from-{repair.valid_bytes}"


def _manifest(plan: RecoveryPlan) -> bytes:
    """Return what was truncated, why and when, as JSON."""
    kept_as = {
        segment_file_name(repair.base_offset, LOG): _kept_name(repair) for repair in plan.repairs
    }
    entries = [
        {
            "action": finding.action,
            "file": finding.files[0],
            "keptAs": kept_as.get(finding.files[0], finding.files[0])
            if finding.action == "cut"
            else finding.files[0],
            "reason": finding.reason,
            "firstOffset": finding.first_offset,
            "endOffset": finding.end_offset,
            "fromByte": finding.position or 0,
            "toByte": (finding.position or 0) + finding.bytes,
        }
        for finding in plan.findings
        if finding.action in ("cut", "dropped")
    ]
    content = {
        "topicPartition": str(plan.partition),
        "atMs": plan.now_ms,
        "logEndOffset": plan.log_end_offset,
        "entries": entries,
        "missing": [
            {
                "firstOffset": absence.first_offset,
                "endOffset": absence.end_offset,
                "committed": absence.committed,
                "proofs": [
                    {"name": proof.name, "endOffset": proof.end_offset} for proof in absence.proofs
                ],
            }
            for absence in plan.missing
        ],
    }
    return json.dumps(content, indent=1).encode() + b"\n"


def _roll_back(plan: RecoveryPlan) -> Iterator[FileStep]:
    """Yield the steps 1: the guard is removed last."""
    directory, leftovers = plan.observed.directory, plan.leftovers
    yield from _unlink(directory, leftovers.rolled_back)
    yield from _unlink(directory, leftovers.cleaned)
    if plan.options.like_kafka:
        yield from _unlink(directory, leftovers.deleted)


def _finish_swaps(plan: RecoveryPlan) -> Iterator[FileStep]:
    """Yield the steps 2: retire what a swap covers, except files that are renamed over."""
    directory, leftovers = plan.observed.directory, plan.leftovers
    finals = {source: name for name, source in leftovers.files.items() if source != name}
    covered = [name for name in leftovers.covered if name not in finals.values()]
    yield from _retire(plan, covered)
    for _, swaps in groupby(leftovers.swaps, key=lambda name: name[:20]):
        names = list(swaps)
        logs = [name for name in names if finals[name].endswith(LOG)]
        indexes = [name for name in names if name not in logs]
        for group in (logs, indexes):
            yield from (Rename(directory / name, directory / finals[name]) for name in group)
            if group:
                yield FsyncDir(directory)


def _remove_segments(plan: RecoveryPlan) -> Iterator[FileStep]:
    """Yield the steps 3: one fsync for each dropped segment, so that no later one outlives an
    earlier one.
    """
    directory = plan.observed.directory
    yield from _unlink(directory, plan.orphans)
    by_segment: dict[str, list[str]] = {}
    for name in plan.dropped_files:
        by_segment.setdefault(name[:20], []).append(name)
    deleted = deleted_names(plan.dropped_files, present=names_in(directory))
    if plan.dropped_files and not keeps(plan):
        yield from record_retirement(directory, deleted.values(), now_ms=plan.now_ms)
    for names in by_segment.values():
        for name in names:
            if keeps(plan):
                yield Unlink(directory / name)
            else:
                yield Rename(directory / name, directory / deleted[name])
        yield FsyncDir(directory)


def _retire(plan: RecoveryPlan, names: Sequence[str]) -> Iterator[FileStep]:
    """Yield the steps that retire the files a swap replaced; --like-kafka removes them immediately.

    The interrupted swap has recorded their new names. They get these without another record, which
    would take them from the swap: its undo needs all of its files.
    """
    directory = plan.observed.directory
    if plan.options.like_kafka or not names:
        yield from _unlink(directory, names)
        return
    present = set(names_in(directory))
    deleted = recorded_names(names, plan.ledger, present=present)
    others = [name for name in names if name not in deleted]
    if others:
        more = deleted_names(others, present=present | set(deleted.values()))
        yield from record_retirement(directory, more.values(), now_ms=plan.now_ms)
        deleted |= more
    yield from (Rename(directory / name, directory / deleted[name]) for name in names)
    yield FsyncDir(directory)


def _repair(plan: RecoveryPlan, repair: SegmentRepair) -> Iterator[FileStep]:
    """Yield the steps 4 of one segment. Effects: reads its log as the steps before have left it."""
    directory, base = plan.observed.directory, repair.base_offset
    log = directory / segment_file_name(base, LOG)
    if repair.cut_bytes:
        yield Truncate(log, repair.valid_bytes)
        yield SetMtime(log, repair.modified_ns)
        yield FsyncFile(log)
    if not repair.rebuild:
        yield from _replace(directory, log.with_suffix(TIMEINDEX), b"", repair)
        yield FsyncDir(directory)
        return
    data = map_file(log)[: repair.valid_bytes]
    batches = valid_batches(data, base_offset=base, check_crcs=False).batches
    built = build_indexes(batches, base_offset=base, interval_bytes=plan.index_interval_bytes)
    steps = {INDEX: list(_changed(directory, base, INDEX, built.index, repair))}
    steps[TIMEINDEX] = list(_changed(directory, base, TIMEINDEX, built.timeindex, repair))
    content = serialize_txn_index(repair.aborted)
    if content or repair.has_txnindex:
        steps[TXNINDEX] = list(_changed(directory, base, TXNINDEX, content, repair))
    last = TXNINDEX if repair.txnindex_last else INDEX
    for suffixes in ([one for one in steps if one != last], [last]):
        group = [step for suffix in suffixes for step in steps[suffix]]
        yield from group
        if group:
            yield FsyncDir(directory)


def _changed(
    directory: Path, base: int, suffix: str, content: bytes, repair: SegmentRepair
) -> Iterator[FileStep]:
    """Yield the steps that replace an index, unless it is correct."""
    path = directory / segment_file_name(base, suffix)
    if not (path.exists() and map_file(path).tobytes() == content):
        yield from _replace(directory, path, content, repair)


def _replace(
    directory: Path, path: Path, content: bytes, repair: SegmentRepair
) -> Iterator[FileStep]:
    temporary = directory / WORK_DIRECTORY / _TEMPORARY
    yield WriteFile(temporary, content, like=path.with_suffix(LOG))
    yield SetMtime(temporary, repair.modified_ns)
    yield FsyncFile(temporary)
    yield Rename(temporary, path)


def _create(plan: RecoveryPlan) -> Iterator[FileStep]:
    """Yield the steps that create an empty segment; its log comes after its indexes."""
    if plan.created is None:
        return
    directory = plan.observed.directory
    for suffix in (INDEX, TIMEINDEX, LOG):
        yield from _write(directory, directory / segment_file_name(plan.created, suffix), b"")
        yield FsyncDir(directory)


def _write(directory: Path, path: Path, content: bytes) -> Iterator[FileStep]:
    temporary = directory / WORK_DIRECTORY / _TEMPORARY
    yield WriteFile(temporary, content, like=directory)
    yield FsyncFile(temporary)
    yield Rename(temporary, path)


def _settle_producers(plan: RecoveryPlan) -> Iterator[FileStep]:
    directory = plan.observed.directory
    for number, content in plan.snapshots.items():
        yield from _write(directory, directory / segment_file_name(number, SNAPSHOT), content)
    if plan.snapshots:
        yield FsyncDir(directory)
    yield from _unlink(directory, plan.removed_snapshots)


def _settle_epochs(plan: RecoveryPlan) -> Iterator[FileStep]:
    if plan.epochs is None:
        return
    directory = plan.observed.directory
    content = serialize_leader_epochs(plan.epochs)
    yield from _write(directory, directory / LEADER_EPOCH_CHECKPOINT, content)
    yield FsyncDir(directory)


def _settle_topic_id(plan: RecoveryPlan) -> Iterator[FileStep]:
    if plan.topic_id is None:
        return
    directory = plan.observed.directory
    content = f"version: 0\ntopic_id: {plan.topic_id}"
    yield from _write(directory, directory / PARTITION_METADATA, content.encode())
    yield FsyncDir(directory)


def _unlink(directory: Path, names: Sequence[str]) -> Iterator[FileStep]:
    yield from (Unlink(directory / name) for name in names)
    if names:
        yield FsyncDir(directory)
