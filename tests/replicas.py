"""Replicas of one partition, as brokers make them: a leader appends, followers fetch its batches as
they are, each is cleaned when its broker likes.

A follower that fetches is a log directory with more bytes at its end, and no clean-shutdown marker;
our recovery, which does what a broker's loading does, makes indexes, snapshots and marker of it.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from logwright.compaction.model import CleaningStats
from logwright.config.topic import parse_settings
from logwright.format.batch import (
    CODEC_MASK,
    HEADER_BYTES,
    RecordBatch,
    parse_batch,
    serialize_batch,
    walk_batches,
)
from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.codec import compress, decompress
from logwright.format.names import (
    CLEAN_SHUTDOWN_MARKER,
    LOG,
    TopicPartition,
    parse_segment_file_name,
    segment_file_name,
)
from logwright.log.load import observe
from logwright.log.model import PartitionLog
from logwright.purge.commit import purge_partition
from logwright.recovery.model import RecoveryOptions
from logwright.sweep.build import build, examine
from logwright.sweep.commit import commit
from logwright.sweep.recover import recover_directory
from logwright.units import TimestampMs
from tests.log_builder import SegmentBuilder
from tests.oracle_runner import run_oracle
from tests.plans import forced_plan

PARTITION = TopicPartition("t", 0)
DELETE_RETENTION_MS = 20_000
SETTINGS = {
    "cleanup.policy": "compact",
    "delete.retention.ms": str(DELETE_RETENTION_MS),
    "segment.ms": str(1 << 60),
    "producer.id.expiration.ms": "86400000",
}
_PURGE_MS = 120_000
_MOST_BYTES = 1 << 24


@dataclass(slots=True)
class Writer:
    """What a leader is sent: batches with ascending offsets.

    Attributes:
        batches: all of them.
        epoch: the leader's, of the batches to come.
        sequences: the next one of each producer.
    """

    end: int = 0
    epoch: int = 0
    batches: list[bytes] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)

    def batch(self, *pairs: tuple[str | None, str | None], **more: Any) -> None:  # noqa: ANN401 -- of `SegmentBuilder.batch`
        """Records with these keys and values."""
        producer = more.get("producer_id", -1)
        if producer >= 0:
            more["sequence"] = self.sequences.get(producer, 0)
            self.sequences[producer] = more["sequence"] + len(pairs)
        self._take(SegmentBuilder(self.end).batch(self.end, pairs, **more))

    def marker(self, producer_id: int, kind: Any) -> None:  # noqa: ANN401 -- of `SegmentBuilder.marker`
        """The end of a transaction."""
        self._take(SegmentBuilder(self.end).marker(self.end, producer_id, kind))

    def _take(self, built: SegmentBuilder) -> None:
        (whole,) = built.batches
        header = replace(parse_batch(whole), partition_leader_epoch=self.epoch)
        self.batches.append(serialize_batch(header, whole[HEADER_BYTES:]))
        self.end = header.next_offset


@dataclass(frozen=True, slots=True)
class ReplicaDir:
    """A log directory with one replica, of a broker that is stopped."""

    log_dir: Path

    @classmethod
    def new(cls, log_dir: Path) -> ReplicaDir:
        """An empty one. Effects: makes it."""
        (log_dir / PARTITION.directory_name).mkdir(parents=True)
        for name in ("log-start-offset", "recovery-point-offset", "cleaner-offset"):
            (log_dir / f"{name}-checkpoint").write_bytes(serialize_offset_checkpoint({}))
        return cls(log_dir)

    @property
    def directory(self) -> Path:
        """The partition's."""
        return self.log_dir / PARTITION.directory_name

    def log(self) -> PartitionLog:
        """The log as it is observed."""
        return observe(self.log_dir, PARTITION, high_watermark="end")

    def bases(self) -> list[int]:
        """The base offsets of the segments."""
        names = [parse_segment_file_name(path.name) for path in self.directory.iterdir()]
        return sorted(base for base, suffix in filter(None, names) if suffix == LOG)

    def batches(self) -> list[bytes]:
        """All batches, in order."""
        return [whole for base in self.bases() for whole in _split(self._path(base).read_bytes())]

    @property
    def end(self) -> int:
        """The log end offset."""
        batches = self.batches()
        ends = [parse_batch(batches[-1]).next_offset] if batches else []
        return max([*ends, *self.bases()[-1:], 0])

    def append(self, batches: Iterable[bytes], *, rolls: Sequence[int] = (), now_ms: int) -> None:
        """Append what a leader has, and load the log. Effects: writes it.

        `rolls`: numbers of the batches before which the active segment rolls.
        """
        end = self.end
        bases = self.bases() or [0]
        base = bases[-1]
        for number, whole in enumerate(batches):
            if number in rolls and self._path(base).exists() and self._path(base).stat().st_size:
                base = end
            with self._path(base).open("ab") as file:
                file.write(whole)
            end = parse_batch(whole).next_offset
        self.load(now_ms)

    def fetch(
        self, leader: ReplicaDir, *, end: int | None = None, rolls: Sequence[int] = (), now_ms: int
    ) -> None:
        """Fetch what the leader has at and above the own end, up to an offset. Effects: writes."""
        own = self.end
        wanted = [
            whole
            for whole in leader.batches()
            if parse_batch(whole).last_offset >= own
            and (end is None or parse_batch(whole).last_offset < end)
        ]
        self.append(wanted, rolls=rolls, now_ms=now_ms)

    def roll(self, now_ms: int) -> None:
        """Begin a new active segment, so that all before is sealed. Effects: writes."""
        self._path(self.end).touch()
        self.load(now_ms)

    def load(self, now_ms: int) -> None:
        """What a broker does after a crash. Effects: changes the log."""
        (self.log_dir / CLEAN_SHUTDOWN_MARKER).unlink(missing_ok=True)
        result = recover_directory(
            self.log_dir,
            [PARTITION],
            lambda _: parse_settings(SETTINGS)[0],
            now_ms=TimestampMs(now_ms),
            options=RecoveryOptions(),
        )
        assert not result.failures, result.failures
        assert result.clean

    def clean(self, now_ms: int, *, others: Iterable[ReplicaDir] = ()) -> CleaningStats | None:
        """Clean it, coordinated with other replicas if there are any; None if there is nothing to
        clean. Effects: changes the log.
        """
        replicas = tuple(other.log_dir for other in others)
        plan = forced_plan(self.log_dir, PARTITION, SETTINGS, now_ms=now_ms, replicas=replicas)
        if not plan.clean:
            return None
        staged = build(plan)
        facts = examine(plan, staged)
        assert not facts.failed, facts.failed
        commit(plan, staged)
        later = TimestampMs(now_ms + _PURGE_MS)
        purge_partition(self.log_dir, PARTITION, now_ms=later, file_delete_delay_ms=60_000)
        return staged.stats

    def clean_by_kafka(self, now_ms: int) -> None:
        """Clean it by Kafka's own cleaner. Effects: changes the log."""
        config = [f"{name}={value}" for name, value in SETTINGS.items()]
        run_oracle(
            "clean",
            *("--log-dir", self.log_dir, "--topic-partition", str(PARTITION)),
            *("--now", str(now_ms), "--config", *config),
        )

    def keeps_from(self, offset: int) -> None:
        """Raise the log start offset, as DeleteRecords does. Effects: writes the checkpoint."""
        (self.log_dir / "log-start-offset-checkpoint").write_bytes(
            serialize_offset_checkpoint({PARTITION: offset})
        )

    def recompress(self, codec: int, now_ms: int) -> None:
        """Give all data another codec. Effects: writes the segments again."""
        for base in self.bases():
            path = self._path(base)
            path.write_bytes(b"".join(recoded(one, codec) for one in _split(path.read_bytes())))
        for path in self.directory.iterdir():
            if path.suffix in {".index", ".timeindex", ".txnindex", ".snapshot"}:
                path.unlink()
        self.load(now_ms)

    def copy(self, log_dir: Path) -> ReplicaDir:
        """The same in another directory. Effects: makes it."""
        shutil.copytree(self.log_dir, log_dir)
        return ReplicaDir(log_dir)

    def _path(self, base: int) -> Path:
        return self.directory / segment_file_name(base, LOG)


def _split(content: bytes) -> Iterator[bytes]:
    for span in walk_batches(content):
        yield content[span.position : span.position + span.bytes]


def recoded(whole: bytes, codec: int) -> bytes:
    """A batch with another codec; markers and empty batches have none."""
    header = parse_batch(whole)
    if header.is_control or not header.records_count:
        return whole
    payload = whole[HEADER_BYTES:]
    if header.codec:
        payload = decompress(header.codec, memoryview(payload), limit=_MOST_BYTES)
    return _with_codec(header, payload, codec)


def _with_codec(header: RecordBatch, payload: bytes, codec: int) -> bytes:
    attributes = (header.attributes & ~CODEC_MASK) | codec
    return serialize_batch(
        replace(header, attributes=attributes), compress(codec, payload) if codec else payload
    )
