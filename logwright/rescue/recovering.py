"""The recovery that a rescue ends with."""

from __future__ import annotations

from pathlib import Path

from logwright.errors import LogwrightError
from logwright.format.names import TopicPartition
from logwright.log.load import list_partitions
from logwright.metadata.model import ClusterMetadata, DirectoryIds
from logwright.metadata.places import stray_reason
from logwright.metadata.read import read_directory_ids
from logwright.recovery.directory_plan import Settings, plan_directory
from logwright.recovery.model import DirectoryPlan, RecoveryOptions
from logwright.recovery.observe import marked_logs
from logwright.units import TimestampMs


def served_topic_id(
    log_dir: Path, partition: TopicPartition, metadata: ClusterMetadata | None
) -> str | None:
    """Return the id of a log's topic, if the metadata gives the log to this node; None if it does
    not, or that is not known. Effects: reads the directory's ids.
    """
    topic = None if metadata is None else metadata.topics.get(partition.topic)
    if metadata is None or topic is None:
        return None
    try:
        ids = read_directory_ids(log_dir)
    except LogwrightError:
        return None
    if ids.node_id is None:
        return None
    node = DirectoryIds(cluster_id=ids.cluster_id, node_id=ids.node_id, directory_id=None)
    reason = stray_reason(partition, topic.topic_id, metadata, node)
    return topic.topic_id if reason is None else None


def plan_recovery_of(
    log_dir: Path,
    metadata: ClusterMetadata | None,
    settings: Settings,
    *,
    now_ms: TimestampMs,
    options: RecoveryOptions,
) -> DirectoryPlan:
    """Plan the recovery of all logs of a directory. Effects and errors: as `plan_directory`."""
    return plan_directory(
        log_dir,
        list_partitions(log_dir),
        settings,
        now_ms=now_ms,
        options=options,
        marked=[each.name for each in marked_logs(log_dir)],
        topic_ids=lambda partition: served_topic_id(log_dir, partition, metadata),
    )
