"""Random log directories of up to eight partitions: what Kafka's cleaner manager decides about each
and in which order it would clean them, and what we do.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logwright.cli.run.planning import plan_object
from logwright.compaction.model import CleaningOptions, CleanPlan
from logwright.format.names import TopicPartition
from logwright.sweep.order import pick_order
from logwright.sweep.plan import plan_cleaning
from logwright.units import TimestampMs
from tests.differential.oracle_server import Answer, OracleServer
from tests.differential.random_logs import Shape, settings_of

LIKE_KAFKA = CleaningOptions(like_kafka=True)
SMALL: Shape = {"batches": [2, 40], "earlierCleanings": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOutcome:
    """What one directory showed.

    Attributes:
        coverage: how many of its partitions had a thing.
    """

    seed: int
    differences: tuple[str, ...]
    coverage: Counter[str] = field(default_factory=Counter)


def run_plans(
    server: OracleServer, seeds: Sequence[int], shape: Shape, scratch: Path
) -> Generator[PlanOutcome, None, None]:
    """The outcome of each seed. Kafka works on the next directory while we work on this one."""
    requests = (
        {"request": "plan", "seed": seed, "out": str(scratch / f"{seed}"), "shape": shape}
        for seed in seeds
    )
    with closing(server.ask_ahead(requests)) as answers:
        for seed, answer in zip(seeds, answers, strict=True):
            yield _outcome(answer, seed, scratch)


def _outcome(answer: Answer, seed: int, scratch: Path) -> PlanOutcome:
    root = scratch / f"{seed}"
    try:
        if "cleanerFailed" in answer:
            failed = Counter({"directories that Kafka's cleaner failed to make": 1})
            return PlanOutcome(seed=seed, differences=(), coverage=failed)
        kafkas = answer["plan"]
        plans = [_plan(answer, root / "before", one) for one in kafkas["partitions"]]
    finally:
        shutil.rmtree(root, ignore_errors=True)
    differing = [
        difference
        for kafkas_plan, plan in zip(kafkas["partitions"], plans, strict=True)
        for difference in compare_plan(kafkas_plan, plan_object(plan))
    ]
    differing += compare_order(kafkas, plans)
    return PlanOutcome(seed=seed, differences=tuple(differing), coverage=_coverage(kafkas, plans))


def _plan(answer: Answer, log_dir: Path, kafkas_plan: dict[str, Any]) -> CleanPlan:
    partition = TopicPartition.parse(kafkas_plan["topicPartition"])
    assert partition is not None
    return plan_cleaning(
        log_dir,
        partition,
        settings_of(answer, answer["topicConfigs"][partition.topic]),
        now_ms=TimestampMs(answer["now"]),
        options=LIKE_KAFKA,
        high_watermark=answer["highWatermark"],
    )


def compare_plan(kafkas: dict[str, Any], ours: dict[str, object]) -> list[str]:
    """The differences between the oracle's view of a partition and ours, in all that it says."""
    partition = kafkas["topicPartition"]
    return [
        f"{name}: {partition}: expected {value}, got {ours.get(name)}"
        for name, value in kafkas.items()
        if ours.get(name) != value
    ]


def compare_order(kafkas: dict[str, Any], plans: list[CleanPlan]) -> list[str]:
    """The differences in what is picked in which order.

    Of equal ratios Kafka takes any first, by the order of a hash map; ours go by name.
    """
    ratios = {one["topicPartition"]: one["cleanableRatio"] for one in kafkas["partitions"]}
    picked = pick_order(plans)
    wanted = sorted(kafkas["pickOrder"], key=lambda name: (-ratios[name], name))
    got = [str(plan.log.partition) for plan in picked]
    differing = [] if wanted == got else [f"pickOrder: expected {wanted}, got {got}"]
    in_order = [ratios[name] for name in kafkas["pickOrder"]]
    if in_order != sorted(in_order, reverse=True):
        differing.append(f"pickOrder: Kafka's is not by ratio: {in_order}")
    delays = [plan.compaction.compaction_delay_ms for plan in plans if plan.config.compact]
    figures = {
        "maxCompactionDelayMs": max(delays, default=0),
        "delayedPartitions": sum(delay > 0 for delay in delays),
        "cleanablePartitions": len(picked),
    }
    return differing + [
        f"{name}: expected {kafkas[name]}, got {value}"
        for name, value in figures.items()
        if kafkas[name] != value
    ]


def _coverage(kafkas: dict[str, Any], plans: list[CleanPlan]) -> Counter[str]:
    seen: Counter[str] = Counter(partitions=len(plans))
    for kafkas_plan, plan in zip(kafkas["partitions"], plans, strict=True):
        checkpoint, start = kafkas_plan["checkpointedOffset"], kafkas_plan["logStartOffset"]
        bases = [segment.base_offset for segment in plan.log.segments]
        lags = plan.config.min_compaction_lag_ms > 0
        seen.update(
            name
            for name, true in {
                "eligible": kafkas_plan["eligible"],
                "eligible by the lag alone": kafkas_plan["eligible"]
                and kafkas_plan["cleanableRatio"] <= kafkas_plan["minCleanableRatio"],
                "not compacted": not kafkas_plan["compact"],
                "checkpoint below the start": checkpoint is not None and checkpoint < start,
                "checkpoint beyond the end": (checkpoint or 0) > kafkas_plan["logEndOffset"],
                "checkpoint inside a segment": checkpoint is not None
                and start <= checkpoint <= kafkas_plan["logEndOffset"]
                and checkpoint not in bases,
                "no checkpoint": checkpoint is None,
                "start inside a segment": start not in bases,
                "held back by the minimum lag": lags
                and kafkas_plan["firstUncleanableDirtyOffset"]
                < min(kafkas_plan["lastStableOffset"], bases[-1]),
                "held back by a transaction": kafkas_plan["lastStableOffset"]
                < kafkas_plan["highWatermark"],
                "held back by the high watermark": kafkas_plan["highWatermark"] < bases[-1],
                "delayed": kafkas_plan["compactionDelayMs"] > 0,
                "nothing dirty": kafkas_plan["cleanableBytes"] == 0,
            }.items()
            if true
        )
    seen["directories with several eligible"] += len(kafkas["pickOrder"]) > 1
    return seen
