"""Report log directories that are low on space, and request a purge if that frees some."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import dagster as dg

from logwright.assets.fleet.inventory import spaces_of
from logwright.assets.lib.human import human_bytes
from logwright.assets.lib.partitions import FLEET_INVENTORY
from logwright.config.policy_models import DiskLimits
from logwright.fleet.model import DirectorySpace
from logwright.pipelines.lib.runs import runs_in_flight
from logwright.pipelines.retention.purge import (
    LOGS_PER_RUN,
    PURGE,
    PURGE_LOGS,
    purge,
    purge_outlook,
    purge_range,
)
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import LogDirs
from logwright.resources.policies import PolicyDirectory

DISK_SECONDS: Final = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossings:
    """What changed since the last tick.

    Attributes:
        low: the directories that are low on space now.
        fell: those that were not before. rose: those that were before and no longer are.
    """

    low: tuple[DirectorySpace, ...]
    fell: tuple[DirectorySpace, ...]
    rose: tuple[DirectorySpace, ...]


def find_crossings(
    spaces: Iterable[DirectorySpace], limits: DiskLimits, before: frozenset[str]
) -> Crossings:
    """Compare the free space with the limits; a directory that cannot be read has no space here.

    Args:
        spaces: of all log directories.
        limits: of the policies.
        before: paths of the directories that were low at the last tick.
    """
    known = [space for space in spaces if space.has_disk and not space.problem]
    low = tuple(one for one in known if limits.is_low(one.free_bytes, one.total_bytes))
    return Crossings(
        low=low,
        fell=tuple(space for space in low if str(space.log_dir) not in before),
        rose=tuple(one for one in known if one not in low and str(one.log_dir) in before),
    )


@dg.sensor(
    jobs=[purge, purge_range],
    description="Reports log directories that are low on space, once, and requests a purge if"
    " retired files are due there.",
    minimum_interval_seconds=DISK_SECONDS,
    default_status=dg.DefaultSensorStatus.STOPPED,
)
def disk_space(
    context: dg.SensorEvaluationContext,
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> dg.SensorResult:
    """Record an observation of the fleet inventory when a log directory's free space falls below
    the policies' limit or rises above it; request a purge while one is low and files are due.
    """
    now_ms = clock.now_ms()
    settings = policies.settings()
    listing = log_dirs.listing()
    spaces = spaces_of(log_dirs.named(), listing, settings, now_ms)
    before = _load(context.cursor)
    crossings = find_crossings(spaces, settings.policies.disk, before)
    events = [
        *(_observation(space, low=True) for space in crossings.fell),
        *(_observation(space, low=False) for space in crossings.rose),
    ]
    for event in events:
        context.log.warning("%s", event.description)
    logs = [
        log
        for log in listing.logs.values()
        if any(space.log_dir == log.log_dir and space.retired_due_bytes for space in crossings.low)
    ]
    due = purge_outlook(logs, settings, now_ms=now_ms).due[:LOGS_PER_RUN]
    running = runs_in_flight(context.instance, PURGE)
    requests = []
    if due and not running:
        requests.append(
            dg.RunRequest(
                run_key=f"disk:{now_ms}",
                job_name=PURGE,
                run_config={"ops": {PURGE_LOGS: {"config": {"logs": list(due)}}}},
                tags={"logwright/logs": str(len(due))},
            )
        )
    unknown = before & {str(space.log_dir) for space in spaces if space.problem}
    low = unknown | {str(space.log_dir) for space in crossings.low}
    return dg.SensorResult(
        run_requests=requests,
        asset_events=events,
        skip_reason=None if requests else _free_spaces(crossings, spaces),
        cursor=json.dumps(sorted(low)),
    )


def _observation(space: DirectorySpace, *, low: bool) -> dg.AssetObservation:
    state = "is low on space" if low else "is no longer low on space"
    return dg.AssetObservation(
        asset_key=FLEET_INVENTORY,
        description=f"{space.log_dir} {state}: {_free(space)}.",
        metadata={
            "low on space": low,
            "log directory": dg.MetadataValue.path(str(space.log_dir)),
            "free bytes": space.free_bytes,
            "total bytes": space.total_bytes,
            "bytes that wait for a purge": space.retired_bytes,
            "bytes that are due": space.retired_due_bytes,
        },
    )


def _free_spaces(crossings: Crossings, spaces: Iterable[DirectorySpace]) -> str:
    """Return what a tick saw that requests nothing."""
    low = {space.log_dir: ", low since an earlier tick" for space in crossings.low}
    low |= {space.log_dir: ", low now" for space in crossings.fell}
    return "; ".join(
        f"{space.log_dir}: {space.problem or _free(space)}" + low.get(space.log_dir, "")
        for space in spaces
    )


def _free(space: DirectorySpace) -> str:
    if not space.has_disk:
        return "a bucket has no disk that can be full"
    share = f"{space.free_share:.1%}"
    waiting = human_bytes(space.retired_bytes)
    return f"{human_bytes(space.free_bytes)} ({share}) are free, {waiting} wait for a purge"


def _load(cursor: str | None) -> frozenset[str]:
    """Parse a cursor; one of another form is empty."""
    try:
        paths = json.loads(cursor or "[]")
    except ValueError:
        return frozenset()
    return frozenset(map(str, paths)) if isinstance(paths, list) else frozenset()
