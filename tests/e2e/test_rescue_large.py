"""``logwright rescue --free`` on a full disk with 20,000 segments; Kafka loads what it leaves."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from logwright.format.checkpoints import serialize_offset_checkpoint
from logwright.format.names import TopicPartition
from logwright.units import TimestampMs
from tests.differential.oracle_server import OracleServer
from tests.e2e.command import call
from tests.e2e.test_full_disk import Disk, disk
from tests.e2e.test_rescue_free import LATER, free_bytes
from tests.latest_rows import replayed
from tests.log_builder import START_MS, LogBuilder
from tests.metadata_builder import uuid_text
from tests.property.accidents import META
from tests.sequences.reading import read_content

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.e2e,
    pytest.mark.crash,
    pytest.mark.oracle,
    pytest.mark.needs_rights("mounting"),
]

LOGS = 20
SEGMENTS = 1_000
"""Of each log, with ten records of the same ten keys."""
END = SEGMENTS * 10 + 1
RETENTION = "retention.bytes=1900000"
"""Of 2.2 MB."""
GOAL_SHARE = 0.3
NOW_MS = TimestampMs(START_MS + 86_400_000)


def filled(made: Disk) -> list[str]:
    """A log directory of a broker with some logs; their names."""
    made.log_dir.mkdir()
    names = [f"{chr(ord('a') + number)}-0" for number in range(LOGS)]
    ends = {TopicPartition(name[0], 0): END for name in names}
    for number, name in enumerate(names):
        log = LogBuilder(made.log_dir, name)
        for base in range(0, SEGMENTS * 10, 10):
            log.segment(base).batch(base, [(f"k{n}", f"{base}" * 50) for n in range(10)])
        log.segment(SEGMENTS * 10).batch(SEGMENTS * 10, [("z", "new")])
        log.write(producers=True)
        text = f"version: 0\ntopic_id: {uuid_text(number + 1000)}"
        (log.directory / "partition.metadata").write_text(text)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (made.log_dir / name).write_bytes(serialize_offset_checkpoint(ends))
    (made.log_dir / "meta.properties").write_text(META)
    return names


@pytest.mark.parametrize(
    ("share", "policy"),
    [(0.0, "cleanup.policy=compact,delete"), (0.03, "cleanup.policy=compact")],
)
def test_a_full_disk_with_many_segments(tmp_path: Path, share: float, policy: str) -> None:
    """With no byte free the oldest segments go first, by the topics' retention; then, and with 3 %
    free at once, logs are compacted. All latest values stay, and Kafka loads all logs.
    """
    with disk(tmp_path, "size=300m") as other:
        made = Disk(log_dir=other.log_dir.parent / "logs")
        names = filled(made)
        shutil.rmtree(other.log_dir)
        total = shutil.disk_usage(made.log_dir).total
        made.fill(round(total * share) // 4096)
        before = {name: replayed(read_content(made.log_dir, name)) for name in names}
        goal = round(total * GOAL_SHARE)
        words = ("--no-metadata", "--config", policy, "--config", RETENTION, *LATER)
        answer = call("rescue", made.log_dir, "--free", goal, "--yes", *words)
        assert 0 == answer.status, answer.err
        assert goal <= free_bytes(made)
        steps = Counter(line["step"] for line in answer.lines if "done" in line)
        assert answer.lines[-1]["lowestFreeBytes"] >= (total // 100 if share else 0)
        assert {"compaction", *(("retention",) if share == 0 else ())} == set(steps)
        for name in names:
            assert before[name] == replayed(read_content(made.log_dir, name))
        booted = shutil.copytree(made.log_dir, tmp_path / "booted")
    with OracleServer() as server:
        kafka = server.boot(booted, NOW_MS)
    assert "bootFailed" not in kafka
    ends = {name: kafka["logs"][name]["endOffset"] for name in names}
    assert dict.fromkeys(names, END) == ends
    for name in names:
        assert before[name] == replayed(read_content(booted, name))
