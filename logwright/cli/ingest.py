"""``logwright ingest``: append rows from files to the logs of a topic, each file once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, TypedDict, Unpack

import click

from logwright.cli.output import human_bytes
from logwright.cli.request import Request, request_options
from logwright.format.codec import CODEC_NAMES

if TYPE_CHECKING:
    from logwright.spark.intake import Intake, Source

BATCH_BYTES: Final = 16_384
"""A producer's ``batch.size`` (`logwright.ingest.model.DEFAULT_BATCH_BYTES`)."""


class _Given(TypedDict):
    """Values of the options below, as click passes them."""

    source: str
    file_format: str
    topic: str
    partitions: int
    ingest_id: str | None
    options: tuple[str, ...]
    batch_size: int
    compression: str


@click.command(name="ingest")
@click.option("--from", "source", metavar="PATH", required=True, help="Input file or directory.")
@click.option(
    "--format",
    "file_format",
    metavar="NAME",
    default="json",
    show_default=True,
    help="json, csv, parquet, orc, or another format that Spark reads.",
)
@click.option("--topic", metavar="T", required=True, help="Topic to append to.")
@click.option(
    "--partitions",
    metavar="N",
    type=click.IntRange(min=0, max=100_000),
    default=0,
    help="Partition count of a new topic; minimum for an existing one.",
)
@click.option("--id", "ingest_id", metavar="ID", help="Idempotency key of this input.")
@click.option(
    "--option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    help="An option of Spark's reader; repeatable.",
)
@click.option(
    "--batch-size",
    metavar="BYTES",
    type=click.IntRange(min=1),
    default=BATCH_BYTES,
    show_default=True,
    help="Maximum size of a record batch before compression.",
)
@click.option(
    "--compression",
    type=click.Choice(CODEC_NAMES),
    default="none",
    show_default=True,
    help="Codec for topics with compression.type=producer.",
)
@request_options
def command(request: Request, **given: Unpack[_Given]) -> None:
    """Append rows from files to a topic's logs, as a producer would: key, value, headers,
    partition, timestamp.
    """
    from logwright.ingest.model import AppendOptions  # noqa: PLC0415 -- numpy: not for --help
    from logwright.spark.intake import Source  # noqa: PLC0415 -- pyspark: not for --help

    request.require_terminal()
    if request.named:
        raise click.UsageError("each row determines its partition: give no TOPIC-N")
    wanted = Source(
        path=given["source"],
        file_format=given["file_format"],
        topic=given["topic"],
        partitions=given["partitions"],
        options=_pairs(given["options"]),
        ingest_id=given["ingest_id"],
        append=AppendOptions(
            batch_bytes=given["batch_size"], codec=CODEC_NAMES.index(given["compression"])
        ),
    )
    files = _files(request, wanted)
    if request.dry_run or not files:
        _show_plan(request, wanted, files)
        return
    if not request.yes:
        _show_plan(request, wanted, files)
    request.confirm(f"Append these files to {wanted.topic} in {request.log_dir}?")
    _ingest(request, wanted)


def _pairs(options: tuple[str, ...]) -> dict[str, str]:
    pairs = {}
    for option in options:
        key, equals, value = option.partition("=")
        if not equals:
            raise click.UsageError(f"--option {option!r} must be KEY=VALUE")
        pairs[key] = value
    return pairs


def _files(request: Request, source: Source) -> tuple[str, ...]:
    """Return the input files that have not been ingested yet. Effects: lists the input."""
    from logwright.ingest.ledger import waiting_files  # noqa: PLC0415 -- numpy: not for --help

    if source.ingest_id is not None:
        return (source.path,)
    return waiting_files(request.log_dir, source.topic, Path(source.path))


def _show_plan(request: Request, source: Source, files: tuple[str, ...]) -> None:
    request.output.json_object({"topic": source.topic, "files": list(files), "ingested": False})
    for file in files:
        request.output.text(file)
    request.output.text(f"{len(files)} new files for {source.topic}.")


def _ingest(request: Request, source: Source) -> None:
    """Ingest the input. Effects: starts Spark, changes logs."""
    from logwright.ingest.commit import prepare_log_dir  # noqa: PLC0415 -- compiled kernels: not for --help
    from logwright.spark.intake import ingest_files, totals  # noqa: PLC0415 -- pyspark
    from logwright.spark.session import local_session  # noqa: PLC0415

    request.settings(source.topic)  # refuse invalid settings before Spark starts
    prepare_log_dir(request.log_dir)
    request.output.message("Starting Spark …")
    with local_session() as spark:
        intakes = ingest_files(
            spark, request.log_dir, source, request.sources(), now_ms=request.now_ms
        )
    _report(request, intakes)
    summed = totals(intakes)
    request.output.text(
        f"{summed['records']} records from {summed['files']} files, {human_bytes(summed['bytes'])}."
        if intakes
        else "No new files."
    )


def _report(request: Request, intakes: tuple[Intake, ...]) -> None:
    rows = []
    for intake in intakes:
        for one in intake.appended:
            request.output.json_object(
                {
                    "topicPartition": str(one.partition),
                    "ingestId": intake.run.id,
                    "records": one.records,
                    "firstOffset": one.first_offset,
                    "logEndOffset": one.end_offset,
                    "bytesAppended": one.log_bytes,
                    "segmentsRolled": one.segments_rolled,
                    "repeated": one.repeated,
                }
            )
            rows.append(
                (
                    str(one.partition),
                    one.records,
                    one.first_offset,
                    one.end_offset,
                    one.log_bytes,
                    "already ingested" if one.repeated else "",
                )
            )
    header = ("partition", "records", "from offset", "log end", "bytes", "note")
    request.output.table(header, rows)
