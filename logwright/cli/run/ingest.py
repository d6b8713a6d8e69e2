"""``logwright ingest``: append rows from files to the logs of a topic, each file once."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from logwright.cli.options.ingest import Given
from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.cli.run.replicas import say_unknown_replicas
from logwright.format.codec import CODEC_NAMES
from logwright.ingest.commit import prepare_log_dir
from logwright.ingest.ledger import waiting_files
from logwright.ingest.model import AppendOptions
from logwright.spark.intake import Intake, Source, ingest_files, totals
from logwright.spark.session import local_session


def run(request: Request, **given: Unpack[Given]) -> None:
    """Run the command."""
    request.require_terminal()
    if request.named:
        raise click.UsageError("each row determines its partition: give no TOPIC-N")
    wanted = Source(
        path=given["source"],
        file_format=given["file_format"],
        topic=given["topic"],
        partitions=given["partitions"],
        options=dict(given["options"]),
        ingest_id=given["ingest_id"],
        append=AppendOptions(
            batch_bytes=given["batch_size"], codec=CODEC_NAMES.index(given["compression"])
        ),
    )
    files = _files(request, wanted)
    if request.dry_run or not files or not request.yes:
        _show_plan(request, wanted, files)
    if request.dry_run or not files:
        return
    request.confirm(f"Append these files to {wanted.topic} in {request.log_dir}?")
    _ingest(request, wanted)


def _files(request: Request, source: Source) -> tuple[str, ...]:
    """Return the input files that have not been ingested yet. Effects: lists the input."""
    if source.ingest_id is not None:
        return (source.path,)
    return waiting_files(request.log_dir, source.topic, Path(source.path))


def _show_plan(request: Request, source: Source, files: tuple[str, ...]) -> None:
    request.output.result(
        [*files, f"{len(files)} new files for {source.topic}."],
        topic=source.topic,
        files=list(files),
        ingested=False,
    )


def _ingest(request: Request, source: Source) -> None:
    """Ingest the input. Effects: starts Spark, changes logs."""
    request.settings(source.topic)  # refuse invalid settings before Spark starts
    say_unknown_replicas(request)
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
    request.output.show(
        [
            {
                "topicPartition": str(log.partition),
                "ingestId": intake.run.id,
                "records": log.records,
                "firstOffset": log.first_offset,
                "logEndOffset": log.end_offset,
                "bytesAppended": log.log_bytes,
                "segmentsRolled": log.segments_rolled,
                "repeated": log.repeated,
            }
            for intake in intakes
            for log in intake.appended
        ],
        {
            "partition": "topicPartition",
            "records": "records",
            "from offset": "firstOffset",
            "log end": "logEndOffset",
            "bytes": "bytesAppended",
            "note": lambda log: "already ingested" if log["repeated"] else "",
        },
    )
