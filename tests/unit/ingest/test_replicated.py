"""Rows are appended to no replica of several."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from logwright.config.resolved import Sources
from logwright.config.topic import TopicConfig
from logwright.errors import PreconditionError
from logwright.format.names import TopicPartition
from logwright.ingest.archive import OpenArchive
from logwright.ingest.commit import prepare_log_dir
from logwright.ingest.model import AppendOptions
from logwright.ingest.replicated import refuse_replicated
from logwright.metadata.read import read_metadata
from logwright.spark.append import Target, append_rows
from logwright.units import TimestampMs
from tests.metadata_builder import MetadataBuilder, feature, partition, topic

if TYPE_CHECKING:
    from logwright.ingest.broker import SourceTopic

NOW_MS = TimestampMs(1_760_000_000_000)
T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("replicas", [(), (1,)])
def test_a_single_replica_takes_records(tmp_path: Path, replicas: tuple[int, ...]) -> None:
    """And one of which the cluster's metadata says nothing."""
    refuse_replicated(tmp_path, T0, replicas)


def test_a_copy_of_a_topic(tmp_path: Path) -> None:
    """By the metadata that is in the log directory; nothing is read of the source."""
    builder = MetadataBuilder(tmp_path)
    builder.segment(0, [feature("metadata.version", 25), topic("t", 1), partition(1, 0, [1, 2])])
    sources = Sources(metadata=read_metadata(builder.path))
    source = cast("SourceTopic", None)
    copy = OpenArchive(topic="t", held={}, described=None, append=AppendOptions(), _source=source)
    with pytest.raises(PreconditionError, match=r"t-0 has 2 replicas \(nodes 1, 2\)"):
        copy.copy(tmp_path, 0, sources, now_ms=NOW_MS)
    assert [builder.path] == list(tmp_path.iterdir())


def test_rows_of_a_frame(tmp_path: Path) -> None:
    """All partitions are looked at before anything is planned."""
    replicas = {0: (1,), 1: (2, 1)}
    target = Target(
        log_dir=tmp_path,
        topic="t",
        partitions={"t": 2},
        settings={"t": TopicConfig()},
        ingest_id="x",
        now_ms=NOW_MS,
        replicas_of=lambda partition: replicas[partition.partition],
    )
    prepare_log_dir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(PreconditionError, match=r"t-1 has 2 replicas \(nodes 1, 2\)"):
        append_rows(target, lambda *_: pytest.fail("it was staged"))
    assert before == sorted(path.name for path in tmp_path.iterdir())
