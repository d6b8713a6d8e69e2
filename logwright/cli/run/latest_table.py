"""How `latest` makes and updates a table: by `logwright.tables`, as the assets do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Any, Final

import click
from pydantic import ValidationError

from logwright.bucket.store import Bucket
from logwright.cli.options.latest import Given
from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.config.decoding import Decoding, ScalarSpec, spec_of
from logwright.config.spec import Spec
from logwright.config.table import FORMATS, TopicTable, tables_of
from logwright.config.values import plain_message
from logwright.decode.look import look_at
from logwright.errors import PolicyError, PreconditionError, QualityError
from logwright.latest.model import LatestPlan
from logwright.log.model import ReadableLog
from logwright.maintenance.scratch import temporary_directory
from logwright.running.picture import Bound
from logwright.tables.compare import DecodedKeys, decoded_keys
from logwright.tables.dry_run import plan_update
from logwright.tables.logs import TopicLog, sample, topic_log
from logwright.tables.model import Snapshot
from logwright.tables.quarantine import Reason
from logwright.tables.topic import (
    QUARANTINE,
    LocatedTable,
    TopicUpdate,
    open_store,
    table_errors,
    update_topic,
)
from logwright.tables.work import PartitionResult

_OPTIONS: Final = ("update_mode", "unique", "unique_by", "schema_changes")
"""Settings of the policies that are options, too."""
_MOST_NAMED: Final = 5
_SHOWN_REASONS: Final = 5
_IN_BUCKET: Final = "delta"
"""The format of tables in a bucket."""


_NOTED: Final = (
    ("keyless", "without a key, and so without a row"),
    ("messages", "messages, and records of types that the table does not have"),
    ("truncations", "truncations, which emptied the table"),
    ("unknown", "unavailable values that are not known, rows with null"),
)
"""Counts of a partition, and what they are."""


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
        update = update_topic(
            place, read, now_ms=request.now_ms, progress=progress, rebuild=given["rebuild"]
        )
    keys = _decoded_keys(place, update)
    _show(request, place, update, ({each.partition: each.bound for each in read}, keys))
    if update.result.changed:
        _suggest(request, place, read)
    partitions = {each.partition: each.log.partition for each in read}
    for number, error in update.result.failures.items():
        request.failures.add(partitions[number], error)
    return QualityError.exit_status if update.only_refused else 0


def plan_table(
    request: Request, given: Given, logs: Sequence[tuple[ReadableLog, LatestPlan]]
) -> int:
    """Show what an update would do; return the exit status. Effects: reads; output.

    Args:
        logs: each partition's log and plan.

    Raises:
        LogwrightError: as `write_table`, also if the update would be refused.
    """
    (topic,) = given["topics"]
    place = _place(request, topic, given)
    read = [_topic_log(request, log, plan) for log, plan in logs]
    planned = plan_update(place, read, now_ms=request.now_ms, rebuild=given["rebuild"])
    request.output.show(
        [
            {
                "topicPartition": f"{topic}-{each.partition}",
                "step": each.step.kind,
                "reason": each.step.reason,
                "startOffset": each.step.start_offset,
                "endOffset": each.step.end_offset,
                "bytesToRead": each.bytes,
            }
            for each in planned.partitions
        ],
        {
            "partition": "topicPartition",
            "step": "step",
            "from offset": "startOffset",
            "end offset": "endOffset",
            "bytes to read": "bytesToRead",
        },
    )
    for change in planned.changes:
        shown = {"change": change.kind, "before": change.before, "after": change.after}
        request.output.result(f"column {change}", column=change.name, **shown)
    if planned.again and planned.refusal is None:
        size = human_bytes(sum(each.bytes for each in planned.partitions))
        request.output.text(f"The table would be made again: {planned.again}. {size} to read.")
    _say_unknown(request, planned.unknown)
    partitions = {each.partition: each.log.partition for each in read}
    for number, error in planned.failures.items():
        request.failures.add(partitions[number], error)
    if planned.refusal is not None:
        raise planned.refusal
    return 0


def _say_unknown(request: Request, names: Sequence[str]) -> None:
    """Say which fields of JSON have no column. Effects: output."""
    if names:
        more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        request.output.message(
            f"{len(names)} fields of the first new records are not in the columns, which were"
            f" inferred: {', '.join(names[:_MOST_NAMED])}{more}. --rebuild adds them."
        )


def _place(request: Request, topic: str, given: Given) -> LocatedTable:
    """Return the table; what the options do not say is as the topic's entry in the policies has
    it. Effects: may read a SPEC's file; output.

    Raises:
        PolicyError: a SPEC is not valid.
        click.UsageError: the SPECs contradict each other.
    """
    entry = None if request.policies is None else tables_of(request.policies).get(topic)
    chosen: dict[str, Any] = {}
    if entry is not None:
        names = ("format", "buckets", "keep_versions_ms", *_OPTIONS)
        chosen = {name: getattr(entry, name) for name in names}
        chosen |= _of_catalog(request, entry, given)
    if given["form_of_table"] is not None:
        chosen["format"] = given["form_of_table"]
    chosen |= {name: given[name] for name in _OPTIONS if given[name] is not None}
    in_bucket = isinstance(given["to"], str)
    if in_bucket:
        _require_in_bucket(given["to"], given["form_of_table"])
        chosen["format"] = given["form_of_table"] or _IN_BUCKET
        chosen.pop("identifier", None)
    table = TopicTable(path=str(given["to"]), **({"format": "parquet"} | chosen))
    decoding = _decoding(given, Decoding() if entry is None else entry.decoding)
    table = table.decoded_by(decoding)
    base = request.policies_dir or Path()
    return LocatedTable(topic=topic, table=table, catalog={}, base=base)


def _require_in_bucket(to: Path | str, form: str | None) -> None:
    """Require what a table in a bucket needs.

    Raises:
        PolicyError, MissingExtra: not a URL of a bucket, or the extra `bucket` is not installed.
        PreconditionError: a table of this format cannot be there.
    """
    url = str(Bucket.of(str(to)))
    if url.count("/") < len("s//"):
        raise PolicyError(f"--to {url}: a table needs a path in the bucket.", remedy="Give one.")
    if form in (None, _IN_BUCKET):
        return
    if FORMATS[form].in_catalog:
        raise PreconditionError(
            f"--to {url}: the catalog of a table of {form} is a file, which cannot be in a bucket.",
            remedy="Give --format delta, or the topic's policies a table with a `catalog`.",
        )
    raise PreconditionError(
        f"--to {url}: a table of {form} replaces its files by renames, one process at a time; a"
        " bucket has neither renames nor locks.",
        remedy="Give --format delta.",
    )


def _of_catalog(request: Request, entry: TopicTable, given: Given) -> dict[str, Any]:
    """Return what is left of an entry's place in a catalog. Effects: says what differs from it."""
    form = given["form_of_table"] or entry.format
    if form != entry.format:
        request.output.message(
            f"--format {form}: the topic's table in --policies has the format {entry.format}."
        )
        return {}
    if entry.catalog:
        request.output.message(
            f"--to {given['to']}: the table is in a catalog of its own there, not in that of"
            " --policies."
        )
    return {} if entry.identifier is None else {"identifier": entry.identifier}


