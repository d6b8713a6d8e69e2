"""Observe one log on which no broker works."""

from __future__ import annotations

import stat
from functools import partial
from typing import TYPE_CHECKING, Literal

from logwright.locks import broker_kept_out
from logwright.log.load import observe
from logwright.steps.live import look_twice
from logwright.steps.marker import wait_for_marker

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.format.names import TopicPartition
    from logwright.log.model import PartitionLog

HighWatermark = Literal["end", "checkpoint"]


def holds(log_dir: Path, partition: TopicPartition) -> bool:
    """Return whether a log directory has a partition's log. Effects: looks at its directory; a
    symbolic link is none.
    """
    try:
        return stat.S_ISDIR((log_dir / partition.directory_name).lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def observe_unlocked(
    log_dir: Path, partition: TopicPartition, *, high_watermark: HighWatermark
) -> PartitionLog:
    """Return a log on which no broker works. Effects: reads.

    Raises:
        LogDirLocked: a broker works on the directory, or another logwright process on what seems to
            be wrong.
        LogwrightError: see `logwright.log.load.observe`.
    """
    look = partial(observe, log_dir, high_watermark=high_watermark)
    with broker_kept_out(log_dir):
        wait_for_marker(log_dir)
        return look_twice(look, log_dir, partition)
