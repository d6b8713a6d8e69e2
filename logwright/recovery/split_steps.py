"""The file steps that replace a segment whose offsets overflow by several.

First the parts are written as ``.cleaned``: after a crash in between, a loading by Kafka or
logwright finds the old segment and removes them. Then follows the order of
`logwright.steps.replace_segments`. If the first part has another base offset than the old segment,
an empty segment comes first until the end, so that the old files are always replaced.
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
    TIMEINDEX,
    TXNINDEX,
    segment_file_name,
)
from logwright.format.reindex import build_indexes
from logwright.format.valid import valid_batches
from logwright.place.files import names_in
from logwright.place.mapped import map_file
from logwright.recovery.model import RecoveryPlan, SegmentSplit, SplitPart
from logwright.steps.replace_segments import Replacement, replace_segments
from logwright.steps.step import Append, FileStep, FsyncDir, FsyncFile, SetMtime, WriteFile

_CHUNK_BYTES: Final = 16 * 1024 * 1024


def split_steps(plan: RecoveryPlan, split: SegmentSplit) -> Iterator[FileStep]:
    """Yield the steps of one split. Effects: reads the old segment and lists the directory, as the
    steps before have left them.
    """
    directory, base = plan.observed.directory, split.base_offset
    parts = split.parts
    if parts[0].base_offset != base:
        parts = (SplitPart(base_offset=base, begin=0, end=0, aborted=()), *parts)
    new = tuple(_names(part) for part in parts)
    for part, names in zip(parts, new, strict=True):
        yield from _write(plan, split, part, names)
        yield FsyncDir(directory)
    change = Replacement(
        directory=str(directory),
        new=new,
        old=split.files,
        temporary=() if parts is split.parts else new[0],
    )
    present = frozenset(names_in(directory))
    yield from replace_segments(change, present=present, now_ms=plan.now_ms)


def _names(part: SplitPart) -> tuple[str, ...]:
    """Return the final names of a part's files, ``.log`` first."""
    suffixes = (LOG, INDEX, TIMEINDEX, TXNINDEX) if part.aborted else (LOG, INDEX, TIMEINDEX)
    return tuple(segment_file_name(part.base_offset, suffix) for suffix in suffixes)


def _write(
    plan: RecoveryPlan, split: SegmentSplit, part: SplitPart, names: tuple[str, ...]
) -> Iterator[FileStep]:
    """Write the files of one part as ``.cleaned``."""
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
    for name in names:
        path = directory / f"{name}{CLEANED}"
        suffix = Path(name).suffix
        yield WriteFile(path, content.get(suffix, b""), like=old)
        if suffix == LOG:
            for start in range(0, len(data), _CHUNK_BYTES):
                yield Append(path, data[start : start + _CHUNK_BYTES].tobytes())
        yield SetMtime(path, split.modified_ns)
        yield FsyncFile(path)