def _decoding(given: Given, decoding: Decoding) -> Decoding:
    """Return how records are decoded: as the options say, else as the policies do."""
    specs: dict[str, Spec] = {"key": decoding.key, "value": decoding.value}
    for part, text in (("key", given["key"]), ("value", given["value"])):
        if text is not None:
            specs[part] = spec_of(text, Path.cwd(), option=f"--{part}")
    if given["value"] is not None and given["key"] is None and specs["value"].use == "together":
        specs["key"] = specs["value"]
    try:
        return Decoding(key=specs["key"], value=specs["value"], headers=decoding.headers)
    except ValidationError as error:
        (broken,) = error.errors(include_url=False)
        raise click.UsageError(f"--key and --value: {plain_message(broken)}") from None


def _suggest(request: Request, place: LocatedTable, logs: Sequence[TopicLog]) -> None:
    """Say what keys and values look like that are bytes because nobody said how to decode them.
    Effects: reads some of the first records; output.
    """
    for part in ("key", "value"):
        if getattr(place.table, part) == ScalarSpec():
            columns = (batch.column(part) for batch in sample(logs))
            look = look_at(part, (one.as_py() for column in columns for one in column))
            if look is not None:
                request.output.message(f"{look.sentence}: --{part} {quote(look.spec)}")


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
    """Return a log as it is to be read: up to the end of the plan, which a broker does not bound if
    it is in the past. Effects: reads its topic id.
    """
    cleaner = request.cleaner(log.partition.topic)
    read = topic_log(log._replace(last_stable_offset=plan.end_offset), cleaner)
    return read if plan.end_offset == log.last_stable_offset else replace(read, bound=None)


