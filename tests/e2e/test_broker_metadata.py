"""The metadata that a real broker leaves says what its Admin API described before it stopped."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from logwright.config.resolved import Sources, settings_of
from logwright.errors import PolicyError
from logwright.metadata.find import find_metadata
from logwright.metadata.model import ClusterMetadata, ConfigEntry
from logwright.metadata.read import read_directory_ids, read_metadata
from tests.e2e.command import free_port
from tests.metadata_builder import ABORT, BEGIN, batches, config, remove_topic
from tests.oracle_runner import run_oracle

pytestmark = [pytest.mark.e2e, pytest.mark.oracle, pytest.mark.rotates(3, by="file")]

POLICIES = ("compact", "delete", "compact,delete")
CREATED = {
    f"topic-{number}": {
        "partitions": 1 + number % 3,
        "configs": {"cleanup.policy": POLICIES[number % 3], "retention.ms": str(1000 * number)},
    }
    for number in range(10)
}
LIVES = [
    {
        "snapshot": True,
        "steps": [
            {"create": CREATED | {"plain": {}, "deleted": {"configs": {"segment.ms": "77"}}}},
            {"cluster": {"log.retention.ms": "600000", "log.cleaner.min.cleanable.ratio": "0.3"}},
            {"broker": {"log.segment.bytes": "2000000", "log.retention.ms": "700000"}},
            {"topics": {"topic-1": {"retention.ms": None, "min.compaction.lag.ms": "5"}}},
            {"delete": ["deleted", "topic-3"]},
        ],
    },
    {
        "steps": [
            {"create": {"deleted": {}, "late": {"configs": {"cleanup.policy": "compact"}}}},
            {"cluster": {"log.cleaner.min.cleanable.ratio": None, "log.roll.ms": "9000000"}},
            {"topics": {"topic-2": {"cleanup.policy": "delete", "retention.ms": None}}},
            {"delete": ["topic-4"]},
        ],
    },
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> dict[str, Any]:
    """What the broker's Admin API described at the end; the directory is left as it stopped."""
    home = tmp_path_factory.mktemp("broker")
    spec = home / "spec.json"
    spec.write_text(json.dumps({"lives": LIVES}))
    ports = ("--port", str(free_port()))
    (answer,) = run_oracle("describe-broker", "--dir", home / "b", *ports, "--spec", spec)
    return answer


def as_it_stopped(_: Path) -> None:
    """A snapshot, and the log after it."""


def without_snapshot(metadata: Path) -> None:
    """The whole log: a young cluster's has no snapshot."""
    for path in metadata.glob("*.checkpoint"):
        path.unlink()


def torn_tail(metadata: Path) -> None:
    """A batch that is incomplete."""
    append(metadata, [config(2, "topic-1", "retention.ms", "1")], cut=10)


def aborted_transaction(metadata: Path) -> None:
    """Changes that did not happen."""
    change = [BEGIN, config(2, "topic-1", "retention.ms", "1"), config(4, "", "log.roll.ms", None)]
    append(metadata, [*change, ABORT])


def open_transaction(metadata: Path) -> None:
    """Changes that did not happen yet."""
    append(metadata, [BEGIN, config(2, "topic-1", "retention.ms", "1"), remove_topic(1)])


def append(metadata: Path, values: list[bytes], *, cut: int = 0) -> None:
    """Append a batch to the log."""
    end = read_metadata(metadata).end_offset
    (batch,) = batches(end, values)
    log = max(metadata.glob("*.log"))
    log.write_bytes(log.read_bytes() + batch[: len(batch) - cut])


FORMS = (as_it_stopped, without_snapshot, torn_tail, aborted_transaction, open_transaction)


