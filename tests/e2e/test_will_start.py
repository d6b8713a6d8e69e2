"""The check `will_start` of Dagster, and what Kafka makes of the same log directories: its loading
of damaged ones, and a real broker.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from logwright.assets.fleet.inventory import fleet_inventory
from logwright.assets.fleet.will_start import WILL_START
from tests.differential.oracle_server import OracleServer
from tests.differential.test_start_catalogue import CASES, cleanly_stopped
from tests.e2e.broker_life import STOP_SECONDS, broker
from tests.e2e.harness import MARKS, make_platform
from tests.property.accidents import MARKER, NOW_MS, World
from tests.property.damaged_roots import content_of
from tests.property.starts import segment_bytes

pytestmark = [*MARKS, pytest.mark.oracle]

BATCH = 20
"""Records that a producer sends at once."""
BOTH = 2 * BATCH
NOT_KNOWN = -1
"""The end offset of what is lost, if only the bytes that are gone had it."""
CLIENT_SECONDS = 60


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What the check shows.

    Attributes:
        outcome: passed, severity, and how many directories were judged.
        a_broker: what a start does, of the directory.
        findings: the rows of its table.
    """

    outcome: tuple[bool, str, int]
    a_broker: str
    description: str
    findings: list[dict[str, Any]]

    def lost(self) -> list[tuple[int, int, int]]:
        """Bytes, first and end offset of the findings that lose records."""
        return [
            (row["bytes lost"], row["first offset"], row["end offset"])
            for row in self.findings
            if row["what a start does"] == "loses"
        ]


def judge(tmp_path: Path, log_dir: Path, now_ms: int = NOW_MS) -> Judged:
    """Materialize the inventory of one log directory. Effects: a run of Dagster."""
    home = tmp_path / "platform"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    made = make_platform(home, {"a-0": "basic-none"})
    platform = replace(made, log_dir=log_dir, now_ms=now_ms)
    done = dg.materialize(
        [fleet_inventory], instance=platform.instance, resources=platform.resources()
    )
    (check,) = [one for one in done.get_asset_check_evaluations() if one.check_name == WILL_START]
    (row,) = rows_of(check, "log directories")
    judged = check.metadata["log directories judged"].value
    assert isinstance(judged, int)
    return Judged(
        outcome=(check.passed, check.severity.name, judged),
        a_broker=str(row["a broker"]),
        description=str(check.description),
        findings=rows_of(check, "findings"),
    )


def rows_of(check: dg.AssetCheckEvaluation, name: str) -> list[dict[str, Any]]:
    table = check.metadata[name]
    assert isinstance(table, dg.TableMetadataValue)
    return [dict(record.data) for record in table.records]


@pytest.fixture(scope="module")
def server() -> Iterator[OracleServer]:
    with OracleServer() as running:
        yield running


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return cleanly_stopped(tmp_path_factory)


def loads(server: OracleServer, root: Path) -> str:
    """What Kafka's own loading says; empty if a broker starts. Effects: a load changes it."""
    return str(server.boot(root, NOW_MS).get("bootFailed", ""))


def test_a_healthy_directory_passes(world: World, server: OracleServer, tmp_path: Path) -> None:
    root = shutil.copytree(world.whole, tmp_path / "root", copy_function=shutil.copy2)
    judged = judge(tmp_path, root)
    assert ((True, "WARN", 1), "starts") == (judged.outcome, judged.a_broker)
    assert not loads(server, root)
    assert segment_bytes([world.whole]) == segment_bytes([root])


@pytest.mark.rotates(10)
@pytest.mark.parametrize(
    "name",
    [
        "lost+found",
        "meta.properties: cut",
        "leader epochs: zeros",
        "one partition twice",
        "zeros at the end, clean",
    ],
)
def test_what_stops_kafka_is_an_error(
    name: str, world: World, server: OracleServer, tmp_path: Path
) -> None:
    """The check names the path, and Kafka's loader fails as the catalogue says."""
    case, log = CASES[name], min(world.logs)
    root = shutil.copytree(world.whole, tmp_path / "root", copy_function=shutil.copy2)
    case.do(root, root / log)
    judged = judge(tmp_path, root)
    assert ((False, "ERROR", 1), "does not start") == (judged.outcome, judged.a_broker)
    assert judged.description.startswith(f"{root}: does not start: {root}/")
    assert "stops" == judged.findings[0]["what a start does"]
    assert case.kafka
    assert case.kafka in loads(server, root)


