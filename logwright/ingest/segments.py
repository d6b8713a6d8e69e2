"""A segment while batches are appended: when to roll, and its index entries (LogSegment, 4.3.0).

The rules are those of `LogSegment.shouldRoll` and `LogSegment.append`, with one batch per append.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from logwright.config.jitter import segment_jitter_ms
from logwright.format.index import (
    OFFSET_ENTRY_BYTES,
    TIME_ENTRY_BYTES,
    serialize_offset_index,
    serialize_time_index,
)
from logwright.units import INT32_MAX

if TYPE_CHECKING:
    from logwright.config.topic import TopicConfig
    from logwright.format.names import TopicPartition
    from logwright.ingest.model import Tail


class GrowingSegment:
    """The state of a growing segment, without its bytes.

    Attributes:
        base_offset: base offset of the segment.
        tail: it is the log's active segment, and only new entries are kept here.
        log_bytes: size of the whole segment.
    """

    __slots__ = (
        "_config",
        "_first_timestamp",
        "_index",
        "_index_before",
        "_jitter_ms",
        "_largest",
        "_last_indexed",
        "_offset_of_largest",
        "_since_entry",
        "_time_before",
        "_timeindex",
        "base_offset",
        "log_bytes",
        "tail",
    )

    def __init__(
        self, partition: TopicPartition, config: TopicConfig, base_offset: int, tail: Tail | None
    ) -> None:
        self._config = config
        self.base_offset = base_offset
        self.tail = tail is not None
        self._jitter_ms = segment_jitter_ms(config, partition, base_offset)
        self.log_bytes = 0
        self._first_timestamp: int | None = None
        self._largest, self._offset_of_largest = -1, base_offset
        self._index_before = self._time_before = 0
        if tail is not None:
            self.log_bytes = tail.log_bytes
            self._first_timestamp = tail.first_timestamp_ms
            self._largest, self._offset_of_largest = (
                tail.largest_timestamp_ms,
                tail.offset_of_largest,
            )
            self._index_before, self._time_before = tail.index_entries, tail.time_entries
        self._last_indexed = self._largest
        self._since_entry = 0
        self._index: list[tuple[int, int]] = []
        self._timeindex: list[tuple[int, int]] = []

    def must_roll(self, size: int, max_timestamp: int, last_offset: int) -> bool:
        """Return whether to roll before appending a batch of `size` bytes."""
        config = self._config
        if self.log_bytes > config.segment_bytes - size:
            return True
        first = self._first_timestamp
        # Without a first timestamp Kafka counts from the time it opened the segment: now.
        waited = max_timestamp - first if first is not None and first >= 0 else 0
        if self.log_bytes > 0 and waited > config.max_segment_ms - self._jitter_ms:
            return True
        most = config.segment_index_bytes
        if self._index_before + len(self._index) >= most // OFFSET_ENTRY_BYTES:
            return True
        if self._time_before + len(self._timeindex) >= most // TIME_ENTRY_BYTES - 1:
            return True
        return not 0 <= last_offset - self.base_offset <= INT32_MAX

    def note(self, size: int, max_timestamp: int, last_offset: int) -> None:
        """Account for a batch at the end of the segment."""
        if self.log_bytes == 0:
            self._first_timestamp = max_timestamp
        if max_timestamp > self._largest:
            self._largest, self._offset_of_largest = max_timestamp, last_offset
        if self._since_entry > self._config.index_interval_bytes:
            self._index.append((last_offset, self.log_bytes))
            self._index_time()
            self._since_entry = 0
        self._since_entry += size
        self.log_bytes += size

    def seal(self) -> tuple[bytes, bytes]:
        """Return the content of ``.index`` and ``.timeindex``, with the final time entry that a
        roll and a clean shutdown write.
        """
        self._index_time()
        index = np.array(self._index, dtype=np.int64).reshape(-1, 2)
        timeindex = np.array(self._timeindex, dtype=np.int64).reshape(-1, 2)
        return (
            serialize_offset_index(index, self.base_offset),
            serialize_time_index(timeindex, self.base_offset),
        )

    def _index_time(self) -> None:
        if self._largest > self._last_indexed:
            self._timeindex.append((self._largest, self._offset_of_largest))
            self._last_indexed = self._largest
