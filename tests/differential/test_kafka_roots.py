"""What a recovery says of a log directory's root is what Kafka's own start says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.recovery.root import look_at_root, topic_id_problem
from tests.differential.oracle_server import OracleServer, shared
from tests.log_builder import LogBuilder

pytestmark = pytest.mark.oracle

NOW_MS = 1_760_100_000_000
IDS = b"version=1\nnode.id=1\ncluster.id=Y2x1c3RlcmNsdXN0ZXJjbA\n"
DIRECTORY_ID = b"directory.id=YWJjZGVmZ2hpamtsbW5vcA\n"
TOPIC_ID = b"topic_id: YWJjZGVmZ2hpamtsbW5vcA"

IDENTITIES = (
    IDS,
    IDS + DIRECTORY_ID,
    b"",
    bytes(80),
    IDS.removeprefix(b"version=1\n"),
    b"version=0\nbroker.id=1\ncluster.id=x\n",
    IDS.replace(b"version=1", b"version=2"),
    IDS.replace(b"node.id=1\n", b""),
    IDS.replace(b"node.id=1", b"node.id=x"),
    IDS.replace(b"node.id=1", b"node.id=99999999999"),
    IDS[:20],
    IDS[: IDS.index(b"cluster.id=") + len(b"cluster.id=")],
    IDS + b"directory.id=AAAAAAAAAAAAAAAAAAAAAQ\n",
    IDS + b"directory.id=zz\n",
    IDS + b"x=\xff\xfe\n",
    IDS + b"x=\\uzzzz\n",
    b"version : 1\nnode.id 1\n cluster.id:AAAA\n",
    IDS.replace(b"\n", b"\r\n"),
)
TOPIC_IDS = (
    b"version: 0\n" + TOPIC_ID,
    b"",
    bytes(43),
    b"version: 0\n",
    b"version: 1\n" + TOPIC_ID + b"\n",
    b"version: -1\n" + TOPIC_ID + b"\n",
    b"version: 0\r\n" + TOPIC_ID + b"\r\n",
    b"version: 0\n" + TOPIC_ID + b"\nx\n",
    b"version: 0\n" + TOPIC_ID[:-3],
    b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n",
    b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
    b"version: x\n" + TOPIC_ID,
    b"versiox: 0\n" + TOPIC_ID.replace(b"topic", b"t-pi\xff"),
    b"version: 0\na: " + TOPIC_ID,
    b": 0\n: " + TOPIC_ID[10:],
)
CHECKPOINTS = (
    b"",
    b"0\n",
    b"0\n0\n",
    b"0\n1\nt 0 1\n",
    b"0\n2\nt 0 1\nt 0 1\n",
    b"0\n1\nzz 7 1\n",
    b"0\r\n1\r\nt 0 1\r\n",
    bytes(20),
    b"1\n1\nt 0 1\n",
    b"0\n3\nt 0 1\n",
    b"0\n1\nt 0\n",
    b"0\n1\nt\xff\xfe 0 1\n",
)
DIRECTORIES = (
    *("lost+found", ".logwright", "x-y", "-1", "x-99999999999", "x-delete", "x-1-delete"),
    *("x-1.a.b-stray", "backup", "t-00", "cleaner-offset-checkpoint.tmp"),
    *("x-1", "x--1", "x-1.a-delete", "x-1.a-stray", "x-1.a-future", "remote-log-index-cache"),
    "__cluster_metadata-0",
)
TAKEN_FOR_LOGS = ("x-01", "x 1-1", "..-1")
"""Kafka loads these as logs. A recovery does not recover them, so it must not say nothing."""


@pytest.fixture
def server() -> OracleServer:
    """Of the oldest Kafka, or that of `--kafka`."""
    return shared()


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.write()
    (tmp_path / "logs/meta.properties").write_bytes(IDS)
    return tmp_path / "logs"


def kafka_opens(server: OracleServer, log_dir: Path) -> bool:
    return "bootFailed" not in server.boot(log_dir, NOW_MS)


@pytest.mark.parametrize("content", IDENTITIES, ids=range(len(IDENTITIES)))
def test_meta_properties(server: OracleServer, log_dir: Path, content: bytes) -> None:
    """Each content is refused by both or by neither."""
    (log_dir / "meta.properties").write_bytes(content)
    ours = not look_at_root(log_dir).problems
    assert kafka_opens(server, log_dir) == ours


def test_a_directory_that_is_not_formatted(server: OracleServer, log_dir: Path) -> None:
    """Its logs may be in order: that is said, and that Kafka wants to format it first."""
    (log_dir / "meta.properties").unlink()
    root = look_at_root(log_dir)
    assert not kafka_opens(server, log_dir)
    assert (False, True) == (root.stops_a_broker, "kafka-storage.sh format" in root.notes[0])


@pytest.mark.parametrize("content", TOPIC_IDS, ids=range(len(TOPIC_IDS)))
def test_partition_metadata(server: OracleServer, log_dir: Path, content: bytes) -> None:
    """Each content is refused by both or by neither."""
    (log_dir / "t-0/partition.metadata").write_bytes(content)
    ours = topic_id_problem(content) is None
    assert kafka_opens(server, log_dir) == ours


@pytest.mark.parametrize("content", CHECKPOINTS, ids=range(len(CHECKPOINTS)))
def test_checkpoints(server: OracleServer, log_dir: Path, content: bytes) -> None:
    """A content that stops Kafka in any of the four files is replaced."""
    for name in (
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ):
        (log_dir / name).write_bytes(content)
        ours = name not in look_at_root(log_dir).malformed
        assert kafka_opens(server, log_dir) == ours, name
        (log_dir / name).unlink()


@pytest.mark.parametrize("name", DIRECTORIES)
def test_directories(server: OracleServer, log_dir: Path, name: str) -> None:
    """Each name is refused by both or by neither."""
    (log_dir / name).mkdir()
    ours = not look_at_root(log_dir).problems
    assert kafka_opens(server, log_dir) == ours


@pytest.mark.parametrize("name", TAKEN_FOR_LOGS)
def test_directories_that_kafka_takes_for_logs(
    server: OracleServer, log_dir: Path, name: str
) -> None:
    """No recovery looks at them, so they keep the directory from being marked."""
    (log_dir / name).mkdir()
    root = look_at_root(log_dir)
    assert kafka_opens(server, log_dir)
    assert [log_dir / name] == [one.path for one in root.problems]


def test_a_link_to_a_strange_directory(server: OracleServer, log_dir: Path) -> None:
    """Both follow it."""
    (log_dir.parent / "elsewhere").mkdir()
    (log_dir / "backup").symlink_to(log_dir.parent / "elsewhere")
    assert not kafka_opens(server, log_dir)
    assert look_at_root(log_dir).stops_a_broker


def test_a_link_to_nothing(server: OracleServer, log_dir: Path) -> None:
    """Neither takes it for a directory."""
    (log_dir / "backup").symlink_to(log_dir / "nothing")
    (log_dir / "loop").symlink_to(log_dir / "loop")
    assert kafka_opens(server, log_dir)
    assert not look_at_root(log_dir).stops_a_broker


def test_two_futures_of_a_partition(server: OracleServer, log_dir: Path) -> None:
    """Kafka does not know which one to take."""
    (log_dir / "x-1.a-future").mkdir()
    (log_dir / "x-1.b-future").mkdir()
    assert not kafka_opens(server, log_dir)
    assert look_at_root(log_dir).stops_a_broker
