"""Check the indexes of a segment, as far as a loading checks them."""

from __future__ import annotations

from collections.abc import Callable

from logwright.errors import CorruptIndex, UnsupportedFormatError
from logwright.format.index import (
    check_offset_index,
    check_time_index,
    check_txn_index,
    parse_txn_index,
)
from logwright.format.names import INDEX, TIMEINDEX, TXNINDEX
from logwright.recovery.segments import LoadedSegment

Content = Callable[[LoadedSegment, str], bytes]
"""Reads the index of a segment with this suffix."""


def index_problem(segment: LoadedSegment, content: Content, *, like_kafka: bool) -> str | None:
    """Return why a segment's indexes must be rebuilt, or None. Effects: reads them."""
    if not segment.has_index:
        return "its .index is missing"
    problem = _txnindex_problem(segment, content, like_kafka=like_kafka)
    if problem is not None:
        segment.txnindex_wrong = True
        return problem
    if like_kafka:
        return None
    if not segment.has_timeindex:
        return "its .timeindex is missing"
    path, size, base = segment.path, segment.stamp.bytes, segment.base_offset
    try:
        check_offset_index(content(segment, INDEX), base_offset=base, log_bytes=size, path=path)
        check_time_index(content(segment, TIMEINDEX), base_offset=base, path=path)
    except CorruptIndex as error:
        return f"an index of it is wrong: {error.problem.removesuffix('.')}"
    return None


def _txnindex_problem(segment: LoadedSegment, read: Content, *, like_kafka: bool) -> str | None:
    if not segment.has_txnindex:
        return None
    content, base = read(segment, TXNINDEX), segment.base_offset
    if like_kafka:
        below = any(entry.last_offset < base for entry in parse_txn_index(content))
        return "its .txnindex is wrong" if below else None
    try:
        check_txn_index(content, base_offset=base, path=segment.path)
    except (CorruptIndex, UnsupportedFormatError) as error:
        return f"its .txnindex is wrong: {error.problem.removesuffix('.')}"
    return None
