"""The asset `kafka_logs/fleet_page`: the fleet on one static page, which needs no network."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import dagster as dg

from logwright import durable
from logwright.assets.boundary import boundary
from logwright.assets.erasure_report import countdown_rows
from logwright.assets.fleet import spaces_of
from logwright.assets.history import recent_rows
from logwright.assets.page_plots import counts_svg, largest_svg, saved_svg
from logwright.assets.page_values import (
    DAYS,
    Row,
    days_of,
    deadline_counts,
    human_bytes,
    human_ms,
    human_time,
    is_compacted,
    needs_attention,
    ratio_counts,
    shown_rows,
    tiles,
)
from logwright.assets.partitions import FLEET_INVENTORY, FLEET_PAGE, MAINTENANCE_HISTORY
from logwright.config.policy_models import DiskLimits
from logwright.erasure.outlook.countdown import Countdown, read_countdown
from logwright.errors import LogwrightError
from logwright.fleet.model import DirectorySpace
from logwright.resources.clock import Clock
from logwright.resources.erasure import countdown_path
from logwright.resources.log_dirs import LogDirs
from logwright.resources.page import page_path
from logwright.resources.policies import PolicyDirectory

_TEMPLATE = Path(__file__).with_name("fleet_page.html")
_PERCENT = 100


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
    countdown: Countdown | None = None,
) -> str:
    """Return the page. All texts are escaped.

    Args:
        rows: of the inventory (`FleetRow`).
        spaces: of the log directories.
        history: rows of the maintenance history, at least of the last days.
        limits: below which a directory is low on space.
        now_ms: the clock.
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
        spaces=[_space(space, rows, limits) for space in spaces],
        plots=[Markup(plot) for plot in plots],  # noqa: S704 -- matplotlib has escaped its texts
        rows=[_row(row) for row in shown],
        hidden=len(rows) - len(shown),
        deadlines=countdown_rows(countdown, now_ms),
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


def _space(space: DirectorySpace, rows: Sequence[Row], limits: DiskLimits) -> dict[str, Any]:
    total = max(space.total_bytes, 1)
    retired = min(_PERCENT * space.retired_bytes / total, _PERCENT)
    used = max(_PERCENT - _PERCENT * space.free_bytes / total - retired, 0)
    return asdict(space) | {
        "log_dir": str(space.log_dir),
        "logs": sum(row["log_dir"] == str(space.log_dir) for row in rows),
        "free": human_bytes(space.free_bytes),
        "total": human_bytes(space.total_bytes),
        "retired": human_bytes(space.retired_bytes),
        "retired_due": human_bytes(space.retired_due_bytes),
        "used_percent": f"{used:.2f}",
        "retired_percent": f"{retired:.2f}",
        "low": limits.is_low(space.free_bytes, space.total_bytes),
    }


def _row(row: Row) -> dict[str, Any]:
    holds = [name for name in ("paused", "quarantined", "stray") if row[name]]
    said = "; ".join(filter(None, (*(row[name] for name in holds), row["why"])))
    delay_ms = row["compaction_delay_ms"]
    return {
        **row,
        "compacted": is_compacted(row),
        "bad": needs_attention(row),
        "holds": holds,
        "size": human_bytes(row["bytes"]),
        "due_at": human_time(row["due_at_ms"]),
        "delay": human_ms(delay_ms) if delay_ms else "",
        "why": said,
    }
