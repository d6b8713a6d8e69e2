"""Purging: remove `.deleted` files after `file.delete.delay.ms`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import dagster as dg
from pydantic import Field

from logwright.assets.history import record_history
from logwright.assets.lib.boundary import boundary, dagster_failure, recorded
from logwright.assets.lib.check_outputs import asset_outputs, check_specs, checks_made, op_outputs
from logwright.assets.lib.events import in_batches, many_events
from logwright.assets.lib.holds import holds_of
from logwright.assets.lib.human import human_bytes
from logwright.assets.lib.maintained import maintained
from logwright.assets.lib.partitions import LOGS, LOGS_NAME, PURGE_ASSET, RETENTION_ASSET
from logwright.assets.lib.report import table
from logwright.assets.lib.verdict import PURGE_CHECKS, Verdict, due_verdict
from logwright.assets.retention import SHOWN_FILES, purge_events, purge_outcome
from logwright.assets.segments.segment_set import POOL
from logwright.checks.due import check_purge
from logwright.config.sources import DirectorySettings
from logwright.deletion.commit import plan_purge_deleted, purge_deleted
from logwright.deletion.plan import PurgedLog
from logwright.errors import LogwrightError
from logwright.garbage import rare_collections
from logwright.history.model import HistoryRow, RowOrigin, purge_rows, purged_log_rows
from logwright.maintenance.purge import plan_purge_in_bucket, purge_in_bucket, purge_states
from logwright.pipelines.lib.runs import runs_in_flight
from logwright.pipelines.lib.skipped import shortened, skip_message
from logwright.pipelines.lib.unchanged import Remembered
from logwright.place.bucket import manifest_of
from logwright.place.model import Place, is_local
from logwright.purge.commit import purge_partition
from logwright.purge.observe import PartitionListing, list_partition
from logwright.purge.plan import PurgeResult, plan_purge
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import Listing, LogDirs, MaintainedLog
from logwright.resources.policies import PolicyDirectory
from logwright.running.broker import broker_process
from logwright.state.hold import refuse_held
from logwright.state.model import Hold
from logwright.units import INT64_MAX, TimestampMs

PURGE: Final = "purge"
PURGE_LOGS: Final = "purge_logs"
PURGE_SECONDS: Final = 300
LOGS_PER_RUN: Final = 1_000
LOOKS_PER_TICK: Final = 200
"""Logs in buckets that a tick looks at, each by some requests: it may take a minute."""
NOT_YET: Final = "a later tick looks at its objects"
NO_VERSION: Final = -1
LOOK_AGAIN_MS: Final = 3_600_000
"""Until the objects of a log in a bucket are listed again, though it has no new version: an upload
that did not end may have left some.
"""
BY_BROKER: Final = "a broker runs on it, and removes its deleted logs itself"
RETAINED: Final = "retained"
"""Input that only orders: what retention retires is purged after its delay."""

_NOTHING_RETIRED: Final = Remembered[bool]()
"""Of each log: a purge has nothing to remove, now or later."""


class PurgeConfig(dg.Config):
    """The logs to purge.

    Attributes:
        logs: partition keys; empty: all logs of the log directories.
    """

    logs: list[str] = Field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purged:
    """What a purge of some logs did.

    Attributes:
        results: log key → what was purged, of each log of which something was.
        judged: log key → what the checks found, of each log that was looked at here.
        looked_at: keys of all that were looked at.
        held: log key → why it was not looked at.
        failures: log key → error.
    """

    results: Mapping[str, PurgeResult]
    judged: Mapping[str, tuple[Verdict, ...]]
    looked_at: tuple[str, ...]
    held: Mapping[str, Hold]
    failures: dict[str, LogwrightError]


def purge_each(logs: Iterable[MaintainedLog], settings: DirectorySettings, clock: Clock) -> Purged:
    """Purge the logs, and check that; a failing log does not stop the others. Of a log in a bucket
    what no kept version names goes, by the server's clock: this has no check. Effects: unlinks
    files, under locks; removes objects.
    """
    logs = tuple(logs)
    judged: dict[str, tuple[Verdict, ...]] = {}
    held = holds_of(logs, now_ms=clock.now_ms(), force=True)
    failures = {key: hold for key, hold in held.items() if isinstance(hold, LogwrightError)}
    results: dict[str, PurgeResult] = {}
    looked_at: list[str] = []
    for log in logs:
        if log.key in held:
            continue
        try:
            now_ms = clock.now_ms()
            if is_local(log.log_dir):
                topic_config, _ = settings.of(log.log_dir, log.partition.topic)
                delay_ms = topic_config.file_delete_delay_ms
                result = purge_partition(
                    log.log_dir, log.partition, now_ms=now_ms, file_delete_delay_ms=delay_ms
                )
            else:
                refuse_held(log.log_dir, log.partition, now_ms, force=True)
                result = purge_in_bucket(log.log_dir, log.partition)
        except LogwrightError as error:
            failures[log.key] = error.as_value()
        else:
            looked_at.append(log.key)
            if result.account is not None:
                looked = check_purge(result.account, now_ms, delay_ms)
                judged[log.key] = tuple(map(due_verdict, looked))
            if result.removed or result.leftovers or result.staging or result.failed_outputs:
                results[log.key] = result
    skipped = {key: hold for key, hold in held.items() if isinstance(hold, Hold)}
    return Purged(
        results=results,
        judged=judged,
        looked_at=tuple(looked_at),
        held=skipped,
        failures=failures,
    )


@dg.op(out=dg.Out(dg.Nothing), pool=POOL)
def purge_logs(
    context: dg.OpExecutionContext,
    config: PurgeConfig,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> Iterator[
    dg.AssetMaterialization | dg.AssetObservation | dg.AssetCheckEvaluation | dg.Output[None]
]:
    """Remove the retired files that are due in each log; report freed and pending bytes, and check
    what was purged and what is left.
    """
    with boundary(PURGE_LOGS):
        listing = log_dirs.listing()
        logs = listing.find_those(config.logs or listing.logs)
        settings = policies.settings()
        context.instance.add_dynamic_partitions(LOGS_NAME, [log.key for log in logs])
    done = purge_each(logs, settings, clock)
    failures = {**listing.missing(config.logs), **done.failures}
    yield from purge_events(done.results, done.judged)
    looked = {key: purge_outcome(done.results.get(key)) for key in done.looked_at}
    with many_events(context):
        made = maintained(context, PURGE_ASSET, looked, changed=done.results)
        yield from in_batches(context, made)
    rows = _rows_of(context, logs, done.results, clock)
    purged: list[PurgedLog] = []
    for name, log_dir in log_dirs.named().items():
        if not is_local(log_dir):  # a bucket has no deleted logs
            _purge_states(context, (name, log_dir), listing, failures)
            continue
        try:
            if broker_process(log_dir) is not None:
                context.log.info("log_dir=%s deleted logs skipped: %s", name, BY_BROKER)
                continue
            delay_ms = settings.broker(log_dir).file_delete_delay_ms
            purged_logs = purge_deleted(log_dir, now_ms=clock.now_ms(), delay_ms=delay_ms)
        except LogwrightError as error:
            failures[name] = error.as_value()
        else:
            purged += purged_logs
            rows += _rows(context, (name, log_dir), purged_logs, clock)
    record_history(context, rows)
    context.log.info(_line(done, [one for one in purged if one.goes]))
    if failures:
        raise dagster_failure(failures, logs=len(logs), retry_number=context.retry_number)
    gone = [one for one in purged if one.goes]
    yield dg.Output(
        None,
        metadata={
            "deleted logs purged": len(gone),
            "deleted logs": table(
                ("directory", "why"),
                ((one.directory, one.reason) for one in purged),
                most=SHOWN_FILES,
            ),
        },
    )


def _purge_states(
    context: dg.OpExecutionContext,
    named: tuple[str, Place],
    listing: Listing,
    failures: dict[str, LogwrightError],
) -> None:
    """Remove the earlier states of a log directory in a bucket, or note why not. Effects: removes
    objects.
    """
    name, log_dir = named
    if name in listing.unreadable:
        failures[name] = listing.unreadable[name]
        return
    try:
        versions = purge_states(log_dir)
    except LogwrightError as error:
        failures[name] = error.as_value()
    else:
        context.log.info("log_dir=%s earlier states removed: %s", name, len(versions))


def _line(done: Purged, gone: Sequence[PurgedLog]) -> str:
    """Return what was looked at and freed, as one line for the run's log."""
    results = done.results.values()
    files = sum(len(one.removed) for one in results)
    freed = sum(one.removed_bytes for one in results)
    return (
        f"{len(done.looked_at):,} logs were looked at: {files:,} files purged,"
        f" {human_bytes(freed)} freed; {len(gone):,} deleted logs purged."
    )


