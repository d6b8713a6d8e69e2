"""Replicas that a controller lets lead whatever they lack."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from logwright.format.names import TopicPartition
from logwright.metadata.model import ClusterMetadata, PartitionMetadata, TopicMetadata
from logwright.rescue.alone import led_by_it_alone, sentence_of
from logwright.units import Offset, TimestampMs

NODE = 1
T0 = TopicPartition("t", 0)
ELIGIBLE = "eligible.leader.replicas.version"


def cluster(replicas: tuple[int, ...], in_sync: tuple[int, ...], level: int = 0) -> ClusterMetadata:
    partition = PartitionMetadata(
        replicas=replicas,
        directories=(),
        in_sync=dict.fromkeys(in_sync, TimestampMs(0)),
    )
    return ClusterMetadata(
        path=Path("__cluster_metadata-0"),
        cluster_id="c",
        end_offset=Offset(9),
        snapshot=None,
        topics={"t": TopicMetadata(name="t", topic_id="i", partitions={0: partition})},
        topic_configs={},
        broker_configs={},
        features={ELIGIBLE: level} if level else {},
    )


@pytest.mark.parametrize(
    ("replicas", "in_sync", "level", "alone"),
    [
        ((1, 2, 3), (1,), 0, True),
        ((1, 2, 3), (1,), 1, False),
        ((1, 2, 3), (1, 2), 0, False),
        ((1, 2, 3), (2,), 0, False),
        ((1, 2, 3), (), 0, False),
        ((1,), (1,), 0, False),
    ],
    ids=["alone", "eligible leaders", "two in sync", "another", "nobody", "one replica"],
)
def test_the_only_one_in_sync_of_several(
    replicas: tuple[int, ...], in_sync: tuple[int, ...], level: int, *, alone: bool
) -> None:
    """In a cluster without eligible leader replicas; an only replica has nothing to lose to."""
    listed = led_by_it_alone(cluster(replicas, in_sync, level), NODE, [T0])
    assert ((T0,) if alone else ()) == listed


def test_what_is_not_in_the_metadata_is_not_known() -> None:
    """Nothing is said of it."""
    known = cluster((1, 2), (1,))
    assert () == led_by_it_alone(known, NODE, [TopicPartition("t", 1), TopicPartition("u", 0)])
    assert () == led_by_it_alone(known, None, [T0])
    assert () == led_by_it_alone(replace(known, topics={}), NODE, [T0])


def test_many_are_counted() -> None:
    """Three are named."""
    many = tuple(TopicPartition("t", number) for number in range(5))
    assert sentence_of(many).startswith("t-0, t-1, t-2 and 2 more: by the cluster's metadata")
    assert sentence_of(many[:1]).startswith("t-0: by the cluster's metadata")
