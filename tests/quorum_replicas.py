"""Log directories of brokers, with replicas that end at different offsets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from logwright.format.names import TopicPartition
from tests.log_builder import LogBuilder
from tests.metadata_builder import uuid_text
from tests.quorum_worlds import CLUSTER

TOPIC: Final = 7
"""The number of which the topic's id is made."""
EPOCH: Final = 5
"""The leader epoch of all records."""


def write_replicas(
    log_dir: Path, broker: int, records: Mapping[TopicPartition, int], *, topic_id: int = TOPIC
) -> Path:
    """Write the log directory of a broker, with logs of a number of records, each a batch."""
    log_dir.mkdir()
    for partition, count in records.items():
        log = LogBuilder(log_dir, str(partition))
        segment = log.segment(0)
        for number in range(count):
            segment.batch(number, [(b"k", b"v")])
        log.write()
        text = f"version: 0\ntopic_id: {uuid_text(topic_id)}\n"
        (log.directory / "partition.metadata").write_text(text)
        (log.directory / "leader-epoch-checkpoint").write_text(f"0\n1\n{EPOCH} 0\n")
    ids = {"cluster.id": CLUSTER, "node.id": broker, "directory.id": uuid_text(broker)}
    text = "".join(f"{name}={value}\n" for name, value in ids.items())
    (log_dir / "meta.properties").write_text(f"version=1\n{text}")
    return log_dir
