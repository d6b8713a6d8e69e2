"""How `plan` shows a forecast: what a cleaning removes by cause, and when a log becomes due."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from logwright.cli.output import Output, size_cell
from logwright.cli.wording import moment
from logwright.compaction.model import ReadablePlan
from logwright.forecast.model import Forecast

_CAUSES = ("superseded", "tombstones", "aborted", "null keys", "retention")

_NAMES = {"null keys": "nullKeys", "empty batches": "emptyBatches"}
"""Names of causes in JSON, where they differ."""


def reclaimed_bytes(forecast: Forecast | None) -> int | None:
    """Return the bytes that a cleaning would reclaim, without retention; None if not forecast."""
    return None if forecast is None else max(forecast.cleaned_bytes, 0)


def forecast_object(forecast: Forecast | None) -> dict[str, object]:
    """Return a forecast's fields of a plan's JSON object."""
    reclaimed: dict[str, object] = {"forecastReclaimedBytes": reclaimed_bytes(forecast)}
    if forecast is None:
        return reclaimed
    return reclaimed | {
        "forecast": {
            "causes": {
                _NAMES.get(name, name): {"bytes": removal.bytes, "records": removal.records}
                for name, removal in forecast.by_cause.items()
            },
            "addedBytes": forecast.added_bytes,
            "sampledKeys": forecast.sampled_keys,
            "errorBytes": forecast.error_bytes,
        }
    }


def show_forecasts(
    output: Output,
    plans: Sequence[ReadablePlan],
    forecasts: Mapping[str, Forecast | None],
    *,
    now_ms: int,
) -> None:
    """Print a line for each log that is forecast. Effects: stdout, text only.

    Args:
        output: where to.
        plans: of all partitions.
        forecasts: by plan id.
        now_ms: the clock.
    """
    rows = [
        (
            str(plan.log.partition),
            *(size_cell(forecast.by_cause[cause].bytes) for cause in _CAUSES),
            "all keys"
            if forecast.sampled_keys is None
            else f"{forecast.sampled_keys} keys sampled",
            due_at(plan, now_ms),
        )
        for plan in plans
        if (forecast := forecasts[plan.plan_id]) is not None
    ]
    if rows:
        output.text()
        output.table(("partition", *_CAUSES, "from", "due"), rows)


def due_at(plan: ReadablePlan, now_ms: int) -> str:
    """Return when a log is due for a cleaning, in words."""
    deadline_ms = plan.compaction.due_at_ms
    if plan.compaction.eligible:
        return "now"
    if deadline_ms is None:
        return "by its dirty ratio" if plan.config.compact else "-"
    return moment(deadline_ms, now_ms)
