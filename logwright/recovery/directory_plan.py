"""Decide about a recovery of a log directory; nothing is changed.

Future and stray logs of a directory are recovered with its partitions, as by a broker that loads it
after an unclean stop. Directories of deleted logs are skipped, as by a broker.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from itertools import pairwise
from pathlib import Path

from logwright.config.topic import TopicConfig
from logwright.errors import LogwrightError
from logwright.format.deletions import LEDGER
from logwright.format.names import (
    CLEAN_SHUTDOWN_MARKER,
    LOG,
    STRAY_DIRECTORY,
    WORK_DIRECTORY,
    TopicPartition,
    segment_file_name,
)
from logwright.log.checkpoints import Checkpoints
from logwright.log.listing import look_for_damage, stamp_files
from logwright.log.load import list_partitions
from logwright.log.recovered import is_recovered
from logwright.place.files import open_log_dir, open_partition_dir
from logwright.place.mapped import map_file
from logwright.recovery.model import DirectoryPlan, RecoveryOptions, RecoveryPlan
from logwright.recovery.observe import left_out, marked_logs, observe_log, read_all_offsets
from logwright.recovery.plan import plan_recovery
from logwright.recovery.root import look_at_root
from logwright.recovery.splitting import overflows
from logwright.steps.marker import wait_for_marker
from logwright.units import TimestampMs

Settings = Callable[[str], TopicConfig]
"""Gives a topic's effective settings."""
TopicIds = Callable[[TopicPartition], str | None]
"""Gives the id of a partition's topic by the cluster's metadata, None if it is not known."""


def unknown_ids(partition: TopicPartition) -> str | None:
    """Return None: no topic's id is known."""
    del partition
    return None


def partitions_to_recover(
    log_dir: Path, wanted: Iterable[TopicPartition]
) -> tuple[TopicPartition, ...]:
    """Return the partitions that a cleaning would refuse because of their file names, and those
    with a closed segment whose offsets overflow, which Kafka's cleaner splits. Effects: lists
    directories; reads the headers of segments that may overflow.

    Without the clean-shutdown marker these are all partitions of the directory, except those that
    were recovered before and have not changed since.

    Raises:
        NotALogDir, UnreadableFile: the directory cannot be listed.
        LogDirLocked: an append or a recovery works on it for too long.
    """
    present = list_partitions(log_dir)
    wait_for_marker(log_dir)
    if not (log_dir / CLEAN_SHUTDOWN_MARKER).exists():
        return tuple(one for one in present if not _was_recovered(log_dir, one))
    return tuple(one for one in sorted(set(wanted)) if one in present and _is_damaged(log_dir, one))


def marked_to_recover(log_dir: Path, names: Iterable[str]) -> tuple[str, ...]:
    """Return the directories of future and stray logs that have leftovers of an interrupted
    operation, or that cannot be read. Effects: lists them.
    """
    damaged = []
    for name in names:
        try:
            with open_log_dir(log_dir) as parent, parent.open_dir(name) as directory:
                if not look_for_damage(stamp_files(directory)).findings:
                    continue
        except LogwrightError:
            pass
        damaged.append(name)
    return tuple(damaged)


def _was_recovered(log_dir: Path, partition: TopicPartition) -> bool:
    try:
        with open_partition_dir(log_dir, partition) as directory:
            return is_recovered(directory, stamp_files(directory))
    except LogwrightError:
        return False


def _is_damaged(log_dir: Path, partition: TopicPartition) -> bool:
    """Return whether a partition needs a recovery; True if it cannot be read: its recovery then
    reports why.
    """
    try:
        with open_partition_dir(log_dir, partition) as directory:
            stamps = stamp_files(directory)
        damage = look_for_damage(stamps)
        bases = [int(stem) for stem in damage.stems]
        logs = log_dir / partition.directory_name
        return bool(damage.findings) or any(
            overflows(logs / segment_file_name(base, LOG), base, following)
            for base, following in pairwise(bases)
        )
    except LogwrightError:
        return True


def plan_directory(
    log_dir: Path,
    partitions: Iterable[TopicPartition],
    settings: Settings,
    *,
    now_ms: TimestampMs,
    options: RecoveryOptions,
    marked: Collection[str] = (),
    topic_ids: TopicIds = unknown_ids,
    checkpoints: Checkpoints | None = None,
) -> DirectoryPlan:
    """Plan the recovery of some partitions of a log directory. Effects: reads it.

    `marked`: directories of future and stray logs, which are recovered too; all are in an unclean
    directory. `topic_ids`: for logs whose own record of it is malformed. `checkpoints`: the
    directory's; None: as `read_all_offsets` has them. An error of one log is recorded as its
    failure. Raises NotALogDir, UnreadableFile and LogDirLocked of the directory.
    """
    wait_for_marker(log_dir)
    wanted, present = set(partitions), list_partitions(log_dir)
    offsets = read_all_offsets(log_dir) if checkpoints is None else checkpoints
    plans: list[RecoveryPlan] = []
    failures: dict[TopicPartition, LogwrightError] = {}
    marked_failures: dict[str, LogwrightError] = {}

    def decide(partition: TopicPartition, name: str) -> RecoveryPlan:
        config = settings(partition.topic)
        return plan_recovery(
            observe_log(log_dir, partition, name, offsets),
            ledger=_content(f"{log_dir}/{name}/{WORK_DIRECTORY}/{LEDGER}") or b"",
            now_ms=now_ms,
            expiration_ms=config.producer_id_expiration_ms,
            index_interval_bytes=config.index_interval_bytes,
            options=options,
            topic_id=None if name.endswith(STRAY_DIRECTORY) else topic_ids(partition),
        )

    for partition in filter(wanted.__contains__, present):
        try:
            plans.append(decide(partition, partition.directory_name))
        except LogwrightError as error:
            failures[partition] = error
    marker = _content(log_dir / CLEAN_SHUTDOWN_MARKER)
    every = marker is None and wanted.issuperset(present)
    others = [one for one in marked_logs(log_dir) if every or one.name in marked]
    for marked_log in others:
        try:
            plans.append(decide(marked_log.partition, marked_log.name))
        except LogwrightError as error:
            marked_failures[marked_log.name] = error
    return DirectoryPlan(
        log_dir=log_dir,
        marker=marker,
        plans=tuple(plans),
        failures=failures,
        marked_failures=marked_failures,
        left_out=left_out(log_dir, wanted, {one.name for one in others}),
        root=look_at_root(log_dir),
        now_ms=now_ms,
    )


def _content(path: Path | str) -> bytes | None:
    """Return a file's content, None without it; text where there are many."""
    return map_file(Path(path)).tobytes() if os.path.lexists(path) else None
