"""The segments of a log during a simulated loading: what is kept of each; nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.errors import UnsupportedFormatError
from logwright.format.batch import MAGIC_AT, unsupported_magic
from logwright.format.index import AbortedTransaction
from logwright.format.legacy import NOT_LEGACY
from logwright.format.scan import bad_crcs
from logwright.format.valid import End, ValidBatches, valid_batches
from logwright.place.mapped import map_file
from logwright.place.model import FileStamp

ENDS: Final[dict[End, str]] = {
    "whole": "nothing is wrong",
    "torn": "the record batch is cut off",
    "length": "the record batch's length is impossible, as in a zero-filled tail",
    "crc": "the record batch's CRC is wrong",
    "magic": "the record batch's magic is unknown",
    "order": "the record batch's offsets do not follow those before it, or reach into the next"
    " segment",
    "range": "the record batch's offsets are too far from the segment's base offset",
}
"""Why a segment is kept only up to a position, in words."""

NO_OFFSET_LEFT: Final = "no offset is left after that of the last record batch."
RESTORE: Final = "Nothing was changed. Restore the segment."

_TAIL_BYTES: Final = 1024 * 1024
"""Which part of a cleanly closed segment is checked by CRC."""


class OffsetOverflow(Exception):
    """A segment has an offset that its indexes cannot hold, and must be split. Internal: the
    recovery of a segment handles it (LogSegmentOffsetOverflowException).

    Attributes:
        valid: its batches before that.
    """

    def __init__(self, segment: LoadedSegment, valid: ValidBatches) -> None:
        self.segment = segment
        self.found = valid
        super().__init__(segment.base_offset)


@dataclass(slots=True, kw_only=True)
class LoadedSegment:
    """One segment.

    Attributes:
        path: of its log now.
        stamp: of its log now.
        begin: position there where it begins: of a part of a segment that is split.
        log_bytes: of it, before something is cut off.
        size: bytes of its log that are kept.
        has_index, has_timeindex, has_txnindex: which files it has.
        end_offset: its offsets are checked against it; None: as Kafka, they are not.
        recovered: its indexes are rebuilt.
        split_from: base offset of the segment that it was split from.
        txnindex_wrong: its transaction index made that necessary.
        aborted: entries of its transaction index, if it was recovered.
        end: why not more of it is kept.
    """

    base_offset: int
    path: Path
    stamp: FileStamp
    log_bytes: int
    size: int
    has_index: bool
    has_timeindex: bool
    has_txnindex: bool
    end_offset: int | None
    begin: int = 0
    recovered: bool = False
    split_from: int | None = None
    txnindex_wrong: bool = False
    aborted: tuple[AbortedTransaction, ...] = ()
    end: End = "whole"

    def data(self) -> NDArray[np.uint8]:
        """Return the part of the log that is kept, uint8[size]. Effects: maps it."""
        whole = map_file(self.path, expected_bytes=self.stamp.bytes)
        return whole[self.begin : self.begin + self.size]

    def batches(self, *, check_crcs: bool, begin: int = 0) -> ValidBatches:
        """Return the whole batches from a position on. Effects: reads it.

        Args:
            check_crcs: as LogSegment.recover: their CRCs, and that their offsets fit the segment.
            begin: the position.

        Raises:
            UnsupportedFormatError: of another format.
            OffsetOverflow: with an offset that does not fit.
        """
        valid = valid_batches(
            self.data()[begin:],
            base_offset=self.base_offset,
            end_offset=self.end_offset,
            check_crcs=check_crcs,
            check_range=check_crcs,
        )
        if valid.end == "magic":
            position = begin + valid.valid_bytes
            error = unsupported_magic(int(self.data()[position + MAGIC_AT]), position)
            raise UnsupportedFormatError(
                error.problem,
                path=self.path,
                position=self.begin + position,
                remedy=error.remedy,
            )
        if valid.end == "range":
            raise OffsetOverflow(self, valid)
        return valid

    def next_offset(self) -> int:
        """Return the offset after the last batch; the base offset without one. Effects: reads
        headers.
        """
        batches = self.batches(check_crcs=False).batches
        return int(batches[-1]["last_offset"]) + 1 if len(batches) else self.base_offset

    def is_sound(self) -> bool:
        """Return whether the log ends where its last batch does. Effects: reads its headers, and
        its tail whole.
        """
        valid = self.batches(check_crcs=False)
        tail = valid.batches["position"] >= valid.valid_bytes - _TAIL_BYTES
        tail &= valid.batches["legacy"] == NOT_LEGACY  # the CRCs of others were checked
        return valid.end == "whole" and not bad_crcs(self.data(), valid.batches[tail])
