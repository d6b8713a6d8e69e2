"""What a real broker's directory says of its topics' settings is what its Admin API says of
them, and retention by it deletes what Kafka's own LogManager deletes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from logwright.cli.main import main
from tests.differential.oracle_server import OracleServer
from tests.e2e.command import free_port
from tests.oracle_runner import run_oracle

pytestmark = [pytest.mark.e2e, pytest.mark.oracle, pytest.mark.rotates(6, by="file")]

ORIGINS = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_BROKER_CONFIG": "broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "cluster",
    "STATIC_BROKER_CONFIG": "server.properties",
    "DEFAULT_CONFIG": "default",
}
SMALL = {"internal.segment.bytes": "15000"}
TOPICS: dict[str, dict[str, str]] = {
    "cdc.users": {"cleanup.policy": "compact"},
    "audit": {"cleanup.policy": "compact,delete", "retention.ms": "3600000"},
    "clicks": {"cleanup.policy": "delete"},
    "defaults": {},
    "by.size": {"retention.bytes": "5000", "retention.ms": "-1"},
    "for.ever": {"retention.ms": "-1"},
    "lagged": {"cleanup.policy": "compact", "max.compaction.lag.ms": "5"},
    "ratio": {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "codec": {"compression.type": "zstd", "compression.zstd.level": "7"},
    "segments": {"segment.ms": "1000", "segment.jitter.ms": "10"},
    "times": {"message.timestamp.type": "LogAppendTime"},
    "gone": {"cleanup.policy": "compact"},
    "returned": {"cleanup.policy": "compact"},
}  # fmt: skip
FIRST: list[dict[str, Any]] = [
    {"create": {name: {"partitions": 1, "configs": own | SMALL} for name, own in TOPICS.items()}},
    {"cluster": {"log.retention.ms": "172800000", "log.cleaner.delete.retention.ms": "77"}},
    {"broker": {"log.retention.ms": "864000000", "log.flush.interval.ms": "9"}},
    *({"produce": dict.fromkeys(TOPICS, 100)} for _ in range(4)),
    {"delete": ["gone", "returned"]},
    {"create": {"returned": {"partitions": 1, "configs": {"retention.ms": "1"} | SMALL}}},
]  # fmt: skip
SECOND: list[dict[str, Any]] = [
    {"topics": {"clicks": {"retention.ms": "60000"}, "lagged": {"max.compaction.lag.ms": None}}},
    {"broker": {"log.flush.interval.ms": None, "log.segment.delete.delay.ms": "11"}},
    {"topics": {"ratio": {"cleanup.policy": "delete"}}},
]
SHAPES = {
    "snapshot": [{"snapshot": True, "steps": FIRST + SECOND}],
    "log": [{"steps": FIRST + SECOND}],
    "both": [{"snapshot": True, "steps": FIRST}, {"steps": SECOND}],
}
DAY_MS = "86400000"
SERVER = {"log.retention.hours": "48", "log.roll.hours": "24", "log.cleaner.enable": "false"}
MONTH_MS = 30 * 24 * 3600 * 1000


@pytest.fixture(scope="module", params=SHAPES)
def broker(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    kafka_version: str,
) -> dict[str, Any]:
    """A stopped broker's directory, and what Admin said of it before it stopped."""
    path = tmp_path_factory.mktemp("broker")
    spec = path / "spec.json"
    spec.write_text(json.dumps({"server": SERVER, "lives": SHAPES[request.param]}))
    (answer,) = run_oracle(
        "describe-broker", "--dir", path / "b", "--port", str(free_port()), "--spec", spec
    )
    return answer | {"properties": str(path / "b" / "server.properties")}


def called(*words: str) -> list[dict[str, Any]]:
    """A command's JSON; it ended with status 0."""
    result = CliRunner().invoke(main, [*words, "--output", "json"])
    assert 0 == result.exit_code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def configs(*words: str) -> dict[str, dict[str, tuple[str, str]]]:
    """Value and origin by topic and name, as ``logwright config`` says them."""
    return {
        line["topic"]: {
            name: (config["value"], config["origin"]) for name, config in line["configs"].items()
        }
        for line in called("config", *words)
    }


def kafkas(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, str]]:
    """The same of a topic, as Admin says it; but it does not know that ``log.roll.hours`` of
    server.properties set a ``segment.ms``.
    """
    theirs = {name: (one["value"], ORIGINS[one["source"]]) for name, one in configs.items()}
    if theirs["segment.ms"] == (DAY_MS, "default"):
        theirs["segment.ms"] = (DAY_MS, "server.properties")
    return theirs


def test_every_value_is_what_the_broker_says(broker: dict[str, Any]) -> None:
    """Value and origin of each config of each topic; a deleted topic is not there."""
    words = (broker["logDir"], "--server-properties", broker["properties"])
    ours = configs(*words, *broker["topics"])
    assert {name: kafkas(one["configs"]) for name, one in broker["topics"].items()} == ours
    assert len(TOPICS) - 1 == len(broker["topics"])


def test_a_torn_tail_changes_nothing_before_it(broker: dict[str, Any], tmp_path: Path) -> None:
    """A last batch that is incomplete is truncated; the settings before it hold."""
    copy = tmp_path / "__cluster_metadata-0"
    shutil.copytree(Path(broker["metadataDir"]) / copy.name, copy)
    words = (broker["logDir"], "--server-properties", broker["properties"], "--metadata", str(copy))
    before = configs(*words)
    last = max(copy.glob("*.log"))
    last.write_bytes(last.read_bytes() + last.read_bytes()[:50])
    assert before == configs(*words)


@pytest.fixture(scope="module")
def server(kafka_version: str) -> Iterator[OracleServer]:
    """Kafka's LogManager, in one JVM."""
    with OracleServer() as running:
        yield running


def test_retention_deletes_what_kafkas_log_manager_deletes(
    broker: dict[str, Any], server: OracleServer, tmp_path: Path
) -> None:
    """30 days on, with the same metadata: exactly the same segments are left."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for copy in (ours, theirs):
        shutil.copytree(broker["logDir"], copy, copy_function=shutil.copy2)
        for deleted in copy.glob("*-delete"):
            shutil.rmtree(deleted)
    metadata = str(Path(broker["metadataDir"]) / "__cluster_metadata-0")
    now = int(max(path.stat().st_mtime for path in theirs.rglob("*.log")) * 1000) + MONTH_MS
    answer = server.ask(
        {
            "request": "manager",
            "logDir": str(theirs),
            "config": {},
            "topics": {
                name: {key: config["value"] for key, config in topic["configs"].items()}
                for name, topic in broker["topics"].items()
            },
            "now": now,
            "producerIdExpirationMs": 86_400_000,
            "retain": True,
        }
    )
    called(
        *("retain", str(ours), "--metadata", metadata, "--force", "--yes", "--now", str(now)),
        *("--server-properties", broker["properties"], "--high-watermark", "end"),
    )
    left = {
        path.name: sorted(int(log.stem) for log in path.glob("*.log"))
        for path in ours.iterdir()
        if path.name in answer["segments"]
    }
    assert answer["segments"] == left
    assert left["cdc.users-0"][0] == 0 < left["clicks-0"][0]
    gone = CliRunner().invoke(main, ["retain", str(theirs), "--yes", "--now", str(now)])
    assert 2 == gone.exit_code
