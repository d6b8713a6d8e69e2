"""Refuse what ``max.decompressed.message.bytes`` keeps Kafka's cleaner from reading (Kafka 4.4).

1. The cleaner reads the records of every compressed batch of the segments that it rewrites, but of
   batches that it discards whole. A record whose body is larger than the limit makes it fail, and
   the partition is not cleaned until the broker restarts. A body of just the limit is read.
2. Records of uncompressed batches have no such limit.
3. A log without a limit of its own is not read again for this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from logwright.batches.source import Source, Window, open_window, row_ranges
from logwright.errors import BatchAboveLimit, RecordAboveLimit
from logwright.format.batch import CODEC_MASK, HEADER_BYTES
from logwright.format.walk import size_above
from logwright.kernel import kernel

if TYPE_CHECKING:
    from logwright.config.topic import TopicConfig

LIMIT: Final = "max.decompressed.message.bytes"
NO_LIMIT: Final = 2_147_483_639
"""The default: no record is larger."""


def require_within_limit(config: TopicConfig, sources: Iterable[Source]) -> None:
    """Check the compressed records of the segments that are rewritten. Effects: reads them.

    Args:
        sources: their `discard` is decided.

    Raises:
        RecordAboveLimit: a record is above the limit.
    """
    limit = config.max_decompressed_message_bytes
    if limit >= NO_LIMIT:
        return
    for source in sources:
        if source.attributes & CODEC_MASK:
            _check(source, limit)


def _check(source: Source, limit: int) -> None:
    batches = source.batches
    packed = (batches["attributes"] & CODEC_MASK != 0) & (batches["size"] > HEADER_BYTES)
    read = packed & ~batches["discard"]
    for first, stop in row_ranges(source, first=0, last=len(batches)):
        rows = np.flatnonzero(read[first:stop]) + first
        if not len(rows):
            continue
        for window in _windows(source, rows):
            row, size = _first_above(window.scratch, window.spans, limit)
            if size:
                batch = window.batches[row]
                raise RecordAboveLimit(
                    f"a record of the compressed batch at offset {int(batch['base_offset'])} has"
                    f" {size} bytes, more than {LIMIT}={limit}: Kafka's cleaner fails on it.",
                    path=source.path,
                    position=int(batch["position"]),
                    remedy=f"The log was not changed. Raise the topic's {LIMIT}.",
                )


def _windows(source: Source, rows: NDArray[np.int64]) -> Iterator[Window]:
    """Yield the batches at once; one by one if that would need too much memory."""
    try:
        yield open_window(source, rows)
    except BatchAboveLimit:
        yield from (open_window(source, rows[at : at + 1]) for at in range(len(rows)))


@kernel
def _first_above(data: Any, spans: Any, limit: int) -> Any:
    """Return (row, size) of the first record that is above the limit; size 0 if there is none."""
    for row in range(len(spans)):
        size = size_above(data, spans[row, 0], spans[row, 1], limit)
        if size > 0:
            return np.int64(row), size
    return np.int64(0), np.int64(0)
