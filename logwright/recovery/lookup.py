"""Offsets that a broker looks up when it loads a log, and the index entries that mislead it.

A broker starts at the position of an entry of the offset index, and takes what is there for the
header of a record batch. If the entry names none, the look-up finds other offsets, or the loading
fails (FileRecords.searchForOffsetFromPosition, FileLogInputStream.nextBatch).

1. The next offset is looked up from the last entry of the last segment (LogSegment.readNextOffset).
2. The first unstable offset is that at which the earliest transaction begins that is open in the
   producer snapshot or in the batches after it (UnifiedLog.maybeIncrementFirstUnstableOffset).
"""

from __future__ import annotations

from collections.abc import Sequence

from logwright.errors import CorruptBatch, UnsupportedFormatError
from logwright.format.index import parse_offset_index
from logwright.format.lookup import wrong_offset_entries
from logwright.format.names import INDEX
from logwright.format.valid import ValidBatches
from logwright.log.producers import Replay
from logwright.recovery.indexes import Content
from logwright.recovery.segments import ENDS, NO_OFFSET_LEFT, RESTORE, LoadedSegment
from logwright.units import INT64_MAX

MISLEADING = "an entry of its .index, at which a broker starts a look-up, names no record batch"
FAILS = "Nothing was changed. Kafka's loading fails here; recover it without --like-kafka."


def next_offset(segment: LoadedSegment, content: Content, *, like_kafka: bool) -> int:
    """Return the offset after the last batch. Effects: reads headers.

    With `like_kafka` from the last index entry, which may point to a torn batch (then the segment
    counts as empty); the walk ends silently before a truncated batch. A batch is found by its base
    offset, and only the last one by its last offset (FileRecords.searchForOffsetFromPosition): if
    that is wrong the log may seem to end before it starts, and Kafka drops it.

    Raises:
        CorruptBatch: there are bytes that are not a batch.
        UnsupportedFormatError: no offset is left.
    """
    begin, target = 0, segment.base_offset
    if like_kafka and not segment.recovered:
        entries = parse_offset_index(content(segment, INDEX), segment.base_offset)
        if len(entries):
            target, begin = entries[-1].tolist()
    valid = segment.batches(check_crcs=False, begin=begin if 0 < begin < segment.size else 0)
    if valid.end in ("length", "crc"):  # CRCs are not checked: it is not a batch of any kind
        position = begin + valid.valid_bytes
        raise CorruptBatch(
            f"{ENDS[valid.end]}.", path=segment.path, position=position, remedy=FAILS
        )
    offsets = valid.batches["last_offset"]
    if (offsets == INT64_MAX).any():
        raise UnsupportedFormatError(NO_OFFSET_LEFT, path=segment.path, remedy=RESTORE)
    is_found = (offsets >= target).any()
    if like_kafka:
        is_found = (valid.batches["base_offset"] >= target).any() or (offsets[-1:] >= target).any()
    return int(offsets[-1]) + 1 if is_found else segment.base_offset


def first_unstable_offset(replay: Replay) -> int | None:
    """Return where the earliest transaction begins that a loading has seen open; None without."""
    return min([*replay.ongoing, *(first for first, _ in replay.completed)], default=None)


def misled_at(
    segments: Sequence[LoadedSegment], offset: int, content: Content
) -> LoadedSegment | None:
    """Return the segment in which the look-up of an offset meets what is not a batch, or starts
    from an index entry that names none; None if it succeeds. A torn batch ends a segment.
    Effects: reads its index and headers.

    Args:
        segments: ascending; those that were recovered cannot mislead.
        offset: a later segment is read if none before it reaches that offset.
    """
    following = [*(segment.base_offset for segment in segments[1:]), INT64_MAX]
    for segment, after in zip(segments, following, strict=False):  # there may be none
        if after <= offset:
            continue
        valid = segment.batches(check_crcs=False)
        reaches = bool((valid.batches["last_offset"] >= offset).any())
        if segment.recovered or (reaches and _names_batch(segment, valid, offset, content)):
            if reaches:
                return None
        elif reaches or valid.end not in ("whole", "torn"):
            return segment
    return None


def last_entry_misleads(segment: LoadedSegment, content: Content) -> bool:
    """Return whether the last index entry names no batch. Effects: reads its index and headers."""
    return not _names_batch(segment, segment.batches(check_crcs=False), INT64_MAX, content)


def _names_batch(
    segment: LoadedSegment, valid: ValidBatches, offset: int, content: Content
) -> bool:
    """Return whether the index entry from which an offset is looked up does not mislead: whether a
    batch begins there, and no earlier one has the entry's offset. Effects: reads its index.
    """
    entries = parse_offset_index(content(segment, INDEX), segment.base_offset)
    below = entries[entries[:, 0] <= offset][-1:]
    return not wrong_offset_entries(below, valid.batches).any()
