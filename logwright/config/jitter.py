"""The jitter of ``segment.jitter.ms``, which spreads the rolls of many logs over time."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from logwright.config.topic import TopicConfig

if TYPE_CHECKING:
    from logwright.format.names import TopicPartition

_SALT: Final = 0x6C6F6777


def segment_jitter_ms(config: TopicConfig, partition: TopicPartition, base_offset: int) -> int:
    """Return the time in ms to subtract from ``segment.ms``: at least 0, below
    ``segment.jitter.ms`` and ``segment.ms`` (LogConfig.randomSegmentJitter, 4.3.0).

    Kafka draws a random number when it opens a segment. Here it is a function of partition and base
    offset, so that plans, appends and repeated runs roll the segment at the same time.
    """
    bound = min(config.segment_jitter_ms, config.segment_ms)
    if bound == 0:
        return 0
    name = f"{partition}@{base_offset}".encode()
    drawn = zlib.crc32(name, _SALT) << 32 | zlib.crc32(name)
    return drawn % bound
