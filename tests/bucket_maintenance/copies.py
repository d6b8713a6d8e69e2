"""A log directory and the same in a bucket, to be changed by the same commands and compared."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner, Result

from logwright.bucket.agreement import AGREEMENT, USUAL, agree, agreed
from logwright.bucket.commit import newest
from logwright.bucket.driver import drive
from logwright.bucket.manifest import Manifest
from logwright.bucket.store import Bucket
from logwright.cli.main import main
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions, observe
from logwright.maintenance.copy import download
from logwright.maintenance.scrub import scrub
from logwright.upload.upload import Upload
from tests.comparison import live_files
from tests.log_builder import START_MS

T0 = TopicPartition("t", 0)
DAY_SECONDS = 86_400


def probed(directory: Path) -> bytes:
    """What writers agree on, of a bucket that was probed: other buckets of the same file system
    need not be.
    """
    bucket = Bucket.of(f"file://{directory}")
    agree(bucket)
    return bucket.content(AGREEMENT, 1 << 16)


def secret_in(directory: Path) -> Path:
    """Make a secret: erasures of several places are of the same keys only by one."""
    path = directory / "secret"
    if not path.exists():
        path.write_text("0123456789abcdef" * 4)
        path.chmod(0o600)
    return path


def put(log_dir: Path, bucket: Bucket, agreement: bytes | None = None) -> None:
    """Write all logs of a directory into a bucket."""
    if agreement is not None and agreed(bucket) is None:
        bucket.put_unique(AGREEMENT, agreement)
    limits = agree(bucket)
    assert USUAL == limits
    for partition in list_partitions(log_dir):
        Upload(
            place=log_dir,
            partition=partition,
            bucket=bucket,
            limits=limits,
            configs={},
            now_ms=START_MS,
        ).run()


def called(*words: str | Path | int) -> Result:
    """Call the command line."""
    return CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)


def run(*words: str | Path | int) -> str:
    """Call the command line; it must succeed."""
    result = called(*words)
    assert 0 == result.exit_code, result.output
    return result.stdout


def version(bucket: Bucket, partition: TopicPartition = T0) -> Manifest:
    """The newest version of a log."""
    manifest = drive(bucket.below(partition.directory_name), newest())
    assert manifest is not None
    return manifest


def differences(
    log_dir: Path, bucket: Bucket, scratch: Path, partition: TopicPartition = T0
) -> list[str]:
    """What is not the same of a log here and in the bucket: live files, byte for byte, the times of
    segments that have records, offsets and epochs.
    """
    directory = bucket.below(partition.directory_name)
    there = scratch / "there"
    shutil.rmtree(there, ignore_errors=True)
    download(version(bucket, partition), directory, there)
    faults = unlike(log_dir, there, partition)
    faults += [f"object: {key}: {wrong}" for key, wrong in scrub(directory).wrong]
    shutil.rmtree(there)
    return faults


def unlike(log_dir: Path, other_dir: Path, partition: TopicPartition = T0) -> list[str]:
    """What is not the same of a log in two log directories: see `differences`."""
    name = partition.directory_name
    own, other = live_files(log_dir / name), live_files(other_dir / name)
    faults = [f"files: {each}" for each in sorted(own.keys() ^ other.keys())]
    for each in sorted(own.keys() & other.keys()):
        if own[each].read_bytes() != other[each].read_bytes():
            faults.append(f"bytes: {each}")
        stats = [files[each].stat() for files in (own, other)]
        is_timed = each.endswith(".log") and stats[0].st_size > 0
        if is_timed and stats[0].st_mtime_ns != stats[1].st_mtime_ns:
            faults.append(f"time: {each}")
    logs = [observe(each, partition, high_watermark="end") for each in (log_dir, other_dir)]
    for field in (
        "log_start_offset",
        "log_end_offset",
        "last_stable_offset",
        "cleaner_checkpoint",
        "snapshot_offsets",
        "producers",
    ):
        values = [getattr(log, field) for log in logs]
        if values[0] != values[1]:
            faults.append(f"{field}: {values}")
    return faults


def made_old(root: Path, *, days: int, keep: Callable[[str], bool] = lambda _: False) -> None:
    """Make objects of a ``file://`` bucket look as old as this."""
    for path in root.rglob("*"):
        if path.is_file() and not keep(path.name):
            stat = path.stat()
            moved = days * DAY_SECONDS * 1_000_000_000
            os.utime(path, ns=(stat.st_atime_ns - moved, stat.st_mtime_ns - moved))
