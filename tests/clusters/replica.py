"""One replica of a partition as its broker has it: loaded from the files of a log directory, and
written there when the broker stops or is killed. Rules of LogLoader, UnifiedLog,
LeaderEpochFileCache and AbstractFetcherThread, Kafka 4.4.0, as far as records, leader epochs and
offsets are concerned.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from logwright.errors import LogwrightError
from logwright.format.batch import crc_is_valid, parse_batch
from logwright.format.record import Record, read_records
from tests.log_builder import LogBuilder
from tests.producer_files import ProducerState

MARKER: Final = ".kafka_cleanshutdown"
_OWN_FILES: Final = re.compile(
    r"\d{20}\.(log|index|timeindex|txnindex|snapshot)(\.deleted|\.cleaned|\.swap)?"
)
_HEADER: Final = 61
_LENGTH_AT: Final = 8
_OVERHEAD: Final = 12
SEGMENT_BYTES: Final = 1_000


class Diverged(AssertionError):
    """A follower cannot take what its leader has."""


@dataclass(slots=True)
class Batch:
    """A record batch as it lies on disk."""

    content: bytes

    @property
    def base(self) -> int:
        """Offset of the first record."""
        return int.from_bytes(self.content[:8], "big")

    @property
    def last(self) -> int:
        """Offset of the last record."""
        return self.base + int.from_bytes(self.content[23:27], "big")

    @property
    def epoch(self) -> int:
        """Of the leader that appended it."""
        return int.from_bytes(self.content[12:16], "big")

    @property
    def producer(self) -> int:
        """The id of its producer, -1: none."""
        return int.from_bytes(self.content[43:51], "big", signed=True)

    def is_duplicate(self, count: int) -> bool:
        """Whether a leader takes a producer's first batch, with this number of records, for this
        one: it acknowledges it, and does not write it (ProducerStateEntry.findDuplicateBatch).
        Others are out of order.
        """
        sequence = int.from_bytes(self.content[53:57], "big", signed=True)
        return sequence == 0 and self.last - self.base + 1 == count

    def records(self) -> tuple[Record, ...]:
        """Decoded."""
        return tuple(read_records(parse_batch(self.content), self.content))


def stamped(content: bytes, base: int, epoch: int) -> Batch:
    """A batch as a leader appends it: neither offset nor epoch is covered by the CRC."""
    head = base.to_bytes(8, "big") + content[8:12] + epoch.to_bytes(4, "big")
    return Batch(head + content[16:])


@dataclass(slots=True)
class Replica:
    """What a broker that runs has in memory of a partition.

    Attributes:
        segments: base offset and batches of each.
        epochs: leader epoch and its first offset.
        start, hw: log start offset, high watermark.
    """

    log_dir: Path
    partition: str
    segments: list[tuple[int, list[Batch]]] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    start: int = 0
    hw: int = 0

    @property
    def directory(self) -> Path:
        """Of the partition."""
        return self.log_dir / self.partition

    @property
    def batches(self) -> list[Batch]:
        """All of them, in order."""
        return [each for _, batches in self.segments for each in batches]

    @property
    def end(self) -> int:
        """The log end offset."""
        for base, batches in reversed(self.segments):
            return batches[-1].last + 1 if batches else base
        return 0

    def load(self) -> int:
        """Read the directory as a broker that starts; the epoch of the marker, -1: none. Effects:
        removes the marker, and what a start removes.
        """
        marker = self.log_dir / MARKER
        epoch, is_clean = _marker_epoch(marker), marker.exists()
        marker.unlink(missing_ok=True)
        self.directory.mkdir(parents=True, exist_ok=True)
        for path in self.directory.glob("*.deleted"):
            path.unlink()
        self.segments = []
        for path in sorted(self.directory.glob("*.log")):
            batches, whole = _batches_of(path.read_bytes(), int(path.stem), self.end)
            self.segments.append((int(path.stem), batches))
            if not whole:
                if is_clean:
                    raise Diverged(f"{path.name}: damaged, with the marker of a clean stop")
                break
        name = self.partition.rpartition("-")[0]
        start = _checkpoint(self.log_dir / "log-start-offset-checkpoint", name)
        self.start = max(start, self._first)
        hw = _checkpoint(self.log_dir / "replication-offset-checkpoint", name)
        self.hw = min(max(hw, self.start), self.end)
        self.epochs = [each for each in self._epochs_on_disk() if each[1] < self.end]
        return epoch

    @property
    def _first(self) -> int:
        return self.segments[0][0] if self.segments else 0

    def _epochs_on_disk(self) -> list[tuple[int, int]]:
        path = self.directory / "leader-epoch-checkpoint"
        lines = path.read_text().split("\n")[2:] if path.exists() else []
        return [(int(a), int(b)) for a, b in (line.split() for line in lines if line.strip())]

    def lead(self, epoch: int) -> None:
        """Become the leader (`LeaderEpochFileCache.assign`)."""
        if not self.epochs or self.epochs[-1][0] < epoch:
            if self.epochs and self.epochs[-1][1] >= self.end:
                self.epochs.pop()
            self.epochs.append((epoch, self.end))

    def append(self, batch: Batch) -> None:
        """Take a batch at the end; rolls as a broker does."""
        if batch.base < self.end:
            raise Diverged(f"a batch at {batch.base}, and the log ends at {self.end}")
        size = sum(len(each.content) for each in self.segments[-1][1]) if self.segments else 0
        if not self.segments or (size and size + len(batch.content) > SEGMENT_BYTES):
            self.segments.append((batch.base if self.segments else self.end, []))
        self.segments[-1][1].append(batch)
        if not self.epochs or self.epochs[-1][0] < batch.epoch:
            self.epochs.append((batch.epoch, batch.base))

    def end_of_epoch(self, epoch: int) -> tuple[int, int] | None:
        """The largest epoch up to this one, and its end offset (KIP-101, KIP-279)."""
        known = [each for each in self.epochs if each[0] <= epoch]
        if not known:
            return None
        later = [first for number, first in self.epochs if number > epoch]
        return known[-1][0], later[0] if later else self.end

    def truncate(self, offset: int) -> None:
        """Cut to this offset (`UnifiedLog.truncateTo`)."""
        kept = []
        for base, batches in self.segments:
            if base < offset or not kept:
                kept.append((base, [each for each in batches if each.last < offset]))
        self.segments = kept
        self.epochs = [each for each in self.epochs if each[1] < offset]
        self.hw = min(self.hw, offset)

    def follow(self, leader: Replica) -> None:
        """Fetch all that the leader has (KIP-320, KIP-595's rules of divergence)."""
        for _ in range(20):
            if not self._truncated(leader):
                break
        else:
            raise Diverged("no end of truncations")
        if self.end > leader.end:
            self.truncate(leader.end)
        if self.end < leader.start:
            self.segments, self.epochs = [(leader.start, [])], []
            self.start = self.hw = leader.start
        for batch in leader.batches:
            if batch.last >= self.end:
                self.append(batch)
        self.start = max(self.start, min(leader.start, self.end))
        self.hw = max(self.hw, min(leader.hw, self.end))

    def _truncated(self, leader: Replica) -> bool:
        if not self.epochs:
            return False
        last = self.epochs[-1][0]
        theirs = leader.end_of_epoch(last)
        if theirs is None:
            self.truncate(self.hw)
            self.epochs = []
            return True
        if theirs[0] == last and theirs[1] >= self.end:
            return False
        ours = self.end_of_epoch(theirs[0])
        self.truncate(min(theirs[1], ours[1]) if ours is not None else min(theirs[1], self.hw))
        return True

    def write(self, broker_epoch: int | None) -> None:
        """Leave the files as a broker that stops, with the marker of its epoch, or is killed:
        None. Effects: writes them.
        """
        scratch = self.log_dir.with_name(f"{self.log_dir.name}-written")
        log = LogBuilder(scratch, self.partition)
        for base, batches in self.segments or [(self.end, [])]:
            segment = log.segment(base)
            for each in batches:
                segment.old(each.content, parse_batch(each.content).max_timestamp)
        log.write(producers=True, high_watermark=self.hw, log_start=self.start)
        for path in self.directory.iterdir():
            if _OWN_FILES.fullmatch(path.name):
                path.unlink()
        for path in log.directory.iterdir():
            path.replace(self.directory / path.name)
        entries = [f"{number} {first}" for number, first in self.epochs]
        lines = ["0", str(len(entries)), *entries]
        (self.directory / "leader-epoch-checkpoint").write_text("\n".join([*lines, ""]))
        for name in ("log-start-offset-checkpoint", "replication-offset-checkpoint"):
            (scratch / name).replace(self.log_dir / name)
        name, _, number = self.partition.rpartition("-")
        point = self.log_dir / "recovery-point-offset-checkpoint"
        if broker_epoch is not None:
            point.write_text(f"0\n1\n{name} {number} {self.end}\n")
            marker = {"version": 0, "brokerEpoch": broker_epoch}
            (self.log_dir / MARKER).write_text(json.dumps(marker, separators=(",", ":")))
        shutil.rmtree(scratch)

    def producers(self) -> ProducerState:
        """What is known of producers."""
        state = ProducerState()
        state.append(each.content for each in self.batches)
        return state


def batches_on_disk(directory: Path) -> list[Batch]:
    """The valid batches of a partition's directory. Effects: reads its files."""
    batches: list[Batch] = []
    for path in sorted(directory.glob("*.log")):
        batches += _batches_of(path.read_bytes(), int(path.stem), 0)[0]
    return batches


def batches_of(content: bytes) -> list[Batch]:
    """The valid batches at the beginning of a file."""
    return _batches_of(content, 0, 0)[0]


def _batches_of(content: bytes, base: int, end: int) -> tuple[list[Batch], bool]:
    """The valid batches at the beginning of a segment, and whether these are all of it."""
    batches: list[Batch] = []
    at, least = 0, max(base, end)
    while at + _HEADER <= len(content):
        size = int.from_bytes(content[at + _LENGTH_AT : at + _OVERHEAD], "big") + _OVERHEAD
        if size < _HEADER or at + size > len(content):
            break
        batch = Batch(content[at : at + size])
        if not _is_valid(batch) or batch.base < least:
            break
        batches.append(batch)
        at, least = at + size, batch.last + 1
    return batches, at == len(content)


def _is_valid(batch: Batch) -> bool:
    try:
        return crc_is_valid(parse_batch(batch.content), batch.content)
    except LogwrightError:
        return False


def _marker_epoch(path: Path) -> int:
    try:
        return int(json.loads(path.read_text())["brokerEpoch"])
    except (FileNotFoundError, ValueError, KeyError):
        return -1


def _checkpoint(path: Path, topic: str) -> int:
    lines: Iterable[str] = path.read_text().split("\n")[2:] if path.exists() else ()
    return next((int(line.split()[2]) for line in lines if line.split()[:1] == [topic]), 0)
