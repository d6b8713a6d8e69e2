"""Report log directories that are low on space, and request a purge if that frees some; else say
what a rescue would free, or request it where the policies ask for that.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

import dagster as dg

from logwright.assets.fleet.inventory import spaces_of
from logwright.assets.lib.human import human_bytes
from logwright.assets.lib.partitions import FLEET_INVENTORY
from logwright.config.policy_models import DiskLimits
from logwright.config.sources import DirectorySettings
from logwright.fleet.freeing import DirectoryOutlook, free_outlooks
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
from logwright.pipelines.retention.rescue import RESCUE, rescue, rescue_config
from logwright.place.model import is_local
from logwright.resources.clock import Clock
from logwright.resources.log_dirs import Listing, LogDirs
from logwright.resources.policies import PolicyDirectory
from logwright.units import TimestampMs

DISK_SECONDS: Final = 300
MOST_LOGS: Final = 2_000
"""In a directory of which a tick says what a rescue would free. A look at one takes some
milliseconds, and a tick may take a minute."""
_HOUR_MS: Final = 3_600_000
_TOO_MANY: Final = f"a tick does not look at more than {MOST_LOGS:,} logs; the fleet page has it"


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
    jobs=[purge, purge_range, rescue],
    description="Reports log directories that are low on space, once, and requests a purge if"
    " retired files are due there; else says what the job rescue would free, or requests it if the"
    " policies' section disk has rescue: true.",
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
    the policies' limit or rises above it; request a purge while one is low and files are due, and a
    rescue if none are and the policies ask for it.
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
    rescues = []
    if not requests and not running and not runs_in_flight(context.instance, RESCUE):
        rescues = rescues_of(crossings.low, logs_of(listing), settings, now_ms=now_ms)
        if settings.policies.disk.rescue:
            requests += [one.request(now_ms) for one in rescues if one.frees]
    unknown = before & {str(space.log_dir) for space in spaces if space.problem}
    low = unknown | {str(space.log_dir) for space in crossings.low}
    seen = [_free_spaces(crossings, spaces), *(one.sentence for one in rescues)]
    return dg.SensorResult(
        run_requests=requests,
        asset_events=events,
        skip_reason=None if requests else "\n".join(seen),
        cursor=json.dumps(sorted(low)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescue:
    """A run of the job `rescue` for a log directory that is low on space.

    Attributes:
        space: of the directory. outlook: what the run would free at most.
        free_bytes: what the run is asked for: enough not to be low.
    """

    space: DirectorySpace
    outlook: DirectoryOutlook
    free_bytes: int

    @property
    def frees(self) -> bool:
        """It would free something, or recover logs, which may free something then; or it may."""
        outlook = self.outlook.outlook
        if outlook is None:
            return self.outlook.why == _TOO_MANY
        return self.outlook.bytes > 0 or bool(outlook.unclean)

    @property
    def sentence(self) -> str:
        """What a run would free, and how to launch it."""
        config = json.dumps(rescue_config([self.space.name], self.free_bytes))
        launch = f"To launch the job {RESCUE}: {config}"
        if self.outlook.outlook is None:
            why = f"{self.space.log_dir}: what a rescue frees is not known: {self.outlook.why}."
            return f"{why} {launch}" if self.frees else why
        kinds = ", ".join(f"{kind} {human_bytes(n)}" for kind, n in self.outlook.by_kind.items())
        total = human_bytes(self.outlook.bytes)
        frees = f"frees {total} at most ({kinds})" if kinds else "frees nothing"
        if self.outlook.not_planned:
            frees += f"; {self.outlook.not_planned} logs could not be looked at"
        return f"{self.space.log_dir}: a rescue {frees}. {launch}"

    def request(self, now_ms: int) -> dg.RunRequest:
        """Return the request: the same for an hour, if nothing changes."""
        kinds = sorted(self.outlook.by_kind.items())
        state = f"{self.space.name}:{kinds}:{self.outlook.not_planned}"
        digest = sha256(state.encode()).hexdigest()[:16]
        return dg.RunRequest(
            run_key=f"rescue:{now_ms // _HOUR_MS}:{digest}",
            job_name=RESCUE,
            run_config=rescue_config([self.space.name], self.free_bytes),
        )


def logs_of(listing: Listing) -> Counter[str]:
    """Return the number of logs in each log directory, by its path."""
    return Counter(str(log.log_dir) for log in listing.logs.values())


def rescues_of(
    low: Iterable[DirectorySpace],
    logs: Counter[str],
    settings: DirectorySettings,
    *,
    now_ms: TimestampMs,
) -> list[Rescue]:
    """Return what a rescue would do for each directory that is low. Effects: reads those with no
    more than `MOST_LOGS` logs; asks for the brokers' locks.
    """
    spaces = {space.name: space for space in low}
    large = {
        name
        for name, space in spaces.items()
        if is_local(space.log_dir) and logs[str(space.log_dir)] > MOST_LOGS
    }
    places = {name: one.log_dir for name, one in spaces.items() if name not in large}
    outlooks = [
        *free_outlooks(places, settings, now_ms=now_ms),
        *(
            DirectoryOutlook(name=name, log_dir=spaces[name].log_dir, why=_TOO_MANY)
            for name in sorted(large)
        ),
    ]
    return [
        Rescue(
            space=spaces[outlook.name],
            outlook=outlook,
            free_bytes=settings.policies.disk.enough_bytes(spaces[outlook.name].total_bytes),
        )
        for outlook in outlooks
    ]


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
