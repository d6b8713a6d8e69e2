"""``logwright plan``: show what is due, when and why. Read-only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from logwright.cli.failures import FailureLog
from logwright.cli.output import Output, human_bytes
from logwright.cli.request import Request
from logwright.cli.run.forecast import forecast_object, reclaimed_bytes, show_forecasts
from logwright.cli.run.planning import plan_object, plan_partitions, show_plan, show_plans
from logwright.cli.run.recover import show_recovery_first
from logwright.cli.run.wording import clock
from logwright.cli.selection import UNKNOWN_REMEDY, leave_held, say_sources, say_strays
from logwright.compaction.model import CleaningOptions, CleanPlan
from logwright.errors import LogwrightError
from logwright.forecast.exact import forecast_exactly
from logwright.forecast.model import Forecast
from logwright.forecast.sampled import forecast_by_sample
from logwright.format.names import HIGH_WATERMARK_CHECKPOINT, TopicPartition
from logwright.log.watermark import is_without_high_watermark
from logwright.sweep.order import changes, pick_order

FORECAST_BYTES: Final = 1_073_741_824
"""Without ``--forecast`` a log is forecast only up to this size, in bytes; takes seconds."""


MOST_NAMED: Final = 8
"""Maximum number of logs named in the cleaning order; --verbose names all."""


def run(request: Request, *, like_kafka: bool, forecast: bool | None) -> None:
    """Run the command."""
    failures = FailureLog(output=request.output)
    options = CleaningOptions(like_kafka=like_kafka)
    ready = show_recovery_first(request, failures, like_kafka=like_kafka)
    partitions = say_strays(request, leave_held(request, ready, force=forecast is True), failures)
    say_sources(request, partitions, planned=True)
    _say_unknown(request, partitions)
    works = plan_partitions(request, partitions, failures, options=options)
    plans = [work.plan for work in works if work.plan is not None]
    forecasts = {plan.plan_id: _forecast(request, plan, failures, asked=forecast) for plan in plans}
    order = pick_order(plans)
    output = request.output
    for plan in plans:
        output.json_object(plan_object(plan) | forecast_object(forecasts[plan.plan_id]))
    output.json_object(
        {
            "now": request.now_ms,
            "kafkaVersionFrom": request.sources().kafka.sentence,
            "pickOrder": [str(plan.log.partition) for plan in order],
            "maxCompactionDelayMs": max(
                (p.compaction.compaction_delay_ms for p in plans), default=0
            ),
            "delayedPartitions": sum(p.compaction.need_compaction_now for p in plans),
            "cleanablePartitions": len(order),
        }
    )
    output.text(f"{request.log_dir}: {clock(request.now_ms)}")
    show_plans(output, plans, {name: reclaimed_bytes(one) for name, one in forecasts.items()})
    if forecast:
        show_forecasts(output, plans, forecasts, now_ms=request.now_ms)
    if output.verbose:
        output.text()
        for plan in plans:
            show_plan(plan, output.text)
    reclaimed = sum(reclaimed_bytes(one) or 0 for one in forecasts.values())
    if reclaimed > 0:
        output.text(f"A cleaning would reclaim about {human_bytes(reclaimed)}.")
    if order:
        output.text(_in_order(order, output))
    elif len(ready) == len(request.partitions()):
        output.text(f"Nothing to clean{'; segments to roll' if any(map(changes, plans)) else ''}.")
    _say_lost(output, plans)
    click.get_current_context().exit(failures.exit_status)


def _say_lost(output: Output, plans: Sequence[CleanPlan]) -> None:
    """Say of how many logs nothing is cleaned because their high watermark is not on record.
    Effects: stderr.
    """
    lost = [plan for plan in plans if is_without_high_watermark(plan.log)]
    if lost:
        output.message(
            f"The high watermark of {len(lost)} of {len(plans)} partitions is not in"
            f" {HIGH_WATERMARK_CHECKPOINT}: nothing of them counts as committed, so nothing is"
            " cleaned, and no old segment deleted. Restore that file, or use all of the log:"
            " --high-watermark end, or high_watermark: end in the policies."
        )


def _say_unknown(request: Request, partitions: Sequence[TopicPartition]) -> None:
    """Say that there is no metadata, if a topic's policy is unknown without it. Effects: stderr."""
    if request.sources().metadata is not None:
        return
    topics = sorted({one.topic for one in partitions})
    unknown = [one for one in topics if not _policy_is_known(request, one)]
    if unknown:
        request.output.message(
            "No cluster metadata of this node was found, and the cleanup.policy of"
            f" {len(unknown)} of {len(topics)} topics is unknown. {UNKNOWN_REMEDY}"
        )


def _policy_is_known(request: Request, topic: str) -> bool:
    try:
        return request.settings(topic)[0].policy_known
    except LogwrightError:
        return True  # the plan says what is wrong


def _in_order(order: Sequence[CleanPlan], output: Output) -> str:
    every = [str(plan.log.partition) for plan in order]
    if output.verbose or len(every) <= MOST_NAMED:
        return "In order: " + ", ".join(every)
    return f"In order: {', '.join(every[:MOST_NAMED])} and {len(every) - MOST_NAMED} more"


def _forecast(
    request: Request, plan: CleanPlan, failures: FailureLog, *, asked: bool | None
) -> Forecast | None:
    """Return what a cleaning would remove, None if not forecast. Effects: may read keys."""
    small = plan.compaction.total_bytes <= FORECAST_BYTES
    wanted = (plan.compaction.eligible and small) if asked is None else asked
    if not wanted and (asked is False or plan.compaction.cleanable_bytes > 0):
        return None
    try:
        if not small:
            return forecast_by_sample(plan)
        with request.output.progress(str(plan.log.partition)) as progress:
            return forecast_exactly(plan, progress=progress)
    except LogwrightError as error:
        failures.add(plan.log.partition, error)
        return None
