"""Logs from a bucket become logs of a log directory, wherever the download is interrupted."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from logwright.batches.runtime import silent
from logwright.bucket.store import Bucket
from logwright.cli.main import main
from logwright.errors import (
    CorruptLogError,
    DiskFull,
    LogDirLocked,
    NotALogDir,
    PreconditionError,
)
from logwright.format.names import TopicPartition
from logwright.maintenance import download as download_module
from logwright.maintenance.download import Downloaded, download_log
from tests.bucket_maintenance.breaking import Breaking, Killed, broken
from tests.bucket_maintenance.copies import T0, put, unlike, version
from tests.bucket_maintenance.random_logs import a_log
from tests.dying import Dying
from tests.log_builder import LogBuilder
from tests.running_dirs import running


@pytest.fixture(name="log_dir")
def _log_dir(tmp_path: Path, bucket: Bucket, agreement: bytes, seed: int) -> Path:
    """A random log, which is in the bucket, too."""
    log_dir = tmp_path / "logs"
    a_log(log_dir, random.Random(seed))
    put(log_dir, bucket, agreement)
    return log_dir


@pytest.fixture(name="target")
def _target(tmp_path: Path) -> Path:
    """An empty directory."""
    (tmp_path / "target").mkdir()
    return tmp_path / "target"


def download(bucket: Bucket, target: Path, **more: Any) -> Downloaded:  # noqa: ANN401 -- of download_log
    return download_log(bucket, T0, target, progress=silent, **more)


def logs_in(target: Path) -> list[str]:
    """The partitions, also of an empty directory."""
    return [path.name for path in target.iterdir() if TopicPartition.parse(path.name)]


def left(target: Path) -> list[str]:
    """What is there of an unfinished download."""
    return [path.name for path in target.iterdir() if path.name.endswith("-future")]


def test_it_is_the_same_log(bucket: Bucket, log_dir: Path, target: Path) -> None:
    """Files byte for byte, times, checkpoints; and each command that reads finds nothing wrong."""
    done = download(bucket, target)
    assert (version(bucket).version, done.bytes) == (done.version, done.read_bytes)
    assert [] == unlike(log_dir, target)
    assert [] == left(target)
    for words in (["verify"], ["recover", "--dry-run"], ["plan"]):
        answer = CliRunner().invoke(main, [words[0], str(target), *words[1:]])
        assert 0 == answer.exit_code, answer.output
    assert (
        "Nothing to repair"
        in CliRunner().invoke(main, ["recover", str(target), "--dry-run"]).output
    )


def test_killed_at_any_step(
    bucket: Bucket, log_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log is not there, or whole; the next run completes it, and leaves nothing else."""
    monkeypatch.setattr(download_module, "_AT_ONCE", 1)
    for number in range(1_000):
        target = tmp_path / f"target-{number}"
        target.mkdir()
        try:
            download(bucket, target, wrap=lambda fs, number=number: Dying(fs, number))
        except Killed:
            if logs_in(target):
                assert [] == unlike(log_dir, target)
            download(bucket, target)
            assert [] == unlike(log_dir, target)
            assert [] == left(target)
        else:
            break
        shutil.rmtree(target)
    assert 50 < number < 999


def test_killed_at_any_request(bucket: Bucket, log_dir: Path, tmp_path: Path) -> None:
    """As above; what was written is not read again."""
    kills = 0
    while True:
        target = tmp_path / f"target-{kills}"
        target.mkdir()
        try:
            with broken(Breaking(random.Random(kills), dies=kills)):
                download(bucket, target)
        except Killed:
            assert not logs_in(target)
            written = {path: path.stat().st_size for path in target.rglob("*.log")}
            again = download(bucket, target)
            assert [] == unlike(log_dir, target)
            assert again.read_bytes <= again.bytes
            assert again.read_bytes < again.bytes or not sum(written.values())
            kills += 1
        else:
            break
    assert kills > 3


def test_answers_that_are_lost(bucket: Bucket, log_dir: Path, target: Path) -> None:
    """They are asked for again."""
    with broken(Breaking(random.Random(1), fails=0.1)):
        download(bucket, target)
    assert [] == unlike(log_dir, target)


