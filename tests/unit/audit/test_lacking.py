"""Which replicas of a partition are missing among several log directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from logwright.audit.lacking import find_holders, judge_holders, node_ids
from logwright.format.names import TopicPartition
from logwright.metadata.read import read_metadata
from tests import metadata_builder as records
from tests.metadata_builder import MetadataBuilder

A, B, C = Path("/a"), Path("/b"), Path("/c")


@pytest.mark.parametrize(
    ("nodes", "holding", "assigned", "lacking", "unseen"),
    [
        ((None, None, None), (A, B, C), None, (), ()),
        ((None, None, None), (A, B), None, (C,), ()),
        ((1, 2, 3), (A, B), None, (C,), ()),
        ((1, 2, 3), (A, B), (1, 2), (), ()),
        ((1, 2, 3), (A, B), (1, 2, 3), (C,), ()),
        ((1, 2, 2), (A, B), (1, 2), (), ()),
        ((1, 2, 2), (A, B), (1, 2, 4), (), (4,)),
        ((1, 1, 2), (A,), (1, 2), (C,), ()),
        ((None, None, None), (A, B), (1, 2, 3), (C,), ()),
    ],
)
def test_who_lacks_a_partition(
    nodes: tuple[int | None, ...],
    holding: tuple[Path, ...],
    assigned: tuple[int, ...] | None,
    lacking: tuple[Path, ...],
    unseen: tuple[int, ...],
) -> None:
    """A directory whose broker should hold it and does not, in none of its directories; a broker
    of which no directory was given.
    """
    holders = judge_holders((A, B, C), holding, dict(zip((A, B, C), nodes, strict=True)), assigned)
    assert (holding, lacking, unseen) == (holders.holding, holders.lacking, holders.unseen)
    assert holders.complete == (not lacking and not unseen)


def test_the_metadata_says_which_brokers_hold_a_replica(tmp_path: Path) -> None:
    """Its assignment, together with the ids in ``meta.properties``."""
    directories = [tmp_path / f"broker-{node}" for node in (1, 2)]
    for node, directory in enumerate(directories, start=1):
        directory.mkdir()
        (directory / "meta.properties").write_text(f"version=1\ncluster.id=c\nnode.id={node}\n")
    (directories[0] / "t-0").mkdir()
    builder = MetadataBuilder(directories[0])
    builder.segment(0, [records.topic("t", 1), records.partition(1, 0, [1, 2, 3])])
    partition, nodes = TopicPartition("t", 0), node_ids(directories)
    holders = find_holders(partition, directories, nodes)
    assert (None, (directories[1],)) == (holders.assigned, holders.lacking)
    known = find_holders(partition, directories, nodes, read_metadata(builder.path))
    assert ((1, 2, 3), (3,)) == (known.assigned, known.unseen)
