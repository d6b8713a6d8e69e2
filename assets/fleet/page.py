"""The asset `kafka_logs/fleet_page`: the fleet on one static page, which needs no network."""

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from importlib.metadata import version
from math import nan
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from logwright import durable
from logwright.assets.erasure.report import case_rows, countdown_rows
from logwright.assets.fleet.inventory import directory_rows, space_row, spaces_of
from logwright.assets.history import recent_rows
from logwright.assets.lib.boundary import boundary
from logwright.assets.lib.human import DAY_MS, HOUR_MS, human_bytes, human_time, unit_of
from logwright.assets.lib.partitions import FLEET_INVENTORY, FLEET_PAGE, MAINTENANCE_HISTORY
from logwright.config.policy_models import DiskLimits
from logwright.erasure.outlook.countdown import Countdown, read_countdown
from logwright.errors import LogwrightError
from logwright.fleet.model import DirectorySpace
from logwright.fleet.starts import NOT_JUDGED, STARTS
from logwright.resources.clock import Clock
from logwright.resources.erasure import countdown_path
from logwright.resources.log_dirs import LogDirs
from logwright.resources.page import page_path
from logwright.resources.policies import PolicyDirectory
from logwright.times import duration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_LOGS: Final = 300
"""Maximum rows of the page's table; those that need attention come first."""
DAYS: Final = 30
"""Days of the history that the page shows."""

DEADLINES: Final = (
    ("passed", 0),
    ("in 1 h", HOUR_MS),
    ("in 6 h", 6 * HOUR_MS),
    ("in 1 d", DAY_MS),
    ("in 7 d", 7 * DAY_MS),
)
"""Classes of the time to a deadline: name, inclusive upper bound in ms."""
LATER: Final = "later"
NEVER: Final = "no deadline"

Row = Mapping[str, Any]

LARGEST: Final = 15
"""Logs in the plot of the largest."""

_CLEAN, _DIRTY, _RETAINED, _FREED = "#4e79a7", "#f28e2b", "#76b7b2", "#333333"
_NAME_LENGTH: Final = 32
_LEAST_PLACES: Final = 6
"""Places for bars: a single log does not get a bar as high as the plot."""
_SETTINGS: Final[Mapping[Any, Any]] = {
    "svg.fonttype": "none",  # text stays text: smaller, and it can be searched
    "text.parse_math": False,  # names are not formulas
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
}

_TEMPLATE: Final = Path(__file__).with_name("page.html")
_PERCENT: Final = 100


@dg.asset(
    key=FLEET_PAGE,
    ins={"inventory": dg.AssetIn(key=FLEET_INVENTORY)},
    deps=[MAINTENANCE_HISTORY],
    group_name="kafka_logs",
    kinds={"kafka", "html"},
)
def fleet_page(
    context: dg.AssetExecutionContext,
    inventory: list[dict[str, Any]],
    log_dirs: LogDirs,
    policies: PolicyDirectory,
    clock: Clock,
) -> dg.MaterializeResult[None]:
    """The inventory, the history of the last days and the space of the log directories as one HTML
    file. Open it with a browser: Dagster's page cannot link to files.
    """
    with boundary("fleet_page"):
        now_ms = clock.now_ms()
        settings = policies.settings()
        spaces = spaces_of(log_dirs.named(), log_dirs.listing(), settings, now_ms)
    today = datetime.fromtimestamp(now_ms / 1000, tz=UTC).date()
    history = recent_rows(context, since=today - timedelta(days=DAYS))
    page = fleet_html(
        inventory,
        spaces,
        history,
        limits=settings.policies.disk,
        now_ms=now_ms,
        directories=directory_rows(context.instance),
        countdown=_countdown(context) if settings.policies.erasure.store else None,
    )
    path = page_path(context.instance.storage_directory())
    try:
        durable.make_directory(path.parent)
        durable.replace(path, page.encode())
    except OSError as error:
        raise dg.Failure(
            description=f"the page cannot be written: {path}: {error.strerror}", allow_retries=False
        ) from error
    return dg.MaterializeResult(
        metadata={
            "page": dg.MetadataValue.path(str(path)),
            "logs": len(inventory),
            "bytes of the page": len(page.encode()),
        }
    )


