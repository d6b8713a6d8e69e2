"""The fleet inventory: the state of every maintained log, and the space of the log directories."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from types import MappingProxyType
from typing import Any, Final

import dagster as dg

from logwright.assets.fleet.will_start import DESCRIPTION, WILL_START, why_of, will_start_check
from logwright.assets.history import recent_rows
from logwright.assets.lib.boundary import boundary
from logwright.assets.lib.holds import strays, uncleanable
from logwright.assets.lib.human import human_bytes
from logwright.assets.lib.partitions import FLEET_INVENTORY, SEGMENT_SET
from logwright.assets.lib.report import metadata_in_use, rows_table
from logwright.config.policy_models import DiskLimits
from logwright.config.resolved import UNKNOWN
from logwright.config.sources import DirectorySettings
from logwright.errors import LogwrightError, UncleanLogDir
from logwright.fleet.freeing import DirectoryOutlook, free_outlooks
from logwright.fleet.model import DirectorySpace, Fleet
from logwright.fleet.observe import look, space_of
from logwright.fleet.starts import DirectoryStart, judge_starts
from logwright.metrics.export import write_metrics
from logwright.metrics.values import last_sweep, metric_values
from logwright.place.model import Place, is_running
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import Listing, LogDirs
from logwright.resources.metrics import metrics_file
from logwright.resources.policies import PolicyDirectory
from logwright.running.place import as_it_runs
from logwright.state.model import Hold
from logwright.sweep.model import LogWork
from logwright.units import TimestampMs

FREE_SPACE: Final = "free_space"
"""The check of the log directories' free space."""
DIRECTORIES: Final = "log directories"
"""The inventory's metadata that has a row for each of them."""
SHOWN_LOGS: Final = 500
"""Maximum rows of the table in the UI, dirtiest first; the stored value has all."""

NEXT_TO_A_BROKER: Final = "a broker runs: its own cleaner may act first"

COLUMN_TYPES: Final = MappingProxyType({str: "string", int: "int", float: "float"})

_COLUMNS: Final = MappingProxyType(
    {
        "log": "the partition key",
        "state": "due, in order, or refused; a log that needs recovery is due",
        "segments": "of the log, with the active one",
        "bytes": "of all .log files",
        "log_start_offset": "-1 if the log was refused",
        "log_end_offset": "-1 if the log was refused",
        "dirty_ratio": "cleanable bytes / compactable bytes; 0 if the log was refused",
        "min_dirty_ratio": "min.cleanable.dirty.ratio of the topic",
        "due_at_ms": "when max.compaction.lag.ms makes it due, ms since the epoch; -1: never",
        "paused": "who paused it, why and until when; empty if it is not paused",
        "quarantined": "why it cannot be cleaned and when it is retried; empty if it can",
        "stray": "why a broker would not serve it from this directory; empty if it would",
        "policy": "cleanup.policy, or unknown",
        "why": "the reasons for its state",
        "compaction_delay_ms": "by how much max.compaction.lag.ms is exceeded; 0 if it is not",
        "log_dir": "path of the log directory",
    }
)
"""Of `FleetRow`, as the catalogue shows them."""

