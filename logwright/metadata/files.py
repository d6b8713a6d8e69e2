"""List the files of a metadata log and read their batches and records, with all checks.

The metadata log is never compacted: each batch starts where the one before it ended and has all of
its records. So the expected base offsets, which no CRC covers, are known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logwright.errors import (
    CorruptBatch,
    LogwrightError,
    UnreadableFile,
    UnsupportedFormatError,
)
from logwright.format.batch import (
    CONTROL,
    CRC_START,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    crc_is_valid,
    parse_batch,
    unsupported_magic,
)
from logwright.format.names import LOG
from logwright.format.record import SMALLEST_RECORD_BYTES, Record, read_records
from logwright.format.valid import End, ValidBatches, valid_batches
from logwright.place.mapped import map_file
from logwright.place.model import LARGEST_FILE_BYTES, Place
from logwright.units import INT64_MAX, Offset

REMEDY: Final = "Restore the directory, or give another copy of it with --metadata."

WINDOW_BYTES: Final = 16 * 1024 * 1024
"""Bytes to scan at a time, because the rows of all batches of a segment could need more memory than
the segment. Larger than any batch: at most 8 MiB (KafkaRaftClient.MAX_BATCH_SIZE_BYTES)."""

LARGEST_TORN_BYTES: Final = WINDOW_BYTES
"""Maximum size of a torn tail."""

_MOST_CHECKED_BYTES: Final = 16 * LARGEST_TORN_BYTES
"""Bytes of a tail that are checked for whole batches; limits repeated CRCs over the same bytes."""

MOST_RECORDS: Final = 8 * 1024 * 1024 // SMALLEST_RECORD_BYTES
"""Maximum number of records of the largest batch; a decoded record takes far more memory."""

_SEGMENT: Final = re.compile(r"([0-9]{20})" + re.escape(LOG))
_SNAPSHOT: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")


class Snapshot(NamedTuple):
    """A parsed snapshot name; sorts by age.

    Attributes:
        end_offset: exclusive end of the records that it contains the state of.
    """

    end_offset: Offset
    epoch: int
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A whole batch of a file.

    Attributes:
        position: position in the file, in bytes.
        path: path of the file.
    """

    base_offset: Offset
    last_offset: Offset
    is_control: bool
    position: int
    path: Place
    _content: bytes

    def records(self) -> tuple[Record, ...]:
        """Return its records, decompressed if necessary.

        Raises:
            CorruptBatch: they are malformed or do not match the header.
            UnsupportedFormatError: the codec is unknown.
        """
        header = parse_batch(self._content)
        promised = self.last_offset - self.base_offset + 1
        if header.records_count == promised <= MOST_RECORDS:
            try:
                records = read_records(header, self._content)
            except LogwrightError as error:
                raise self.locate(error) from error
            if all(record.offset == at for at, record in enumerate(records, self.base_offset)):
                return records
        raise self.locate(
            CorruptBatch(
                f"the batch at offset {self.base_offset} lacks records up to {self.last_offset},"
                f" or has more than {MOST_RECORDS}."
            )
        )

    def locate(self, error: LogwrightError, offset: Offset | None = None) -> LogwrightError:
        """Return the error with file and position, and the offset of a record if given."""
        problem = error.problem if offset is None else f"the record at {offset}: {error.problem}"
        return type(error)(problem, path=self.path, position=self.position, remedy=REMEDY)


def segments(names: list[str]) -> list[Offset]:
    """Return the base offsets of the segments, ascending."""
    offsets = [Offset(int(match[1])) for name in names if (match := _SEGMENT.fullmatch(name))]
    return sorted(offset for offset in offsets if offset <= INT64_MAX)


def snapshots(names: list[str]) -> list[Snapshot]:
    """Return the snapshots, newest first; unfinished and deleted ones have other names."""
    complete = [
        Snapshot(Offset(int(match[1])), int(match[2]), name)
        for name in names
        if (match := _SNAPSHOT.fullmatch(name))
    ]
    return sorted((one for one in complete if one.end_offset <= INT64_MAX), reverse=True)


