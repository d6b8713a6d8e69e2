"""Kafka's metrics of what cannot be cleaned: ``uncleanable-partitions-count`` and
``uncleanable-bytes`` (LogCleanerManager 4.3.0).

The bytes are computed from names and sizes, since the log itself may be unreadable: those of the
sealed segments from the one with the first dirty offset on. Kafka leaves out what is too young.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

from logwright.errors import LogwrightError
from logwright.format.names import LOG, TopicPartition, parse_segment_file_name
from logwright.log.checkpoints import read_checkpoints
from logwright.log.listing import stamp_files
from logwright.log.load import list_partitions
from logwright.place.files import open_partition_dir
from logwright.state.store import read_state

if TYPE_CHECKING:
    from collections.abc import Iterable

    from logwright.place.model import Place

COUNT: Final = "uncleanable-partitions-count"
BYTES: Final = "uncleanable-bytes"


def uncleanable_metrics(log_dirs: Iterable[Place]) -> dict[str, int]:
    """Return both metrics for some log directories. A partition counts until its quarantine is
    lifted, even after its retry time, or until its directory is gone, as in Kafka
    (LogCleanerManager.maintainUncleanablePartitions). Effects: reads.

    Raises:
        NotALogDir, UnreadableFile: as `logwright.state.store.read_state`.
    """
    sizes = [
        uncleanable_bytes(log_dir, partition)
        for log_dir in log_dirs
        for partition in _quarantined(log_dir)
    ]
    return {COUNT: len(sizes), BYTES: sum(sizes)}


def _quarantined(log_dir: Place) -> tuple[TopicPartition, ...]:
    partitions = [one for one, state in read_state(log_dir).items() if state.quarantine is not None]
    if not partitions:
        return ()
    present = set(list_partitions(log_dir))
    return tuple(partition for partition in partitions if partition in present)


def uncleanable_bytes(log_dir: Place, partition: TopicPartition) -> int:
    """Return the bytes of one partition; 0 if its directory cannot be listed. Effects: reads names
    and a checkpoint.
    """
    try:
        with open_partition_dir(log_dir, partition) as directory:
            stamps = stamp_files(directory)
    except LogwrightError:
        return 0
    sizes = {}
    for name, stamp in stamps.items():
        parsed = parse_segment_file_name(name)
        if parsed is not None and parsed[1] == LOG:
            sizes[parsed[0]] = stamp.bytes
    bases = sorted(sizes)
    dirty = _first_dirty(log_dir, partition)
    return sum(sizes[base] for base, following in itertools.pairwise(bases) if following > dirty)


def _first_dirty(log_dir: Place, partition: TopicPartition) -> int:
    try:
        return read_checkpoints(log_dir).cleaner_offset.get(partition, 0)
    except LogwrightError:
        return 0
