"""What is seen of a log directory, against what Kafka saw of the same one."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from logwright.errors import NotALogDir, UncleanLogDir
from logwright.format.names import TopicPartition
from logwright.log.checkpoints import CHECKPOINT_FILES, read_checkpoints
from logwright.log.load import fingerprint, list_partitions, observe
from tests.fixtures import CASES, case_dir, copy_before, description
from tests.log_builder import LogBuilder
from tests.unit.format.builders import a_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

T0 = TopicPartition("t", 0)
CLEAN_CASES = [
    name
    for name in CASES
    if not name.startswith(("bad-crc", "crash-", "missing-", "torn-", "real-", "orphan", "wrong"))
]
UNCLEAN = {
    "crash-cleaned": ".log.cleaned",
    "crash-swap": ".log.swap",
    "crash-swap-half-final": ".index.swap",
    "missing-index": "00000000000000000039.index",
    "missing-timeindex": "00000000000000000036.timeindex",
    "missing-timeindex-unclean": "00000000000000000039.timeindex",
    "orphan-index": "00000000000000999999.index",
    "torn-tail": ".kafka_cleanshutdown",
    "bad-crc-middle": ".kafka_cleanshutdown",
}


@pytest.mark.parametrize("name", CLEAN_CASES)
def test_a_log_is_seen_as_kafka_loaded_it(name: str) -> None:
    """Start, end and segments are those of `loaded` in the case."""
    log = observe(case_dir(name) / "before", T0, high_watermark="end")
    loaded = description(name)["loaded"]
    assert loaded["segments"] == [segment.base_offset for segment in log.segments]
    assert (loaded["logStartOffset"], loaded["logEndOffset"]) == (
        log.log_start_offset,
        log.log_end_offset,
    )
    assert log.log_end_offset == log.high_watermark
    assert loaded["lastStableOffset"] == log.last_stable_offset
    assert log.recovery_point == log.log_end_offset


@pytest.mark.parametrize(
    ("log_start", "stable"), [(None, 0), (5, 10), (10, 10), (11, 10), (15, 20), (20, 20)]
)
def test_an_open_transaction_from_below_the_start_counts_from_the_first_batch_left(
    log_start: int | None, stable: int, tmp_path: Path
) -> None:
    """The last stable offset is the base offset of the batch at the log start or after it."""
    builder = LogBuilder(tmp_path / "logs")
    first = builder.segment(0).batch(0, [("a", "1")], producer_id=7, transactional=True)
    first.batch(10, [("b", "1"), ("c", "1")], producer_id=7, transactional=True, sequence=1)
    builder.segment(20).batch(20, [("d", "1")])
    builder.write(log_start=log_start, producers=True)
    assert stable == observe(builder.log_dir, T0, high_watermark="end").last_stable_offset


@pytest.mark.parametrize("name", CLEAN_CASES)
def test_the_cleaner_checkpoint_is_kafkas(name: str) -> None:
    """The checkpointed offset of `plan` in the case."""
    log = observe(case_dir(name) / "before", T0, high_watermark="end")
    plan = description(name)["plan"]["partitions"][0]
    assert plan["checkpointedOffset"] == log.cleaner_checkpoint
    assert plan["segments"] == len(log.segments)


def test_a_segment_has_its_files_facts() -> None:
    """Sizes, times, and the first batch's and the last time index entry's timestamp."""
    log = observe(case_dir("basic-none") / "before", T0, high_watermark="end")
    first = log.segments[0]
    assert (
        first.base_offset,
        first.log_bytes,
        first.index_bytes,
        first.timeindex_bytes,
        first.txnindex_bytes,
    ) == (0, 7653, 32, 60, None)
    assert first.modified_ns == 1760000015502 * 1_000_000
    assert first.largest_timestamp_ms == 1760000015502
    assert log.snapshot_offsets == (77, 155, 235, 318, 401, 482, 500)


def test_all_partitions_of_a_real_broker_are_seen() -> None:
    """Several partitions share the checkpoints, which are read once."""
    log_dir = case_dir("real-broker") / "before"
    checkpoints = read_checkpoints(log_dir)
    partitions = list_partitions(log_dir)
    assert sorted(partitions) == partitions
    assert len(partitions) == 8
    planned = {
        line["topicPartition"]: line for line in description("real-broker")["plan"]["partitions"]
    }
    for partition in partitions:
        log = observe(log_dir, partition, high_watermark="checkpoint", checkpoints=checkpoints)
        plan = planned[str(partition)]
        assert plan["logEndOffset"] == log.log_end_offset
        assert plan["logStartOffset"] == log.log_start_offset
        assert log.high_watermark == checkpoints.high_watermark[partition]


@pytest.mark.parametrize(("name", "named"), UNCLEAN.items())
def test_an_unclean_log_is_refused_and_what_was_found_is_named(name: str, named: str) -> None:
    """Leftovers, missing and orphaned indexes, a missing marker; with a remedy."""
    with pytest.raises(UncleanLogDir, match="Recover") as refused:
        observe(case_dir(name) / "before", T0, high_watermark="end")
    assert named in str(refused.value)


def test_deleted_files_are_no_leftover(tmp_path: Path) -> None:
    """They wait for file.delete.delay.ms."""
    log_dir = copy_before("basic-none", tmp_path)
    (log_dir / "t-0" / "00000000000000000000.log.deleted").write_bytes(b"old")
    assert len(observe(log_dir, T0, high_watermark="end").segments) == 7


def test_our_own_directory_is_no_leftover(tmp_path: Path) -> None:
    """Staging lies below <partition>/.logwright."""
    log_dir = copy_before("basic-none", tmp_path)
    before = fingerprint(log_dir, T0)
    (log_dir / "t-0" / ".logwright" / "staging").mkdir(parents=True)
    assert before == observe(log_dir, T0, high_watermark="end").fingerprint


def a_log_dir(tmp_path: Path, *segments: tuple[int, bytes]) -> Path:
    """A clean log directory of one partition, t-0, without index entries."""
    partition = tmp_path / "logs" / "t-0"
    partition.mkdir(parents=True)
    (tmp_path / "logs" / ".kafka_cleanshutdown").touch()
    for base, content in segments:
        (partition / f"{base:020d}.log").write_bytes(content)
        (partition / f"{base:020d}.index").touch()
        (partition / f"{base:020d}.timeindex").touch()
    return tmp_path / "logs"


def test_without_index_entries_the_whole_active_segment_is_scanned(tmp_path: Path) -> None:
    """Windows of 1 MiB do not limit the size of a batch or a segment."""
    sizes = [10, 900_000, 600_000, 3_000_000, 10]
    content = b"".join(a_batch(n * 2, count=2, size=size) for n, size in enumerate(sizes))
    log = observe(a_log_dir(tmp_path, (0, content)), T0, high_watermark="end")
    assert log.log_end_offset == 10


def test_an_empty_active_segment_ends_where_it_begins(tmp_path: Path) -> None:
    """Its base offset is the log end offset; it has no first timestamp."""
    log = observe(a_log_dir(tmp_path, (0, a_batch()), (9, b"")), T0, high_watermark="end")
    assert log.log_end_offset == 9
    assert log.active.first_batch_max_timestamp_ms is None


def test_a_segment_without_timestamps_has_its_files_time(tmp_path: Path) -> None:
    """An empty time index, or one whose last timestamp is negative: LogSegment.largestTimestamp."""
    log_dir = a_log_dir(tmp_path, (0, a_batch()), (1, a_batch(1)))
    for base in (0, 1):
        os.utime(log_dir / "t-0" / f"{base:020d}.log", ns=(0, 1_234_999_999))
    entry = (-1).to_bytes(8, "big", signed=True) + bytes(4)
    (log_dir / "t-0" / f"{1:020d}.timeindex").write_bytes(entry)
    log = observe(log_dir, T0, high_watermark="end")
    assert [segment.largest_timestamp_ms for segment in log.segments] == [1234, 1234]


@pytest.mark.parametrize(
    ("start", "watermark", "expected"),
    [(None, None, (0, 0)), (2, 3, (2, 3)), (2, 1, (2, 2)), (5, 5, (5, 5))],
)
def test_offsets_are_limited_as_kafka_limits_them(
    tmp_path: Path, start: int | None, watermark: int | None, expected: tuple[int, int]
) -> None:
    """The high watermark lies between log start and log end; missing entries count as 0."""
    log_dir = a_log_dir(tmp_path, (0, a_batch(0, count=5)))
    for name, offset in ((CHECKPOINT_FILES[1], start), (CHECKPOINT_FILES[2], watermark)):
        if offset is not None:
            (log_dir / name).write_text(f"0\n1\nt 0 {offset}\n")
    log = observe(log_dir, T0, high_watermark="checkpoint")
    assert expected == (log.log_start_offset, log.high_watermark)
    assert log.last_stable_offset == log.high_watermark
    assert observe(log_dir, T0, high_watermark="end").high_watermark == 5


def test_a_log_starts_at_its_first_segment_at_least(tmp_path: Path) -> None:
    """The checkpoint has an entry only where it says more than the file name."""
    log = observe(a_log_dir(tmp_path, (7, a_batch(7))), T0, high_watermark="end")
    assert log.log_start_offset == 7


def test_only_partitions_are_listed(tmp_path: Path) -> None:
    """Names with -delete, -future, -stray, the metadata log and the remote cache are not."""
    log_dir = a_log_dir(tmp_path, (0, b""))
    token = "0123456789abcdef0123456789abcdef"  # noqa: S105 - the unique part of a name
    for name in (
        "b-1",
        "a.b-c-10",
        "a.b-c-9",
        f"x-0.{token}-delete",
        f"x-0.{token}-future",
        f"x-0.{token}-stray",
        "__cluster_metadata-0",
        "remote-log-index-cache",
        "nodash",
        "t-00",
    ):
        (log_dir / name).mkdir()
    (log_dir / "file-0").touch()
    expected = ["a.b-c-9", "a.b-c-10", "b-1", "t-0"]
    assert expected == [str(partition) for partition in list_partitions(log_dir)]


@pytest.mark.parametrize("name", [*CHECKPOINT_FILES, "meta.properties"])
def test_a_log_dir_may_have_no_partition(tmp_path: Path, name: str) -> None:
    """Any of a broker's own files makes it one."""
    (tmp_path / name).touch()
    assert list_partitions(tmp_path) == []


