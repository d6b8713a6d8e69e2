"""A segment whose offsets overflow becomes those that Kafka 4.3.0's own loader makes of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from logwright.config.topic import parse_settings
from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import TopicPartition, segment_file_name
from logwright.recovery.model import RecoveryOptions
from logwright.sweep.recover import recover_directory
from logwright.units import Offset
from tests.comparison import compare_checkpoints, live_files
from tests.differential.oracle_server import OracleServer
from tests.overflowing import FAR, NOW_MS, overflowing_log

pytestmark = pytest.mark.oracle

PARTITION = TopicPartition("t", 0)
MODES = (RecoveryOptions(like_kafka=True), RecoveryOptions())


def by_kafka(log_dir: Path, server: OracleServer) -> str | None:
    """Have Kafka load and close it; why it could not, if so."""
    request = {
        "request": "recover",
        "logDir": str(log_dir),
        "topicPartition": str(PARTITION),
        "config": {"index.interval.bytes": "100"},
        "now": NOW_MS,
        "producerIdExpirationMs": 86_400_000,
    }
    failed: str | None = server.ask(request).get("loadFailed")
    return failed


def by_us(log_dir: Path, options: RecoveryOptions) -> str | None:
    """Recover it; why it was refused, if so."""
    config, _ = parse_settings({"index.interval.bytes": "100"})
    result = recover_directory(
        log_dir, [PARTITION], lambda _: config, now_ms=NOW_MS, options=options
    )
    error = result.failures.get(PARTITION)
    return None if error is None else error.problem


def contents(log_dir: Path) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in live_files(log_dir / str(PARTITION)).items()}


def copied(log_dir: Path, name: str) -> Path:
    target = log_dir.with_name(name)
    shutil.copytree(log_dir, target, copy_function=shutil.copy2)
    return target


@pytest.mark.rotates(4)
@pytest.mark.parametrize("options", MODES, ids=["like Kafka", "keeping"])
@pytest.mark.parametrize("last_segment", [False, True], ids=["closed", "active"])
@pytest.mark.parametrize(("base", "first"), [(0, 0), (0, 7), (5, 5)])
def test_what_is_not_flushed_is_split_as_kafka_does(
    server: OracleServer,
    tmp_path: Path,
    options: RecoveryOptions,
    base: int,
    first: int,
    *,
    last_segment: bool,
) -> None:
    """The same segments, indexes, transaction indexes, snapshots, epochs and checkpoints, byte for
    byte; the old files are retired, and nothing else is left.
    """
    log = overflowing_log(tmp_path / "logs", base=base, first=first, last_segment=last_segment)
    (log.log_dir / ".kafka_cleanshutdown").unlink()
    old = (log.directory / segment_file_name(base, ".log")).read_bytes()
    kafkas, ours = copied(log.log_dir, "kafka"), copied(log.log_dir, "ours")
    assert by_kafka(kafkas, server) is None
    assert by_us(ours, options) is None
    expected, actual = contents(kafkas), contents(ours)
    assert {name for name in actual if name.endswith(".log")} >= {
        segment_file_name(first, ".log"),
        segment_file_name(first + FAR, ".log"),
    }
    assert expected == actual
    # what was not recorded before, we do not record
    unrecorded = "checkpoint: replication"
    differences = compare_checkpoints(kafkas, ours)
    assert [] == [one for one in differences if not one.startswith(unrecorded)]
    assert old == (ours / "t-0" / segment_file_name(base, ".log.deleted")).read_bytes()


def test_missing_index_is_reason_enough(server: OracleServer, tmp_path: Path) -> None:
    """After a clean stop Kafka splits a segment that it has to index again. The later parts'
    transaction indexes, which it forgets, are there.
    """
    log = overflowing_log(tmp_path / "logs")
    (log.directory / segment_file_name(0, ".index")).unlink()
    kafkas, ours = copied(log.log_dir, "kafka"), copied(log.log_dir, "ours")
    assert by_kafka(kafkas, server) is None
    assert by_us(ours, MODES[0]) is None
    expected, actual = contents(kafkas), contents(ours)
    forgotten = segment_file_name(FAR, ".txnindex")
    assert (forgotten in expected, forgotten in actual) == (False, True)
    kept = {name: content for name, content in actual.items() if not name.endswith(".txnindex")}
    assert {one: expected[one] for one in expected if not one.endswith(".txnindex")} == kept


@pytest.mark.parametrize("clean", [True, False], ids=["cleanly stopped", "flushed"])
def test_what_kafka_trusts_it_does_not_split(
    server: OracleServer, tmp_path: Path, *, clean: bool
) -> None:
    """After a clean stop, and below the recovery point, Kafka leaves the segment as it is, and so
    does --like-kafka. Otherwise it is split, and no record or producer is lost.
    """
    log = overflowing_log(tmp_path / "logs")
    if not clean:
        (log.log_dir / ".kafka_cleanshutdown").unlink()
    point = serialize_offset_checkpoint({PARTITION: Offset(2 * FAR + 401)})
    (log.log_dir / "recovery-point-offset-checkpoint").write_bytes(point)
    kafkas, ours, kept = (copied(log.log_dir, name) for name in ("kafka", "ours", "kept"))
    assert by_kafka(kafkas, server) is None
    assert by_us(ours, MODES[0]) is None
    assert contents(kafkas) == contents(ours)
    assert by_us(kept, MODES[1]) is None
    before, after = contents(log.log_dir), contents(kept)
    logs = sorted(name for name in after if name.endswith(".log"))
    assert 4 == len(logs)
    whole = b"".join(before[name] for name in sorted(before) if name.endswith(".log"))
    assert whole == b"".join(after[name] for name in logs)
    end = segment_file_name(2 * FAR + 401, ".snapshot")
    assert contents(kafkas)[end] == after[end]


@pytest.mark.parametrize("tail", [b"\0" * 9, b"\0" * 99], ids=["torn", "zeros"])
def test_torn_tail_is_cut_where_kafka_fails(
    server: OracleServer, tmp_path: Path, tail: bytes
) -> None:
    """Kafka does not open a log whose overflowing segment has a torn tail; --like-kafka says so,
    and without it the tail is cut off the last part.
    """
    log = overflowing_log(tmp_path / "logs", last_segment=True)
    (log.log_dir / ".kafka_cleanshutdown").unlink()
    sound = copied(log.log_dir, "sound")
    path = log.directory / segment_file_name(0, ".log")
    path.write_bytes(path.read_bytes() + tail)
    before = contents(log.log_dir)
    assert by_kafka(copied(log.log_dir, "kafka"), server) is not None
    assert "in a segment that must be split" in str(by_us(log.log_dir, MODES[0]))
    assert before == contents(log.log_dir)
    assert by_us(log.log_dir, MODES[1]) is None
    assert by_kafka(sound, server) is None
    assert contents(sound) == contents(log.log_dir)