def fleet_html(
    rows: Sequence[Row],
    spaces: Sequence[DirectorySpace],
    history: Sequence[Row],
    *,
    limits: DiskLimits,
    now_ms: int,
    directories: Mapping[str, Row] = MappingProxyType({}),
    countdown: Countdown | None = None,
) -> str:
    """Return the page. All texts are escaped.

    Args:
        rows: of the inventory (`FleetRow`).
        spaces: of the log directories.
        history: rows of the maintenance history, at least of the last days.
        limits: below which a directory is low on space.
        now_ms: the clock.
        directories: what the inventory has of each log directory, by name.
        countdown: of the deadlines of erasure requests, None: there are none.
    """
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 -- it costs time
    from markupsafe import Markup  # noqa: PLC0415

    days = days_of(history, datetime.fromtimestamp(now_ms / 1000, tz=UTC).date())
    deadlines = deadline_counts(rows, now_ms)
    plots = [
        saved_svg(days),
        largest_svg(rows),
        counts_svg(
            "Compacted logs by dirty ratio",
            [f"{number / 10:.1f}" for number in range(10)],
            ratio_counts(rows),
        ),
        counts_svg(
            "Logs by deadline (max.compaction.lag.ms)", list(deadlines), list(deadlines.values())
        ),
    ]
    shown = shown_rows(rows)
    environment = Environment(autoescape=True, undefined=StrictUndefined)
    return environment.from_string(_TEMPLATE.read_text()).render(
        now=human_time(now_ms),
        version=version("logwright"),
        tiles=tiles(rows, spaces, history, days, now_ms),
        spaces=[
            _space(space, rows, limits, now_ms) | _next(directories.get(space.name))
            for space in spaces
        ],
        plots=[Markup(plot) for plot in plots],  # noqa: S704 -- matplotlib has escaped its texts
        rows=[_row(row) for row in shown],
        hidden=len(rows) - len(shown),
        deadlines=countdown_rows(countdown, now_ms),
        cases=case_rows(countdown, now_ms),
        open_cases=0 if countdown is None else len(countdown.cases),
        looked="" if countdown is None else human_time(countdown.looked_ms),
        unsearched=0 if countdown is None else countdown.not_read,
    )


def _countdown(context: dg.AssetExecutionContext) -> Countdown | None:
    """Return the countdown of the last search; None, with a warning, if it cannot be read. Effects:
    reads its file.
    """
    try:
        return read_countdown(countdown_path(context.instance.storage_directory()))
    except LogwrightError as error:
        context.log.warning("the deadlines of erasure requests are not shown: %s", error)
        return None


def _space(
    space: DirectorySpace, rows: Sequence[Row], limits: DiskLimits, now_ms: int
) -> dict[str, Any]:
    total = max(space.total_bytes, 1)
    retired = min(_PERCENT * space.retired_bytes / total, _PERCENT)
    used = max(_PERCENT - _PERCENT * space.free_bytes / total - retired, 0)
    return space_row(space, now_ms) | {
        "logs": sum(row["log_dir"] == str(space.log_dir) for row in rows),
        "free": human_bytes(space.free_bytes),
        "total": human_bytes(space.total_bytes),
        "retired": human_bytes(space.retired_bytes),
        "retired_due": human_bytes(space.retired_due_bytes),
        "used_percent": f"{used:.2f}",
        "retired_percent": f"{retired:.2f}",
        "low": limits.is_low(space.free_bytes, space.total_bytes),
        "has_disk": space.has_disk,
    }


def _next(directory: Row | None) -> dict[str, Any]:
    """Return what is shown of a log directory's next start, and of what a rescue would free, with
    the time of that inventory: the directory may have changed since.
    """
    if directory is None or "looked_ms" not in directory:  # of an earlier version
        unknown = dict.fromkeys(("looked", "start_why", "rescue"), "")
        return unknown | {"start": NOT_JUDGED, "start_bad": False}
    start, size = directory["start"], directory["rescue_bytes"]
    kinds = f": {directory['rescue']}" if directory["rescue"] else ""
    frees = f"{human_bytes(size)} at most{kinds}" if size >= 0 else ""
    return {
        "looked": human_time(directory["looked_ms"]),
        "start": start,
        "start_why": directory["start_why"],
        "start_bad": start not in {STARTS, NOT_JUDGED},
        "rescue": frees or directory["rescue"],
    }


