"""The values of the metrics of a fleet. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from logwright.fleet.model import DirectorySpace, Fleet
from logwright.place.model import Place
from logwright.state.model import Hold
from logwright.state.uncleanable import BYTES, COUNT

_PERCENT = 100
_MS = 1_000

Sample = tuple[tuple[str, ...], float]
"""Values of the labels, value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSweep:
    """The newest sweep of the maintenance history that cleaned a log.

    Attributes:
        ended_at_ms: ms since the epoch.
        bytes_read, bytes_written: ``.log`` bytes of all its cleanings.
        max_clean_seconds: of one log.
        overdue: cleanings after ``max.compaction.lag.ms``; max_delay_ms: the longest delay.
    """

    ended_at_ms: int
    bytes_read: int
    bytes_written: int
    max_clean_seconds: float
    overdue: int
    max_delay_ms: int


def last_sweep(rows: Iterable[Mapping[str, Any]]) -> LastSweep | None:
    """Return the newest sweep of the history.

    Args:
        rows: of the history, by column.
    """
    cleanings = [row for row in rows if row["operation"] == "clean"]
    if not cleanings:
        return None
    newest = max(cleanings, key=lambda row: row["ended_at"])
    run = [row for row in cleanings if row["run_id"] == newest["run_id"]]
    delays = [row["compaction_delay_ms"] or 0 for row in run]
    return LastSweep(
        ended_at_ms=round(newest["ended_at"].timestamp() * _MS),
        bytes_read=sum(row["bytes_read"] or 0 for row in run),
        bytes_written=sum(row["bytes_written"] or 0 for row in run),
        max_clean_seconds=max(row["wall_seconds"] or 0.0 for row in run),
        overdue=sum(delay > 0 for delay in delays),
        max_delay_ms=max(delays),
    )


def metric_values(fleet: Fleet, last: LastSweep | None = None) -> dict[str, list[Sample]]:
    """Return the samples of each metric, by its name in Prometheus; see `logwright.metrics.names`.

    Args:
        fleet: all logs now.
        last: the newest sweep; None: its metrics have no samples.
    """
    samples: dict[str, list[Sample]] = {}
    for name, labels, value in (
        *_fleet_samples(fleet),
        *_directory_samples(fleet),
        *_log_samples(fleet),
        *(() if last is None else _sweep_samples(last, fleet.now_ms)),
    ):
        samples.setdefault(name, []).append((labels, float(value)))
    return samples


_Named = tuple[str, tuple[str, ...], float]


def _fleet_samples(fleet: Fleet) -> Iterator[_Named]:
    plans = fleet.cleanable_plans
    ratio = max((plan.compaction.cleanable_ratio for plan in plans), default=0.0)
    delay_ms = max((plan.compaction.compaction_delay_ms for plan in plans), default=0)
    if fleet.plans or not fleet.works:  # else they are unknown, not 0
        yield "kafka_log_logcleanermanager_max_dirty_percent", (), int(_PERCENT * ratio)
        yield "kafka_log_logcleaner_max_compaction_delay_secs", (), delay_ms // _MS
    offline = sum(bool(space.problem) for space in fleet.spaces)
    yield "kafka_log_logmanager_offlinelogdirectorycount", (), offline


def _directory_samples(fleet: Fleet) -> Iterator[_Named]:
    counts = Counter(work.log_dir for work in fleet.works)
    due = Counter(work.log_dir for work in fleet.works if work.due)
    refused = Counter(work.log_dir for work in fleet.works if work.plan is None)
    paused = Counter(
        work.log_dir
        for work in fleet.works
        if isinstance(hold := fleet.held.get(work.key), Hold) and hold.kind == "paused"
    )
    deadlines = _deadlines(fleet)
    for space in fleet.spaces:
        label = (str(space.log_dir),)
        yield "kafka_log_logmanager_logdirectoryoffline", label, bool(space.problem)
        if space.problem:
            continue
        yield "logwright_broker_running", label, space.running
        if space.high_watermark_ms >= 0:
            recorded = space.high_watermark_ms / _MS
            yield "logwright_high_watermark_timestamp_seconds", label, recorded
        yield "logwright_logs", label, counts[space.log_dir]
        yield "logwright_due_logs", label, due[space.log_dir]
        yield "logwright_refused_logs", label, refused[space.log_dir]
        yield "logwright_paused_logs", label, paused[space.log_dir]
        if space.log_dir in deadlines:
            deadline = deadlines[space.log_dir] / _MS
            yield "logwright_next_compaction_due_timestamp_seconds", label, deadline
        yield from _space_samples(space, label)
        known = fleet.uncleanable.get(space.log_dir)
        if known is not None:
            yield (
                "kafka_log_logcleanermanager_uncleanable_partitions_count",
                label,
                known[COUNT],
            )
            yield "kafka_log_logcleanermanager_uncleanable_bytes", label, known[BYTES]


def _deadlines(fleet: Fleet) -> dict[Place, int]:
    """Return the earliest time at which a log of each directory becomes due by its lag, ms."""
    deadlines: dict[Place, int] = {}
    for work, plan in fleet.plans:
        due_at_ms = plan.compaction.due_at_ms
        if due_at_ms is not None:
            deadlines[work.log_dir] = min(due_at_ms, deadlines.get(work.log_dir, due_at_ms))
    return deadlines


def _space_samples(space: DirectorySpace, label: tuple[str, ...]) -> Iterator[_Named]:
    if not space.has_disk:
        return
    yield "logwright_log_directory_bytes", label, space.total_bytes
    yield "logwright_log_directory_free_bytes", label, space.free_bytes
    yield "logwright_retired_bytes", label, space.retired_bytes
    yield "logwright_retired_due_bytes", label, space.retired_due_bytes


def _log_samples(fleet: Fleet) -> Iterator[_Named]:
    for work, plan in fleet.plans:
        log, limit = plan.log, plan.config.retention_bytes
        label = (str(work.log_dir), str(work.partition.partition), work.partition.topic)
        yield "kafka_log_log_size", label, log.log_bytes
        yield "kafka_log_log_numlogsegments", label, len(log.segments)
        yield "kafka_log_log_logstartoffset", label, log.log_start_offset
        yield "kafka_log_log_logendoffset", label, log.log_end_offset
        percent = log.log_bytes * _PERCENT // limit if limit > 0 else 0
        yield "kafka_log_log_retentionsizeinpercent", label, percent


def _sweep_samples(last: LastSweep, now_ms: int) -> Iterator[_Named]:
    yield (
        "kafka_log_logcleanermanager_time_since_last_run_ms",
        (),
        max(now_ms - last.ended_at_ms, 0),
    )
    yield "kafka_log_logcleaner_max_clean_time_secs", (), last.max_clean_seconds
    recopied = _PERCENT * last.bytes_written / max(last.bytes_read, 1)
    yield "kafka_log_logcleaner_cleaner_recopy_percent", (), int(recopied)
    yield (
        "kafka_log_logcleaner_num_logs_compacted_by_max_compaction_lag",
        (),
        last.overdue,
    )
    yield "kafka_log_logcleaner_max_compaction_delay", (), last.max_delay_ms
