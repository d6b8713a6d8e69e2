"""Append rows to the logs of topics: which partition each row goes to, and the stages of an append.

Who stages is given: Spark tasks (`logwright.spark.ingest`), or one process
(`logwright.spark.kafka_log_write`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from logwright.config.topic import TopicConfig
from logwright.errors import PolicyError, RefusedRecord, invariant
from logwright.format.names import TopicPartition
from logwright.ingest.columns import byte_column
from logwright.ingest.commit import commit_append, plan_append, stage_append
from logwright.ingest.model import Appended, AppendOptions, AppendPlan, StagedAppend
from logwright.ingest.partitioner import UNKNOWN, assign_partitions
from logwright.ingest.replicated import refuse_replicated
from logwright.ingest.staging import staging
from logwright.log.load import list_partitions
from logwright.units import TimestampMs

Stage = Callable[[Sequence[TopicPartition], Sequence[AppendPlan | None]], dict[int, StagedAppend]]
"""Stages all rows. Slots and the plan of each, None if it has its rows already → slot → output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The topics that rows are appended to.

    Attributes:
        topic: the topic of all rows; None if each row has its own.
        partitions: topic → partition count; missing partitions are created.
        settings: topic → its settings.
        topic_ids: topic → id of new partitions, if the topic has none yet.
        replicas_of: the node ids of a partition's replicas by the cluster's metadata.
    """

    log_dir: Path
    topic: str | None
    partitions: Mapping[str, int]
    settings: Mapping[str, TopicConfig]
    ingest_id: str
    now_ms: TimestampMs
    options: AppendOptions = field(default_factory=AppendOptions)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    replicas_of: Callable[[TopicPartition], Sequence[int]] = lambda _: ()


def partition_counts(log_dir: Path, topics: Iterable[str], wanted: int) -> dict[str, int]:
    """Return the partition count of each topic: the current one, or `wanted` if that is larger.
    Effects: lists the log directory, which `prepare_log_dir` has made one.

    Raises:
        PolicyError: a topic does not exist, and no partition count is given.
    """
    present: dict[str, int] = {}
    for listed in list_partitions(log_dir):
        present[listed.topic] = max(present.get(listed.topic, 0), listed.partition + 1)
    counts = {topic: max(present.get(topic, 0), wanted) for topic in topics}
    for topic, count in counts.items():
        if count == 0:
            raise PolicyError(
                f"topic {topic} does not exist, and no partition count was given.",
                remedy="Give one, for example with --partitions.",
            )
    return counts


def append_rows(
    target: Target, stage: Stage, *, before_commit: Callable[[], None] | None = None
) -> list[Appended]:
    """Append rows that `stage` stages; see `ingest_frame`. Effects: changes the logs, one after the
    other.
    """
    slots = slots_of(target.partitions)
    for partition in slots:
        refuse_replicated(target.log_dir, partition, target.replicas_of(partition))
    plans: list[AppendPlan | None] = []
    results: dict[int, Appended] = {}
    for slot, partition in enumerate(slots):
        plan = plan_append(
            target.log_dir,
            partition,
            target.settings[partition.topic],
            ingest_id=target.ingest_id,
            now_ms=target.now_ms,
            options=target.options,
            topic_id=target.topic_ids.get(partition.topic),
        )
        if isinstance(plan, Appended):
            results[slot] = plan
        plans.append(plan if isinstance(plan, AppendPlan) else None)
    with staging([plan for plan in plans if plan is not None]):
        staged = stage(slots, plans)
        for slot, slot_plan in enumerate(plans):
            if slot_plan is not None and slot_plan.log is None and slot not in staged:
                staged[slot] = stage_append(slot_plan, [])
        if before_commit is not None:
            before_commit()
        for slot in sorted(staged):
            planned = plans[slot]
            invariant(planned is not None, "what was done before is not staged again")
            results[slot] = commit_append(cast("AppendPlan", planned), staged[slot])
    return [results[slot] for slot in sorted(results)]


def slots_of(counts: Mapping[str, int]) -> list[TopicPartition]:
    """Return all partitions of topics with these partition counts; a slot is a place among them."""
    return [TopicPartition(topic, n) for topic in sorted(counts) for n in range(counts[topic])]


def first_slots(slots: Sequence[TopicPartition]) -> dict[str, tuple[int, int]]:
    """Return topic → (its first slot, its partition count)."""
    first: dict[str, tuple[int, int]] = {}
    for slot, partition in enumerate(slots):
        begin, count = first.get(partition.topic, (slot, 0))
        first[partition.topic] = (begin, count + 1)
    return first


def place_rows(first: Mapping[str, tuple[int, int]], batch: pa.RecordBatch) -> NDArray[np.int32]:
    """Return the slot of each row, int32[n]; UNKNOWN if its topic or partition does not exist.

    Args:
        first: topic → (its first slot, its partition count), see `first_slots`.
        batch: with columns topic, partition, key and value, see `_canonical`; not empty.
    """
    topics = batch["topic"].dictionary_encode()
    places = [first.get(name, (0, 0)) for name in topics.dictionary.to_pylist()]
    begins = np.array([begin for begin, _ in places] or [0], dtype=np.int64)
    counts = np.array([count for _, count in places] or [0], dtype=np.int64)
    index = topics.indices.fill_null(0).to_numpy(zero_copy_only=False)
    unnamed = batch["topic"].is_null().to_numpy(zero_copy_only=False)
    given = batch["partition"].fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    wrong = (given < 0) & batch["partition"].is_valid().to_numpy(zero_copy_only=False)
    given[wrong] = np.iinfo(np.int64).min
    chosen = assign_partitions(
        given,
        byte_column(batch["key"]),
        byte_column(batch["value"]),
        np.where(unnamed, 0, counts[index]),
    )
    return np.where(chosen == UNKNOWN, UNKNOWN, begins[index] + chosen).astype(np.int32)


def no_such_partition() -> RefusedRecord:
    """Return the error of a row whose slot is UNKNOWN."""
    return RefusedRecord(
        "a row has a topic or partition that does not exist.",
        remedy="Nothing was appended. Fix the input, or increase the number of partitions.",
    )
