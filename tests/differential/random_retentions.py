"""Random log directories with random retention: what Kafka's own deletion leaves and says of each
partition, and what ours does.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from logwright.cli.run.retain import plan_object
from logwright.config.topic import TopicConfig
from logwright.format.names import TopicPartition
from logwright.purge.commit import purge_partition
from logwright.retention.commit import plan_retention_of
from logwright.retention.plan import RetentionPlan
from logwright.sweep.retain import retain
from logwright.units import TimestampMs
from tests.comparison import compare_checkpoints, compare_partition, stray_snapshots
from tests.differential.oracle_server import Answer, OracleServer
from tests.differential.random_logs import Shape, settings_of

SMALL: Shape = {"batches": [2, 40], "earlierCleanings": 1}
WATERMARKS = "checkpoint: replication-offset-checkpoint"
REASONS = ("org.slf4j.simpleLogger.log.org.apache.kafka.storage.internals.log.UnifiedLog=info",)
"""With this property the oracle gives the reasons that Kafka logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionOutcome:
    """What one directory showed.

    Attributes:
        coverage: how many of its partitions had a thing.
    """

    seed: int
    differences: tuple[str, ...]
    coverage: Counter[str] = field(default_factory=Counter)


def run_retentions(
    server: OracleServer, seeds: Sequence[int], shape: Shape, scratch: Path
) -> Generator[RetentionOutcome, None, None]:
    """The outcome of each seed. Kafka works on the next directory while we work on this one."""
    requests = (
        {"request": "retain", "seed": seed, "out": str(scratch / f"{seed}"), "shape": shape}
        for seed in seeds
    )
    with closing(server.ask_ahead(requests)) as answers:
        for seed, answer in zip(seeds, answers, strict=True):
            yield _outcome(answer, seed, scratch)


def _outcome(answer: Answer, seed: int, scratch: Path) -> RetentionOutcome:
    root = scratch / f"{seed}"
    try:
        if "cleanerFailed" in answer:
            failed = Counter({"directories that Kafka's cleaner failed to make": 1})
            return RetentionOutcome(seed=seed, differences=(), coverage=failed)
        differing: list[str] = []
        coverage: Counter[str] = Counter()
        for kafkas in answer["retain"]:
            differences, plan = _retain_and_compare(answer, kafkas, root)
            differing += differences
            coverage += _coverage(kafkas, plan)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return RetentionOutcome(seed=seed, differences=tuple(differing), coverage=coverage)


def _retain_and_compare(
    answer: Answer, answered: dict[str, Any], root: Path
) -> tuple[list[str], RetentionPlan]:
    """Effects: changes `before`."""
    ours, kafkas = root / "before", root / "after"
    partition = TopicPartition.parse(answered["topicPartition"])
    assert partition is not None
    name = partition.directory_name
    config, _ = settings_of(answer, answer["topicConfigs"][partition.topic])
    plan = _plan(answer, answered, ours, partition, config)
    differing = [
        f"plan: {name}: {difference}"
        for difference in compare_results(answered, plan_object(plan, done=True))
    ]
    stray = stray_snapshots(ours / name, log_start_offset=plan.log.log_start_offset)
    retain(plan)
    again = _plan(answer, answered, ours, partition, config)
    if again.deleted or again.log_start_offset != plan.log_start_offset:
        differing.append(f"again: {name}: {len(again.deleted)} segments go")
    later = TimestampMs(answer["now"] + config.file_delete_delay_ms)
    purge_partition(ours, partition, now_ms=later, file_delete_delay_ms=config.file_delete_delay_ms)
    files = compare_partition(kafkas, ours, name)
    differing += [one for one in files if not one.endswith(stray)]
    checkpoints = compare_checkpoints(kafkas, ours, name)
    return differing + [one for one in checkpoints if not one.startswith(WATERMARKS)], plan


def _plan(
    answer: Answer,
    kafkas: dict[str, Any],
    log_dir: Path,
    partition: TopicPartition,
    config: TopicConfig,
) -> RetentionPlan:
    before = kafkas["deleteRecordsBefore"]
    return plan_retention_of(
        log_dir,
        partition,
        config,
        now_ms=TimestampMs(answer["now"]),
        high_watermark=answer["highWatermark"],
        delete_records_before=None if before < 0 else before,
    )


OF_THE_REQUEST = ("segmentsBefore", "deleted", "op", "deleteRecordsBefore", "highWatermark")


def compare_results(kafkas: dict[str, Any], ours: dict[str, Any]) -> list[str]:
    """The differences of what was decided, of each segment too, with Kafka's own reasons."""
    start = max(kafkas.get("deleteRecordsBefore", -1), ours["logStartOffsetBefore"])
    reported = ours | {"logStartOffsetBefore": start}
    differing = [
        f"{name}: expected {value}, got {reported.get(name)}"
        for name, value in kafkas.items()
        if name not in OF_THE_REQUEST and value != reported.get(name)
    ]
    for wanted, got in zip(kafkas["segmentsBefore"], ours["segmentsBefore"], strict=True):
        differing += [f"{name}: {got}" for name, value in wanted.items() if value != got[name]]
    reasons = {one["baseOffset"]: one["reason"] for one in kafkas["deleted"]}
    deleted = {one["baseOffset"]: one for one in ours["segmentsBefore"] if one["deleted"]}
    if reasons.keys() != deleted.keys():
        return [*differing, f"deleted: expected {sorted(reasons)}, got {sorted(deleted)}"]
    return differing + [
        f"reason of {base}: expected {reasons[base]!r}, got {kafkas_reason(cause)!r}"
        for base, cause in deleted.items()
        if reasons[base] != kafkas_reason(cause)
    ]


def kafkas_reason(segment: dict[str, Any]) -> str:
    """Kafka's audit line made of our cause and numbers: the facts are the same."""
    limit = segment["limit"]
    if segment["cause"] == "time":
        whose = "largest record timestamp in the segment"
        if not segment["timestampFromRecords"]:
            whose = "last modified time of the segment"
        return f"log retention time {limit}ms breach based on the {whose}"
    if segment["cause"] == "size":
        left = f"Log size after deletion will be {segment['value']}."
        return f"log retention size {limit} breach. {left}"
    return f"log start offset {limit} breach"


def _coverage(kafkas: dict[str, Any], plan: RetentionPlan) -> Counter[str]:
    causes = {verdict.cause for verdict in plan.deleted}
    kept = [verdict for verdict in plan.verdicts if not verdict.deleted]
    first = kept[0].base_offset if kept else plan.log.log_end_offset
    why = kept[0].reason if kept else ""
    true = {
        "partitions": True,
        "nothing goes": not plan.deleted,
        "by log start offset": "log start offset" in causes,
        "by size": "size" in causes,
        "by time": "time" in causes,
        "by several": len(causes) > 1,
        "all": plan.rolls,
        "records deleted": kafkas["deleteRecordsBefore"] >= 0,
        "start inside a segment": plan.log_start_offset > first,
        "held back by the high watermark": "not committed" in why,
        "held back by the future": "in the future" in why,
        "by file time": any(not verdict.from_records for verdict in plan.deleted),
    }
    return Counter(name for name, holds in true.items() if holds)