@dg.job(name=PURGE, executor_def=dg.in_process_executor)
def purge() -> None:
    """Remove retired files whose delay has passed, and leftovers of interrupted operations; in
    buckets what no kept version names.
    """
    purge_logs()


def _rows_of(
    context: dg.OpExecutionContext,
    logs: Iterable[MaintainedLog],
    results: Mapping[str, PurgeResult],
    clock: Clock,
) -> list[HistoryRow]:
    """Return the rows of the logs that were purged."""
    return [
        row
        for log in logs
        if log.key in results
        for row in purge_rows(results[log.key], _origin(context, log, clock))
    ]


def _rows(
    context: dg.OpExecutionContext,
    log_dir: tuple[str, Place],
    logs: Iterable[PurgedLog],
    clock: Clock,
) -> list[HistoryRow]:
    """Return the rows of the deleted logs of a log directory that were purged."""
    rows: list[HistoryRow] = []
    for purged in logs:
        key = f"{log_dir[0]}:{purged.partition}"
        log = MaintainedLog(key=key, long_key=key, log_dir=log_dir[1], partition=purged.partition)
        rows += purged_log_rows(purged, _origin(context, log, clock))
    return rows


def _origin(context: dg.OpExecutionContext, log: MaintainedLog, clock: Clock) -> RowOrigin:
    """Return what the row of a purge of this log says of it; the row is made when it has ended."""
    now_ms = clock.now_ms()
    return RowOrigin(
        run_id=context.run_id,
        key=log.key,
        log_dir=log.log_dir,
        partition=log.partition,
        started_at_ms=now_ms,
        ended_at_ms=now_ms,
    )


