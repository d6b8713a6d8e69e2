"""``logwright plan``: show what is due, when and why. Read-only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from logwright.cli.output import Output, human_bytes
from logwright.cli.recovering import recover_first
from logwright.cli.request import Request
from logwright.cli.run.forecast import forecast_object, reclaimed_bytes, show_forecasts
from logwright.cli.run.plan_running import broker_object, exact_place, show_broker
from logwright.cli.run.planning import plan_lines, plan_object, plan_partitions, show_plans
from logwright.cli.run.upkeep import LogUpkeep, due_line, upkeep_of
from logwright.cli.selection import UNKNOWN_REMEDY, leave_held, leave_strays, report_sources
from logwright.cli.wording import clock
from logwright.compaction.model import CleaningOptions, ReadablePlan
from logwright.errors import LogwrightError
from logwright.forecast.exact import forecast_exactly
from logwright.forecast.model import Forecast
from logwright.forecast.sampled import forecast_by_sample
from logwright.format.names import HIGH_WATERMARK_CHECKPOINT, TopicPartition
from logwright.log.watermark import is_without_high_watermark
from logwright.place.model import Place, is_running, reading
from logwright.running.place import RunningPlace
from logwright.sweep.order import changes, pick_order

FORECAST_BYTES: Final = 1_073_741_824
"""Without ``--forecast`` a log is forecast only up to this size, in bytes; takes seconds."""

MOST_NAMED: Final = 8
"""Maximum number of logs named in the cleaning order; --verbose names all."""


def run(request: Request, *, like_kafka: bool, forecast: bool | None) -> None:
    """Run the command."""
    request = replace(request, dry_run=True)
    options = CleaningOptions(like_kafka=like_kafka)
    partitions = request.partitions()
    request.sources()  # what is wrong with them is wrong for all logs: said once
    served = leave_strays(request, partitions)
    recovered = recover_first(request, served, like_kafka=like_kafka)
    logs = leave_held(request, recovered, force=forecast is True)
    report_sources(request, logs)
    _report_unknown(request, logs)
    plans = _plan(request, request.place, logs, options)
    if is_running(request.place):
        plans = _planned_exactly(request, plans, options, is_wanted=forecast)
    upkeep = upkeep_of(request, plans)  # before a log that cannot be forecast is looked at again
    forecasts = {plan.plan_id: _forecast(request, plan, is_wanted=forecast) for plan in plans}
    order = pick_order(plans)
    if request.output.is_json:
        _show_objects(request, upkeep, forecasts, order)
    else:
        _show_text(request, upkeep, forecasts, with_causes=forecast is True)
        if order:
            request.output.text(_in_order(order, request.output))
        elif len(recovered) == len(served):
            rolls = "; segments to roll" if any(map(changes, plans)) else ""
            request.output.text(f"Nothing to clean{rolls}.")
        also = due_line(upkeep)
        if also is not None:
            request.output.text(also)
    _report_lost(request.output, plans)


def _plan(
    request: Request, place: Place, logs: Sequence[TopicPartition], options: CleaningOptions
) -> list[ReadablePlan]:
    """Return the plans of the logs that can be planned. Effects: as `plan_partitions`."""
    works = plan_partitions(request, place, logs, options=options)
    return [work.plan for work in works if work.plan is not None]


def _planned_exactly(
    request: Request,
    plans: Sequence[ReadablePlan],
    options: CleaningOptions,
    *,
    is_wanted: bool | None,
) -> list[ReadablePlan]:
    """Return the plans of a running broker's logs; those of logs whose keys are read for a forecast
    are made again, of pictures that are good for that. Effects: as `exact_place` and `_plan`.
    """
    read = [plan for plan in plans if _reads_keys(plan, is_wanted=is_wanted)]
    if not read:
        return list(plans)
    partitions = [plan.log.partition for plan in read]
    again = _plan(request, exact_place(request.place, partitions), partitions, options)
    old = {plan.plan_id for plan in read}
    first = [plan for plan in plans if plan.plan_id not in old]
    return sorted([*first, *again], key=lambda plan: plan.log.partition)


def _show_objects(
    request: Request,
    works: Sequence[LogUpkeep],
    forecasts: Mapping[str, Forecast | None],
    order: Sequence[ReadablePlan],
) -> None:
    for work in works:
        forecast = forecast_object(forecasts[work.plan.plan_id])
        request.output.result(None, **plan_object(work.plan), **work.as_object(), **forecast)
    compactions = [work.plan.compaction for work in works]
    request.output.result(
        None,
        now=request.now_ms,
        kafkaVersionFrom=request.sources().kafka.sentence,
        **_watermark_object(request),
        **broker_object(request.place),
        pickOrder=[str(plan.log.partition) for plan in order],
        maxCompactionDelayMs=max((each.compaction_delay_ms for each in compactions), default=0),
        delayedPartitions=sum(each.need_compaction_now for each in compactions),
        cleanablePartitions=len(order),
    )


def _watermark_object(request: Request) -> dict[str, object]:
    """Return the fields of JSON about what counts as committed."""
    if is_running(request.place):
        return {"highWatermark": "checkpoint", "highWatermarkFrom": "a broker runs"}
    return {
        "highWatermark": request.high_watermark,
        "highWatermarkFrom": request.high_watermark_from,
    }


def _show_text(
    request: Request,
    works: Sequence[LogUpkeep],
    forecasts: Mapping[str, Forecast | None],
    *,
    with_causes: bool,
) -> None:
    output, plans = request.output, [work.plan for work in works]
    reclaimed = {name: reclaimed_bytes(forecast) for name, forecast in forecasts.items()}
    committed = {
        "end": "the end of each log",
        "checkpoint": HIGH_WATERMARK_CHECKPOINT,
        "recorded": f"{HIGH_WATERMARK_CHECKPOINT}, and the end of logs that it does not have",
    }[request.high_watermark]
    output.text(f"{request.place}: {clock(request.now_ms)}")
    if isinstance(request.place, RunningPlace):
        show_broker(output, request.place)
    else:
        output.text(f"high watermark: {committed} ({request.high_watermark_from})")
    show_plans(output, works, reclaimed)
    if with_causes:
        show_forecasts(output, plans, forecasts, now_ms=request.now_ms)
    if output.verbose:
        output.text()
        for plan in plans:
            for line in plan_lines(plan):
                output.text(line)
    total = sum(size or 0 for size in reclaimed.values())
    if total > 0:
        output.text(f"A cleaning would reclaim about {human_bytes(total)}.")


def _report_lost(output: Output, plans: Sequence[ReadablePlan]) -> None:
    """Report of how many logs nothing is cleaned because their high watermark is not on record.
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