def test_a_file_with_other_bytes_is_written_again(
    bucket: Bucket, log_dir: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an interrupted download: size and time say nothing of the bytes."""
    with monkeypatch.context() as patch:
        patch.setattr(download_module._Work, "place", lambda _: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            download(bucket, target)
    path = max(target.rglob("*.log"), key=lambda each: each.stat().st_size)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    path.with_name("00000000000000000999.log").write_bytes(b"of another version")
    again = download(bucket, target)
    assert len(content) == again.read_bytes
    assert [] == unlike(log_dir, target)


def test_a_partition_that_is_there_is_refused(
    bucket: Bucket, log_dir: Path, target: Path, agreement: bytes
) -> None:
    """Nothing is changed; another partition is added, and the entries of checkpoints stay."""
    other = LogBuilder(log_dir.with_name("other"), "u-1")
    other.segment(0).batch(0, [("a", "1")])
    other.write(producers=True, high_watermark=1)
    put(other.log_dir, bucket, agreement)
    download(bucket, target)
    assert 0 == download(bucket, target).read_bytes
    marker = target / "t-0" / "leader-epoch-checkpoint"
    marker.write_bytes(b"0\n1\n7 0\n")
    before = {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    with pytest.raises(PreconditionError, match="already has this partition"):
        download(bucket, target)
    assert before == {path: path.read_bytes() for path in target.rglob("*") if path.is_file()}
    marker.write_bytes((log_dir / "t-0" / marker.name).read_bytes())
    download_log(bucket, TopicPartition("u", 1), target, progress=silent)
    assert ["t-0", "u-1"] == sorted(logs_in(target))
    assert [] == unlike(log_dir, target)
    assert [] == unlike(other.log_dir, target, TopicPartition("u", 1))


def test_a_log_that_has_grown_since_is_refused(bucket: Bucket, log_dir: Path, target: Path) -> None:
    """It has all files of the version, and one segment more."""
    download(bucket, target)
    more = target / "t-0" / f"{10**9:020d}.log"
    more.touch()
    with pytest.raises(PreconditionError, match="already has this partition"):
        download(bucket, target)
    more.unlink()
    assert 0 == download(bucket, target).read_bytes
    del log_dir


def test_objects_that_were_moved_by_hand(bucket: Bucket, log_dir: Path, target: Path) -> None:
    """A manifest of another partition is refused: its log is not the one that was asked for."""
    root = Path(bucket.url.removeprefix("file://"))
    shutil.copytree(root / "t-0", root / "u-1")
    with pytest.raises(CorruptLogError, match=r"its manifest is of t-0"):
        download_log(bucket, TopicPartition("u", 1), target, progress=silent)
    assert [] == list(target.iterdir())
    del log_dir


def test_a_directory_that_is_in_use(
    bucket: Bucket, log_dir: Path, target: Path, tmp_path: Path
) -> None:
    """By a broker; and one that is not there."""
    shutil.copytree(log_dir, tmp_path / "used")
    with running(tmp_path / "used", {"t-0": 1}), pytest.raises(LogDirLocked):
        download(bucket, tmp_path / "used")
    with pytest.raises(NotALogDir, match="no partition u-1"):
        download_log(bucket, TopicPartition("u", 1), target, progress=silent)
    assert [] == list(target.iterdir())


def test_room_is_required_before(
    bucket: Bucket, log_dir: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it nothing is written."""
    del log_dir
    free = shutil.disk_usage(target)
    monkeypatch.setattr(download_module.shutil, "disk_usage", lambda _: free._replace(free=100))
    with pytest.raises(DiskFull, match="100 are free"):
        download(bucket, target)
    assert [] == left(target)


def test_a_disk_that_fills_meanwhile(
    bucket: Bucket, log_dir: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said what stays; there is no log; with room the next run completes it."""

    def full(*_: object) -> Iterator[bytes]:
        yield b"x"
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr(download_module, "pieces_of", full)
        with pytest.raises(DiskFull, match="What was written stays"):
            download(bucket, target)
    assert [] == logs_in(target)
    download(bucket, target)
    assert [] == unlike(log_dir, target)


def test_a_damaged_object_makes_no_log(bucket: Bucket, log_dir: Path, target: Path) -> None:
    """It is named; the log is not there."""
    del log_dir
    root = Path(bucket.url.removeprefix("file://"))
    path = max(root.rglob("*.log"), key=lambda each: each.stat().st_size)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptLogError, match="checksum"):
        download(bucket, target)
    assert [] == logs_in(target)


def test_a_link_is_not_followed(
    bucket: Bucket, log_dir: Path, target: Path, tmp_path: Path
) -> None:
    """Where it leads nothing is written."""
    del log_dir
    with pytest.raises(Killed), broken(Breaking(random.Random(1), dies=4)):
        download(bucket, target)
    (future,) = left(target)
    shutil.rmtree(target / future)
    (tmp_path / "elsewhere").mkdir()
    (target / future).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Exception, match="future"):
        download(bucket, target)
    assert [] == list((tmp_path / "elsewhere").rglob("*"))