class MetadataFile:
    """A segment or a snapshot. Effects: maps it.

    Attributes:
        end_offset: the offset after the last batch read so far.
        is_torn: whether the file ends in an incomplete batch after that.

    Raises:
        UnreadableFile: it cannot be opened, is not a regular file, or is too large.
    """

    def __init__(self, path: Place, base_offset: Offset) -> None:
        self.path = path
        self.end_offset = base_offset
        self.is_torn = False
        self._data = map_file(path)
        if len(self._data) > LARGEST_FILE_BYTES:
            raise UnreadableFile(
                f"the file is too large: {len(self._data)} bytes.",
                path=path,
                remedy=REMEDY,
            )

    def batches(self, from_offset: Offset) -> Iterator[Batch]:
        """Yield the batches that end at or after an offset; checks all batches. Effects: reads.

        Raises:
            CorruptBatch: a corrupt batch that is not a torn tail, or a gap in the offsets.
            UnsupportedFormatError: a batch's magic is not 2.
        """
        at = 0
        while at < len(self._data):
            valid = valid_batches(
                self._data[at : at + WINDOW_BYTES],
                base_offset=self.end_offset,
                end_offset=INT64_MAX,
                check_range=False,
            )
            yield from self._rows(at, valid, from_offset)
            is_last = at + WINDOW_BYTES >= len(self._data)
            at += valid.valid_bytes
            if valid.end != "whole" and (is_last or valid.end != "torn" or not valid.valid_bytes):
                self._judge_tail(at, valid.end)
                self.is_torn = True
                return

    def _rows(self, at: int, valid: ValidBatches, from_offset: Offset) -> Iterator[Batch]:
        rows = valid.batches
        if not len(rows):
            return
        expected = np.append(np.int64(self.end_offset), rows["last_offset"][:-1] + 1)
        apart = np.flatnonzero(rows["base_offset"] != expected)
        if len(apart):
            row = int(apart[0])
            raise self._corrupt(
                f"a batch starts at offset {rows['base_offset'][row]}, expected {expected[row]}.",
                at + int(rows["position"][row]),
            )
        self.end_offset = Offset(int(rows["last_offset"][-1]) + 1)
        first = int(np.searchsorted(rows["last_offset"], from_offset))
        for row in rows[first:]:
            position = at + int(row["position"])
            yield Batch(
                base_offset=Offset(int(row["base_offset"])),
                last_offset=Offset(int(row["last_offset"])),
                is_control=bool(row["attributes"] & CONTROL),
                position=position,
                path=self.path,
                _content=self._data[position : position + int(row["size"])].tobytes(),
            )

    def _judge_tail(self, at: int, end: End) -> None:
        """Accept the bytes from `at` on if they are a torn tail, which a broker's recovery
        truncates; raise CorruptBatch otherwise.
        """
        left = len(self._data) - at
        if end == "magic":
            error = unsupported_magic(int(self._data[at + 16]), at)
            raise UnsupportedFormatError(error.problem, path=self.path, position=at, remedy=REMEDY)
        if end in ("order", "range"):
            raise self._corrupt(f"expected a batch that starts at offset {self.end_offset}.", at)
        if left > LARGEST_TORN_BYTES or _has_whole_batch(self._data[at + 1 :]):
            raise self._corrupt(
                f"the log is corrupt after offset {self.end_offset}, but more of it follows.",
                at,
            )

    def _corrupt(self, problem: str, position: int) -> CorruptBatch:
        return CorruptBatch(problem, path=self.path, position=position, remedy=REMEDY)


def _has_whole_batch(tail: NDArray[np.uint8]) -> bool:
    """Return whether a whole batch starts anywhere in these bytes; true if a search would take too
    long.
    """
    content = tail.tobytes()
    checked = 0
    for magic_at in np.flatnonzero(tail[16:] == MAGIC):
        start = int(magic_at)
        if len(content) - start < HEADER_BYTES:
            return False
        end = start + LOG_OVERHEAD_BYTES + int.from_bytes(content[start + 8 : start + 12], "big")
        if not start + HEADER_BYTES <= end <= len(content):
            continue
        checked += end - start - CRC_START
        if checked > _MOST_CHECKED_BYTES:
            return True
        batch = content[start:end]
        if crc_is_valid(parse_batch(batch), batch):
            return True
    return False
