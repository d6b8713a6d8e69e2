"""``logwright plan``: show what is due, when and why. Read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from logwright.cli.leaving import leave_held, say_sources, say_strays
from logwright.cli.output import human_bytes
from logwright.cli.planning import (
    FailureLog,
    plan_object,
    plan_partitions,
    show_plan,
    show_plans,
)
from logwright.cli.recover import show_recovery_first
from logwright.cli.request import Request, like_kafka_option, request_options
from logwright.cli.wording import clock
from logwright.errors import LogwrightError
from logwright.sweep.order import changes, pick_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from logwright.cli.output import Output
    from logwright.compaction.model import CleanPlan

FORECAST_BYTES: Final = 1_073_741_824
"""Without ``--forecast`` a log is forecast only up to this size, in bytes; takes seconds."""

MOST_NAMED: Final = 8
"""Maximum number of logs named in the cleaning order; --verbose names all."""


@click.command(name="plan")
@like_kafka_option
@click.option(
    "--forecast/--no-forecast",
    default=None,
    help="Read the keys to estimate reclaimed bytes [default: for logs that are due, up to 1 GiB].",
)
@request_options
def command(request: Request, *, like_kafka: bool, forecast: bool | None) -> None:
    """Show what is due, when, why, and what it would reclaim; with --verbose every reason.

    Skips partitions that are paused or in quarantine; --forecast includes quarantined ones. For a
    log that was not shut down cleanly it shows the recovery that would run first.
    """
    from logwright.compaction.model import CleaningOptions  # noqa: PLC0415 -- pydantic: not for --help

    failures = FailureLog(output=request.output)
    options = CleaningOptions(like_kafka=like_kafka)
    ready = show_recovery_first(request, failures, like_kafka=like_kafka)
    partitions = say_strays(request, leave_held(request, ready, force=forecast is True), failures)
    say_sources(request, partitions, planned=True)
    works = plan_partitions(request, partitions, failures, options=options)
    plans = [work.plan for work in works if work.plan is not None]
    forecasts = {plan.plan_id: _forecast(request, plan, failures, asked=forecast) for plan in plans}
    order = pick_order(plans)
    output = request.output
    for plan in plans:
        output.json_object(plan_object(plan) | {"forecastReclaimedBytes": forecasts[plan.plan_id]})
    output.json_object(
        {
            "now": request.now_ms,
            "pickOrder": [str(plan.log.partition) for plan in order],
            "maxCompactionDelayMs": max(
                (p.compaction.compaction_delay_ms for p in plans), default=0
            ),
            "delayedPartitions": sum(p.compaction.need_compaction_now for p in plans),
            "cleanablePartitions": len(order),
        }
    )
    output.text(f"{request.log_dir}: {clock(request.now_ms)}")
    show_plans(output, plans, forecasts)
    if output.verbose:
        output.text()
        for plan in plans:
            show_plan(plan, output.text)
    reclaimed = sum(filter(None, forecasts.values()))
    if reclaimed:
        output.text(f"A cleaning would reclaim about {human_bytes(reclaimed)}.")
    if order:
        output.text(_in_order(order, output))
    elif len(ready) == len(request.partitions()):
        output.text(f"Nothing to clean{'; segments to roll' if any(map(changes, plans)) else ''}.")
    click.get_current_context().exit(failures.exit_status)


def _in_order(order: Sequence[CleanPlan], output: Output) -> str:
    every = [str(plan.log.partition) for plan in order]
    if output.verbose or len(every) <= MOST_NAMED:
        return "In order: " + ", ".join(every)
    return f"In order: {', '.join(every[:MOST_NAMED])} and {len(every) - MOST_NAMED} more"


def _forecast(
    request: Request, plan: CleanPlan, failures: FailureLog, *, asked: bool | None
) -> int | None:
    """Return the bytes that a cleaning would reclaim, None if not estimated. Effects: may read
    keys.
    """
    cleanable = plan.compaction.cleanable_bytes > 0
    small = plan.compaction.total_bytes <= FORECAST_BYTES
    wanted = (plan.compaction.eligible and small) if asked is None else asked
    if not (wanted and cleanable):
        return 0 if asked is not False and not cleanable else None
    from logwright.cli.forecast import reclaimed_bytes  # noqa: PLC0415 -- compiled kernels

    try:
        with request.output.progress(str(plan.log.partition)) as progress:
            return reclaimed_bytes(plan, progress=progress)
    except LogwrightError as error:
        failures.add(plan.log.partition, error)
        return None
