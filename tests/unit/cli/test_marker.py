"""What each command leaves of the broker epoch in the marker of a clean stop: with it the cluster's
controller takes the replicas of a directory for whole (KIP-966).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from logwright.batches.runtime import silent
from logwright.bucket.store import Bucket
from logwright.config.topic import TopicConfig
from logwright.format.names import TopicPartition
from logwright.locks import lock_log_dir
from logwright.maintenance.download import download_log
from logwright.recovery.directory_plan import plan_directory
from logwright.recovery.model import RecoveryOptions
from logwright.steps.filesystem import RealFileSystem
from logwright.steps.interpreter import execute
from logwright.steps.marker import aside, doubt
from logwright.units import TimestampMs
from tests.bucket_maintenance.copies import put
from tests.log_builder import LogBuilder
from tests.unit.cli.conftest import Call

MARKER = ".kafka_cleanshutdown"
EPOCH = b'{"version":0,"brokerEpoch":7}'
UNKNOWN = b""
META = "version=1\ncluster.id=c\nnode.id=1\n"
LAST = f"t-0/{2:020d}"


def make_log_dir(path: Path, epoch: bytes = EPOCH) -> Path:
    """A log of two segments that a broker has stopped cleanly."""
    log = LogBuilder(path)
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.segment(2).batch(2, [("a", "3")]).batch(3, [("b", "4")])
    log.write(producers=True, high_watermark=4)
    (path / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    (path / "meta.properties").write_text(META)
    (path / MARKER).write_bytes(epoch)
    return path


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return make_log_dir(tmp_path / "logs")


def _cut(call: Call, log_dir: Path) -> None:
    path = log_dir / f"{LAST}.log"
    content = path.read_bytes()
    path.write_bytes(content[:-40] + bytes(40))
    answer = call("recover", log_dir, "--yes")
    assert (0, True) == (answer.status, "no longer has the broker's epoch" in answer.out)


def _cut_by_a_rescue(call: Call, log_dir: Path) -> None:
    path = log_dir / f"{LAST}.log"
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(content[:half] + bytes(half))
    answer = call("rescue", log_dir, "--yes")
    assert (0, True) == (answer.status, "no longer has the broker's epoch" in answer.out)
    assert half == path.stat().st_size


def _cut_first(call: Call, log_dir: Path) -> None:
    """A recovery that another command begins with."""
    (log_dir / f"{LAST}.log.swap").write_bytes((log_dir / f"{LAST}.log").read_bytes()[:-1])
    answer = call("clean", log_dir, "--yes", "--config", "cleanup.policy=compact")
    assert (0, True) == (answer.status, "no longer has the broker's epoch" in answer.err)


def _ends_early(call: Call, log_dir: Path) -> None:
    """The last segment is missing: what is left is whole, and ends before the recovery point."""
    for path in (log_dir / "t-0").glob(f"{2:020d}.*"):
        path.unlink()
    call("recover", log_dir, "--yes", "--accept-loss")


def _delete(call: Call, log_dir: Path) -> None:
    assert 0 == call("delete", log_dir, "t-0", "--yes").status


def _undelete(call: Call, log_dir: Path) -> None:
    _delete(call, log_dir)
    (log_dir / MARKER).write_bytes(EPOCH)  # a broker has run
    assert 0 == call("undo", log_dir, "t-0", "--yes").status


def _set_aside(call: Call, log_dir: Path) -> None:
    call("rescue", log_dir, "--set-aside", log_dir / "t-0", "--yes")
    assert not (log_dir / "t-0").exists()


def _bring_back(call: Call, log_dir: Path) -> None:
    _set_aside(call, log_dir)
    (log_dir / MARKER).write_bytes(EPOCH)
    assert 0 == call("rescue", log_dir, "--undo", "--yes").status
    assert (log_dir / "t-0").exists()


def _move(call: Call, log_dir: Path) -> None:
    """The log comes from a copy of an earlier stop."""
    copy = make_log_dir(log_dir.parent / "copy", b'{"version":0,"brokerEpoch":6}')
    shutil.rmtree(log_dir / "t-0")
    assert 0 == call("move", copy, "t-0", "--to", log_dir, "--yes").status


@pytest.mark.parametrize(
    "act",
    [
        _cut,
        _cut_by_a_rescue,
        _cut_first,
        _ends_early,
        _delete,
        _undelete,
        _set_aside,
        _bring_back,
        _move,
    ],
)
def test_what_leaves_less_takes_the_epoch_away(
    call: Call, log_dir: Path, act: Callable[[Call, Path], None]
) -> None:
    """Of a replica that has less than it acknowledged, or an older state, the controller hears."""
    act(call, log_dir)
    assert UNKNOWN == (log_dir / MARKER).read_bytes()


def test_a_stray_log_that_is_cut_says_nothing_of_the_replicas(log_dir: Path) -> None:
    """It is none of them."""
    stray = log_dir / f"t-0.{'0' * 32}-stray"
    shutil.copytree(log_dir / "t-0", stray)
    (stray / f"{2:020d}.index").unlink()
    torn = stray / f"{2:020d}.log"
    torn.write_bytes(torn.read_bytes()[:-1])
    plan = plan_directory(
        log_dir,
        [TopicPartition("t", 0)],
        lambda _: TopicConfig(),
        now_ms=TimestampMs(1_760_000_000_000),
        options=RecoveryOptions(),
        marked=[stray.name],
    )
    assert [False, True] == [each.lacks for each in plan.plans]
    assert not plan.doubts


def test_a_download_takes_the_epoch_away(log_dir: Path, tmp_path: Path) -> None:
    """What the replica had acknowledged after the upload is not in it."""
    bucket = Bucket.of(f"file://{tmp_path}/bucket")
    put(log_dir, bucket)
    shutil.rmtree(log_dir / "t-0")
    download_log(bucket, TopicPartition("t", 0), log_dir, progress=silent)
    assert UNKNOWN == (log_dir / MARKER).read_bytes()


def test_of_an_interrupted_append_too(log_dir: Path) -> None:
    """The marker is renamed then, and gets its name again later."""
    (log_dir / MARKER).rename(log_dir / aside("abc"))
    with lock_log_dir(log_dir), RealFileSystem(log_dir) as files:
        execute(doubt(log_dir), files)
        assert UNKNOWN == (log_dir / aside("abc")).read_bytes()
        assert () == doubt(log_dir)


@pytest.mark.parametrize(
    "words",
    [
        ("clean", "--config", "cleanup.policy=compact", "--force"),
        ("roll", "--force"),
        ("retain", "--config", "cleanup.policy=delete", "--config", "retention.bytes=0"),
        ("recover",),
        ("rescue",),
        ("verify",),
    ],
)
def test_what_leaves_all_keeps_the_epoch(call: Call, log_dir: Path, words: tuple[str, ...]) -> None:
    """Each log ends where it ended."""
    (log_dir / f"{LAST}.index").unlink()
    command, *more = words
    assert 0 == call("recover", log_dir, "--yes").status
    yes = () if command == "verify" else ("--yes",)
    answer = call(command, log_dir, *more, *yes)
    assert 0 == answer.status, answer.err
    assert EPOCH == (log_dir / MARKER).read_bytes()


def test_a_move_within_one_stop_keeps_the_epoch(call: Call, log_dir: Path, tmp_path: Path) -> None:
    """Both directories are of one broker, which has stopped once."""
    other = make_log_dir(tmp_path / "other")
    shutil.rmtree(other / "t-0")
    assert 0 == call("move", log_dir, "t-0", "--to", other, "--yes").status
    assert [EPOCH] * 2 == [(each / MARKER).read_bytes() for each in (log_dir, other)]
