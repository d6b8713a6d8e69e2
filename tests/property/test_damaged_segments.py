"""Whatever the bytes of a segment are, a cleaning refuses them by name or does the right thing."""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from logwright.errors import (
    CorruptIndex,
    CorruptProducerSnapshot,
    LogwrightError,
    QualityError,
)
from logwright.format.batch import parse_batch, walk_batches
from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import TopicPartition, segment_file_name
from logwright.rewrite.staging import discard_staging
from logwright.sweep.build import build, examine
from tests import fixtures
from tests.log_builder import SegmentBuilder
from tests.plain_reader import is_readable
from tests.plans import forced_plan
from tests.producer_files import ProducerState
from tests.property.mutations import mutate

MUTANTS = 1_800
NIGHTLY_MUTANTS = 24_000
SLOWEST_SECONDS = 10
MORE_MEMORY_BYTES = 1 << 30
"""Address space that a cleaning of some kilobytes may take, compiled code and mapped files too."""
FAR = 2**31
"""A following segment so far away that no offset delta is too large for its batch."""

SEGMENTS = (
    ("basic-none", 1),
    ("basic-gzip", 0),
    ("basic-snappy", 0),
    ("basic-lz4", 2),
    ("basic-zstd", 1),
    ("append-time-1", 0),
    ("tombstones-2-early", 3),
    ("txn-1-mixed", 0),
    ("txn-1-mixed", 3),
    ("txn-2-second", 7),
    ("idempotent-2-written-again", 4),
    ("odd-records", 1),
)
"""Case, and which of its segments: all codecs, markers, aborted data, empty batches, horizons."""


