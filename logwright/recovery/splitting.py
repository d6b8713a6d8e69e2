"""The parts of a segment whose offsets overflow (LocalLog.splitOverflowedSegment of Kafka 4.3.0).

Old brokers wrote segments with offsets further from the base offset than an index entry can hold
(KAFKA-6264). Such a segment becomes several: each begins at the base offset of its first batch and
takes what fits. Kafka splits it when it recovers the segment, so not below the recovery point or
after a clean stop, unless an index is missing. Without --like-kafka every such segment is split.

Two things differ from Kafka in either mode. When Kafka splits because of a missing index, it leaves
the later parts without their transaction indexes, and keeps the old segment next to its parts if
its base offset is not that of its first batch. Here the indexes are complete and the old segment is
removed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from logwright.errors import CorruptBatch
from logwright.format.legacy import NOT_LEGACY, legacy_batch_at, legacy_records
from logwright.format.names import LOG, segment_file_name
from logwright.format.valid import valid_batches
from logwright.place.mapped import map_file
from logwright.recovery.producers import ProducerState
from logwright.recovery.segments import ENDS, LoadedSegment
from logwright.units import INT32_MAX


def overflows(log: Path, base_offset: int, following: int) -> bool:
    """Return whether an offset of a segment overflows. Effects: reads its headers, if they are
    readable.

    Args:
        log: of the segment.
        base_offset: of the segment.
        following: base offset of the next one.
    """
    if following - base_offset - 1 <= INT32_MAX:
        return False
    rows = valid_batches(
        map_file(log),
        base_offset=base_offset,
        end_offset=following,
        check_crcs=False,
        check_range=False,
    ).batches
    return bool(len(rows)) and int(rows[-1]["last_offset"]) - base_offset > INT32_MAX


def parts_of(
    segment: LoadedSegment, *, present: Collection[str], following: int, like_kafka: bool
) -> list[LoadedSegment]:
    """Return the parts of a split segment; bytes after the last batch stay in the last part.
    Effects: reads its headers.

    A base offset is not covered by a batch's CRC. So one that overflows is trusted only if those
    after it follow.

    Args:
        segment: it has an offset that does not fit.
        present: names of the log's files.
        following: the parts' base offsets must be below it.
        like_kafka: all of it must be whole batches.

    Raises:
        CorruptBatch: it cannot be split, or its parts reach into the next segment.
        UnsupportedFormatError: a batch of another format.
    """
    valid = segment.batches(check_crcs=False)
    if valid.end == "order" or (like_kafka and valid.end != "whole"):
        raise _unsplittable(segment, valid.valid_bytes, ENDS[valid.end])
    rows = valid.batches
    lasts = rows["last_offset"]
    if like_kafka and int(lasts[-1]) - segment.base_offset <= INT32_MAX:
        position = int(rows[-1]["position"])
        raise _unsplittable(segment, position, "the last record batch's offsets do not overflow")
    parts: list[LoadedSegment] = []
    row = 0
    while row < len(rows):
        base, begin = _first_offset(segment, rows[row]), int(rows[row]["position"])
        distances = lasts[row:] - base
        misfits = np.flatnonzero((distances < 0) | (distances > INT32_MAX))
        count = int(misfits[0]) if len(misfits) else len(rows) - row
        previous = parts[-1].base_offset if parts else segment.base_offset - 1
        name = segment_file_name(base, LOG)
        taken = base != segment.base_offset and name in present
        if count == 0 or not previous < base < following or taken:
            raise _unsplittable(segment, begin, ENDS["order"])
        row += count
        end = int(rows[row]["position"]) if row < len(rows) else segment.size
        parts.append(
            replace(
                segment,
                base_offset=base,
                begin=begin,
                size=end - begin,
                log_bytes=end - begin,
                has_index=True,
                has_timeindex=True,
                has_txnindex=False,
                recovered=True,
                split_from=segment.base_offset,
            )
        )
    for part, after in pairwise(parts):
        part.end_offset = None if like_kafka else after.base_offset
    return parts


def _first_offset(segment: LoadedSegment, batch: np.void) -> int:
    """Return the base offset of a batch; of an old format its records have it. Effects: reads it.

    Raises:
        CorruptBatch: its records cannot be read.
    """
    if batch["legacy"] == NOT_LEGACY:
        return int(batch["base_offset"])
    position = int(batch["position"])
    content = segment.data()[position : position + int(batch["size"])]
    try:
        return legacy_records(legacy_batch_at(content.data))[0].offset
    except CorruptBatch as error:
        raise _unsplittable(segment, position, error.problem.removesuffix(".")) from error


def index_transactions(parts: list[LoadedSegment], state: ProducerState) -> None:
    """Set for each part the entries of its transaction index. Effects: reads control batches.

    Args:
        state: of the producers up to the first part; it continues over all of them.
    """
    for part in parts:
        state.replay.aborted.clear()
        valid = part.batches(check_crcs=False)
        state.append(valid, part, len(valid.batches))
        part.aborted = tuple(state.replay.aborted)
        part.has_txnindex = bool(part.aborted)


def _unsplittable(segment: LoadedSegment, position: int, problem: str) -> CorruptBatch:
    return CorruptBatch(
        f"{problem}, in a segment that must be split.",
        path=segment.path,
        position=position,
        remedy="Nothing was changed. Kafka's loading fails here as well, but for a torn tail that"
        " `logwright recover` without --like-kafka cuts; else restore the segment.",
    )
