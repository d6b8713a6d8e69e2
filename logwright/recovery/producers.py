"""The producer snapshots that a loading writes and removes (ProducerStateManager of Kafka 4.3.0).

A broker keeps them as files; here they are numbers and contents, and what changed is written at the
end. Each `ProducerState` is one of Kafka's managers: it begins from the newest usable snapshot.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from logwright.errors import CorruptBatch, CorruptProducerSnapshot, UnsupportedFormatError
from logwright.format.legacy import NOT_LEGACY
from logwright.format.names import SNAPSHOT, parse_segment_file_name, segment_file_name
from logwright.format.snapshot import ProducerEntry, parse_snapshot, serialize_snapshot
from logwright.format.valid import ValidBatches
from logwright.log.producers import Replay, active_producers, replay_batches
from logwright.place.mapped import map_file
from logwright.recovery.segments import LoadedSegment
from logwright.units import Offset, TimestampMs

_LOG = logging.getLogger(__name__)


class SnapshotFiles:
    """The snapshots of a partition, by number. Nothing is written.

    Args:
        directory: the partition's.
        numbers: of those on disk.
    """

    def __init__(self, directory: Path, numbers: Iterable[int]) -> None:
        self._directory = directory
        self._on_disk = frozenset(numbers)
        self._content: dict[int, bytes | None] = dict.fromkeys(self._on_disk)

    @classmethod
    def of(cls, directory: Path, names: Iterable[str]) -> Self:
        """Return the snapshots among a partition's files."""
        parsed = map(parse_segment_file_name, names)
        return cls(directory, [one[0] for one in parsed if one is not None and one[1] == SNAPSHOT])

    def numbers(self) -> list[int]:
        """Return the snapshots' offsets, ascending."""
        return sorted(self._content)

    def read(self, number: int) -> tuple[ProducerEntry, ...] | None:
        """Return the producers of a snapshot; None if it cannot be used. Effects: reads it."""
        path = self._path(number)
        try:
            return parse_snapshot(self._bytes(number), path)
        except (CorruptProducerSnapshot, UnsupportedFormatError) as error:
            _LOG.warning("producer snapshot not used: %s", error)
            return None

    def write(self, number: int, content: bytes) -> None:
        """Set a snapshot; it replaces one of the same number."""
        self._content[number] = content

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove these snapshots."""
        for number in list(numbers):
            self._content.pop(number, None)

    def remove_strays(self, bases: Sequence[int]) -> None:
        """Remove those that belong to no segment, except the largest if it is not below the last
        segment: that is the one of a clean stop (removeStraySnapshots).
        """
        strays = [number for number in self.numbers() if number not in bases]
        if strays and strays[-1] >= max(bases):
            strays.pop()
        self.remove(strays)

    def written(self) -> dict[Offset, bytes]:
        """Return the snapshots that differ from those on disk. Effects: reads the latter."""
        return {
            Offset(number): content
            for number, content in sorted(self._content.items())
            if content is not None
            and not (number in self._on_disk and self._read(number) == content)
        }

    def removed(self) -> tuple[str, ...]:
        """Return the names of the files to remove."""
        gone = sorted(self._on_disk - self._content.keys())
        return tuple(segment_file_name(number, SNAPSHOT) for number in gone)

    def _bytes(self, number: int) -> bytes:
        content = self._content[number]
        return self._read(number) if content is None else content

    def _read(self, number: int) -> bytes:
        return map_file(self._path(number)).tobytes()

    def _path(self, number: int) -> Path:
        return self._directory / segment_file_name(number, SNAPSHOT)


class ProducerState:
    """What is known of the producers up to an offset.

    Args:
        files: the snapshots; they are changed.
        now_ms, expiration_ms: producers that are idle for longer are not taken from a snapshot.
    """

    def __init__(
        self, files: SnapshotFiles, *, now_ms: TimestampMs, expiration_ms: int, end_offset: int = 0
    ) -> None:
        self._files = files
        self._now_ms = now_ms
        self._expiration_ms = expiration_ms
        self._snapshot_offset = 0
        self.end_offset = end_offset
        self.replay = Replay(entries={})

    def load(
        self,
        segments: Sequence[LoadedSegment],
        *,
        log_start_offset: int,
        end_offset: int,
        clean_shutdown: bool,
    ) -> None:
        """Build the producers up to an offset (UnifiedLog.rebuildProducerState). Effects: reads
        snapshots, and the batches after the newest.

        After a clean stop without any snapshot there are no producers.
        """
        marks = {segment.base_offset for segment in segments[-2:]} | {end_offset}
        if clean_shutdown and not self._files.numbers():
            for mark in sorted(marks):
                self.end_offset = mark
                self.take_snapshot()
            return
        nothing_to_load = self.end_offset >= end_offset
        self._truncate(log_start_offset, end_offset)
        if end_offset > self.end_offset and not nothing_to_load:
            self._replay(segments, marks, log_start_offset, end_offset)
        self.end_offset = end_offset
        self.take_snapshot()

    def append(self, valid: ValidBatches, segment: LoadedSegment, rows: int) -> None:
        """Continue with the first `rows` batches of a segment. Those of old formats know nothing
        of producers: a broker skips them (LogSegment.recover).

        Raises:
            CorruptBatch: a control batch cannot be read.
        """
        replayed = valid.batches[:rows]
        replayed = replayed[replayed["legacy"] == NOT_LEGACY]
        if not len(replayed):
            return
        self._replay_rows(segment, replayed)
        self.end_offset = int(replayed[-1]["last_offset"]) + 1

    def take_snapshot(self) -> None:
        """Set a snapshot at the end offset, if it is after the last one."""
        if self.end_offset > self._snapshot_offset:
            entries = [entry for _, entry in sorted(self.replay.entries.items())]
            self._files.write(self.end_offset, serialize_snapshot(entries))
            self._snapshot_offset = self.end_offset

    def _truncate(self, log_start_offset: int, end_offset: int) -> None:
        """Start from the newest snapshot in range and remove the others (truncateAndReload)."""
        numbers = self._files.numbers()
        self._files.remove(n for n in numbers if n > end_offset or n <= log_start_offset)
        if end_offset == self.end_offset:
            self.end_offset = max(self.end_offset, log_start_offset)
            self._snapshot_offset = max(self._files.numbers(), default=log_start_offset)
            return
        for number in reversed(self._files.numbers()):
            entries = self._files.read(number)
            if entries is not None:
                active = active_producers(
                    entries, now_ms=self._now_ms, expiration_ms=self._expiration_ms
                )
                self.replay = Replay(entries={entry.producer_id: entry for entry in active})
                self.end_offset = self._snapshot_offset = number
                return
            self._files.remove([number])
        self.end_offset = self._snapshot_offset = log_start_offset

    def _replay(
        self,
        segments: Sequence[LoadedSegment],
        marks: set[int],
        log_start_offset: int,
        end_offset: int,
    ) -> None:
        following = [*(segment.base_offset for segment in segments[1:]), None]
        for segment, after in zip(segments, following, strict=False):  # there may be none
            if segment.base_offset >= end_offset or (
                after is not None and after <= self.end_offset
            ):
                continue
            start = max(segment.base_offset, self.end_offset, log_start_offset)
            self.end_offset = start
            if segment.base_offset in marks:
                self.take_snapshot()
            valid = segment.batches(check_crcs=False)
            offsets = valid.batches["last_offset"]
            reaching = np.flatnonzero(offsets >= start)
            first = int(reaching[0]) if len(reaching) else len(offsets)
            beyond = np.flatnonzero(offsets >= end_offset)
            holds_end = after is None or end_offset < after
            stop = int(beyond[0]) if holds_end and len(beyond) else len(offsets)
            self._replay_rows(segment, valid.batches[first:stop])

    def _replay_rows(self, segment: LoadedSegment, rows: NDArray[np.void]) -> None:
        try:
            replay_batches(self.replay, segment.data(), rows)
        except (CorruptBatch, UnsupportedFormatError) as error:
            raise type(error)(
                error.problem,
                path=segment.path,
                position=error.position,
                remedy="Nothing was changed. Kafka's loading fails on it as well, or stops there;"
                " restore the segment.",
            ) from error
