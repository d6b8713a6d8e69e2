"""Observe one log on which no broker works."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from logwright.log.committed import HighWatermark
from logwright.log.load import observe
from logwright.place.files import entry_at
from logwright.reading import reading
from logwright.steps.live import look_twice
from logwright.steps.marker import wait_for_marker

if TYPE_CHECKING:
    from logwright.format.names import TopicPartition
    from logwright.log.model import PartitionLog
    from logwright.place.model import AnyPlace, Place


def holds(log_dir: Place, partition: TopicPartition) -> bool:
    """Return whether a log directory has a partition's log. Effects: looks at its directory; a
    symbolic link is none.
    """
    entry = entry_at(log_dir / partition.directory_name)
    return entry is not None and entry.kind == "directory"


def observe_unlocked(
    log_dir: AnyPlace, partition: TopicPartition, *, high_watermark: HighWatermark
) -> PartitionLog[AnyPlace]:
    """Return a log on which no broker works. Effects: reads.

    Raises:
        LogDirLocked: a broker works on the directory, or another logwright process on what seems to
            be wrong.
        LogwrightError: see `logwright.log.load.observe`.
    """
    look = partial(observe, log_dir, high_watermark=high_watermark)
    if not isinstance(log_dir, Path):
        return look(partition)
    with reading(log_dir):
        wait_for_marker(log_dir)
        return look_twice(look, log_dir, partition)
