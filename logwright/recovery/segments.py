"""The segments of a log while its loading is gone through: what is kept of each, nothing is
written.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.errors import UnsupportedFormatError
from logwright.format.index import AbortedTransaction
from logwright.format.scan import bad_crcs
from logwright.format.valid import End, ValidBatches, valid_batches
from logwright.log.mapped import map_file
from logwright.log.model import FileStamp

ENDS: Final[dict[End, str]] = {
    "whole": "nothing is wrong",
    "torn": "the record batch is cut off",
    "length": "the record batch's length is impossible, as in a zero-filled tail",
    "crc": "the record batch's CRC is wrong",
    "magic": "the record batch's magic is not 2",
    "order": "the record batch's offsets do not follow those before it, or reach into the next"
    " segment",
    "range": "the record batch's offsets are too far from the segment's base offset",
}
"""In words, why a segment is kept up to a position only."""

_TAIL_BYTES: Final = 1024 * 1024
"""Of a segment that was closed cleanly so much is checked by CRC."""


@dataclass(slots=True, kw_only=True)
class LoadedSegment:
    """One segment.

    Attributes:
        path: of its log now.
        stamp: of its log now.
        size: bytes of its log that are kept.
        has_index, has_timeindex, has_txnindex: which files it has.
        end_offset: its offsets are checked against it; None: as Kafka, they are not.
        recovered: its indexes are built anew.
        txnindex_wrong: its transaction index made that necessary.
        aborted: what the transaction index is to hold, if it was recovered.
        end: why not more of it is kept.
    """

    base_offset: int
    path: Path
    stamp: FileStamp
    size: int
    has_index: bool
    has_timeindex: bool
    has_txnindex: bool
    end_offset: int | None
    recovered: bool = False
    txnindex_wrong: bool = False
    aborted: tuple[AbortedTransaction, ...] = ()
    end: End = "whole"

    def data(self) -> NDArray[np.uint8]:
        """uint8[size], what is kept of the log. Effects: maps it."""
        return map_file(self.path, expected_bytes=self.stamp.bytes)[: self.size]

    def batches(self, *, check_crcs: bool, begin: int = 0) -> ValidBatches:
        """Its whole batches, from a position on. Effects: reads it.

        Raises:
            UnsupportedFormatError: of another format, or with offsets that do not fit.
        """
        found = valid_batches(
            self.data()[begin:],
            base_offset=self.base_offset,
            end_offset=self.end_offset,
            check_crcs=check_crcs,
        )
        if found.end in ("magic", "range"):
            remedy = "Nothing was changed. Only format v2 is handled."
            if found.end == "range":
                remedy = "Nothing was changed. A broker splits such a segment when it loads it."
            raise UnsupportedFormatError(
                f"{ENDS[found.end]}.", path=self.path, position=found.valid_bytes, remedy=remedy
            )
        return found

    def next_offset(self) -> int:
        """Behind its last batch; its base offset if it has none. Effects: reads its headers."""
        batches = self.batches(check_crcs=False).batches
        return int(batches[-1]["last_offset"]) + 1 if len(batches) else self.base_offset

    def is_sound(self) -> bool:
        """Whether the log ends where its last batch does. Effects: reads its headers, and its tail
        whole.
        """
        found = self.batches(check_crcs=False)
        tail = found.batches["position"] >= found.valid_bytes - _TAIL_BYTES
        return found.end == "whole" and not bad_crcs(self.data(), found.batches[tail])
