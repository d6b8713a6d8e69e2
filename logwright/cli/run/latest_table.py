"""How `latest` makes and updates a table: by `logwright.tables`, as the assets do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from logwright.cli.options.latest import Given
from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.config.decoding import spec_named
from logwright.config.table import TopicTable, tables_of
from logwright.errors import PreconditionError, QualityError
from logwright.latest.model import LatestPlan
from logwright.log.model import ReadableLog
from logwright.log.topic_id import read_topic_id
from logwright.place.files import open_partition_dir
from logwright.tables.logs import TopicLog
from logwright.tables.model import Snapshot
from logwright.tables.topic import (
    QUARANTINE,
    LocatedTable,
    TopicUpdate,
    open_store,
    table_errors,
    update_topic,
)
from logwright.tables.work import PartitionResult


def write_table(
    request: Request,
    given: Given,
    logs: Sequence[tuple[ReadableLog, LatestPlan]],
    *,
    is_past: bool,
) -> int:
    """Make or update a table; return the exit status, which is 6 if no record could be decoded.
    Effects: reads the logs, writes the table; output.

    Args:
        logs: each partition's log and plan.
        is_past: the table has the state as of a point in the past.

    Raises:
        PreconditionError: there is a table already, and a state in the past is asked for.
        LogwrightError: as `update_topic`.
    """
    (topic,) = given["topics"]
    place = _place(request, topic, given)
    if is_past:
        _require_new(place)
    read = [_topic_log(request, log, plan) for log, plan in logs]
    with request.output.progress(topic) as progress:
        update = update_topic(place, read, now_ms=request.now_ms, progress=progress)
    _show(request, place, update)
    partitions = {each.partition: each.log.partition for each in read}
    for number, error in update.result.failures.items():
        request.failures.add(partitions[number], error)
    return QualityError.exit_status if update.only_refused else 0


def _place(request: Request, topic: str, given: Given) -> LocatedTable:
    """Return the table; what the options do not say is as the topic's entry in the policies has
    it.
    """
    tables = {} if request.policies is None else tables_of(request.policies)
    entry = tables.get(topic)
    chosen: dict[str, Any] = {} if entry is None else {"key": entry.key, "value": entry.value}
    if entry is not None:
        names = ("buckets", "keep_versions_ms", "update_mode")
        chosen |= {name: getattr(entry, name) for name in names}
    if given["update_mode"] is not None:
        chosen["update_mode"] = given["update_mode"]
    specs = {
        part: spec
        for part, form in (("key", given["key"]), ("value", given["value"]))
        if form is not None and (spec := spec_named(form)) is not None
    }
    if "value" in specs and specs["value"].use == "together":
        specs["key"] = specs["value"]
    table = TopicTable(format=given["form_of_table"], path=str(given["to"]), **(chosen | specs))
    base = request.policies_dir or Path()
    return LocatedTable(topic=topic, table=table, catalog={}, base=base)


def _require_new(place: LocatedTable) -> None:
    """Require that there is no table. Effects: reads.

    Raises:
        PreconditionError: there is one.
    """
    with table_errors(place):
        known = open_store(place).load()
    if known is not None:
        raise PreconditionError(
            "a table is there already; a state in the past is not an update of it.",
            path=place.directory,
            remedy="Give another path, or remove the table.",
        )


def _topic_log(request: Request, log: ReadableLog, plan: LatestPlan) -> TopicLog:
    """Return a log as it is to be read: up to the end of the plan. Effects: reads its topic id."""
    _, cleaner = request.settings(log.partition.topic)
    with open_partition_dir(log.log_dir, log.partition) as directory:
        topic_id = read_topic_id(directory)
    return TopicLog(
        log=log._replace(last_stable_offset=plan.end_offset),
        topic_id=topic_id,
        cleaner=cleaner,
    )


def _show(request: Request, place: LocatedTable, update: TopicUpdate) -> None:
    snapshot = update.result.snapshot
    request.output.show(
        [_as_object(place.topic, result, snapshot) for result in update.result.partitions],
        {
            "partition": "topicPartition",
            "step": "step",
            "rows": "rows",
            "written": "rowsWritten",
            "deleted": "rowsDeleted",
            "refused": "recordsRefused",
            "end offset": "endOffset",
        },
    )
    for number in update.result.left:
        request.output.result(None, topicPartition=f"{place.topic}-{number}", step="left")
        request.output.message(
            f"{place.topic}-{number}: {request.place} has no log of it, so its rows stay as they"
            " were, also those that were deleted or erased since."
        )
    count, size = (0, 0) if snapshot is None else (snapshot.rows, snapshot.bytes)
    changed = "" if update.result.changed else " Nothing was new."
    refused = f", {update.quarantined} in quarantine" if update.quarantined else ""
    request.output.text(f"{count} rows, {human_bytes(size)}{refused}.{changed}")
    if update.only_refused:
        request.output.message(
            "No record could be decoded, and the table is not the state of the topic: the"
            f" quarantine table says why, {place.table.path}{QUARANTINE}. Give other formats of"
            " keys and values."
        )


def _as_object(topic: str, result: PartitionResult, snapshot: Snapshot | None) -> dict[str, object]:
    part = None if snapshot is None else snapshot.of_partition(result.partition)
    return {
        "topicPartition": f"{topic}-{result.partition}",
        "rows": 0 if part is None else part.rows,
        "bytes": 0 if part is None else part.bytes,
        "step": result.step.kind,
        "reason": result.step.reason,
        "startOffset": result.step.start_offset,
        "endOffset": result.held,
        "records": result.records,
        "rowsWritten": result.written,
        "rowsDeleted": result.deleted,
        "recordsRefused": result.refused,
        "filesWritten": result.buckets,
        "bytesRead": result.bytes_read,
    }