@pytest.mark.rotates(6)
@pytest.mark.parametrize("name", ["a bit flipped in the first segment", "a torn tail"])
def test_what_kafka_removes_is_an_error(
    name: str, world: World, server: OracleServer, tmp_path: Path
) -> None:
    """Kafka starts, and removes as many bytes as the check says, with records in them."""
    case, log = CASES[name], min(world.logs)
    root = shutil.copytree(world.whole, tmp_path / "root", copy_function=shutil.copy2)
    case.do(root, root / log)
    size = segment_bytes([root])
    judged = judge(tmp_path, root)
    assert ((False, "ERROR", 1), "starts, and loses records") == (judged.outcome, judged.a_broker)
    assert not loads(server, root)
    assert size - segment_bytes([root]) == sum(lost for lost, _, _ in judged.lost()) > 0
    removed = content_of(world.whole / log).keys() - content_of(root / log).keys()
    spans = [(first, end) for _, first, end in judged.lost()]
    assert removed
    for base, _ in removed:
        assert any(first <= base and (end == NOT_KNOWN or base < end) for first, end in spans)


@pytest.mark.rotates(6)
def test_a_broker(tmp_path: Path) -> None:
    """A running broker's directory is not judged. After its stop the check passes, and the broker
    starts with all records. Of a torn tail the check has the bytes, and by the high watermark the
    offsets, that clients do not get.
    """
    log_dir = tmp_path / "broker" / "logs"
    with life(tmp_path, "first", "--create", "t") as bootstrap:
        produce(bootstrap)
        running = judge(tmp_path, log_dir)
        assert BOTH == consume(bootstrap)
    assert ((False, "WARN", 0), "not judged") == (running.outcome, running.a_broker)
    assert f"{log_dir}: not judged: a broker runs on it" in running.description

    now_ms = (log_dir / MARKER).stat().st_mtime_ns // 1_000_000
    stopped = judge(tmp_path, log_dir, now_ms)
    assert ((True, "WARN", 1), "starts") == (stopped.outcome, stopped.a_broker)
    with life(tmp_path, "second") as bootstrap:
        assert BOTH == consume(bootstrap)

    (log_dir / MARKER).unlink()
    segment = log_dir / "t-0" / f"{0:020d}.log"
    size = segment.stat().st_size // 2
    with segment.open("r+b") as file:
        file.truncate(2 * size - 5)
    torn = judge(tmp_path, log_dir, now_ms)
    assert ((False, "ERROR", 1), "starts, and loses records") == (torn.outcome, torn.a_broker)
    assert [(0, BATCH, BOTH), (size - 5, BATCH, NOT_KNOWN)] == sorted(torn.lost())
    with life(tmp_path, "third") as bootstrap:
        assert BATCH == consume(bootstrap)
    assert size == segment.stat().st_size


def produce(bootstrap: str) -> None:
    """Two batches of the same size."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1000, "log_level": 0})
    for _ in range(2):
        for _ in range(BATCH):
            producer.produce("t", value=b"v", key=b"k", partition=0)
        assert 0 == producer.flush(CLIENT_SECONDS)


def consume(bootstrap: str) -> int:
    """How many records a client gets, up to the end of the log."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "g", "log_level": 0}
    consumer = Consumer(settings)
    try:
        partition = TopicPartition("t", 0, 0)
        _, end = consumer.get_watermark_offsets(partition, timeout=CLIENT_SECONDS)
        consumer.assign([partition])
        messages = consumer.consume(end, timeout=CLIENT_SECONDS)
    finally:
        consumer.close()
    assert all(message.error() is None for message in messages)
    assert len(messages) == end
    return len(messages)


@contextmanager
def life(work: Path, name: str, *words: str) -> Iterator[str]:
    """A broker until the end of the block, then stopped cleanly. Effects: a process."""
    with broker(work, name, *words) as (process, bootstrap):
        yield bootstrap
        (work / f"{name}.stop").touch()
        process.wait(STOP_SECONDS)
