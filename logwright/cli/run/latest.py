"""``logwright latest``: the latest state of a topic as a table, now or in the past."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Unpack

import click
import pyarrow as pa

from logwright.batches.runtime import Runtime, available_cores
from logwright.cli.options.latest import COLUMNS, Given
from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.cli.run.latest_table import plan_table, write_table
from logwright.cli.run.replicas import say_not_committed
from logwright.errors import NotALogDir, PreconditionError
from logwright.format.names import TopicPartition
from logwright.latest.model import LatestPlan
from logwright.latest.parquet import WrittenFile, write_parquet
from logwright.latest.plan import plan_latest
from logwright.latest.read import read_latest
from logwright.log.enclosing import enclosing_log_dir
from logwright.log.load import observe
from logwright.log.model import ReadableLog
from logwright.log.watermark import require_high_watermark
from logwright.place.model import Place, narrowed
from logwright.reading import reading
from logwright.records.first import first_time_ms
from logwright.records.schema import records_schema
from logwright.running.place import look_at
from logwright.times import instant

_PLACE: Final = re.compile(r"(?:(\d+):)?(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """As of when.

    Attributes:
        offsets: by partition number; of others it is the last stable offset.
        time_ms: or as of this time, ms since the epoch.
    """

    offsets: dict[int, int]
    time_ms: int | None


def run(request: Request, **given: Unpack[Given]) -> int:
    """Run the command."""
    if len(given["topics"]) != 1:
        raise click.UsageError("give one TOPIC")
    (topic,) = given["topics"]
    request = request.of(narrowed(request.place, topic=topic))
    columns = None if given["columns"] is None else _columns(given["columns"], given)
    to = given["to"]
    if isinstance(to, Path):
        _require_outside(to, request.place)
    elif columns is not None:
        raise PreconditionError(
            f"--to {to}: --columns does not write into a bucket: a part of its files would look"
            " like all of them.",
            remedy="Give a directory of this machine, or leave out --columns for a table of Delta.",
        )
    partitions = _partitions(request, topic)
    point = _point(given["offsets"], given["time_ms"], partitions)
    with reading(request.place):
        look_at(request.place, [each.directory_name for each in partitions])
        logs = [_plan(request, partition, point) for partition in partitions]
        plans = [plan for _, plan in logs]
        _say_before_all(request, logs, point.time_ms)
        is_past = bool(point.offsets) or point.time_ms is not None
        if request.dry_run and (is_past or columns is not None):
            _show_plans(request, plans)
            return 0
        if request.dry_run:
            return plan_table(request, given, logs)
        if columns is not None and isinstance(to, Path):
            _show(request, plans, _write(request, plans, to, columns))
            return 0
        return write_table(request, given, logs, is_past=is_past)


def _columns(text: str, given: Given) -> tuple[str, ...]:
    if given["form_of_table"] not in (None, "parquet") or given["key"] or given["value"]:
        raise click.UsageError("--columns is for --format parquet, and its columns are not decoded")
    if given["rebuild"] or given["schema_changes"] is not None:
        raise click.UsageError("--columns is not for --rebuild and --schema-changes")
    if given["unique"] == "topic":
        raise click.UsageError("--columns writes one row of a key for each partition")
    if given["unique_by"] == "decoded":
        raise click.UsageError("--columns writes keys that are not decoded")
    columns = tuple(name.strip() for name in text.split(","))
    if any(name not in COLUMNS for name in columns) or len(set(columns)) < len(columns):
        raise click.UsageError(
            f"--columns {text!r}: expected some of {', '.join(COLUMNS)}, each once"
        )
    return columns


def _require_outside(to: Path, log_dir: Place) -> None:
    """Require that what is written is not in a log directory. Effects: looks for a broker's files.

    Raises:
        PreconditionError: it is.
    """
    enclosing = enclosing_log_dir(to, [log_dir])
    if enclosing is not None:
        raise PreconditionError(
            f"is in the log directory {enclosing}: no broker would start on it.",
            path=to,
            remedy="Give a path that is in no log directory.",
        )


def _partitions(request: Request, topic: str) -> tuple[TopicPartition, ...]:
    """Return the topic's partitions. Effects: lists the log directory.

    Raises:
        NotALogDir: there are none.
    """
    partitions = tuple(each for each in request.partitions() if each.topic == topic)
    if not partitions:
        raise NotALogDir(
            f"has no partition of topic {topic}.",
            path=request.place,
            remedy="`logwright inspect` lists the partitions.",
        )
    return partitions


def _point(
    offsets: Sequence[str], time_ms: int | None, partitions: Sequence[TopicPartition]
) -> _Point:
    if offsets and time_ms is not None:
        raise click.UsageError("--as-of-offset and --as-of-time contradict each other")
    numbers = {each.partition for each in partitions}
    ends: dict[int, int] = {}
    for text in offsets:
        place = _PLACE.fullmatch(text)
        if place is None:
            raise click.UsageError(f"--as-of-offset {text!r} is not P:OFFSET or OFFSET")
        if place[1] is None and len(numbers) > 1:
            raise click.UsageError(
                f"--as-of-offset {text}: the topic has {len(numbers)} partitions: give P:OFFSET"
            )
        number = min(numbers) if place[1] is None else int(place[1])
        if number not in numbers or number in ends:
            raise click.UsageError(
                f"--as-of-offset {text}: give each of the topic's partitions once at most"
            )
        ends[number] = int(place[2])
    return _Point(offsets=ends, time_ms=time_ms)


def _plan(
    request: Request, partition: TopicPartition, point: _Point
) -> tuple[ReadableLog, LatestPlan]:
    """Observe and plan one partition. Effects: reads the log; output."""
    log = observe(request.place, partition, high_watermark=request.high_watermark)
    if request.high_watermark == "checkpoint":
        require_high_watermark(log)
    say_not_committed(request, log)
    plan = plan_latest(
        log,
        end_offset=point.offsets.get(partition.partition),
        end_timestamp_ms=point.time_ms,
        cleaner=request.cleaner(partition.topic),
    )
    return log, plan


def _say_before_all(
    request: Request, logs: Sequence[tuple[ReadableLog, LatestPlan]], time_ms: int | None
) -> None:
    """Say which partitions have no record as old as a time. Effects: reads a record; output."""
    for log, plan in logs:
        if time_ms is None or plan.end_offset > log.log_start_offset:
            continue
        first_ms = first_time_ms(log, log.log_start_offset)
        if first_ms is not None:
            request.output.message(
                f"{plan.partition}: nothing is that old."
                f" Its first record is of {instant(first_ms)}."
            )


def _write(
    request: Request, plans: Sequence[LatestPlan], to: Path, columns: Sequence[str]
) -> list[WrittenFile]:
    """Write plain Parquet files. Effects: reads the logs, writes the files; output."""
    runtime = Runtime(threads=available_cores())

    def rows(plan: LatestPlan) -> Iterator[pa.RecordBatch]:
        with request.output.progress(str(plan.partition)) as progress:
            yield from read_latest(plan, columns=columns, runtime=runtime, progress=progress)

    return write_parquet(
        to, records_schema(columns), ((plan.partition, rows(plan)) for plan in plans)
    )


def _show_plans(request: Request, plans: Sequence[LatestPlan]) -> None:
    request.output.show(
        map(_as_object, plans),
        {"partition": "topicPartition", "from offset": "startOffset", "end offset": "endOffset"},
    )


def _show(request: Request, plans: Sequence[LatestPlan], written: Sequence[WrittenFile]) -> None:
    request.output.show(
        [
            _as_object(plan) | {"rows": file.rows, "bytes": file.bytes, "path": str(file.path)}
            for plan, file in zip(plans, written, strict=True)
        ],
        {
            "partition": "topicPartition",
            "rows": "rows",
            "from offset": "startOffset",
            "end offset": "endOffset",
            "bytes": "bytes",
        },
    )
    size = human_bytes(sum(file.bytes for file in written))
    request.output.text(f"{sum(file.rows for file in written)} rows, {size}.")


def _as_object(plan: LatestPlan) -> dict[str, object]:
    return {
        "topicPartition": str(plan.partition),
        "startOffset": plan.start_offset,
        "endOffset": plan.end_offset,
    }
