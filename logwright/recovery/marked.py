"""The future and stray logs of a directory. A broker loads and recovers them as it does its
partitions, and has its trouble with the same damage; it leaves a deleted log's files as they are
(LogManager.loadLog and LogLoader, Kafka 4.3.0).
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from logwright.format.names import FUTURE_DIRECTORY, TopicPartition
from logwright.log.checkpoints import NO_ENTRIES, Checkpoints
from logwright.log.files import unreadable
from logwright.log.listing import is_of_a_log
from logwright.log.load import list_partitions
from logwright.log.marked import MarkedDirectory, list_marked
from logwright.recovery.model import Observed
from logwright.recovery.observe import observe


def observe_log(
    log_dir: Path, partition: TopicPartition, name: str, checkpoints: Checkpoints
) -> Observed:
    """`observe`, with the checkpoints' entries where they are those of this log."""
    own = has_entries(log_dir, partition, name)
    return observe(log_dir, partition, checkpoints if own else NO_ENTRIES, name=name)


def has_entries(log_dir: Path, partition: TopicPartition, name: str) -> bool:
    """Whether the checkpoints' entries of a partition are of the log in this directory: of a future
    log they are, unless the partition's current log is here too (LogManager.logsByDir). Effects:
    looks for the directory.
    """
    if name == partition.directory_name:
        return True
    current = log_dir / partition.directory_name
    return name.endswith(FUTURE_DIRECTORY) and not os.path.lexists(current)


def marked_logs(log_dir: Path) -> tuple[MarkedDirectory, ...]:
    """Future and stray logs with any file of a log: without one there is nothing to recover, as in
    the directory of a move of ours that is under way. Effects: lists them.

    Raises:
        NotALogDir, UnreadableFile: the log directory or one of them cannot be listed.
    """
    return tuple(
        one for one in list_marked(log_dir) if one.mark != "delete" and _has_log(log_dir / one.name)
    )


def _has_log(directory: Path) -> bool:
    """Effects: lists it; one that is gone in between has none."""
    try:
        return any(is_of_a_log(name) for name in os.listdir(directory))  # noqa: PTH208 -- names
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unreadable(error, directory) from error


def left_out(
    log_dir: Path, chosen: Collection[TopicPartition], marked: Collection[str]
) -> tuple[str, ...]:
    """Partitions that are not among the chosen ones, and future and stray logs that are not among
    the marked ones: a broker loads all of these. Effects: lists the directory.
    """
    others = (str(one) for one in list_partitions(log_dir) if one not in chosen)
    moving = (one.name for one in marked_logs(log_dir) if one.name not in marked)
    return (*others, *moving)
