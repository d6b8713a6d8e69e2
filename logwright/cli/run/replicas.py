"""What the command line says of replicas: which partitions a coordinated clean skips, since one is
missing; before an append, that nobody knows whether there are others; and of which logs nobody
knows what the others have.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from logwright.audit.lacking import find_holders, node_ids
from logwright.audit.one_broker import stops_one_broker
from logwright.cli.request import Request
from logwright.cli.wording import counted
from logwright.errors import LogwrightError, PreconditionError
from logwright.format.names import TopicPartition
from logwright.log.checkpoints import read_checkpoints
from logwright.log.load import META_PROPERTIES
from logwright.log.model import ReadableLog
from logwright.place.files import exists
from logwright.place.model import is_local

_MOST_NAMED: Final = 3
UNKNOWN_REPLICAS: Final = (
    "Whether other brokers have replicas of what is appended to is not known: there is no metadata"
    " of the cluster (--metadata DIR). If they have, produce the records through the cluster."
)


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


def say_unknown_replicas(request: Request) -> None:
    """Say that a partition may have replicas on other brokers, which an append to this one would
    not reach (`logwright.ingest.replicated`), if a broker's directory has no metadata that has it.
    Effects: looks for the metadata; output.
    """
    if request.sources().metadata is None and exists(request.log_dir / META_PROPERTIES):
        request.output.message(UNKNOWN_REPLICAS)


def say_unknown_high_watermarks(request: Request, partitions: Sequence[TopicPartition]) -> None:
    """Say of which logs all counts as committed, since no high watermark is on record. Effects:
    reads the checkpoint of a stopped broker's directory; output.
    """
    if request.high_watermark != "recorded" or not is_local(request.place):
        return
    try:
        recorded = read_checkpoints(request.place).high_watermark
    except LogwrightError:  # the recovery before a command writes it again, or the log is refused
        return
    unknown = [str(each) for each in partitions if each not in recorded]
    if unknown:
        names = ", ".join(unknown[:_MOST_NAMED]) + (" and more" * (len(unknown) > _MOST_NAMED))
        request.output.message(
            f"No high watermark is on record of {counted(len(unknown), 'log')} ({names}): all of"
            " them counts as committed."
        )


def say_not_committed(request: Request, log: ReadableLog) -> None:
    """Say which records of a stopped broker's log are not read, since they are not known to be
    committed. Effects: output.
    """
    first, end = log.high_watermark, log.log_end_offset
    if first < end and is_local(request.place):
        request.output.message(
            f"{log.partition}: offsets {first} to {end - 1} are beyond the high watermark on record"
            " and may not be committed: they are not read (--high-watermark end reads them)."
        )
