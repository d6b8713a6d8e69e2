"""Which partition directories a broker would serve, by the cluster's metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.errors import UnreadableFile
from logwright.format.names import TopicPartition
from logwright.log.topic_id import read_topic_id
from logwright.metadata.model import (
    ClusterMetadata,
    DirectoryIds,
    PartitionMetadata,
    TopicMetadata,
)
from logwright.metadata.places import stray_reason
from logwright.place.files import open_partition_dir
from logwright.units import Offset
from tests.metadata_builder import uuid_text

T, U, GONE = uuid_text(1001), uuid_text(1002), uuid_text(1003)
HERE, THERE = uuid_text(2001), uuid_text(2002)
UNASSIGNED, LOST = uuid_text(1), uuid_text(2)
T0, T1, T2, T3 = (TopicPartition("t", number) for number in range(4))
IDS = DirectoryIds(cluster_id="c", node_id=1, directory_id=HERE)


def on(replicas: tuple[int, ...], *directories: str) -> PartitionMetadata:
    return PartitionMetadata(replicas=replicas, directories=directories)


CLUSTER = ClusterMetadata(
    path=Path("__cluster_metadata-0"),
    cluster_id="c",
    end_offset=Offset(9),
    snapshot=None,
    topics={
        "t": TopicMetadata(
            name="t",
            topic_id=T,
            partitions={
                0: on((3, 1), THERE, HERE),
                1: on((1, 3), THERE, HERE),
                2: on((2, 3)),
                4: on((1,), UNASSIGNED),
                5: on((1,), LOST),
                6: on((1,)),
            },
        ),
        "u": TopicMetadata(name="u", topic_id=U, partitions={0: on((1,), HERE)}),
    },
    topic_configs={},
    broker_configs={},
    features={},
)


@pytest.mark.parametrize(
    ("partition", "topic_id", "reason"),
    [
        (T0, T, None),
        (TopicPartition("u", 0), U, None),
        (T0, None, "no topic id"),
        (T0, GONE, f"its topic id {GONE} is unknown to the cluster"),
        (T0, U, f"its topic id {U} belongs to the topic u"),
        (TopicPartition("gone", 0), GONE, f"its topic id {GONE} is unknown to the cluster"),
        (TopicPartition("gone", 0), T, f"its topic id {T} belongs to the topic t"),
        (T1, T, f"its replica is assigned to the log directory with id {THERE}"),
        (T2, T, "node 1 has no replica of it"),
        (T3, T, "the partition does not exist in its topic"),
        (TopicPartition("t", 4), T, None),
        (TopicPartition("t", 5), T, None),
        (TopicPartition("t", 6), T, None),
    ],
)
def test_what_a_broker_would_not_serve(
    partition: TopicPartition, topic_id: str | None, reason: str | None
) -> None:
    """By topic id, replicas and directory; a directory that nothing assigns is the broker's."""
    assert reason == stray_reason(partition, topic_id, CLUSTER, IDS)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (DirectoryIds(cluster_id=None, node_id=None, directory_id=None), [None, None, None]),
        (
            DirectoryIds(cluster_id="c", node_id=1, directory_id=None),
            [None, None, "node 1 has no replica of it"],
        ),
        (
            DirectoryIds(cluster_id="c", node_id=4, directory_id=HERE),
            ["node 4 has no replica of it"] * 3,
        ),
    ],
)
def test_what_the_log_directory_does_not_say_makes_no_stray(
    ids: DirectoryIds, expected: list[str | None]
) -> None:
    """Without a node's id, or a directory's, only the rest is compared."""
    assert expected == [stray_reason(one, T, CLUSTER, ids) for one in (T0, T1, T2)]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (f"version: 0\ntopic_id: {T}", T),
        (f"version: 0\ntopic_id: {T}\n", T),
        (f"version: 1\ntopic_id: {T}", None),
        ("version: 0\ntopic_id: short", None),
        (f"version: 0\ntopic_id: {T}\n" * 1000, None),
        ("", None),
        (None, None),
    ],
)
def test_the_topic_id_of_a_directory(
    tmp_path: Path, content: str | None, expected: str | None
) -> None:
    """As PartitionMetadataFile writes it; anything else is none."""
    (tmp_path / "t-0").mkdir()
    if content is not None:
        (tmp_path / "t-0" / "partition.metadata").write_text(content)
    with open_partition_dir(tmp_path, T0) as directory:
        assert expected == read_topic_id(directory)


def test_a_link_says_no_topic_id(tmp_path: Path) -> None:
    """It is refused, not followed."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / "elsewhere").write_text(f"version: 0\ntopic_id: {T}")
    (tmp_path / "t-0" / "partition.metadata").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnreadableFile), open_partition_dir(tmp_path, T0) as directory:
        read_topic_id(directory)
