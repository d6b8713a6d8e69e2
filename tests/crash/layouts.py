"""Segment groups that Kafka cleaned: the log before, the cleaned segment, the swap between them.

The content is Kafka's own on both sides, so that its loader can judge every state in between.
"""

from __future__ import annotations

import json
import shutil
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from logwright.format.names import (
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    TXNINDEX,
    TopicPartition,
    parse_segment_file_name,
    segment_file_name,
)
from logwright.log.model import Fingerprint, PartitionLog, Segment
from logwright.place.model import FileStamp
from logwright.rewrite.model import StagedSegment
from logwright.rewrite.steps import swap_steps
from logwright.steps.step import FileStep
from logwright.units import ByteCount, Offset, TimestampMs
from tests.crash.filesystems import with_paths
from tests.fixtures import case_dir, swap_layouts

NOW_MS = TimestampMs(1_770_000_000_000)
MODIFIED_NS = 1_760_000_123_000_000_000
Files = dict[str, bytes]


def picture(log_dir: Path, partition: TopicPartition) -> PartitionLog:
    """A log as names and sizes, which is what steps are made from; no batch is read."""
    directory = log_dir / partition.directory_name
    stamps = []
    bases: list[int] = []
    snapshots: list[Offset] = []
    for path in sorted(directory.iterdir()):
        if not path.is_file():
            continue
        status = path.stat()
        stamps.append(
            FileStamp(
                name=path.name,
                bytes=ByteCount(status.st_size),
                modified_ns=status.st_mtime_ns,
                inode=status.st_ino,
            )
        )
        parsed = parse_segment_file_name(path.name)
        if parsed is not None and parsed[1] == LOG:
            bases.append(parsed[0])
        if parsed is not None and parsed[1] == SNAPSHOT:
            snapshots.append(Offset(parsed[0]))
    end = Offset(max([*snapshots, *(base + 1 for base in bases)]))
    return PartitionLog(
        log_dir=log_dir,
        partition=partition,
        segments=tuple(_segment(directory, base) for base in sorted(bases)),
        log_start_offset=Offset(min(bases)),
        log_end_offset=end,
        high_watermark=end,
        last_stable_offset=end,
        recovery_point=end,
        cleaner_checkpoint=None,
        snapshot_offsets=tuple(snapshots),
        fingerprint=Fingerprint(files=tuple(stamps), checkpoints=()),
    )


def _segment(directory: Path, base: int) -> Segment:
    sizes = [
        path.stat().st_size if (path := directory / segment_file_name(base, suffix)).exists() else 0
        for suffix in SEGMENT_SUFFIXES
    ]
    txnindex = directory / segment_file_name(base, TXNINDEX)
    return Segment(
        base_offset=Offset(base),
        log_bytes=ByteCount(sizes[0]),
        index_bytes=ByteCount(sizes[1]),
        timeindex_bytes=ByteCount(sizes[2]),
        txnindex_bytes=ByteCount(sizes[3]) if txnindex.exists() else None,
        modified_ns=(directory / segment_file_name(base, LOG)).stat().st_mtime_ns,
        largest_timestamp_ms=TimestampMs(-1),
        first_batch_max_timestamp_ms=None,
    )


