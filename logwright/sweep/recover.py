"""Recover the logs that a sweep could not plan as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from logwright.errors import LogwrightError
from logwright.ingest.settle import settle_before_recovery
from logwright.locks import lock_log_dir
from logwright.recovery.commit import commit_directory
from logwright.recovery.directory_plan import (
    Settings,
    TopicIds,
    partitions_to_recover,
    plan_directory,
    unknown_ids,
)
from logwright.recovery.model import DirectoryResult, RecoveryOptions

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.config.topic import TopicConfig
    from logwright.format.names import TopicPartition
    from logwright.sweep.model import LogWork, RecoverySettings, SweepState
    from logwright.units import TimestampMs


def recover_directory(
    log_dir: Path,
    partitions: Iterable[TopicPartition],
    settings: Settings,
    *,
    now_ms: TimestampMs,
    options: RecoveryOptions,
    topic_ids: TopicIds = unknown_ids,
) -> DirectoryResult:
    """Plan and do the recovery of some partitions of a log directory, while no broker can start on
    it. An interrupted append is rolled back first, except with `like_kafka`.
    Effects and errors: see `settle_before_recovery`, `plan_directory` and `commit_directory`.
    """
    with lock_log_dir(log_dir):
        if not options.like_kafka:
            settle_before_recovery(log_dir)
        return commit_directory(
            plan_directory(
                log_dir,
                partitions,
                settings,
                now_ms=now_ms,
                options=options,
                topic_ids=topic_ids,
            )
        )


def recover(state: SweepState, settings: RecoverySettings) -> SweepState:
    """Recover the logs that a plan would refuse: all of a directory without the clean-shutdown
    marker, else the logs with leftovers. Nothing is dropped. Effects: changes log directories,
    under the locks.
    """
    free = [work for work in state.going_on if work.held is None]
    for log_dir in dict.fromkeys(work.log_dir for work in free):
        members = [work for work in free if work.log_dir == log_dir]
        state = state.with_works(_recover_members(log_dir, members, settings, state.now_ms))
    return state


def _recover_members(
    log_dir: Path, members: list[LogWork], settings: RecoverySettings, now_ms: TimestampMs
) -> list[LogWork]:
    def topic(name: str) -> TopicConfig:
        return settings.of(log_dir, name)[0]

    try:
        damaged = partitions_to_recover(log_dir, [work.partition for work in members])
        if not damaged:
            return []
        result = recover_directory(
            log_dir,
            damaged,
            topic,
            now_ms=now_ms,
            options=RecoveryOptions(),
            topic_ids=partial(settings.topic_id, log_dir),
        )
    except LogwrightError as error:
        return [work.failed(error) for work in members]
    done = {plan.partition: plan for plan in result.recovered}
    changed = []
    for work in members:
        if work.partition in result.failures:
            changed.append(work.failed(result.failures[work.partition]))
        elif work.partition in done:
            findings = done[work.partition].findings
            sentences = tuple(
                f"{finding.action} {', '.join(finding.files)}: {finding.reason}"
                for finding in findings
            )
            changed.append(replace(work, recovered=sentences))
    return changed
