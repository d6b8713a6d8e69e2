"""Read the batches of a metadata log's file up to the first damage, and find what follows it.

The CRC covers neither base offset nor epoch. Both are known: the metadata log is never compacted,
so each batch starts where the one before it ended; and a leader begins its epoch with a control
batch, so no other batch has a new one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from logwright.errors import CorruptBatch, LogwrightError
from logwright.format.batch import (
    HEADER_BYTES,
    MAGIC,
    RecordBatch,
    crc_is_valid,
    parse_batch,
)
from logwright.format.control import ControlType, parse_control_key
from logwright.format.record import Record, read_records
from logwright.metadata.files import MOST_RECORDS
from logwright.place.mapped import map_file
from logwright.place.model import LARGEST_FILE_BYTES
from logwright.quorum.model import Damage
from logwright.units import INT64_MAX, Offset

_MAGIC_AT: Final = 16
_MOST_CHECKED_BYTES: Final = 1 << 28
"""Bytes that are checked for whole batches after a damage; limits repeated CRCs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBatch:
    """A whole batch, with its records; their offsets are those of the batch, without gaps."""

    header: RecordBatch
    position: int
    records: tuple[Record, ...]

    @property
    def end_offset(self) -> Offset:
        """The offset after the batch."""
        return self.header.next_offset

    @property
    def controls(self) -> tuple[tuple[ControlType, bytes | None], ...]:
        """Type and value of each control record.

        Raises:
            CorruptBatch: a key is malformed.
        """
        return tuple((parse_control_key(one.key), one.value) for one in self.records)

    @property
    def begins_epoch(self) -> bool:
        """Whether a leader wrote it first. Raises: as `controls`."""
        return self.header.is_control and self.controls[0][0] is ControlType.LEADER_CHANGE


class LogFile:
    """A segment or a snapshot. Effects: maps it.

    Attributes:
        damage: what ended the last iteration before the end of the file; None if nothing did.

    Raises:
        UnreadableFile: it cannot be opened, or is not a regular file.
    """

    def __init__(self, path: Path, base_offset: Offset) -> None:
        self.path = path
        self.base_offset = base_offset
        self.damage: Damage | None = None
        self._data = map_file(path)

    def batches(self, start: Offset) -> Iterator[ReadBatch]:
        """Yield the batches from the one on that starts at an offset, up to the first damage.
        Effects: reads.
        """
        self.damage = None
        if len(self._data) > LARGEST_FILE_BYTES:
            self.damage = Damage(self.path, None, f"is too large: {len(self._data)} bytes.")
            return
        position = self._find(start)
        if position is None:
            self.damage = Damage(self.path, None, f"no whole batch starts at offset {start}.")
            return
        while position < len(self._data):
            try:
                batch = self._whole(position, start)
            except LogwrightError as error:
                self.damage = Damage(self.path, position, error.problem)
                return
            yield batch
            start = batch.end_offset
            position += batch.header.size_bytes

    def after_damage(self, start: Offset) -> Iterator[ReadBatch]:
        """Yield whole batches after the damage, from an offset on, whose offsets are certain: one
        ends where the next begins. Effects: reads.
        """
        before: ReadBatch | None = None
        is_certain = False
        at = None if self.damage is None else self.damage.position
        for batch in self._whole_after(-1 if at is None else at):
            follows = before is not None and before.end_offset == batch.header.base_offset
            if follows and not is_certain and before is not None:
                yield before
            if follows:
                yield batch
            before = batch if batch.header.base_offset >= start else None
            is_certain = follows

    def _whole_after(self, damage_at: int) -> Iterator[ReadBatch]:
        """Yield each whole batch after a position, whatever its offsets are."""
        if len(self._data) > LARGEST_FILE_BYTES:
            return
        free = damage_at + 1
        checked = 0
        for magic_at in np.flatnonzero(self._data[free + _MAGIC_AT :] == MAGIC) + free:
            position = int(magic_at)
            if position < free:
                continue  # inside of the one before
            if checked > _MOST_CHECKED_BYTES:
                return
            size = self._size_at(position)
            if size is None:
                continue
            checked += size
            try:
                batch = self._whole(position, None)
            except LogwrightError:
                continue
            free = position + size
            yield batch

    def _find(self, start: Offset) -> int | None:
        """Return where the batch that starts at an offset is: by the sizes of those before it, else
        by its own bytes, since a snapshot can be newer than a damage.
        """
        position, offset = 0, self.base_offset
        while position < len(self._data) and offset < start:
            size = self._size_at(position)
            if size is None:
                break
            header = parse_batch(self._data[position : position + HEADER_BYTES].tobytes())
            if header.base_offset != offset or header.last_offset_delta < 0:
                break
            offset, position = header.next_offset, position + size
        if offset == start or position == len(self._data):
            return position  # at the end nothing follows: the snapshot is newer than the segment
        content = self._data.tobytes()
        wanted, at = start.to_bytes(8, "big"), -1
        while (at := content.find(wanted, at + 1)) >= 0:
            try:
                self._whole(at, start)
            except LogwrightError:
                continue
            return at
        return None

    def _size_at(self, position: int) -> int | None:
        """Return the size of the batch whose header may be here; None if it cannot be one."""
        if position + HEADER_BYTES > len(self._data) or self._data[position + _MAGIC_AT] != MAGIC:
            return None
        size = int.from_bytes(self._data[position + 8 : position + 12].tobytes(), "big") + 12
        return size if HEADER_BYTES <= size <= len(self._data) - position else None

    def _whole(self, position: int, expected: Offset | None) -> ReadBatch:
        """Return the batch at a position.

        Args:
            expected: its base offset; None: any.

        Raises:
            LogwrightError: there is none.
        """
        size = self._size_at(position)
        if size is None:
            raise CorruptBatch("no whole batch is here.")
        content = self._data[position : position + size].tobytes()
        header = parse_batch(content)
        if expected is not None and header.base_offset != expected:
            raise CorruptBatch(
                f"a batch starts at offset {header.base_offset}, expected {expected}."
            )
        if not crc_is_valid(header, content):
            raise CorruptBatch(f"the batch at offset {header.base_offset} has a wrong CRC.")
        if not 0 <= header.base_offset <= INT64_MAX - MOST_RECORDS:
            raise CorruptBatch(f"a batch starts at offset {header.base_offset}.")
        if not 0 < header.records_count == header.last_offset_delta + 1 <= MOST_RECORDS:
            raise CorruptBatch(f"the batch at offset {header.base_offset} lacks records.")
        records = read_records(header, content)
        if any(one.offset != at for at, one in enumerate(records, header.base_offset)):
            raise CorruptBatch(f"the batch at offset {header.base_offset} lacks records.")
        return ReadBatch(header=header, position=position, records=records)
