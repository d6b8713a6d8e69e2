"""Which logs a broker renames to ``-stray`` at its start (LogManager.isStrayReplica, Kafka 4.3.0).

It does so with a log that has no topic id, whatever the cluster's metadata says, and with a future
log as with any other. Of a log that has an id the metadata decides: without it that is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from logwright.errors import LogwrightError
from logwright.format.names import (
    FUTURE_DIRECTORY,
    PARTITION_METADATA,
    TopicPartition,
    parse_marked_directory_name,
)
from logwright.log.topic_id import read_topic_id
from logwright.metadata.model import NO_IDS, ClusterMetadata, DirectoryIds
from logwright.metadata.places import stray_reason
from logwright.metadata.read import read_directory_ids
from logwright.place.files import exists, open_log_dir
from logwright.rescue.model import StartFinding

_RENAMES: Final = "a broker renames it to -stray, and does not serve it"
_NO_ID: Final = "no topic id: brokers before 2.8 gave none, and those with ZooKeeper need none."
_WRITE: Final = (
    "If it is of the topic, write the topic's id into its partition.metadata before:"
    " `logwright rescue` does so where it is proved."
)
_GIVE: Final = (
    "Give the cluster's metadata log with --metadata: `logwright rescue` then writes the topic's id"
    " into its partition.metadata, where it is proved."
)
_MOST_NAMED: Final = 3


def strays(
    log_dir: Path, names: Iterable[str], metadata: ClusterMetadata | None
) -> Iterator[tuple[str, StartFinding]]:
    """Yield the name of each log that a broker renames to ``-stray``, and why. Effects: reads the
    logs' topic ids.

    Args:
        names: of the directories of logs that a broker loads, future ones among them.
        metadata: of the cluster; None: not known.
    """
    node = _node(log_dir)
    with open_log_dir(log_dir) as parent:
        for name in names:
            partition = _partition_of(name)
            if partition is None or not exists(log_dir / name):
                continue
            try:
                with parent.open_dir(name) as directory:
                    topic_id = read_topic_id(directory)
                    is_malformed = topic_id is None and directory.exists(PARTITION_METADATA)
            except LogwrightError:  # found to be unreadable
                continue
            if is_malformed:  # found, too
                continue
            if metadata is not None:
                reason = stray_reason(partition, topic_id, metadata, node)
                by = f", by the metadata up to offset {metadata.end_offset}."
                if reason is not None:
                    yield name, _finding(log_dir / name, f"{reason}{by}", _WRITE)
            elif topic_id is None:
                yield name, _finding(log_dir / name, _NO_ID, _GIVE)


def _partition_of(name: str) -> TopicPartition | None:
    """Return the partition of a log or of a future log; None for another name."""
    marked = parse_marked_directory_name(name)
    if marked is None:
        return TopicPartition.parse(name)
    return marked[0] if name.endswith(FUTURE_DIRECTORY) else None


def _node(log_dir: Path) -> DirectoryIds:
    """Return the directory's ids but its own: a broker renames no log for the sake of that."""
    try:
        ids = read_directory_ids(log_dir)
    except LogwrightError:  # found to be malformed
        return NO_IDS
    return DirectoryIds(cluster_id=ids.cluster_id, node_id=ids.node_id, directory_id=None)


def _finding(path: Path, reason: str, remedy: str) -> StartFinding:
    return StartFinding(
        path=path,
        problem=f"{_RENAMES}: {reason}",
        effect="sets aside",
        about="cluster",
        remedy=remedy,
    )


def sentence_of_strays(
    log_dir: Path, names: Iterable[str], metadata: ClusterMetadata | None
) -> str | None:
    """Return what is to be said of the logs that a broker renames; None if it renames none.
    Effects: as `strays`.
    """
    renamed = [name for name, _ in strays(log_dir, names, metadata)]
    if not renamed:
        return None
    more = len(renamed) - _MOST_NAMED
    named = f"{', '.join(renamed[:_MOST_NAMED])}{f' and {more} more' if more > 0 else ''}"
    return f"a broker renames {named} to -stray. `logwright doctor` says why, and what to do"