_DIRECTORY_SCHEMA: Final = dg.TableSchema(
    columns=[
        dg.TableColumn("name", "string", description="of the log directory"),
        dg.TableColumn("log_dir", "string", description="its path"),
        dg.TableColumn("total_bytes", "int", description="of its file system"),
        dg.TableColumn("free_bytes", "int", description="of its file system"),
        dg.TableColumn("retired_bytes", "int", description="what a purge will free"),
        dg.TableColumn("retired_due_bytes", "int", description="what a purge would free now"),
        dg.TableColumn("problem", "string", description="why its space is not known"),
        dg.TableColumn(
            "broker",
            "string",
            description="whether one runs there, and how old its high watermarks are, up to which"
            " its logs are shown",
        ),
        dg.TableColumn(
            "looked_ms", "int", description="when what follows was looked at, ms since the epoch"
        ),
        dg.TableColumn("start", "string", description="what a broker's next start does"),
        dg.TableColumn("start_why", "string", description="why it is not only: starts"),
        dg.TableColumn(
            "rescue_bytes",
            "int",
            description="what a rescue would free at most by the topics' own settings; -1: unknown",
        ),
        dg.TableColumn("rescue", "string", description="the same by step, or why it is unknown"),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """The state of one log.

    Attributes:
        state: ``due``, ``in order``, or ``refused`` with the reason in `why`. A log that needs
            recovery is due: the next sweep recovers it.
        dirty_ratio: cleanable bytes / compactable bytes; 0 if it was refused.
        due_at_ms: when `max.compaction.lag.ms` will make it due, -1 if never.
        paused: who paused it, why and until when; empty if it is not paused.
        quarantined: why it cannot be cleaned and when it is retried; empty if it can.
        stray: why a broker would not serve it from this directory; empty if it would.
        policy: its ``cleanup.policy``, or ``unknown``.
        compaction_delay_ms: by how much ``max.compaction.lag.ms`` is exceeded, 0 if it is not.
    """

    log: str
    state: str
    segments: int = 0
    bytes: int = 0
    log_start_offset: int = -1
    log_end_offset: int = -1
    dirty_ratio: float = 0.0
    min_dirty_ratio: float = 0.0
    due_at_ms: int = -1
    paused: str
    quarantined: str
    stray: str
    policy: str = ""
    why: str
    compaction_delay_ms: int = 0
    log_dir: str


@dg.asset(
    key=FLEET_INVENTORY,
    deps=[SEGMENT_SET],
    group_name="kafka_logs",
    kinds={"kafka", "table"},
    dagster_type=dg.List[dict],  # Dagster takes no type from a result with checks
    check_specs=[
        dg.AssetCheckSpec(
            FREE_SPACE,
            asset=FLEET_INVENTORY,
            description="Each log directory has the free space that the policies' section disk asks"
            " for.",
        ),
        dg.AssetCheckSpec(WILL_START, asset=FLEET_INVENTORY, description=DESCRIPTION),
    ],
)
def fleet_inventory(
    context: dg.AssetExecutionContext, log_dirs: LogDirs, policies: PolicyDirectory, clock: Clock
) -> dg.MaterializeResult:  # type: ignore[type-arg]  # as above
    """Inventory of all maintained logs: size, dirty ratio, and whether the next sweep will clean
    them; the free space of the log directories, what a rescue would free, and whether brokers start
    on them.
    """
    with boundary("fleet_inventory"):
        listing = log_dirs.listing()
        now_ms = clock.now_ms()
        logs = listing.logs.values()
        settings = policies.settings()
        named = log_dirs.named()
        spaces = spaces_of(named, listing, settings, now_ms)
        fleet = look(works_of(listing, named, spaces), spaces, settings, now_ms=now_ms)
        stray = strays(fleet.works, settings)
        starts = judge_starts(named, now_ms=now_ms)
        outlooks = free_outlooks(named, settings, now_ms=now_ms)
    _export(context, fleet)
    rows = sorted(
        (
            fleet_row(work, fleet.held.get(work.key), stray.get(work.key, ""))
            for work in fleet.works
        ),
        key=lambda row: -row.dirty_ratio,
    )
    return dg.MaterializeResult(
        value=[asdict(row) for row in rows],
        check_results=[
            free_space_check(spaces, settings.policies.disk),
            will_start_check(starts),
        ],
        metadata={
            "dagster/row_count": len(rows),
            "bytes": sum(row.bytes for row in rows),
            "due": sum(row.state == "due" for row in rows),
            "refused": sum(row.state == "refused" for row in rows),
            "paused": sum(bool(row.paused) for row in rows),
            "quarantined": sum(bool(row.quarantined) for row in rows),
            "stray": sum(bool(row.stray) for row in rows),
            "unknown policy": sum(row.policy == UNKNOWN for row in rows),
            **metadata_in_use(settings, fleet.works),
            **uncleanable(log.log_dir for log in logs),
            "unreadable log directories": len(listing.unreadable),
            "log directories with a running broker": sum(space.running for space in spaces),
            **space_metadata(spaces, settings.policies.disk),
            DIRECTORIES: directories_table(
                space_row(space, now_ms) | start_row(start, now_ms) | rescue_row(outlook)
                for space, start, outlook in zip(spaces, starts, outlooks, strict=True)
            ),
            "logs": rows_table(map(asdict, rows), most=SHOWN_LOGS),
        },
    )


def spaces_of(
    named: Mapping[str, Place], listing: Listing, settings: DirectorySettings, now_ms: TimestampMs
) -> tuple[DirectorySpace, ...]:
    """Return the space of each log directory, by name. Effects: lists them and their logs; asks for
    the brokers' locks.
    """
    spaces = []
    for name, log_dir in named.items():
        problem = str(listing.unreadable.get(name, ""))
        own = [log.partition for log in listing.logs.values() if log.log_dir == log_dir]
        try:
            place = log_dir if problem else as_it_runs(log_dir)
        except LogwrightError as error:
            place, problem = log_dir, str(error)
        spaces.append(
            DirectorySpace(name=name, log_dir=log_dir, problem=problem)
            if problem
            else space_of(name, place, own, settings, now_ms=now_ms)
        )
    return tuple(spaces)


def works_of(
    listing: Listing, named: Mapping[str, Place], spaces: Iterable[DirectorySpace]
) -> list[LogWork[Place]]:
    """Return the logs as they are read: those of a directory that a broker has open by the place
    that its space names. Pure.
    """
    places = {named[space.name]: space.log_dir for space in spaces}
    return [
        LogWork(
            key=log.key,
            log_dir=places.get(log.log_dir, log.log_dir),
            partition=log.partition,
        )
        for log in listing.logs.values()
    ]


def space_row(space: DirectorySpace, now_ms: int) -> dict[str, Any]:
    """Return what is shown of a log directory's space, by column."""
    return {
        "name": space.name,
        "log_dir": str(space.log_dir),
        "total_bytes": space.total_bytes,
        "free_bytes": space.free_bytes,
        "retired_bytes": space.retired_bytes,
        "retired_due_bytes": space.retired_due_bytes,
        "problem": space.problem,
        "broker": space.broker(now_ms),
    }


def free_space_check(spaces: Iterable[DirectorySpace], limits: DiskLimits) -> dg.AssetCheckResult:
    """Return the check that each log directory has enough space: a warning. One whose space is not
    known does not pass; one in a bucket has no limit, unless it could not be looked at.
    """
    spaces = tuple(spaces)
    low = [one for one in spaces if limits.is_low(one.free_bytes, one.total_bytes)]
    unknown = [one for one in spaces if one.total_bytes < 1 and (one.has_disk or one.problem)]
    problems = [f"{one.log_dir}: {one.free_share:.1%} are free" for one in low]
    problems += [f"{one.log_dir}: its free space is not known. {one.problem}" for one in unknown]
    return dg.AssetCheckResult(
        check_name=FREE_SPACE,
        passed=bool(spaces) and not problems,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(problems),
        metadata={
            "min_free_bytes": limits.min_free_bytes,
            "min_free_share": limits.min_free_share,
            "log directories looked at": sum(one.total_bytes > 0 for one in spaces),
            "log directories low on space": len(low),
        },
    )


def start_row(start: DirectoryStart, now_ms: int) -> dict[str, Any]:
    """Return what is shown of a log directory's next start, by column."""
    return {"looked_ms": now_ms, "start": start.outcome, "start_why": why_of(start)}


def rescue_row(outlook: DirectoryOutlook) -> dict[str, Any]:
    """Return what is shown of what a rescue would free in a log directory, by column."""
    kinds = [f"{kind} {human_bytes(size)}" for kind, size in outlook.by_kind.items()]
    if outlook.not_planned:
        kinds.append(f"not looked at: {outlook.not_planned} logs")
    return {"rescue_bytes": outlook.bytes, "rescue": outlook.why or ", ".join(kinds)}


def space_metadata(spaces: Iterable[DirectorySpace], limits: DiskLimits) -> dict[str, Any]:
    """Return the totals of the log directories' space."""
    spaces = tuple(spaces)
    return {
        "bytes that wait for a purge": sum(space.retired_bytes for space in spaces),
        "log directories low on space": sum(
            limits.is_low(space.free_bytes, space.total_bytes) for space in spaces
        ),
    }


def directories_table(rows: Iterable[Mapping[str, Any]]) -> dg.TableMetadataValue:
    """Return the table of the log directories: their space, start and rescue."""
    return dg.MetadataValue.table(
        [dg.TableRecord(dict(row)) for row in rows], schema=_DIRECTORY_SCHEMA
    )


def directory_rows(instance: dg.DagsterInstance) -> dict[str, Mapping[str, Any]]:
    """Return the rows of `directories_table` of the last inventory, by name; none without one.
    Effects: reads the instance's events.
    """
    event = instance.get_latest_materialization_event(FLEET_INVENTORY)
    made = None if event is None else event.asset_materialization
    shown = None if made is None else made.metadata.get(DIRECTORIES)
    if not isinstance(shown, dg.TableMetadataValue):
        return {}
    return {str(record.data["name"]): record.data for record in shown.records}


def _export(context: dg.AssetExecutionContext, fleet: Fleet) -> None:
    """Write the metrics if a file is configured; the run continues if that fails. Effects: the
    file; a warning.
    """
    path = metrics_file()
    if path is not None:
        try:
            write_metrics(metric_values(fleet, last_sweep(recent_rows(context))), path)
        except OSError as error:
            context.log.warning("the metrics were not written: %s", error)


def fleet_row(
    work: LogWork[Place], hold: Hold | LogwrightError | None, stray: str = ""
) -> FleetRow:
    """Return the row of a log.

    Args:
        work: the log and its plan, or why it could not be planned.
        hold: why it is paused or in quarantine, or the error of reading that; None if it is not.
        stray: why a broker would not serve it from its directory.
    """
    plan = work.plan
    kind = hold.kind if isinstance(hold, Hold) else None
    why = "" if hold is None else hold.sentence if isinstance(hold, Hold) else str(hold)
    paused, quarantined = (why if kind == one else "" for one in ("paused", "quarantined"))
    if isinstance(hold, LogwrightError):
        paused = why
    if plan is None:
        return FleetRow(
            log=work.key,
            state="due" if isinstance(work.failure, UncleanLogDir) else "refused",
            paused=paused,
            quarantined=quarantined,
            stray=stray,
            why=str(work.failure),
            log_dir=str(work.log_dir),
        )
    compaction = plan.compaction
    return FleetRow(
        log=work.key,
        state="due" if work.due else "in order",
        segments=len(plan.log.segments),
        bytes=plan.log.log_bytes,
        log_start_offset=plan.log.log_start_offset,
        log_end_offset=plan.log.log_end_offset,
        dirty_ratio=round(compaction.cleanable_ratio, 4),
        min_dirty_ratio=compaction.min_cleanable_ratio,
        due_at_ms=-1 if compaction.due_at_ms is None else compaction.due_at_ms,
        paused=paused,
        quarantined=quarantined,
        stray=stray,
        policy=",".join(plan.config.cleanup_policy),
        why="; ".join((*_running(work), *compaction.reasons, f"roll: {plan.roll.reason}")),
        compaction_delay_ms=compaction.compaction_delay_ms,
        log_dir=str(work.log_dir),
    )


def _running(work: LogWork[Place]) -> tuple[str, ...]:
    """Return what comes first of a log of a running broker: a sweep would not change it."""
    return (NEXT_TO_A_BROKER,) if is_running(work.log_dir) else ()


def fleet_schema() -> dg.TableSchema:
    """Return the columns of the inventory."""
    types: dict[str, Any] = {one.name: one.type for one in fields(FleetRow)}
    columns = [
        dg.TableColumn(
            name,
            COLUMN_TYPES[kind],
            description=_COLUMNS[name],
            constraints=dg.TableColumnConstraints(nullable=False, unique=name == "log"),
        )
        for name, kind in types.items()
    ]
    return dg.TableSchema(columns=columns)