@pytest.mark.parametrize("form", FORMS)
def test_the_metadata_is_what_the_broker_described(
    broker: dict[str, Any], tmp_path: Path, form: Callable[[Path], None]
) -> None:
    """Topics, ids, replicas, configs and features, in each form that a log can have."""
    copied = tmp_path / "__cluster_metadata-0"
    shutil.copytree(Path(broker["metadataDir"]) / copied.name, copied)
    form(copied)
    metadata = read_metadata(copied)
    assert (form is not without_snapshot) == (metadata.snapshot is not None)
    assert described(broker) == read(metadata)
    assert broker["features"] == metadata.features


@pytest.mark.parametrize("form", [as_it_stopped, without_snapshot])
def test_the_version_is_what_the_broker_registered(
    broker: dict[str, Any], tmp_path: Path, form: Callable[[Path], None], kafka_version: str
) -> None:
    """A broker's software decides, not the cluster's level; an unknown level is refused."""
    copied = tmp_path / "__cluster_metadata-0"
    shutil.copytree(Path(broker["metadataDir"]) / copied.name, copied)
    form(copied)
    metadata = read_metadata(copied)
    ids = read_directory_ids(Path(broker["logDir"]))
    assert ids.node_id is not None
    sources = Sources(metadata=metadata, ids=ids)
    assert kafka_version == sources.kafka.version.name
    assert not sources.kafka.assumed
    later = replace(metadata, features={**metadata.features, "metadata.version": 30})
    assert kafka_version == Sources(metadata=later, ids=ids).kafka.version.name
    given = replace(sources, kafka_version="4.3").kafka
    assert ("4.3", "it was given") == (given.version.name, given.why)
    unknown = replace(metadata, registered={ids.node_id: {"metadata.version": 36}})
    with pytest.raises(PolicyError, match=r"registered metadata\.version up to 36"):
        settings_of(replace(sources, metadata=unknown), "topic-1")


def described(broker: Mapping[str, Any]) -> dict[str, Any]:
    """Of the broker's answer, what was set by somebody."""
    return {
        "topics": {
            name: (topic["id"], {int(n): tuple(ids) for n, ids in topic["partitions"].items()})
            for name, topic in broker["topics"].items()
        },
        "configs": {
            name: configs
            for name, topic in broker["topics"].items()
            if (configs := _from(topic["configs"], "DYNAMIC_TOPIC_CONFIG"))
        },
        "broker": _from(broker["broker"], "DYNAMIC_BROKER_CONFIG"),
        "cluster": _from(broker["cluster"], "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    }


def read(metadata: ClusterMetadata) -> dict[str, Any]:
    """The same of the metadata."""
    return {
        "topics": {
            name: (topic.topic_id, {n: one.replicas for n, one in topic.partitions.items()})
            for name, topic in metadata.topics.items()
        },
        "configs": {name: _values(configs) for name, configs in metadata.topic_configs.items()},
        "broker": _values(metadata.broker_configs["1"]),
        "cluster": _values(metadata.broker_configs[""]),
    }


def _from(configs: Mapping[str, Any], source: str) -> dict[str, str]:
    return {name: one["value"] for name, one in configs.items() if one["source"] == source}


def _values(configs: Mapping[str, ConfigEntry]) -> dict[str, str]:
    return {name: entry.value for name, entry in configs.items()}


def test_the_log_directory_leads_to_it(broker: dict[str, Any]) -> None:
    """The metadata is found in the sibling; ids are those of the broker's own files."""
    log_dir = Path(broker["logDir"])
    metadata = find_metadata(log_dir)
    assert Path(broker["metadataDir"]) / "__cluster_metadata-0" == metadata
    image, own = read_metadata(metadata), read_directory_ids(log_dir)
    assert (broker["clusterId"], broker["nodeId"]) == (image.cluster_id, own.node_id)
    assert broker["clusterId"] == own.cluster_id
    assert {(own.directory_id,)} == {
        partition.directories
        for topic in image.topics.values()
        for partition in topic.partitions.values()
    }
    for name, topic in image.topics.items():
        text = (log_dir / f"{name}-0" / "partition.metadata").read_text()
        assert f"topic_id: {topic.topic_id}" in text.splitlines()