def _decoded_keys(place: LocatedTable, update: TopicUpdate) -> DecodedKeys | None:
    """Return how many decoded keys have several rows; None: keys are not decoded, or written in one
    way, or nothing is new. Effects: reads the column of keys.
    """
    snapshot = update.result.snapshot
    if snapshot is None or not (update.result.changed and place.table.key_has_ways):
        return None
    with table_errors(place), temporary_directory() as work:
        return decoded_keys(update.store, snapshot, work)


def _show(
    request: Request,
    place: LocatedTable,
    update: TopicUpdate,
    known: tuple[Mapping[int, Bound | None], DecodedKeys | None],
) -> None:
    snapshot = update.result.snapshot
    bounds, keys = known
    request.output.show(
        [
            _as_object(place.topic, result, snapshot)
            | _limits(bounds[result.partition])
            | _more(update, keys, result.partition)
            for result in update.result.partitions
        ],
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
    for result in update.result.partitions:
        if result.waits:
            request.output.message(f"{place.topic}-{result.partition} {result.step.reason}.")
    for number in update.result.left:
        request.output.result(None, topicPartition=f"{place.topic}-{number}", step="left")
        request.output.message(
            f"{place.topic}-{number}: {request.place} has no log of it, so its rows stay as they"
            " were, also those that were deleted or erased since."
        )
    _say_unknown(request, update.unknown)
    for change in update.changes:
        request.output.message(f"column {change}.")
    count, size = (0, 0) if snapshot is None else (snapshot.rows, snapshot.bytes)
    changed = "" if update.result.changed else " Nothing was new."
    refused = f", {update.quarantined} in quarantine" if update.quarantined else ""
    request.output.text(f"{count} rows, {human_bytes(size)}{refused}.{changed}")
    noted = _noted(update.result.partitions)
    if noted:
        request.output.text(f"Of the new records: {noted}.")
    _show_reasons(request, update.reasons)
    if keys is not None and keys.in_several_rows:
        request.output.message(
            f"{keys.in_several_rows} of {keys.keys} decoded keys have several rows, a row for each"
            " way to write the key: with --unique-by decoded each has one, in a new table."
        )
    if update.only_refused:
        request.output.message(
            "No record could be decoded, and the table is not the state of the topic: the"
            f" quarantine table says why, {place.table.path}{QUARANTINE}. Give other formats of"
            " keys and values."
        )


def _noted(results: Sequence[PartitionResult]) -> str:
    """Return what records came to that are neither rows, deletions nor refused."""
    sums = {text: sum(getattr(each, name) for each in results) for name, text in _NOTED}
    return "; ".join(f"{text}: {count}" for text, count in sums.items() if count)


def _show_reasons(request: Request, reasons: Sequence[Reason]) -> None:
    """Show why records are in the quarantine table, the most frequent reasons. Effects: output."""
    for each in reasons[:_SHOWN_REASONS]:
        request.output.text(f"  {each.records} in quarantine: {each.part} {each.reason}")
    rest = reasons[_SHOWN_REASONS:]
    if rest:
        records = sum(each.records for each in rest)
        request.output.text(f"  {records} in quarantine: {len(rest)} other reasons")


def _more(update: TopicUpdate, keys: DecodedKeys | None, partition: int) -> dict[str, object]:
    """Return what JSON has of the whole table, and of its decoded keys."""
    reasons = [each._asdict() for each in update.reasons[:_SHOWN_REASONS]]
    more: dict[str, object] = {"quarantined": update.quarantined, "refusalReasons": reasons}
    snapshot = update.result.snapshot
    if keys is None or snapshot is None:
        return more
    several = keys.in_several_rows
    if snapshot.form.unique == "partition":
        several = keys.by_partition.get(partition, 0)
    return {**more, "decodedKeysInSeveralRows": several}


def _limits(bound: Bound | None) -> dict[str, object]:
    """Return what limits a log that a broker has open, for JSON."""
    if bound is None:
        return {}
    return {"highWatermark": bound.high_watermark, "highWatermarkRecordedMs": bound.recorded_ms}


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
        "recordsWithoutKey": result.keyless,
        "messages": result.messages,
        "truncations": result.truncations,
        "rowsWithUnknownValues": result.unknown,
        "filesWritten": result.buckets,
        "bytesRead": result.bytes_read,
    }
