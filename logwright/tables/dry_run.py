"""What an update of a topic's table would do. Nothing is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from logwright.errors import LogwrightError
from logwright.latest.plan import plan_latest
from logwright.tables.evolution import Chosen, OtherColumns, choose
from logwright.tables.growth import ColumnChange, changes_of
from logwright.tables.logs import TopicLog, source_of
from logwright.tables.model import Snapshot
from logwright.tables.plan import PartitionStep, made_again
from logwright.tables.topic import (
    LocatedTable,
    open_store,
    require_columns,
    require_outside,
    table_errors,
    topic_of,
)
from logwright.tables.update import plan_source, recorded_of
from logwright.tables.whole_topic import together
from logwright.tables.work import PartitionSource


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPartition:
    """What would be done for one partition.

    Attributes:
        bytes: ``.log`` bytes that would be read.
    """

    partition: int
    step: PartitionStep
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedUpdate:
    """What an update would do.

    Attributes:
        changes: of the columns; of a table that is not there all are added.
        again: why the table would be made again from its whole log; empty: it would not.
        refusal: why the update would be refused; None: it would not.
        unknown: names of fields that new records have and the columns do not.
        partitions: those that can be planned; failures: partition → error, of the others.
    """

    changes: tuple[ColumnChange, ...]
    again: str
    refusal: OtherColumns | None
    unknown: tuple[str, ...]
    partitions: tuple[PlannedPartition, ...]
    failures: Mapping[int, LogwrightError]


def plan_update(
    place: LocatedTable, logs: Sequence[TopicLog], *, now_ms: int, rebuild: bool = False
) -> PlannedUpdate:
    """Return what `update_topic` would do. Effects: reads the table, and of the logs what decides
    on the columns; takes no lock.

    Raises:
        LogwrightError: as `update_topic`.
    """
    require_outside(place, {each.log.log_dir for each in logs})
    with table_errors(place):
        store = open_store(place)
        known = store.load()
        sources = [source_of(each, now_ms=now_ms) for each in logs]
        chosen = choose(topic_of(place, store, known, (logs, sources)), rebuild=rebuild)
        if chosen.refusal is None:
            require_columns(place, store, chosen.columns)
        (steps, failures) = _steps(place, known, sources, chosen)
    changes = chosen.changes
    if known is None:
        changes = changes_of(pa.schema([]), chosen.columns.stored)
    by_number = {each.partition: each for each in logs}
    return PlannedUpdate(
        changes=changes,
        again=chosen.again,
        refusal=chosen.refusal,
        unknown=chosen.unknown,
        partitions=tuple(
            PlannedPartition(partition=number, step=step, bytes=_bytes(by_number[number], step))
            for number, step in steps.items()
        ),
        failures=failures,
    )


def _steps(
    place: LocatedTable,
    known: Snapshot | None,
    sources: Sequence[PartitionSource],
    chosen: Chosen,
) -> tuple[dict[int, PartitionStep], dict[int, LogwrightError]]:
    """Return the step of each partition, and why others have none. Effects: reads headers."""
    recorded = {} if known is None else recorded_of(known, sources)
    steps, failures = {}, {}
    for source in sources:
        number = source.partition
        try:
            step = plan_source(source, recorded.get(number), place.table.keep_versions_ms)
            steps[number] = made_again(step, chosen.again) if chosen.again else step
        except LogwrightError as error:
            failures[number] = error.as_value()
    if place.table.remembers_keys:
        steps = together(place.table.unique, steps, recorded, "")
    return steps, failures


def _bytes(log: TopicLog, step: PartitionStep) -> int:
    """Return the bytes of a log that hold what a step reads. Effects: reads an index."""
    if step.kind == "nothing":
        return 0
    plan = plan_latest(
        log.log, start_offset=step.start_offset, end_offset=step.end_offset, cleaner=log.cleaner
    )
    return 0 if plan.records is None else plan.records.bytes