def _row(row: Row) -> dict[str, Any]:
    holds = [name for name in ("paused", "quarantined", "stray") if row[name]]
    reasons = "; ".join(filter(None, (*(row[name] for name in holds), row["why"])))
    delay_ms = row["compaction_delay_ms"]
    return {
        **row,
        "compacted": is_compacted(row),
        "bad": needs_attention(row),
        "holds": holds,
        "size": human_bytes(row["bytes"]),
        "due_at": human_time(row["due_at_ms"]),
        "delay": duration(delay_ms) if delay_ms else "",
        "why": reasons,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Day:
    """What one day's maintenance saved, in bytes.

    Attributes:
        reclaimed: by cleanings, then free after a purge; retained: deleted by retention, likewise.
        freed: by purges.
    """

    day: date
    reclaimed: int
    retained: int
    freed: int


def is_compacted(row: Row) -> bool:
    """Return whether the log is compacted: only then its dirty ratio has a meaning."""
    return "compact" in row["policy"].split(",")


def dirty_ratio(row: Row) -> float:
    """Return the dirty ratio of a compacted log; 0 for any other."""
    return float(row["dirty_ratio"]) if is_compacted(row) else 0.0


def needs_attention(row: Row) -> bool:
    """Return whether somebody should look at a log."""
    return bool(
        row["state"] == "refused"
        or row["quarantined"]
        or row["paused"]
        or row["stray"]
        or row["compaction_delay_ms"]
    )


def shown_rows(rows: Iterable[Row]) -> list[Row]:
    """Return the rows of the table: those that need attention, then those that are due, then the
    dirtiest, then the largest.
    """

    def order(row: Row) -> tuple[object, ...]:
        due = row["state"] == "due"
        urgent = -row["compaction_delay_ms"]
        return (not needs_attention(row), urgent, not due, -dirty_ratio(row), -row["bytes"])

    return sorted(rows, key=order)[:SHOWN_LOGS]


def deadline_counts(rows: Iterable[Row], now_ms: int) -> dict[str, int]:
    """Return the number of logs by the time to their deadline by `max.compaction.lag.ms`."""
    counts = dict.fromkeys([*(name for name, _ in DEADLINES), LATER, NEVER], 0)
    for row in rows:
        left_ms = row["due_at_ms"] - now_ms
        within = (name for name, bound_ms in DEADLINES if left_ms <= bound_ms)
        counts[NEVER if row["due_at_ms"] < 0 else next(within, LATER)] += 1
    return counts


def ratio_counts(rows: Iterable[Row]) -> list[int]:
    """Return the number of compacted logs by dirty ratio, in ten classes."""
    counts = [0] * 10
    for row in rows:
        if is_compacted(row):
            counts[min(int(row["dirty_ratio"] * 10), 9)] += 1
    return counts


def days_of(history: Iterable[Row], today: date) -> list[Day]:
    """Return what each of the last days saved, the oldest first."""
    first = today - timedelta(days=DAYS - 1)
    saved = {first + timedelta(days=number): [0, 0, 0] for number in range(DAYS)}
    place = {"clean": 0, "retain": 1, "purge": 2}
    for row in history:
        sums = saved.get(row["started_at"].astimezone(UTC).date())
        if sums is not None and row["operation"] in place:
            difference = (row["bytes_before"] or 0) - (row["bytes_after"] or 0)
            sums[place[row["operation"]]] += difference
    return [
        Day(day=day, reclaimed=sums[0], retained=sums[1], freed=sums[2])
        for day, sums in saved.items()
    ]


def passed_horizons(rows: Iterable[Row], history: Iterable[Row], now_ms: int) -> tuple[int, int]:
    """Return (logs whose earliest delete horizon has passed since their last cleaning, the longest
    time since then, ms): their next cleaning can remove tombstones or markers. Only cleanings in
    the history count, and logs that are there.
    """
    there = {row["log"] for row in rows}
    newest: dict[str, Row] = {}
    for row in history:
        before = newest.get(row["log"])
        if (
            row["operation"] == "clean"
            and row["log"] in there
            and (before is None or row["started_at"] >= before["started_at"])
        ):
            newest[row["log"]] = row
    horizons = (row["delete_horizon"] for row in newest.values())
    ages = [now_ms - int(one.timestamp() * 1000) for one in horizons if one is not None]
    past = [age for age in ages if age >= 0]
    return len(past), max(past, default=0)


def tiles(
    rows: Sequence[Row],
    spaces: Sequence[DirectorySpace],
    history: Sequence[Row],
    days: Sequence[Day],
    now_ms: int,
) -> list[tuple[str, str, bool]]:
    """Return the figures at the top: title, value, whether it needs attention."""
    overdue = sum(row["compaction_delay_ms"] > 0 for row in rows)
    worst_ms = max((row["compaction_delay_ms"] for row in rows), default=0)
    coming = [row["due_at_ms"] for row in rows if row["due_at_ms"] > now_ms]
    refused = sum(row["state"] == "refused" for row in rows)
    held = [sum(bool(row[name]) for row in rows) for name in ("paused", "quarantined", "stray")]
    delay = f"{overdue:,}, up to {duration(worst_ms)}" if overdue else "0"
    due = sum(row["state"] == "due" for row in rows)
    past, longest_ms = passed_horizons(rows, history, now_ms)
    horizons = f"{past:,}, up to {duration(longest_ms)}" if past else "0"
    deadline = f"in {duration(min(coming) - now_ms)}" if coming else "none"
    return [
        ("logs", f"{len(rows):,}", False),
        ("size", human_bytes(sum(row["bytes"] for row in rows)), False),
        ("due", f"{due:,}", False),
        ("over compaction lag", delay, overdue > 0),
        ("next deadline", deadline, False),
        ("past delete horizon", horizons, False),
        ("refused", f"{refused:,}", refused > 0),
        ("paused", f"{held[0]:,}", held[0] > 0),
        ("in quarantine", f"{held[1]:,}", held[1] > 0),
        ("stray", f"{held[2]:,}", held[2] > 0),
        (f"reclaimed in {DAYS} d", human_bytes(sum(d.reclaimed + d.retained for d in days)), False),
        (f"freed in {DAYS} d", human_bytes(sum(day.freed for day in days)), False),
        ("wait for a purge", human_bytes(sum(space.retired_bytes for space in spaces)), False),
    ]


def saved_svg(days: Sequence[Day]) -> str:
    """Return the plot of the bytes that each day's maintenance saved."""

    def draw(axes: "Axes") -> None:
        most = max(max(day.reclaimed + day.retained, day.freed) for day in days)
        if most <= 0:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "nothing was reclaimed", ha="center", transform=axes.transAxes)
            return
        unit, size = unit_of(most)
        places = range(len(days))
        reclaimed = [day.reclaimed / size for day in days]
        axes.bar(places, reclaimed, color=_CLEAN, label="cleanings")
        retained = [day.retained / size for day in days]
        axes.bar(places, retained, bottom=reclaimed, color=_RETAINED, label="retention")
        freed = [day.freed / size if day.freed else nan for day in days]
        axes.plot(places, freed, "D", color=_FREED, ms=4, label="freed by a purge")
        shown = range(len(days) - 1, -1, -7)
        axes.set_xticks(list(shown), [f"{days[place].day:%m-%d}" for place in shown])
        axes.set_xlim(-0.8, len(days) - 0.2)
        axes.set_ylim(0, most / size * 1.3)
        axes.set_ylabel(unit)
        axes.legend(frameon=False, fontsize=8, ncols=3, loc="upper left")

    return _svg("Bytes reclaimed per day", draw)


