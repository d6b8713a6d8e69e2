"""Random metadata directories that Kafka's own classes wrote, and what Kafka's image has."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from logwright.metadata.model import ClusterMetadata, ConfigEntry
from tests.differential.oracle_server import OracleServer

State = dict[str, Any]
"""Topics, configs, features and end, in the form of the oracle's answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomMetadata:
    """A directory and what Kafka has.

    Attributes:
        coverage: what its log had, by name.
    """

    seed: int
    path: Path
    expected: State
    coverage: Counter[str]


def write_metadata(
    server: OracleServer, seeds: Iterable[int], scratch: Path, *, torn: bool = True
) -> Generator[RandomMetadata, None, None]:
    """One directory for each seed, removed when the next is asked for. Effects: asks the oracle."""
    requests = [(seed, scratch / str(seed)) for seed in seeds]
    answers = server.ask_ahead(
        {"request": "metadata", "seed": seed, "out": str(out), "torn": torn}
        for seed, out in requests
    )
    for (seed, out), answer in zip(requests, answers, strict=True):
        yield RandomMetadata(
            seed=seed,
            path=out / "__cluster_metadata-0",
            expected=kafkas_state(answer),
            coverage=Counter(answer["coverage"]),
        )
        shutil.rmtree(out)


def kafkas_state(answer: Mapping[str, Any]) -> State:
    """The oracle's answer; directories that no record names are () and not Kafka's placeholder."""
    topics = {}
    for name, topic in answer["topics"].items():
        partitions = {}
        for number, partition in topic["partitions"].items():
            unknown = set(partition["directories"]) <= {answer["migrating"]}
            directories = () if unknown else tuple(partition["directories"])
            partitions[int(number)] = (tuple(partition["replicas"]), directories)
        topics[name] = (topic["id"], partitions)
    same = ("topicConfigs", "brokerConfigs", "features", "end")
    return {"topics": topics} | {key: answer[key] for key in same}


def our_state(metadata: ClusterMetadata) -> State:
    """What the reader has, in the same form."""
    return {
        "topics": {
            name: (
                topic.topic_id,
                {n: (one.replicas, one.directories) for n, one in topic.partitions.items()},
            )
            for name, topic in metadata.topics.items()
        },
        "topicConfigs": _values(metadata.topic_configs),
        "brokerConfigs": _values(metadata.broker_configs),
        "features": dict(metadata.features),
        "end": metadata.end_offset,
    }


def _values(configs: Mapping[str, Mapping[str, ConfigEntry]]) -> dict[str, dict[str, str]]:
    return {
        resource: {name: entry.value for name, entry in entries.items()}
        for resource, entries in configs.items()
    }