@dataclass(frozen=True)
class Layout:
    """One group of one case.

    Attributes:
        case: name of the case or of the hand-made layout.
        base: base offset of the group.
    """

    case: str
    base: int

    def __str__(self) -> str:
        return f"{self.case}@{self.base}"

    @cached_property
    def root(self) -> Path:
        """The case's directory."""
        made = swap_layouts() / self.case
        return made if made.is_dir() else case_dir(self.case)

    @cached_property
    def description(self) -> dict[str, Any]:
        """What case.json says."""
        described: dict[str, Any] = json.loads((self.root / "case.json").read_text())
        return described

    @property
    def partition(self) -> TopicPartition:
        """The case's only partition."""
        return TopicPartition(self.description["topic"], self.description["partition"])

    def side(self, side: str) -> Files:
        """Plain files of the partition before or after."""
        directory = self.root / side / self.partition.directory_name
        return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}

    @cached_property
    def start(self) -> Files:
        """The partition when this group's turn comes: earlier groups are swapped, later not."""
        before, after = self.side("before"), self.side("after")
        files = {name: data for name, data in before.items() if self._base(name) >= self.base}
        earlier = {name: data for name, data in after.items() if -1 < self._base(name) < self.base}
        return {**files, **earlier}

    @cached_property
    def fresh(self) -> Files:
        """The cleaned segment's files, under their final names."""
        return {n: data for n, data in self.side("after").items() if self._base(n) == self.base}

    @cached_property
    def group(self) -> list[int]:
        """Base offsets of the old segments."""
        later = [one for one in self._bases("after") if one > self.base]
        end = later[0] if later else 1 << 63
        return [one for one in self._bases("before") if self.base <= one < end]

    @property
    def end(self) -> Files:
        """The partition's segment files once the swap is done."""
        gone = {
            name
            for name in self.start
            if self._base(name) in self.group
            or (
                (parsed := parse_segment_file_name(name)) is not None
                and parsed[1] == SNAPSHOT
                and parsed[0] in self.group[1:]
            )
        }
        kept = {name: data for name, data in self.start.items() if name not in gone}
        return {**kept, **self.fresh}

    @property
    def next_offset(self) -> int:
        """Last offset of the cleaned segment + 1; its base if it is empty."""
        log = self.fresh[segment_file_name(self.base, LOG)]
        position, end = 0, self.base
        while position < len(log):
            base, length = struct.unpack_from(">qi", log, position)
            end = base + struct.unpack_from(">i", log, position + 23)[0] + 1
            position += 12 + length
        return end

    def staging(self, log_dir: Path) -> Path:
        """Where the staged files lie."""
        return log_dir / self.partition.directory_name / ".logwright" / "staging" / "plan"

    def build(self, log_dir: Path) -> tuple[FileStep, ...]:
        """Write the log and the staged files; the steps of the swap."""
        shutil.copytree(
            self.root / "before", log_dir, ignore=lambda _, names: [n for n in names if "-0" in n]
        )
        directory = log_dir / self.partition.directory_name
        staging = self.staging(log_dir)
        staging.mkdir(parents=True)
        for parent, files in ((directory, self.start), (staging, self.fresh)):
            for name, data in files.items():
                (parent / name).write_bytes(data)
        return self.steps(log_dir)

    def steps(self, log_dir: Path) -> tuple[FileStep, ...]:
        """The swap of what `build` wrote."""
        log = picture(log_dir, self.partition)
        steps = swap_steps(log, self.staged, self.staging(log_dir), now_ms=NOW_MS)
        return tuple(with_paths(steps))

    @property
    def staged(self) -> StagedSegment:
        """What compaction says of the cleaned segment."""
        sizes = {
            suffix: ByteCount(len(self.fresh[name]))
            for suffix in SEGMENT_SUFFIXES
            if (name := segment_file_name(self.base, suffix)) in self.fresh
        }
        return StagedSegment(
            base_offset=Offset(self.base),
            source_base_offsets=tuple(Offset(one) for one in self.group),
            log_bytes=sizes[".log"],
            index_bytes=sizes[".index"],
            timeindex_bytes=sizes[".timeindex"],
            txnindex_bytes=sizes.get(TXNINDEX),
            next_offset=Offset(self.next_offset),
            modified_ns=MODIFIED_NS,
        )

    def _bases(self, side: str) -> list[int]:
        return sorted(self._base(name) for name in self.side(side) if name.endswith(LOG))

    @staticmethod
    def _base(name: str) -> int:
        """Base offset of a segment's file; for other files -1, or beyond all (they are kept)."""
        parsed = parse_segment_file_name(name)
        if parsed is None or parsed[1] == SNAPSHOT:
            return 1 << 63
        return parsed[0]


ONE_SEGMENT = Layout("basic-none", 235)
ONE_EMPTIED = Layout("basic-none", 155)
MERGED = Layout("recleaned-2", 0)
EMPTIED_WITH_TAILS = Layout("emptied-2", 0)
HALF_EMPTIED = Layout("recleaned-3", 0)
TAILS = Layout("syn-tail", 0)
TAILS_WITH_TRANSACTIONS = Layout("syn-tail-txn", 0)
EMPTIED_WITH_TRANSACTIONS = Layout("syn-emptied-txn", 0)
TXNINDEX_VANISHES = Layout("txn-2-second", 0)
TXNINDEX_STAYS = Layout("txn-2-second", 395)
MERGED_PAIR = Layout("txn-2-second", 256)
LAYOUTS = (
    ONE_SEGMENT,
    ONE_EMPTIED,
    MERGED,
    EMPTIED_WITH_TAILS,
    HALF_EMPTIED,
    TAILS,
    TAILS_WITH_TRANSACTIONS,
    EMPTIED_WITH_TRANSACTIONS,
    TXNINDEX_VANISHES,
    TXNINDEX_STAYS,
    MERGED_PAIR,
)
