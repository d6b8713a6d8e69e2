"""What is read of a log, as values: small, frozen, and sent to the tasks that read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from logwright.batches.segment_file import SegmentPart
from logwright.format.names import TopicPartition
from logwright.place.model import Place

Isolation = Literal["read_committed", "read_uncommitted"]
OnCorrupt = Literal["fail", "skip"]

RANGE_BYTES: Final = 128 * 1024 * 1024
"""Bytes of segments that one range has by default."""
BATCH_ROWS: Final = 64 * 1024
BATCH_BYTES: Final = 4 * 1024 * 1024
"""Default bounds of a batch of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """Which records are wanted.

    Attributes:
        start_offset: the first offset; None is the log start offset.
        end_offset: exclusive; None is the last that readers see.
        start_timestamp_ms: from the first offset on whose timestamp is at or above it, as
            `KafkaConsumer.offsetsForTimes` finds it; nothing if there is none.
        end_timestamp_ms: up to that offset, exclusive; all if there is none.
        min_timestamp_ms, max_timestamp_ms: of the rows, both included.
        isolation: ``isolation.level`` of a consumer.
        on_corrupt: "skip" leaves out batches that cannot be read, and counts them.
        range_bytes: bytes of segments in each range, above 0; more only where no index entry
            divides them.
    """

    start_offset: int | None = None
    end_offset: int | None = None
    start_timestamp_ms: int | None = None
    end_timestamp_ms: int | None = None
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    isolation: Isolation = "read_committed"
    on_corrupt: OnCorrupt = "fail"
    range_bytes: int = RANGE_BYTES

    def __post_init__(self) -> None:
        if self.range_bytes < 1:
            message = f"range_bytes: expected a number above 0, got {self.range_bytes}"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsRange:
    """One contiguous part of one partition's log, for one task.

    Attributes:
        log_dir: the log directory.
        parts: of the segments that hold it, in order.
        start_offset, end_offset: the records that are read, the end excluded.
        log_start_offset: of the log.
        min_timestamp_ms, max_timestamp_ms, isolation, on_corrupt: see `ReadRequest`.
    """

    log_dir: Place
    partition: TopicPartition
    parts: tuple[SegmentPart, ...]
    start_offset: int
    end_offset: int
    log_start_offset: int
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    isolation: Isolation = "read_committed"
    on_corrupt: OnCorrupt = "fail"

    @property
    def bytes(self) -> int:
        """Bytes of segments that it reads."""
        return sum(part.end - part.start for part in self.parts)

    @property
    def directory(self) -> Place:
        """The partition's directory."""
        return self.log_dir / self.partition.directory_name


@dataclass(slots=True, kw_only=True)
class ReadCounts:
    """What was read, and what was left out because it is corrupt.

    Attributes:
        rows: rows returned. batches: batches whose CRC was checked. bytes: their bytes.
        corrupt_batches: batches skipped; the rest of a segment counts as one.
        corrupt_bytes: their bytes.
        first_corrupt: (file, position, offset) of the first one; the offset is the next one that
            was expected.
    """

    rows: int = 0
    batches: int = 0
    bytes: int = 0
    corrupt_batches: int = 0
    corrupt_bytes: int = 0
    first_corrupt: tuple[str, int, int] | None = None

    def add_read(self, batches: int, size: int) -> None:
        """Count batches that were read."""
        self.batches += batches
        self.bytes += size

    def add_corrupt(self, path: str, position: int, size: int, offset: int) -> None:
        """Count a batch that is left out."""
        if self.first_corrupt is None:
            self.first_corrupt = (path, position, offset)
        self.corrupt_batches += 1
        self.corrupt_bytes += size


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which records are left out.

    Attributes:
        dead: uint8[ceil(records / 8)], bitmap by ordinal (BATCH.first_ordinal + index); None if
            all are alive.
        skip_tombstones: leave out records with a null value.
        skip_null_keys: leave out records with a null key.
    """

    dead: NDArray[np.uint8] | None = None
    skip_tombstones: bool = False
    skip_null_keys: bool = False
