"""What a verification says of transaction indexes and snapshots that contradict the log."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logwright.format.index import parse_txn_index, serialize_txn_index
from logwright.format.names import TopicPartition
from logwright.format.snapshot import ProducerEntry, parse_snapshot, serialize_snapshot
from logwright.log.load import list_partitions
from logwright.place.model import Place
from logwright.running.place import as_it_runs
from logwright.units import Offset
from logwright.verify.partition import verify_partition
from tests import fixtures
from tests.log_builder import LogBuilder
from tests.running_dirs import running

T0 = TopicPartition("t", 0)
DAMAGED = ("bad-", "crash-", "missing-", "orphan", "torn-", "wrong-")
"""Cases that Kafka is to recover: something is wrong with them."""


def problems(log_dir: Place) -> list[str]:
    return [f"{fault.path.name}: {fault.problem}" for fault in verify_partition(log_dir, T0)]


def rewritten(log_dir: Path, number: int, **changes: object) -> None:
    """Change every producer of a snapshot."""
    path = log_dir / "t-0" / f"{number:020d}.snapshot"
    entries = parse_snapshot(path.read_bytes(), path)
    path.write_bytes(serialize_snapshot([changed(entry, changes) for entry in entries]))


def changed(entry: ProducerEntry, changes: dict[str, object]) -> ProducerEntry:
    return replace(entry, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", fixtures.CASES)
def test_what_kafka_wrote_is_not_wrong(name: str) -> None:
    """No false alarm, before and after, but on what was damaged by hand."""
    sides = ["after"] if name.startswith(DAMAGED) else ["before", "after"]
    for side in sides:
        log_dir = fixtures.case_dir(name) / side
        for partition in list_partitions(log_dir):
            faults = verify_partition(log_dir, partition)
            if name == "torn-tail-marked-clean":
                assert {"t-0"} == {fault.path.parent.name for fault in faults}
                continue
            assert [] == faults


def producing(log_dir: Path) -> Path:
    """Two producers: one aborts, one is only idempotent; the log ends at 8."""
    log = LogBuilder(log_dir)
    first = log.segment(0)
    first.batch(0, [("a", "1")], producer_id=7, sequence=0)
    first.batch(1, [("b", "1")] * 2, producer_id=9, sequence=0, transactional=True)
    log.segment(3).marker(3, 9, "abort").batch(4, [("a", "2")], producer_id=7, sequence=1)
    log.segment(5).batch(5, [("a", "3")] * 3, producer_id=7, sequence=2)
    return log.write(producers=True).log_dir


def test_sound_log(tmp_path: Path) -> None:
    """Snapshots, entries and markers as they belong together."""
    assert [] == problems(producing(tmp_path / "logs"))


def test_a_young_transaction_index_of_a_running_log(tmp_path: Path) -> None:
    """A broker makes it with its first entry, perhaps after the directory was listed: it is not
    missing in the last segment, which was active then.
    """
    log_dir = producing(tmp_path / "logs")
    (log_dir / "t-0" / f"{3:020d}.txnindex").unlink()
    with running(log_dir, {"t-0": 4}):
        assert [] == problems(as_it_runs(log_dir))
    with running(log_dir, {"t-0": 8}):
        (problem,) = problems(as_it_runs(log_dir))
    assert "it is missing; 1 aborted transactions have data" in problem


def test_missing_transaction_index(tmp_path: Path) -> None:
    """It is needed only where aborted data is in the log."""
    log_dir = producing(tmp_path / "logs")
    (log_dir / "t-0" / f"{3:020d}.txnindex").unlink()
    (problem,) = problems(log_dir)
    assert f"{3:020d}.txnindex: it is missing; 1 aborted transactions have data" in problem


def test_what_nobody_is_shown_needs_no_entry(tmp_path: Path) -> None:
    """Below the log start offset Kafka's cleaner drops entries, and keeps the data."""
    log_dir = producing(tmp_path / "logs")
    (log_dir / "t-0" / f"{3:020d}.txnindex").unlink()
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    assert [] == problems(log_dir)
    (log_dir / "log-start-offset-checkpoint").write_text("0\n1\nt 0 2\n")
    assert 1 == len(problems(log_dir))


def test_missing_entry(tmp_path: Path) -> None:
    """The index is there and says nothing of the transaction."""
    log_dir = producing(tmp_path / "logs")
    path = log_dir / "t-0" / f"{3:020d}.txnindex"
    (entry,) = parse_txn_index(path.read_bytes())
    assert (9, 3) == (entry.producer_id, entry.last_offset)
    path.write_bytes(serialize_txn_index([]))
    (problem,) = problems(log_dir)
    assert "the transaction that producer 9 aborted at 3 has no entry" in problem


def test_marker_without_its_data_needs_no_entry(tmp_path: Path) -> None:
    """As a cleaning leaves it: an empty batch, the marker, no index."""
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(
        1, [], last_offset=2, producer_id=9, sequence=0, transactional=True
    ).marker(3, 9, "abort")
    log.segment(4).batch(4, [("a", "1")])
    log.write(producers=True)
    for path in log.directory.glob("*.txnindex"):
        path.unlink()
    assert [] == problems(log.log_dir)


@pytest.mark.parametrize(
    ("number", "changes", "expected"),
    [
        (8, {"last_offset": 4}, "producer 7 has its last batch at 4, the log at 7"),
        (8, {"last_sequence": 9}, "producer 7 has sequence 9, the log 4"),
        (
            5,
            {"current_txn_first_offset": Offset(1)},
            "producer 9 has a transaction open from 1, the log has its marker at 3",
        ),
    ],
)
def test_snapshot_that_contradicts_the_log(
    tmp_path: Path, number: int, changes: dict[str, object], expected: str
) -> None:
    """The newest and an older one."""
    log_dir = producing(tmp_path / "logs")
    rewritten(log_dir, number, **changes)
    assert f"{number:020d}.snapshot: {expected}" in problems(log_dir)


def test_forgotten_producer_is_no_fault(tmp_path: Path) -> None:
    """A broker forgets who is idle for long: absence says nothing."""
    log_dir = producing(tmp_path / "logs")
    (log_dir / "t-0" / f"{8:020d}.snapshot").write_bytes(serialize_snapshot([]))
    assert [] == problems(log_dir)
