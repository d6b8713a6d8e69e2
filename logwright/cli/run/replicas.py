"""Which partitions a coordinated clean skips: those of which a replica is missing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from logwright.audit.lacking import find_holders, node_ids
from logwright.audit.one_broker import stops_one_broker
from logwright.cli.request import Request
from logwright.errors import PreconditionError
from logwright.format.names import TopicPartition


def leave_incomplete(
    request: Request, partitions: Iterable[TopicPartition], replicas: tuple[Path, ...]
) -> tuple[TopicPartition, ...]:
    """Return the partitions of which all replicas are in the given directories, as far as is known;
    all of them without `replicas`. Reports which directories lack a partition. Effects: reads
    directories, and the metadata, once; output.

    Raises:
        LogwrightError: as `Request.sources` and `node_ids`.
    """
    if not replicas:
        return tuple(partitions)
    log_dirs = (request.log_dir, *replicas)
    nodes, metadata = node_ids(log_dirs), request.sources().metadata
    for sentence in stops_one_broker(log_dirs):
        request.output.message(sentence)
    complete = []
    for partition in partitions:
        holders = find_holders(partition, log_dirs, nodes, metadata)
        for log_dir in holders.lacking:
            request.output.message(f"{partition}: {log_dir} has no replica")
        if not holders.unseen:
            complete.append(partition)
            continue
        brokers = ", ".join(map(str, holders.unseen))
        request.failures.add(
            partition,
            PreconditionError(
                f"brokers have a replica, and no directory of it is given: {brokers}.",
                path=request.log_dir,
                remedy="Give it with --coordinate-with; or --no-metadata, if that replica is"
                " given up.",
            ),
        )
    return tuple(complete)