def _report_unknown(request: Request, partitions: Sequence[TopicPartition]) -> None:
    """Report that there is no metadata, if a topic's policy is unknown without it."""
    if request.sources().metadata is not None:
        return
    topics = sorted({partition.topic for partition in partitions})
    unknown = [topic for topic in topics if not _policy_is_known(request, topic)]
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


def _in_order(order: Sequence[ReadablePlan], output: Output) -> str:
    every = [str(plan.log.partition) for plan in order]
    if output.verbose or len(every) <= MOST_NAMED:
        return "In order: " + ", ".join(every)
    return f"In order: {', '.join(every[:MOST_NAMED])} and {len(every) - MOST_NAMED} more"


def _reads_keys(plan: ReadablePlan, *, is_wanted: bool | None) -> bool:
    """Return whether the keys of a log are read to forecast it."""
    small = plan.compaction.total_bytes <= FORECAST_BYTES
    wanted = (plan.compaction.eligible and small) if is_wanted is None else is_wanted
    return wanted and plan.compaction.cleanable_bytes > 0


def _forecast(request: Request, plan: ReadablePlan, *, is_wanted: bool | None) -> Forecast | None:
    """Return what a cleaning would remove, None if not forecast. Effects: may read keys."""
    cleanable = plan.compaction.cleanable_bytes > 0
    if is_wanted is False or (cleanable and not _reads_keys(plan, is_wanted=is_wanted)):
        return None
    forecast = None
    with request.failures.of(plan.log.partition), reading(plan.log.log_dir):
        if plan.compaction.total_bytes <= FORECAST_BYTES:
            with request.output.progress(str(plan.log.partition)) as progress:
                forecast = forecast_exactly(plan, progress=progress)
        else:
            forecast = forecast_by_sample(plan)
    return forecast
