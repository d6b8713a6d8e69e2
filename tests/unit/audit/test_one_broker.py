"""Which log directories one broker cannot have together; Kafka's own start is the measure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from logwright.audit.one_broker import stops_one_broker
from tests.differential.oracle_server import OracleServer
from tests.e2e.command import call
from tests.log_builder import LogBuilder

pytestmark = pytest.mark.oracle

DIRECTORY_IDS = ("YWJjZGVmZ2hpamtsbW5vcA", "YWJjZGVmZ2hpamtsbW5vcQ")


@pytest.fixture(scope="module")
def server() -> Iterator[OracleServer]:
    with OracleServer() as running:
        yield running


def log_dir(place: Path, topic: str, directory_id: str, node: int = 1) -> Path:
    log = LogBuilder(place, f"{topic}-0")
    log.segment(0).batch(0, [("a", "1")])
    log.write()
    ids = f"version=1\nnode.id={node}\ncluster.id=Y2x1c3RlcmNsdXN0ZXJjbA\n"
    (place / "meta.properties").write_text(f"{ids}directory.id={directory_id}\n")
    return place


def starts(server: OracleServer, log_dirs: list[Path]) -> bool:
    names = [str(one) for one in log_dirs]
    request = {"request": "boot", "logDirs": names, "identity": True, "now": 1_760_100_000_000}
    return "bootFailed" not in server.ask(request)


@pytest.mark.parametrize(
    ("topic", "directory_id", "problem"),
    [
        ("u", 1, None),
        ("u", 0, "directory.id=YWJjZGVmZ2hpamtsbW5vcA is in each"),
        ("t", 1, "each has a log of t-0."),
    ],
)
def test_two_directories_of_a_broker(
    server: OracleServer, tmp_path: Path, topic: str, directory_id: int, problem: str | None
) -> None:
    """What stops Kafka is named, and only that."""
    log_dirs = [
        log_dir(tmp_path / "one", "t", DIRECTORY_IDS[0]),
        log_dir(tmp_path / "other", topic, DIRECTORY_IDS[directory_id]),
    ]
    sentences = list(stops_one_broker(log_dirs))
    assert ([] if problem is None else [True]) == [str(problem) in one for one in sentences]
    assert (problem is None) == starts(server, log_dirs)


def test_replicas_of_two_brokers(tmp_path: Path) -> None:
    """Each has a log of the partition, which is what `audit` is for; of one broker it is said."""
    replica = log_dir(tmp_path / "one", "t", DIRECTORY_IDS[0])
    other = log_dir(tmp_path / "other", "t", DIRECTORY_IDS[0], node=2)
    assert "does not start" not in call("audit", replica, other).err
    identity = other / "meta.properties"
    identity.write_bytes((replica / "meta.properties").read_bytes())
    answer = call("audit", replica, other)
    assert 2 == answer.err.count("are of broker 1, which does not start with both")
