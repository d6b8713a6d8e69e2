"""How several segments take the place of one whose offsets overflow.

The old segment is b1; the parts are b1 < ... < bk. Where the first part has another base offset, an
empty segment b1 stands before it until the end, so that the old files are always replaced.

=====  ========================================  ==============================================
phase  what it does                              what a loading, Kafka's or ours, makes of a
                                                 state inside it
=====  ========================================  ==============================================
S0     the parts are written as ``.cleaned``;    the old segment: all ``.cleaned`` go
       the old files get second names
       ``.deleted``
S1     b2...bk: ``.cleaned`` to ``.swap``        the old segment: while b1 has a ``.cleaned``,
                                                 every ``.swap`` from there on is dropped
S2     b1: ``.cleaned`` to ``.swap``; its fsync  as in S1; with its last rename the parts
       is the commit point
S3     for b1, then b2...bk, one after the       the parts: what is still ``.swap`` is put in
       other: ``.log.swap`` to its name, then    place, and what it replaces, from its base to
       its indexes                               the end of the last one, is deleted
S4     the empty ``.txnindex`` and the empty     the parts; an empty segment in front of them
       segment, if one was needed, go            may stay
=====  ========================================  ==============================================

Each phase ends with an fsync of the directory. It is the order in which an undo swaps many segments
for one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from logwright.format.index import serialize_txn_index
from logwright.format.names import (
    CLEANED,
    INDEX,
    LOG,
    SWAP,
    TIMEINDEX,
    TXNINDEX,
    segment_file_name,
)
from logwright.format.reindex import build_indexes
from logwright.format.valid import valid_batches
from logwright.log.mapped import map_file
from logwright.recovery.model import RecoveryPlan, SegmentSplit, SplitPart
from logwright.steps.retire import deleted_names, record_retirement
from logwright.steps.step import (
    Append,
    FileStep,
    FsyncDir,
    FsyncFile,
    Link,
    Rename,
    SetMtime,
    Unlink,
    WriteFile,
)

_CHUNK_BYTES: Final = 16 * 1024 * 1024


def split_steps(plan: RecoveryPlan, split: SegmentSplit) -> Iterator[FileStep]:
    """The steps of one split. Effects: reads the old segment, and lists the directory."""
    directory, base = plan.observed.directory, split.base_offset
    parts = split.parts
    stand_in = parts[0].base_offset != base
    if stand_in:
        parts = (SplitPart(base_offset=base, begin=0, end=0, aborted=()), *parts)
    guard = segment_file_name(base, TXNINDEX)
    guarded = guard in split.files and not parts[0].aborted
    fresh = {part.base_offset: _suffixes(part) for part in parts}
    if guarded:
        fresh[base] = (*fresh[base], TXNINDEX)
    for part in parts:
        yield from _write(plan, split, part, fresh[part.base_offset])
        yield FsyncDir(directory)
    deleted = deleted_names(split.files, present={path.name for path in directory.iterdir()})
    yield from record_retirement(directory, deleted.values(), now_ms=plan.now_ms)
    yield from (Link(directory / name, directory / deleted[name]) for name in split.files)
    yield FsyncDir(directory)
    for chosen in (parts[1:], parts[:1]):
        for part in chosen:
            yield from _rename(directory, part, fresh[part.base_offset], (CLEANED, SWAP))
        yield FsyncDir(directory)
    for part in parts:
        log, *indexes = fresh[part.base_offset]
        yield from _rename(directory, part, [log], (SWAP, ""))
        yield FsyncDir(directory)
        yield from _rename(directory, part, indexes, (SWAP, ""))
        yield FsyncDir(directory)
    if guarded:
        yield Unlink(directory / guard)
    if stand_in:
        yield from (Unlink(directory / segment_file_name(base, one)) for one in fresh[base][:3])
    yield FsyncDir(directory)


def _suffixes(part: SplitPart) -> tuple[str, ...]:
    return (LOG, INDEX, TIMEINDEX, TXNINDEX) if part.aborted else (LOG, INDEX, TIMEINDEX)


def _write(
    plan: RecoveryPlan, split: SegmentSplit, part: SplitPart, suffixes: tuple[str, ...]
) -> Iterator[FileStep]:
    """S0: the files of one part."""
    directory = plan.observed.directory
    old = directory / segment_file_name(split.base_offset, LOG)
    data = map_file(old)[part.begin : part.end]
    batches = valid_batches(data, base_offset=part.base_offset, check_crcs=False).batches
    built = build_indexes(
        batches, base_offset=part.base_offset, interval_bytes=plan.index_interval_bytes
    )
    content = {
        INDEX: built.index,
        TIMEINDEX: built.timeindex,
        TXNINDEX: serialize_txn_index(part.aborted),
    }
    for suffix in suffixes:
        path = directory / f"{segment_file_name(part.base_offset, suffix)}{CLEANED}"
        yield WriteFile(path, content.get(suffix, b""), like=old)
        if suffix == LOG:
            for start in range(0, len(data), _CHUNK_BYTES):
                yield Append(path, data[start : start + _CHUNK_BYTES].tobytes())
        yield SetMtime(path, split.modified_ns)
        yield FsyncFile(path)


def _rename(
    directory: Path, part: SplitPart, suffixes: tuple[str, ...] | list[str], change: tuple[str, str]
) -> Iterator[FileStep]:
    source, target = change
    for suffix in suffixes:
        name = segment_file_name(part.base_offset, suffix)
        yield Rename(directory / f"{name}{source}", directory / f"{name}{target}")
