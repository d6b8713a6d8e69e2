"""What stops a broker that has several of the given log directories.

A broker stops at two directories with the same ``directory.id`` (MetaPropertiesEnsemble), and at
two logs of a partition (LogManager.loadLog). Several directories are often of several brokers:
there it is in order that each has a log of a partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from logwright.log.load import list_partitions
from logwright.metadata.read import read_directory_ids
from logwright.place.model import Place


def stops_one_broker(log_dirs: Sequence[Place]) -> Iterator[str]:
    """Yield a sentence for each two directories of one broker, by their ``meta.properties``, with
    which it does not start. Effects: reads these files and lists the directories.

    Raises:
        LogwrightError: as `read_directory_ids` and `list_partitions`.
    """
    ids = {log_dir: read_directory_ids(log_dir) for log_dir in log_dirs}
    for first, second in combinations(log_dirs, 2):
        own, others = ids[first], ids[second]
        if own.node_id is None or (own.cluster_id, own.node_id) != (
            others.cluster_id,
            others.node_id,
        ):
            continue
        both = f"{first} and {second} are of broker {own.node_id}, which does not start with both"
        if own.directory_id is not None and own.directory_id == others.directory_id:
            yield f"{both}: directory.id={own.directory_id} is in each; one may be a copy."
        shared = sorted(set(list_partitions(first)) & set(list_partitions(second)))
        if shared:
            more = f" and {len(shared) - 1} more" if len(shared) > 1 else ""
            yield f"{both}: each has a log of {shared[0]}{more}."