def largest_svg(rows: Sequence[Row]) -> str:
    """Return the plot of the largest logs, with their dirty part."""
    largest = sorted(rows, key=lambda row: -row["bytes"])[:LARGEST][::-1]

    def draw(axes: "Axes") -> None:
        unit, size = unit_of(max((row["bytes"] for row in largest), default=0))
        names = [_short(row["log"]) for row in largest]
        dirty = [row["bytes"] * dirty_ratio(row) / size for row in largest]
        rest = [row["bytes"] / size - part for row, part in zip(largest, dirty, strict=True)]
        places = range(len(largest))
        axes.barh(places, rest, color=_CLEAN, label="clean, or not compacted")
        axes.barh(places, dirty, left=rest, color=_DIRTY, label="dirty")
        axes.set_yticks(list(places), names)
        axes.set_xlabel(unit)
        axes.set_ylim(min(len(largest) - _LEAST_PLACES, 0) - 0.6, len(largest) - 0.4)
        axes.legend(frameon=False, fontsize=8, loc="lower right")

    return _svg(f"Largest logs ({len(largest)} of {len(rows):,})", draw)


def counts_svg(title: str, names: Sequence[str], counts: Sequence[int]) -> str:
    """Return a plot of numbers of logs by class."""

    def draw(axes: "Axes") -> None:
        from matplotlib.ticker import MaxNLocator  # noqa: PLC0415 -- it costs time

        bars = axes.bar(range(len(names)), counts, color=_CLEAN)
        axes.bar_label(bars, [f"{count:,}" if count else "" for count in counts], fontsize=8)
        axes.set_xticks(list(range(len(names))), names)
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.set_ylim(0, max(*counts, 1) * 1.15)
        axes.set_ylabel("logs")

    return _svg(title, draw)


def _short(name: str) -> str:
    """Return a name with the middle left out: its end has the partition number."""
    if len(name) <= _NAME_LENGTH:
        return name
    return f"{name[: _NAME_LENGTH // 2]}…{name[1 - _NAME_LENGTH // 2 :]}"


def _svg(title: str, draw: "Callable[[Axes], None]") -> str:
    """Return one plot without XML's and the document type's declarations, which a page has not."""
    import matplotlib as mpl  # noqa: PLC0415 -- it costs time
    from matplotlib.figure import Figure  # noqa: PLC0415

    with mpl.rc_context(dict(_SETTINGS) | {"svg.hashsalt": title}):
        figure = Figure(figsize=(6.2, 3.1), layout="constrained")
        axes = figure.subplots()
        axes.set_title(title)
        draw(axes)
        text = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(text, format="svg", transparent=True, metadata=nothing)
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]
