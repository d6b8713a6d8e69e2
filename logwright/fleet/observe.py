"""Observe a fleet. Effects: reads the log directories; nothing is locked but by `plan`, and nothing
of a directory that a broker has open.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from logwright.deletion.commit import plan_purge_deleted
from logwright.errors import LogwrightError
from logwright.fleet.model import DirectorySpace, Fleet
from logwright.log.load import list_partitions
from logwright.place.model import Place, is_local, is_running, is_versioned
from logwright.purge.observe import list_partition
from logwright.purge.plan import plan_purge
from logwright.running.place import as_it_runs, watermarks_recorded_ms
from logwright.state.uncleanable import uncleanable_metrics
from logwright.sweep.holds import hold
from logwright.sweep.model import LogWork, SweepState
from logwright.sweep.prepare import plan_by_policies

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from logwright.config.sources import DirectorySettings
    from logwright.format.names import TopicPartition
    from logwright.units import TimestampMs


def observe_fleet(
    log_dirs: Mapping[str, Place], settings: DirectorySettings, *, now_ms: TimestampMs
) -> Fleet:
    """Return all logs of these log directories, by name. Effects: reads them; each call takes a new
    picture of those that brokers have open.
    """
    works: list[LogWork[Place]] = []
    spaces: list[DirectorySpace] = []
    for name, path in log_dirs.items():
        try:
            log_dir = as_it_runs(path)
            partitions = tuple(list_partitions(log_dir))
        except LogwrightError as error:
            spaces.append(DirectorySpace(name=name, log_dir=path, problem=str(error)))
            continue
        works += [
            LogWork(key=f"{name}:{partition}", log_dir=log_dir, partition=partition)
            for partition in partitions
        ]
        spaces.append(space_of(name, log_dir, partitions, settings, now_ms=now_ms))
    return look(works, spaces, settings, now_ms=now_ms)


def look(
    works: Iterable[LogWork[Place]],
    spaces: Iterable[DirectorySpace],
    settings: DirectorySettings,
    *,
    now_ms: TimestampMs,
) -> Fleet:
    """Return these logs with their plans, whether they are held or not. Effects: reads them."""
    state: SweepState[Place] = SweepState(works=tuple(works), now_ms=now_ms)
    marked = hold(state, None)
    reasons = {work.key: work.failure or work.held for work in marked.works}
    spaces = tuple(spaces)
    return Fleet(
        now_ms=now_ms,
        works=plan_by_policies(state, settings).works,
        held={key: one for key, one in reasons.items() if one is not None},
        spaces=spaces,
        uncleanable=uncleanable_by_directory(space.log_dir for space in spaces),
    )


def uncleanable_by_directory(log_dirs: Iterable[Place]) -> dict[Place, dict[str, int]]:
    """Return Kafka's metrics of what cannot be cleaned, without the directories whose state cannot
    be read. Effects: reads.
    """
    metrics: dict[Place, dict[str, int]] = {}
    for log_dir in log_dirs:
        with suppress(LogwrightError):
            metrics[log_dir] = uncleanable_metrics([log_dir])
    return metrics


def space_of(
    name: str,
    log_dir: Place,
    partitions: Iterable[TopicPartition],
    settings: DirectorySettings,
    *,
    now_ms: TimestampMs,
) -> DirectorySpace:
    """Return the space of a log directory; a log that cannot be listed counts for nothing. Effects:
    lists it and its partitions.
    """
    if is_versioned(log_dir):
        return DirectorySpace(name=name, log_dir=log_dir)  # a bucket has no disk
    try:
        status = os.statvfs(str(log_dir))
    except OSError as error:
        return DirectorySpace(name=name, log_dir=log_dir, problem=str(error.strerror))
    space = DirectorySpace(
        name=name,
        log_dir=log_dir,
        total_bytes=status.f_blocks * status.f_frsize,
        free_bytes=status.f_bavail * status.f_frsize,
    )
    if not is_local(log_dir):
        return replace(
            space, running=is_running(log_dir), high_watermark_ms=watermarks_recorded_ms(log_dir)
        )
    waiting, due = _retired(log_dir, partitions, settings, now_ms)
    return replace(space, retired_bytes=waiting, retired_due_bytes=due)


def _retired(
    log_dir: Path,
    partitions: Iterable[TopicPartition],
    settings: DirectorySettings,
    now_ms: TimestampMs,
) -> tuple[int, int]:
    """Return the bytes that a purge will free, and those that it would free now. Effects: lists the
    partitions.
    """
    waiting = due = 0
    for partition in partitions:
        with suppress(LogwrightError):
            purged = plan_purge(
                list_partition(log_dir / partition.directory_name),
                now_ms=now_ms,
                file_delete_delay_ms=settings.topic(log_dir, partition.topic).file_delete_delay_ms,
            ).result
            due += purged.removed_bytes
            waiting += purged.removed_bytes + sum(file.bytes for file in purged.pending)
    with suppress(LogwrightError):
        delay_ms = settings.broker(log_dir).file_delete_delay_ms
        for log in plan_purge_deleted(log_dir, now_ms=now_ms, delay_ms=delay_ms):
            due += log.bytes if log.goes else 0
            waiting += log.bytes
    return waiting, due
