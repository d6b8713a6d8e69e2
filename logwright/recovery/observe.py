"""Observe a partition for a recovery: names, sizes and times, checkpoints, leader epochs.

Unlike `logwright.log.load.observe` this reads a directory in any state that a crash can leave. A
checkpoint file that cannot be read counts as empty, as when a broker loads the log.

A broker loads and recovers future and stray logs as it does its partitions, and fails on the same
damage; a deleted log's files it leaves alone (LogManager.loadLog and LogLoader, Kafka 4.3.0).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from pathlib import Path

from logwright.errors import CorruptCheckpoint, UncleanLogDir, UnsupportedFormatError, not_regular
from logwright.format.checkpoints import (
    LeaderEpoch,
    parse_leader_epochs,
    parse_offset_checkpoint,
)
from logwright.format.names import (
    CLEAN_SHUTDOWN_MARKER,
    FUTURE_DIRECTORY,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    TopicPartition,
)
from logwright.log.checkpoints import CHECKPOINT_FILES, NO_ENTRIES, Checkpoints
from logwright.log.kinds import file_kinds, is_of_a_log
from logwright.log.listing import stamp_files
from logwright.log.load import list_partitions
from logwright.log.log_dir import MarkedDirectory, list_marked
from logwright.place.files import exists, is_regular, names_in, open_log_dir
from logwright.place.mapped import map_file
from logwright.place.model import Place
from logwright.recovery.model import Observed
from logwright.recovery.root import topic_id_problem
from logwright.units import Offset

_LOG = logging.getLogger(__name__)


def read_offsets(path: Place) -> Mapping[TopicPartition, Offset]:
    """Read an offset checkpoint file; a missing or malformed one has no entries.
    Effects: reads it.

    Raises:
        UnreadableFile: it is a symlink or another thing that is not a regular file, or cannot be
            opened.
    """
    if not exists(path):
        return {}
    if not is_regular(path):
        raise not_regular(path)
    try:
        return parse_offset_checkpoint(map_file(path).tobytes(), path)
    except (CorruptCheckpoint, UnsupportedFormatError) as error:
        _LOG.warning("checkpoint ignored: %s", error)
        return {}


def read_all_offsets(log_dir: Place) -> Checkpoints:
    """Return the four checkpoints of a log directory. Effects and errors: as `read_offsets`."""
    recovery, start, watermark, cleaner = (read_offsets(log_dir / one) for one in CHECKPOINT_FILES)
    return Checkpoints(
        recovery_point=recovery,
        log_start_offset=start,
        high_watermark=watermark,
        cleaner_offset=cleaner,
    )


def observe(
    log_dir: Path,
    partition: TopicPartition,
    checkpoints: Checkpoints,
    *,
    name: str | None = None,
) -> Observed:
    """Read a partition as it is. Effects: reads its directory and leader epochs.

    Args:
        checkpoints: of the log directory; `NO_ENTRIES` if its entries are those of another log.
        name: of the directory, if it is that of a future or stray log.

    Raises:
        NotALogDir: there is no such partition.
        UnreadableFile: what has the name of a log's file is not a regular file, or cannot be read.
        UncleanLogDir: a log's file has a name that no broker writes.
    """
    name = partition.directory_name if name is None else name
    with open_log_dir(log_dir) as parent, parent.open_dir(name) as directory:
        stamps = stamp_files(directory)
    strange = file_kinds(stamps).strange
    if strange:
        raise UncleanLogDir(
            f"no broker writes a file {', '.join(strange[:5])}.",
            path=log_dir / name,
            remedy="Nothing was changed. Move it away: a broker fails on it, or takes it for"
            " another file.",
        )
    where = log_dir / name
    has_epochs = LEADER_EPOCH_CHECKPOINT in stamps
    epochs = _epochs(where / LEADER_EPOCH_CHECKPOINT) if has_epochs else None
    return Observed(
        log_dir=log_dir,
        partition=partition,
        name=name,
        stamps=stamps,
        epochs=epochs,
        epochs_malformed=has_epochs and epochs is None,
        topic_id_problem=(
            topic_id_problem(map_file(where / PARTITION_METADATA).tobytes())
            if PARTITION_METADATA in stamps
            else None
        ),
        checkpoints=checkpoints,
        clean_shutdown=os.path.exists(f"{log_dir}/{CLEAN_SHUTDOWN_MARKER}"),  # noqa: PTH110 -- of each log
    )


def observe_log(
    log_dir: Path, partition: TopicPartition, name: str, checkpoints: Checkpoints
) -> Observed:
    """Observe a log, with the checkpoints' entries if they belong to it; see `observe`."""
    own = has_entries(log_dir, partition, name)
    return observe(log_dir, partition, checkpoints if own else NO_ENTRIES, name=name)


def has_entries(log_dir: Path, partition: TopicPartition, name: str) -> bool:
    """Return whether the checkpoints' entries of a partition belong to the log in this directory. A
    future log has them unless the partition's current log is here too (LogManager.logsByDir).
    Effects: looks for the directory.
    """
    if name == partition.directory_name:
        return True
    current = log_dir / partition.directory_name
    return name.endswith(FUTURE_DIRECTORY) and not os.path.lexists(current)


def marked_logs(log_dir: Path) -> tuple[MarkedDirectory, ...]:
    """Return the future and stray logs that have a log's file. Without one there is nothing to
    recover, as in the directory of an open `logwright move`. Effects: lists them.

    Raises:
        NotALogDir, UnreadableFile: the log directory or one of them cannot be listed.
    """
    return tuple(
        marked
        for marked in list_marked(log_dir)
        if marked.mark != "delete" and any(map(is_of_a_log, names_in(log_dir / marked.name)))
    )


def left_out(
    log_dir: Path, chosen: Collection[TopicPartition], marked: Collection[str]
) -> tuple[str, ...]:
    """Return the partitions that are not chosen, and the future and stray logs that are not marked:
    a broker loads all of these. Effects: lists the directory.
    """
    others = (str(one) for one in list_partitions(log_dir) if one not in chosen)
    moving = (one.name for one in marked_logs(log_dir) if one.name not in marked)
    return (*others, *moving)


def _epochs(path: Path) -> tuple[LeaderEpoch, ...] | None:
    try:
        return parse_leader_epochs(map_file(path).tobytes(), path)
    except (CorruptCheckpoint, UnsupportedFormatError) as error:
        _LOG.warning("leader epochs are rebuilt: %s", error)
        return None