def test_another_directory_is_no_log_dir(tmp_path: Path) -> None:
    """Neither partitions nor a broker's files; the same for a file and for nothing."""
    (tmp_path / "documents").mkdir()
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "file", tmp_path / "missing"):
        with pytest.raises(NotALogDir) as refused:
            list_partitions(path)
        assert refused.value.path == path
        assert refused.value.remedy


@pytest.mark.parametrize(
    "change",
    [
        lambda log_dir: (log_dir / "t-0" / "new").touch(),
        lambda log_dir: (log_dir / "t-0" / "leader-epoch-checkpoint").unlink(),
        lambda log_dir: os.utime(log_dir / "t-0" / f"{0:020d}.log", ns=(1, 1)),
        lambda log_dir: os.truncate(log_dir / "t-0" / f"{482:020d}.log", 1616),
        lambda log_dir: (log_dir / CHECKPOINT_FILES[3]).write_text("0\n1\nt 0 3\n"),
    ],
    ids=["new file", "file gone", "time", "size", "checkpoint"],
)
def test_a_fingerprint_notices_a_change(tmp_path: Path, change: Callable[[Path], object]) -> None:
    """Names, sizes, times and this partition's checkpoint entries."""
    log_dir = copy_before("basic-none", tmp_path)
    before = fingerprint(log_dir, T0)
    assert before == fingerprint(log_dir, T0)
    assert before == observe(log_dir, T0, high_watermark="end").fingerprint
    change(log_dir)
    assert before != fingerprint(log_dir, T0)


