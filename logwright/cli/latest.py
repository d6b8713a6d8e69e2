"""``logwright latest``: the latest state of a topic as a table, now or in the past."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from logwright.cli.output import human_bytes
from logwright.cli.parameters import LateChoice
from logwright.cli.request import Request, topic_options
from logwright.errors import NotALogDir, PreconditionError
from logwright.extras import require

if TYPE_CHECKING:
    import pyarrow as pa

    from logwright.config.table import UpdateMode
    from logwright.format.names import TopicPartition
    from logwright.latest.model import LatestPlan
    from logwright.latest.parquet import WrittenFile
    from logwright.log.model import PartitionLog

_COLUMNS: Final = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "headers",
)
_PLACE: Final = re.compile(r"(?:(\d+):)?(\d+)")


def _formats() -> tuple[str, ...]:
    from logwright.config.table import FORMATS  # noqa: PLC0415 -- pydantic and yaml: not for --help

    return tuple(FORMATS)


def _keys() -> tuple[str, ...]:
    from logwright.config.decoding import formats_without_options  # noqa: PLC0415 -- the same

    return formats_without_options(of_keys=True)


def _values() -> tuple[str, ...]:
    from logwright.config.decoding import formats_without_options  # noqa: PLC0415 -- the same

    return formats_without_options(of_keys=False)


class _Given(TypedDict):
    """Values of the options below, as click passes them."""

    topics: tuple[str, ...]
    to: Path
    form_of_table: str
    key: str | None
    value: str | None
    update_mode: UpdateMode | None
    offsets: tuple[str, ...]
    time: str | None
    columns: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """As of when.

    Attributes:
        offsets: by partition number; of others it is the last stable offset.
        time_ms: or as of this time, ms since the epoch.
    """

    offsets: dict[int, int]
    time_ms: int | None

    @property
    def is_past(self) -> bool:
        """Whether it is another point than now."""
        return bool(self.offsets) or self.time_ms is not None


@click.command(name="latest")
@click.option(
    "--to",
    metavar="PATH",
    type=click.Path(path_type=Path),
    required=True,
    help="Directory of the table.",
)
@click.option(
    "--format",
    "form_of_table",
    type=LateChoice(_formats),
    default="parquet",
    show_default=True,
    help="Format of the table.",
)
@click.option(
    "--key",
    type=LateChoice(_keys),
    help="How keys are decoded [default: from --policies, else binary].",
)
@click.option(
    "--value",
    type=LateChoice(_values),
    help="The same of values; columns of json are inferred. kafka-internal is for "
    "__consumer_offsets, __transaction_state and __share_group_state, keys included.",
)
@click.option(
    "--update-mode",
    type=click.Choice(["merge-on-read", "copy-on-write"]),
    help="How a delta or iceberg table is updated: by deleting old rows, or, for readers that do "
    "not know deleted rows, by writing their files again [default: from --policies, else "
    "merge-on-read].",
)
@click.option(
    "--as-of-offset",
    "offsets",
    metavar="[P:]OFFSET",
    multiple=True,
    help="The state below this offset of partition P; repeatable. P may be left out if the topic "
    "has one partition.",
)
@click.option(
    "--as-of-time",
    "time",
    metavar="TIME",
    help="The state before the first record after this time: ms since the epoch, or ISO 8601, "
    "in UTC without an offset.",
)
@click.option(
    "--columns",
    metavar="NAMES",
    help="Write plain Parquet files with these columns, which cannot be updated: "
    f"comma-separated, of {', '.join(_COLUMNS)}.",
)
@topic_options
def command(request: Request, **given: Unpack[_Given]) -> None:
    """Write the newest committed record of each key of TOPIC to a table. Changes no log.

    Rows are identified by partition and key. Records without a key are left out, and keys whose
    newest record is a tombstone. A repeated run updates the table from what is new in the log.
    """
    if len(given["topics"]) != 1:
        raise click.UsageError("give one TOPIC")
    (topic,) = given["topics"]
    columns = None if given["columns"] is None else _columns(given["columns"], given)
    require("tables", by="logwright latest")
    from logwright.locks import broker_kept_out  # noqa: PLC0415 -- not for --help

    _require_outside(given["to"], request.log_dir)
    partitions = _partitions(request, topic)
    point = _point(given["offsets"], given["time"], partitions)
    with broker_kept_out(request.log_dir):
        found = [_plan(request, partition, point) for partition in partitions]
        plans = [plan for _, plan in found]
        if request.dry_run:
            _show_plans(request, plans)
        elif columns is not None:
            _show(request, plans, _write(request, plans, given["to"], columns))
        else:
            from logwright.cli.latest_table import Wanted, write_table  # noqa: PLC0415 -- not for --help

            wanted = Wanted(
                topic=topic,
                to=given["to"],
                form=given["form_of_table"],
                key=given["key"],
                value=given["value"],
                update_mode=given["update_mode"],
                is_past=point.is_past,
            )
            status = write_table(request, wanted, found)
            click.get_current_context().exit(status)


def _columns(text: str, given: _Given) -> tuple[str, ...]:
    if given["form_of_table"] != "parquet" or given["key"] or given["value"]:
        raise click.UsageError("--columns is for --format parquet, and its columns are not decoded")
    columns = tuple(name.strip() for name in text.split(","))
    if any(name not in _COLUMNS for name in columns) or len(set(columns)) < len(columns):
        raise click.UsageError(
            f"--columns {text!r}: expected some of {', '.join(_COLUMNS)}, each once"
        )
    return columns


def _require_outside(to: Path, log_dir: Path) -> None:
    """Require that what is written is not in a log directory. Effects: looks for a broker's files.

    Raises:
        PreconditionError: it is.
    """
    from logwright.log.enclosing import enclosing_log_dir  # noqa: PLC0415 -- not for --help

    found = enclosing_log_dir(to, [log_dir])
    if found is not None:
        raise PreconditionError(
            f"is in the log directory {found}: no broker would start on it.",
            path=to,
            remedy="Give a path that is in no log directory.",
        )


def _partitions(request: Request, topic: str) -> tuple[TopicPartition, ...]:
    """Return the topic's partitions. Effects: lists the log directory.

    Raises:
        NotALogDir: there are none.
    """
    found = tuple(one for one in request.partitions() if one.topic == topic)
    if not found:
        raise NotALogDir(
            f"has no partition of topic {topic}.",
            path=request.log_dir,
            remedy="`logwright inspect` lists the partitions.",
        )
    return found


def _point(
    offsets: Sequence[str], time: str | None, partitions: Sequence[TopicPartition]
) -> _Point:
    if offsets and time is not None:
        raise click.UsageError("--as-of-offset and --as-of-time contradict each other")
    numbers = {one.partition for one in partitions}
    found: dict[int, int] = {}
    for text in offsets:
        place = _PLACE.fullmatch(text)
        if place is None:
            raise click.UsageError(f"--as-of-offset {text!r} is not P:OFFSET or OFFSET")
        if place[1] is None and len(numbers) > 1:
            raise click.UsageError(
                f"--as-of-offset {text}: the topic has {len(numbers)} partitions: give P:OFFSET"
            )
        number = min(numbers) if place[1] is None else int(place[1])
        if number not in numbers or number in found:
            raise click.UsageError(
                f"--as-of-offset {text}: give each of the topic's partitions once at most"
            )
        found[number] = int(place[2])
    return _Point(offsets=found, time_ms=None if time is None else _time_ms(time))


def _time_ms(text: str) -> int:
    if text.isdigit():
        return int(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(
            f"--as-of-time {text!r} is neither ms since the epoch nor ISO 8601"
        ) from None
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return (when - datetime.fromtimestamp(0, tz=UTC)) // timedelta(milliseconds=1)


def _plan(
    request: Request, partition: TopicPartition, point: _Point
) -> tuple[PartitionLog, LatestPlan]:
    """Observe and plan one partition. Effects: reads the log."""
    from logwright.latest.plan import plan_latest  # noqa: PLC0415 -- compiled kernels: not for --help
    from logwright.log.load import observe  # noqa: PLC0415
    from logwright.log.watermark import require_high_watermark  # noqa: PLC0415

    log = observe(request.log_dir, partition, high_watermark=request.high_watermark)
    if request.high_watermark == "checkpoint":
        require_high_watermark(log)
    _, cleaner = request.settings(partition.topic)
    plan = plan_latest(
        log,
        end_offset=point.offsets.get(partition.partition),
        end_timestamp_ms=point.time_ms,
        cleaner=cleaner,
    )
    return log, plan


def _write(
    request: Request, plans: Sequence[LatestPlan], to: Path, columns: Sequence[str]
) -> list[WrittenFile]:
    """Write plain Parquet files. Effects: reads the logs, writes the files; output."""
    from logwright.batches.runtime import Runtime, available_cores  # noqa: PLC0415 -- compiled kernels
    from logwright.latest.parquet import write_parquet  # noqa: PLC0415
    from logwright.latest.read import read_latest  # noqa: PLC0415
    from logwright.records.schema import records_schema  # noqa: PLC0415

    runtime = Runtime(threads=available_cores())

    def rows(plan: LatestPlan) -> Iterator[pa.RecordBatch]:
        with request.output.progress(str(plan.partition)) as progress:
            yield from read_latest(plan, columns=columns, runtime=runtime, progress=progress)

    return write_parquet(
        to, records_schema(columns), ((plan.partition, rows(plan)) for plan in plans)
    )


def _show_plans(request: Request, plans: Sequence[LatestPlan]) -> None:
    for plan in plans:
        request.output.json_object(_as_object(plan))
    request.output.table(
        ("partition", "from offset", "end offset"),
        [(str(plan.partition), plan.start_offset, plan.end_offset) for plan in plans],
    )


def _show(request: Request, plans: Sequence[LatestPlan], written: Sequence[WrittenFile]) -> None:
    rows = []
    for plan, file in zip(plans, written, strict=True):
        found = {"rows": file.rows, "bytes": file.bytes, "path": str(file.path)}
        request.output.json_object(_as_object(plan) | found)
        rows.append(
            (str(plan.partition), file.rows, plan.start_offset, plan.end_offset, file.bytes)
        )
    request.output.table(("partition", "rows", "from offset", "end offset", "bytes"), rows)
    size = human_bytes(sum(file.bytes for file in written))
    request.output.text(f"{sum(file.rows for file in written)} rows, {size}.")


def _as_object(plan: LatestPlan) -> dict[str, object]:
    return {
        "topicPartition": str(plan.partition),
        "startOffset": plan.start_offset,
        "endOffset": plan.end_offset,
    }