@dg.op(ins={RETAINED: dg.In(dg.Nothing)}, out=op_outputs(PURGE_CHECKS), pool=POOL)
def purge_partitions(
    context: dg.AssetExecutionContext, log_dirs: LogDirs, policies: PolicyDirectory, clock: Clock
) -> Iterator[
    dg.AssetObservation | dg.AssetCheckEvaluation | dg.AssetMaterialization | dg.Output[None]
]:
    """Purge the partitions of the run, check that, and record each."""
    with boundary(PURGE):
        listing = log_dirs.listing()
        logs = listing.find_those(context.partition_keys)
        settings = policies.settings()
    done = purge_each(logs, settings, clock)
    results = done.results
    failures = {**listing.missing(context.partition_keys), **done.failures}
    yield from purge_events(done.results, done.judged)
    yield from checks_made(PURGE_CHECKS)
    op_context = context.op_execution_context
    record_history(op_context, _rows_of(op_context, logs, results, clock))
    good = {
        log.key: purge_outcome(results.get(log.key), done.held.get(log.key))
        for log in logs
        if log.key not in failures
    }
    yield from recorded(context, PURGE_ASSET, good, failures)


@dg.graph_asset(
    key=PURGE_ASSET,
    ins={RETAINED: dg.AssetIn(RETENTION_ASSET, dagster_type=dg.Nothing)},
    partitions_def=LOGS,
    backfill_policy=dg.BackfillPolicy.single_run(),
    check_specs=check_specs(PURGE_ASSET, PURGE_CHECKS),
    group_name="kafka_logs",
    kinds={"kafka"},
)
def purge_asset(retained: Any) -> Any:  # noqa: ANN401 - of the composition
    """The disk space of each log without retired files whose delay has passed. The job `purge` does
    the same, and removes deleted logs.
    """
    return asset_outputs(PURGE_ASSET, PURGE_CHECKS, purge_partitions(retained))