def test_a_fingerprint_notices_a_replaced_file(tmp_path: Path) -> None:
    """Same name, size and time, another inode."""
    log_dir = copy_before("basic-none", tmp_path)
    before = fingerprint(log_dir, T0)
    path = log_dir / "t-0" / f"{0:020d}.log"
    times = path.stat()
    (tmp_path / "copy").write_bytes(path.read_bytes())
    (tmp_path / "copy").rename(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert before != fingerprint(log_dir, T0)


def test_a_fingerprint_is_silent_about_other_partitions(tmp_path: Path) -> None:
    """Another partition's checkpoint entry may move."""
    log_dir = copy_before("basic-none", tmp_path)
    before = fingerprint(log_dir, T0)
    (log_dir / CHECKPOINT_FILES[3]).write_text("0\n1\nother 0 3\n")
    assert before == fingerprint(log_dir, T0)


def test_observing_is_cheap(tmp_path: Path) -> None:
    """A thousand partitions of two segments take seconds at most: no segment is read whole."""
    log_dir = a_log_dir(tmp_path, (0, a_batch()), (1, a_batch(1)))
    checkpoints = read_checkpoints(log_dir)
    start = time.process_time()
    for _ in range(1000):
        observe(log_dir, T0, high_watermark="end", checkpoints=checkpoints)
    assert time.process_time() - start < 2
