"""What Kafka's loading reads of indexes and batches, and what it does not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from logwright.format.batch import HEADER_BYTES, parse_batch, serialize_batch
from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.index import parse_offset_index, serialize_offset_index
from logwright.format.names import TopicPartition, segment_file_name
from tests.differential.oracle_server import OracleServer
from tests.e2e.command import Answer, call
from tests.log_builder import START_MS, LogBuilder

pytestmark = pytest.mark.oracle

IDS = b"version=1\nnode.id=1\ncluster.id=Y2x1c3RlcmNsdXN0ZXJjbA\n"
MARKER = ".kafka_cleanshutdown"
NOW_MS = START_MS + 1_000_000


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """Three segments; the transaction of the first one is open. Each batch but the first of a
    segment has an index entry.
    """
    log = LogBuilder(tmp_path / "logs")
    sealed = log.segment(0)
    for offset in range(3):
        sealed.batch(offset, [("a", "1")])
    sealed.batch(3, [("b", "1")], producer_id=7, transactional=True).batch(4, [("c", "1")])
    for base in (5, 8):
        later = log.segment(base)
        for offset in range(base, base + 3):
            later.batch(offset, [("d", "1")])
    log.write(producers=True, index_interval=0)
    (tmp_path / "logs/meta.properties").write_bytes(IDS)
    return tmp_path / "logs"


def mislead(log_dir: Path, base: int) -> None:
    """Each entry of a segment's index names 8 bytes before its batch, where a length is 0."""
    path = log_dir / "t-0" / segment_file_name(base, ".index")
    entries = parse_offset_index(path.read_bytes(), base)
    assert len(entries) > 1
    path.write_bytes(serialize_offset_index(entries - np.array([0, 8]), base))


def stop_uncleanly(log_dir: Path) -> None:
    """All below the end is flushed."""
    (log_dir / MARKER).unlink()
    points = serialize_offset_checkpoint({TopicPartition("t", 0): 11})
    (log_dir / "recovery-point-offset-checkpoint").write_bytes(points)


def recover(log_dir: Path, *words: str) -> Answer:
    return call("recover", log_dir, "--yes", "--now", NOW_MS, *words)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("base", [0, 8], ids=["first unstable offset", "next offset"])
def test_kafka_opens_what_was_recovered(
    server: OracleServer, log_dir: Path, *, base: int, clean: bool
) -> None:
    """Kafka fails at the entry, unless it builds that index again; `recover` does in any case."""
    if not clean:
        stop_uncleanly(log_dir)
    mislead(log_dir, base)
    logs = {one.name: one.read_bytes() for one in (log_dir / "t-0").glob("*.log")}
    assert 0 == recover(log_dir).status
    assert logs == {one.name: one.read_bytes() for one in (log_dir / "t-0").glob("*.log")}
    assert 0 == call("verify", log_dir, "t-0").status
    assert (log_dir / MARKER).exists()
    assert 11 == server.boot(log_dir, NOW_MS)["logs"]["t-0"]["endOffset"]


@pytest.mark.parametrize("base", [0, 8], ids=["first unstable offset", "next offset"])
def test_kafka_fails_before(server: OracleServer, log_dir: Path, base: int) -> None:
    """With the marker it builds no index again; `--like-kafka` says so."""
    mislead(log_dir, base)
    refused = recover(log_dir, "--like-kafka")
    assert 3 == refused.status
    assert "Kafka's loading fails here" in refused.err
    assert "record size" in server.boot(log_dir, NOW_MS)["bootFailed"]


def test_an_entry_that_nothing_looks_up(server: OracleServer, log_dir: Path) -> None:
    """Below the recovery point, where no transaction is open, no batch is read."""
    mislead(log_dir, 5)
    assert "Nothing to repair" in recover(log_dir).out
    assert 11 == server.boot(log_dir, NOW_MS)["logs"]["t-0"]["endOffset"]


def test_the_first_record_of_a_marker_counts(server: OracleServer, tmp_path: Path) -> None:
    """Kafka's loading replays a marker that promises more records; so does `recover`."""
    log = LogBuilder(tmp_path / "logs")
    segment = log.segment(0)
    segment.batch(0, [("b", "1")], producer_id=7, transactional=True).marker(1, 7, "commit")
    header = parse_batch(segment.batches[-1])
    promising = replace(header, records_count=48)
    segment.batches[-1] = serialize_batch(promising, segment.batches[-1][HEADER_BYTES:])
    log.write()
    (tmp_path / "logs/meta.properties").write_bytes(IDS)
    (tmp_path / "logs" / MARKER).unlink()
    broker = tmp_path / "broker"
    shutil.copytree(tmp_path / "logs", broker)
    assert 2 == server.boot(broker, NOW_MS)["logs"]["t-0"]["endOffset"]
    assert 0 == recover(tmp_path / "logs").status
    ends = [path.name for path in sorted((tmp_path / "logs/t-0").glob("*.snapshot"))]
    assert ends == [path.name for path in sorted((broker / "t-0").glob("*.snapshot"))]
    for name in ends:
        assert (broker / "t-0" / name).read_bytes() == (tmp_path / "logs/t-0" / name).read_bytes()