purge_range = dg.define_asset_job(
    "purge_range",
    selection=dg.AssetSelection.assets(purge_asset),
    description="Purge the partitions of a backfill, as the job `purge`, which sensors request.",
)
"""A target of the sensors, by which Dagster shows them as the asset's automation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeOutlook:
    """The logs that a purge would change.

    Attributes:
        due: keys of logs with files to remove.
        waiting: key → why another log is skipped that has retired files, or may have.
    """

    due: tuple[str, ...]
    waiting: Mapping[str, str]


def purge_outlook(
    logs: Iterable[MaintainedLog], settings: DirectorySettings, *, now_ms: TimestampMs
) -> PurgeOutlook:
    """Check each log's directory. Effects: lists it, without a lock; the purge itself checks again
    under the locks. Of logs in buckets it looks at some, and remembers them.
    """
    due: list[str] = []
    logs, looks = tuple(logs), LOOKS_PER_TICK
    held = holds_of(logs, now_ms=now_ms, force=True)
    waiting = {
        key: hold.sentence if isinstance(hold, Hold) else shortened(str(hold))
        for key, hold in held.items()
    }
    for log in logs:
        if log.key in held:
            continue
        try:
            if log.in_bucket and not _OBJECTS.knows(log, now_ms):
                looks -= 1
                if looks < 0:
                    waiting[log.key] = NOT_YET
                    continue
            result = _planned(log, settings, now_ms)
            if result is None:
                continue
        except LogwrightError as error:
            waiting[log.key] = shortened(f"{type(error).__name__}: {error}")
            continue
        if result.removed or result.leftovers or result.staging or result.failed_outputs:
            due.append(log.key)
        elif result.pending:
            soonest = _time(min(pending.due_at_ms for pending in result.pending))
            waiting[log.key] = f"{len(result.pending)} files, the first is due at {soonest:%F %T}Z"
    return PurgeOutlook(due=tuple(due), waiting=waiting)


def _planned(
    log: MaintainedLog, settings: DirectorySettings, now_ms: TimestampMs
) -> PurgeResult | None:
    """Return what a purge would remove of a log; None if nothing waits. Effects: lists the
    directory or the bucket, if something may have changed.
    """
    if not is_local(log.log_dir):
        return _OBJECTS.planned(log, now_ms)
    listing = _retired_files(log.log_dir / log.partition.directory_name)
    if listing is None:
        return None
    topic_config, _ = settings.of(log.log_dir, log.partition.topic)
    delay_ms = topic_config.file_delete_delay_ms
    return plan_purge(listing, now_ms=now_ms, file_delete_delay_ms=delay_ms).result


class _Objects:
    """What ticks remember of logs in buckets: one whose version has not changed is not looked at
    again before something is due, or for an hour, since each look asks for lists and the clock.
    """

    def __init__(self) -> None:
        self._kept: dict[str, tuple[int, int, PurgeResult]] = {}

    def knows(self, log: MaintainedLog, now_ms: TimestampMs) -> bool:
        """Return whether a log need not be looked at. Effects: the manifest was read."""
        version, until_ms, _ = self._kept.get(_name(log), (NO_VERSION, 0, None))
        return version == _version(log) and now_ms < until_ms

    def planned(self, log: MaintainedLog, now_ms: TimestampMs) -> PurgeResult:
        """Return what a purge would remove of a log. Effects: as `plan_purge_in_bucket`, if it must
        be looked at.
        """
        if self.knows(log, now_ms):
            return self._kept[_name(log)][2]
        result = plan_purge_in_bucket(log.log_dir, log.partition)
        soonest_ms = min((pending.due_at_ms for pending in result.pending), default=INT64_MAX)
        until_ms = 0 if result.removed else min(soonest_ms, now_ms + LOOK_AGAIN_MS)
        self._kept[_name(log)] = _version(log), until_ms, result
        return result


def _name(log: MaintainedLog) -> str:
    return f"{log.log_dir}/{log.partition.directory_name}"


def _version(log: MaintainedLog) -> int:
    manifest = manifest_of(log.log_dir, log.partition)
    return NO_VERSION if manifest is None else manifest.version


_OBJECTS: Final = _Objects()


def _retired_files(directory: Path) -> PartitionListing | None:
    """Return the listing of a log with files that a purge removes, now or later; None for any other
    log. Effects: lists the directory, if it has changed.
    """
    listings: list[PartitionListing] = []

    def read() -> tuple[bool, None]:
        listing = list_partition(directory)
        listings.append(listing)
        result = plan_purge(listing, now_ms=TimestampMs(0), file_delete_delay_ms=0).result
        return not (
            result.pending
            or result.removed
            or result.leftovers
            or result.staging
            or result.failed_outputs
        ), None

    if _NOTHING_RETIRED.value(str(directory), read):
        return None
    return listings[0] if listings else list_partition(directory)


def deleted_outlook(
    directories: Mapping[str, Place], settings: DirectorySettings, *, now_ms: TimestampMs
) -> PurgeOutlook:
    """Check the deleted logs of each log directory. Effects: lists them; asks for the brokers'
    locks.

    Returns:
        the names of those whose delay has passed; name of a log directory → why its deleted logs
        are not known.
    """
    due: list[str] = []
    waiting: dict[str, str] = {}
    for name, log_dir in directories.items():
        if not is_local(log_dir):
            continue
        try:
            if broker_process(log_dir) is not None:
                waiting[name] = BY_BROKER
                continue
            delay_ms = settings.broker(log_dir).file_delete_delay_ms
            plans = plan_purge_deleted(log_dir, now_ms=now_ms, delay_ms=delay_ms)
        except LogwrightError as error:
            waiting[name] = shortened(f"{type(error).__name__}: {error}")
        else:
            due += [one.directory for one in plans if one.goes]
    return PurgeOutlook(due=tuple(due), waiting=waiting)


@dg.sensor(
    jobs=[purge, purge_range],
    description="Requests a purge of the logs with retired files whose delay has passed.",
    minimum_interval_seconds=PURGE_SECONDS,
    default_status=dg.DefaultSensorStatus.STOPPED,
)
@rare_collections()
def purge_due(
    context: dg.SensorEvaluationContext,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> dg.SensorResult:
    """Request a purge of the logs with retired files whose delay has passed."""
    now_ms = clock.now_ms()
    settings = policies.settings()
    listing = log_dirs.listing()
    outlook = purge_outlook(listing.logs.values(), settings, now_ms=now_ms)
    deleted = deleted_outlook(log_dirs.named(), settings, now_ms=now_ms)
    running = runs_in_flight(context.instance, PURGE)
    if running:
        return dg.SensorResult(skip_reason="A purge is running.")
    if not (outlook.due or deleted.due):
        waiting = {**deleted.waiting, **outlook.waiting}
        message = skip_message(waiting) if waiting else "No log has retired files."
        return dg.SensorResult(skip_reason=listing.sentence(message))
    logs = list(outlook.due[:LOGS_PER_RUN])
    return dg.SensorResult(
        run_requests=[
            dg.RunRequest(
                run_key=f"{now_ms}:{[*logs, *deleted.due][0]}:{len(logs)}",
                job_name=PURGE,
                run_config={"ops": {PURGE_LOGS: {"config": {"logs": logs}}}},
                tags={"logwright/logs": str(len(logs))},
            )
        ]
    )


def _time(time_ms: int) -> datetime:
    return datetime.fromtimestamp(time_ms / 1000, tz=UTC)