@dataclass(frozen=True, kw_only=True)
class Healthy:
    """A segment that Kafka wrote."""

    base_offset: int
    end_offset: int
    content: bytes
    txnindex: bytes | None
    now_ms: int

    @property
    def transactional(self) -> bool:
        """Some batch of it belongs to a transaction, or ends one."""
        spans = walk_batches(self.content)
        return any(parse_batch(self.content, one.position).is_transactional for one in spans)

    def write(self, log_dir: Path, content: bytes) -> Path:
        """A log of this segment, with other bytes, and of an empty active one; the `.log`."""
        directory = log_dir / "t-0"
        directory.mkdir(parents=True, exist_ok=True)
        for base in (self.base_offset, self.end_offset):
            for suffix in (".log", ".index", ".timeindex"):
                (directory / segment_file_name(base, suffix)).write_bytes(b"")
        if self.txnindex is not None:
            path = directory / segment_file_name(self.base_offset, ".txnindex")
            path.write_bytes(self.txnindex)
        (log_dir / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":0}')
        (log_dir / "cleaner-offset-checkpoint").write_bytes(serialize_offset_checkpoint({}))
        log = directory / segment_file_name(self.base_offset, ".log")
        log.write_bytes(content)
        return log


def healthy(name: str, number: int) -> Healthy:
    """One segment of a case. What it leaves open is committed at its end: without a snapshot nobody
    would know of it.
    """
    (partition,) = fixtures.partitions(name)
    logs = sorted((fixtures.case_dir(name) / "before" / partition.name).glob("*.log"))
    txnindex = logs[number].with_suffix(".txnindex")
    content, end_offset = logs[number].read_bytes(), int(logs[number + 1].stem)
    markers = SegmentBuilder(end_offset)
    state = ProducerState()
    state.append(content[one.position : one.position + one.bytes] for one in walk_batches(content))
    for producer_id, producer in sorted(state.producers.items()):
        if producer.open_since is not None:
            markers.marker(end_offset, producer_id, "commit", epoch=producer.epoch)
            end_offset += 1
    return Healthy(
        base_offset=int(logs[number].stem),
        end_offset=end_offset,
        content=content + markers.content,
        txnindex=txnindex.read_bytes() if txnindex.exists() else None,
        now_ms=fixtures.description(name)["now"],
    )


@contextmanager
def little_memory() -> Iterator[None]:
    """Let an allocation of more than MORE_MEMORY_BYTES fail."""
    status = Path("/proc/self/statm").read_text().split()
    used = int(status[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY_BYTES, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def clean(log: Path, now_ms: int) -> LogwrightError | None:
    """Clean up to the staged output and judge it; the refusal, if there was one."""
    partition = TopicPartition.parse(log.parent.name)
    assert partition is not None
    try:
        plan = forced_plan(
            log.parent.parent, partition, {"cleanup.policy": "compact"}, now_ms=now_ms
        )
        if not plan.clean:
            return None
        staged = build(plan)
    except LogwrightError as error:
        return error
    facts = examine(plan, staged)
    discard_staging(plan)
    broken = tuple(check.name for check in facts.failed)
    return QualityError(" ".join(broken), path=log) if broken else None


def judge(segment: Healthy, content: bytes, log_dir: Path) -> bool:
    """Clean one mutant; whether it was refused.

    What is read may still contradict itself: markers that no entry of the transaction index names,
    or that are another producer's, and a transaction without an end. The checks of the
    output or of the hints refuse that; all else the reading does.
    """
    log = segment.write(log_dir, content)
    refusal = clean(log, segment.now_ms)
    if isinstance(refusal, QualityError):
        assert (True, "latest_value_per_key") == (segment.txnindex is not None, refusal.problem)
        return True
    if isinstance(refusal, CorruptProducerSnapshot) or (
        isinstance(refusal, CorruptIndex) and refusal.path == log.with_suffix(".txnindex")
    ):
        damaged = replace(segment, content=content)  # its attributes may say so now
        assert segment.transactional or damaged.transactional
        return True
    readable = is_readable(content, base_offset=segment.base_offset, end_offset=segment.end_offset)
    assert readable == (refusal is None), refusal
    if refusal is not None:
        assert log == refusal.path
        assert refusal.remedy
    return refusal is not None


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    """A directory in memory where there is such a place: syncs would take most of the time."""
    place = Path("/dev/shm")  # noqa: S108 -- a private directory below it
    with tempfile.TemporaryDirectory(dir=place if place.is_dir() else None) as directory:
        yield Path(directory)


@pytest.mark.parametrize(("name", "number"), SEGMENTS)
def test_a_healthy_segment_is_cleaned(name: str, number: int, memory: Path) -> None:
    """What is damaged below is right before it is damaged."""
    segment = healthy(name, number)
    assert not judge(segment, segment.content, memory / f"{name}-{number}-healthy")


@pytest.mark.parametrize(
    "mutants", [MUTANTS, pytest.param(NIGHTLY_MUTANTS, marks=pytest.mark.nightly)]
)
@pytest.mark.parametrize(("name", "number"), SEGMENTS)
def test_a_damaged_segment_is_refused_or_cleaned_by_the_checks(
    name: str, number: int, mutants: int, memory: Path, seed: int
) -> None:
    """Never a crash, a hang or a huge allocation; and what the plain reader refuses the kernels
    refuse, what it reads they read.
    """
    segment = healthy(name, number)
    segments = (segment, replace(segment, end_offset=segment.base_offset + FAR))
    names = (f"{name}-{number}", f"{name}-{number}-far")
    judge(segment, segment.content, memory / names[0])
    refused = 0
    count = mutants // len(SEGMENTS)
    with little_memory():
        for mutant in range(count):
            content = mutate(segment.content, Random(f"{seed}/{name}/{number}/{mutant}"))
            started = time.monotonic()
            try:
                refused += judge(segments[mutant % 2], content, memory / names[mutant % 2])
            except (Exception, SystemError) as error:
                raise AssertionError(f"mutant {mutant} of seed {seed}: {error!r}") from error
            assert time.monotonic() - started < SLOWEST_SECONDS
    assert refused > 0  # few mutants of a compressed segment can be read, of some seeds none
