"""The draw of ``segment.jitter.ms``, which spreads the rolls of many logs over time."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

from logwright.config.topic import TopicConfig

if TYPE_CHECKING:
    from logwright.format.names import TopicPartition

_SALT: Final = 0x6C6F6777


def segment_jitter_ms(config: TopicConfig, partition: TopicPartition, base_offset: int) -> int:
    """What is taken off a segment's time, ms: from 0 to below ``segment.jitter.ms`` and
    ``segment.ms`` (LogConfig.randomSegmentJitter, Kafka 4.3.0).

    Kafka draws when it opens a segment; this follows from the partition and the base offset. So a
    plan, an append and a run that is repeated all roll the segment at the same time.
    """
    bound = min(config.segment_jitter_ms, config.segment_ms)
    if bound == 0:
        return 0
    name = f"{partition}@{base_offset}".encode()
    drawn = zlib.crc32(name, _SALT) << 32 | zlib.crc32(name)
    return drawn % bound
