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

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from logwright.errors import LogwrightError, Unsettled
from logwright.log.topic_id import read_topic_id
from logwright.metadata.find import find_metadata
from logwright.metadata.read import read_directory_ids, read_metadata
from logwright.place.files import absolute, open_partition_dir
from logwright.running.place import RunningPlace, bounds_of

if TYPE_CHECKING:
    from logwright.log.model import ReadableLog
    from logwright.metadata.model import ClusterMetadata, PartitionMetadata

FETCHES_MS: Final = 2_000
"""A high watermark that was recorded so long after the replica was in sync is of a time after that:
some fetches, each up to ``replica.fetch.wait.max.ms``, and what clocks differ by."""
_MOST_KEPT: Final = 8

_read: dict[str, tuple[int, ClusterMetadata]] = {}
"""By directory when metadata was last read, ns since the epoch, and what it was."""


def require_in_sync(log: ReadableLog) -> None:
    """Require that a log that a broker has open was in sync when its bound was recorded. A log of
    which the metadata of its node says nothing is not judged. Effects: reads the cluster metadata.

    Raises:
        Unsettled: it was not, or not for `FETCHES_MS`.
    """
    place = log.directory
    bound = bounds_of(place).get(log.partition.directory_name)
    if bound is None or not isinstance(place, RunningPlace):
        return
    node, partition = None, None
    with suppress(LogwrightError):  # who needs the topic's settings says it
        node, partition = _partition(place, log, max(bound.taken_ms, bound.recorded_ms))
    if node is None or partition is None or len(partition.replicas) <= 1:
        return
    since_ms = partition.in_sync.get(node)
    if since_ms is None:
        problem = "the replica is not in sync"
    elif max(0, bound.recorded_ms - FETCHES_MS) < since_ms <= time.time_ns() // 1_000_000:
        problem = "the replica was not in sync long enough when its high watermark was recorded"
    else:
        return
    raise Unsettled(
        f"{problem}: values below it can be older than the newest ones.",
        path=log.directory,
        remedy="Run it again when the replica has caught up, or read one that is in sync.",
    )


def _partition(
    place: RunningPlace, log: ReadableLog, at_ms: int
) -> tuple[int | None, PartitionMetadata | None]:
    """Return the node of a log directory, and the partition as its metadata has it at a time that
    is not before `at_ms`.
    """
    session = place.session.another()
    log_dir = session.place
    node = read_directory_ids(log_dir).node_id
    directory = find_metadata(log_dir)
    if directory is None:
        return node, None
    name = str(absolute(directory))
    read_ns, metadata = _read.get(name, (0, None))
    if metadata is None or read_ns < at_ms * 1_000_000:
        read_ns, metadata = time.time_ns(), read_metadata(directory)
        while len(_read) >= _MOST_KEPT:
            del _read[next(iter(_read))]
        _read[name] = read_ns, metadata
    with open_partition_dir(log.log_dir, log.partition) as opened:
        topic_id = read_topic_id(opened)
    topic = metadata.topics.get(log.partition.topic)
    if topic is None or topic.topic_id != topic_id:
        return node, None
    return node, topic.partitions.get(log.partition.partition)
