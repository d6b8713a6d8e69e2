"""All that is due for a log, for `plan`: roll, compaction, retention, purge, erasure requests."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.cli.run.purge import plan_purge_of
from logwright.cli.wording import compaction_reason, counted, moment, open_transaction
from logwright.compaction.model import ReadablePlan
from logwright.erasure.request import Request as ErasureRequest
from logwright.erasure.secret import ENVIRONMENT, load_secret
from logwright.erasure.store import read_store
from logwright.errors import LogwrightError
from logwright.format.names import LOG, segment_file_name
from logwright.format.scan import scan_segment
from logwright.place.mapped import map_file
from logwright.place.model import Place, is_running, is_versioned, reading
from logwright.purge.plan import PurgeResult
from logwright.retention.plan import RetentionPlan, plan_retention, retention_hold
from logwright.state.model import NOTHING
from logwright.state.store import read_state


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUpkeep:
    """What is due for one log.

    Attributes:
        plan: of roll and compaction.
        retention: None if retention leaves the log alone.
        purge: None if it cannot be planned, a broker removes retired files, or the log is in a
            bucket, where a purge is of versions.
        since_ms: when the open transaction that bounds the cleaning began; None without one.
        requests: the erasure requests for its topic whose deadline, less the margin, has come.
    """

    plan: ReadablePlan
    retention: RetentionPlan[Place] | None
    purge: PurgeResult | None
    since_ms: int | None
    requests: tuple[ErasureRequest, ...]

    @property
    def retains(self) -> bool:
        """Retention deletes segments."""
        return self.retention is not None and bool(self.retention.deleted)

    @property
    def purges(self) -> bool:
        """A purge removes files."""
        return self.purge is not None and bool(_files(self.purge))

    @property
    def reason(self) -> str:
        """What is due and why, in a line; of what is not due the number that decides it."""
        plan = self.plan
        parts = [] if self._only_deletes else [compaction_reason(plan, self.since_ms)]
        parts += self._retention_reasons()
        if plan.roll.due:
            parts.append(f"active segment rolls by {plan.roll.cause}")
        if plan.compaction.force_update_checkpoint:
            parts.append("rewrites the cleaner checkpoint")
        if self.purge is not None and self.purges:
            size = human_bytes(self.purge.removed_bytes)
            parts.append(f"purge removes {counted(len(_files(self.purge)), 'file')}, {size}")
        if self.requests:
            first = moment(min(each.deadline_ms for each in self.requests), plan.now_ms)
            requested = counted(len(self.requests), "erasure request")
            parts.append(f"{requested} due, first deadline {first}")
        return "; ".join(parts)

    @property
    def _only_deletes(self) -> bool:
        config = self.plan.config
        return self.retention is not None and config.delete and not config.compact

    def _retention_reasons(self) -> list[str]:
        if self.retention is None:
            return []
        if not self.retains:
            first = self.retention.oldest
            kept = f"not due: segment {first.base_offset} stays: {first.reason}"
            return [kept] if self._only_deletes else []
        deleted = self.retention.deleted
        due = "due: " if self._only_deletes else ""
        size = human_bytes(self.retention.freed_bytes)
        what = f"retention deletes {counted(len(deleted), 'segment')}, {size}"
        return [f"{due}{what} (segment {deleted[0].base_offset}: {deleted[0].reason})"]

    def as_object(self) -> dict[str, object]:
        """Return the fields of JSON, besides those of the plan."""
        retention, purge = self.retention, self.purge
        deadlines = [each.deadline_ms for each in self.requests]
        return {
            "retention": None
            if retention is None
            else {
                "due": self.retains,
                "segments": len(retention.deleted),
                "bytes": retention.freed_bytes,
                "logStartOffset": retention.log_start_offset,
                "reason": retention.oldest.reason,
            },
            "purge": None
            if purge is None
            else {
                "due": self.purges,
                "files": len(_files(purge)),
                "bytes": purge.removed_bytes,
                "nextDueAtMs": min((file.due_at_ms for file in purge.pending), default=None),
            },
            "erasure": {
                "dueRequests": len(deadlines),
                "firstDeadlineMs": min(deadlines, default=None),
            },
        }


def upkeep_of(request: Request, plans: Sequence[ReadablePlan]) -> list[LogUpkeep]:
    """Return what is due for each log. Effects: lists the partitions; reads the state file and the
    store of erasure requests; output of a log's error.
    """
    states = read_state(request.place)
    due = _due_requests(request)
    result = []
    for plan in plans:
        log, purge = plan.log, None
        hold = retention_hold(
            plan.config,
            plan.cleaner,
            states.get(log.partition, NOTHING),
            now_ms=plan.now_ms,
            force=False,
        )
        retention = None if hold else plan_retention(log, plan.config, now_ms=plan.now_ms)
        since_ms = None
        with request.failures.of(log.partition), reading(log.log_dir):
            if not (is_running(log.log_dir) or is_versioned(log.log_dir)):
                purge = plan_purge_of(request, log.partition)
            since_ms = _open_since(plan)
        own = tuple(each for each in due if each.applies_to(log.partition.topic))
        result.append(
            LogUpkeep(plan=plan, retention=retention, purge=purge, since_ms=since_ms, requests=own)
        )
    return result


def _open_since(plan: ReadablePlan) -> int | None:
    """Return the first timestamp, in ms, of the open transaction that bounds the cleaning; None
    without one. Effects: reads the headers of the segment in which it begins.

    Raises:
        LogwrightError: the segment cannot be read.
    """
    producer, log = open_transaction(plan), plan.log
    if producer is None or not plan.config.compact:
        return None
    offset = producer.current_txn_first_offset
    ends = [*(segment.base_offset for segment in log.segments[1:]), log.log_end_offset]
    for segment, end in zip(log.segments, ends, strict=True):
        if offset is not None and segment.base_offset <= offset < end:
            path = log.directory / segment_file_name(segment.base_offset, LOG)
            file = map_file(path, expected_bytes=segment.log_bytes)
            batches = scan_segment(
                file, path, base_offset=segment.base_offset, end_offset=end, headers_only=True
            )
            first = batches["base_timestamp"][batches["base_offset"] == offset]
            return int(first[0]) if len(first) else None
    return None


def due_line(works: Sequence[LogUpkeep]) -> str | None:
    """Return how many logs each operation, besides a cleaning, is due for, and the command; None if
    there is none.
    """
    counts = {
        "roll": sum(work.plan.roll.due for work in works),
        "retain": sum(work.retains for work in works),
        "purge": sum(work.purges for work in works),
        "erase": sum(bool(work.requests) for work in works),
    }
    named = [f"{name} {counted(count, 'log')}" for name, count in counts.items() if count]
    return f"Also due: {', '.join(named)}." if named else None


def _due_requests(request: Request) -> tuple[ErasureRequest, ...]:
    """Return the stored erasure requests whose deadline, less the margin, has come. What became of
    them only a search shows. Effects: reads the store; stderr if it cannot be read.
    """
    if request.policies is None or request.policies.erasure.store is None:
        return ()
    settings = request.policies.erasure
    path = None if settings.secret_file is None else Path(settings.secret_file)
    try:
        secret = load_secret(path, os.environ.get(ENVIRONMENT))
        requests = read_store(Path(request.policies.erasure.store), secret)
    except LogwrightError as error:
        request.output.message(f"The erasure requests were not read: {error}")
        return ()
    return tuple(
        each for each in requests if each.deadline_ms - settings.margin_ms <= request.now_ms
    )


def _files(purge: PurgeResult) -> tuple[str, ...]:
    return (*purge.removed, *purge.leftovers, *purge.staging, *purge.failed_outputs)
