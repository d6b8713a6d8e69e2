"""Whether the replica that is read has all that its latest state is made of.

1. A replica that catches up copies a log that its leader's cleaner has cleaned: it lacks the newest
   value below its own high watermark of a key that has a newer one beyond, and has an older value
   of that key, or a deleted one.
2. An in-sync replica got every record before a cleaner could remove it: a leader's cleaner does not
   go beyond its high watermark, which all in-sync replicas have reached. Their own high watermarks
   come one fetch later.
3. Who is in sync is in the metadata log of its node (PartitionRecord, PartitionChangeRecord,
   KIP-631), which a broker has caught up with before it fetches.
"""

from __future__ import annotations

import logging
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from logwright.errors import LogwrightError, Unsettled
from logwright.log.topic_id import read_topic_id
from logwright.metadata.find import find_metadata
from logwright.metadata.read import read_directory_ids, read_metadata
from logwright.place.files import open_partition_dir
from logwright.running.place import RunningPlace, as_it_runs, bounds_of
from logwright.tier.place import local_part

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.log.model import ReadableLog
    from logwright.metadata.model import ClusterMetadata, PartitionMetadata

_LOG = logging.getLogger(__name__)

FETCHES_MS: Final = 2_000
"""A high watermark that was recorded so long after the replica was in sync is of a time after that:
some fetches, each up to ``replica.fetch.wait.max.ms``, and what clocks differ by."""


def require_in_sync(log: ReadableLog) -> None:
    """Require that a log that a broker has open was in sync when its bound was recorded. A log of
    which the metadata of its node says nothing is not judged; one whose metadata cannot be read
    neither, which is logged. Effects: reads the cluster metadata.

    Raises:
        Unsettled: it was not, or not for `FETCHES_MS`; or the metadata keeps changing.
    """
    place = local_part(log.log_dir)
    bound = bounds_of(place).get(log.partition.directory_name)
    if bound is None or not isinstance(place, RunningPlace):
        return
    try:
        node, metadata = _metadata(place.session.log_dir, bound.recorded_ms)
        partition = None if metadata is None else _partition(log, metadata)
    except Unsettled:
        raise
    except LogwrightError as error:
        _LOG.warning("not known whether the replica of %s is in sync: %s", log.partition, error)
        return
    if node is None or partition is None or len(partition.replicas) <= 1:
        return
    since_ms = partition.in_sync.get(node)
    if since_ms is None:
        problem = "the replica is not in sync"
    elif max(0, bound.recorded_ms - FETCHES_MS) < since_ms <= time.time_ns() // 1_000_000:
        problem = "the replica was not in sync long enough when its high watermark was recorded"
    else:  # a time that is still to come says nothing: the clocks differ
        return
    raise Unsettled(
        f"{problem}: values below it can be older than the newest ones.",
        path=log.directory,
        remedy="Run it again when the replica has caught up, or read one that is in sync.",
    )


def _partition(log: ReadableLog, metadata: ClusterMetadata) -> PartitionMetadata | None:
    """Return what the metadata has of a log, None if nothing. Effects: reads the log's topic id."""
    topic = metadata.topics.get(log.partition.topic)
    with open_partition_dir(log.log_dir, log.partition) as opened:
        if topic is None or topic.topic_id != read_topic_id(opened):
            return None
    return topic.partitions.get(log.partition.partition)


@lru_cache(maxsize=4)
def _metadata(log_dir: Path, _recorded_ms: int) -> tuple[int | None, ClusterMetadata | None]:
    """Return the node of a log directory, and its metadata as it was at some time after the high
    watermarks were recorded: logs with the same ones share it. Effects: reads it.
    """
    place = as_it_runs(log_dir)
    directory = find_metadata(place)
    metadata = None if directory is None else read_metadata(directory)
    return read_directory_ids(place).node_id, metadata
