"""``logwright download``: write logs from a bucket into a log directory."""

from __future__ import annotations

from pathlib import Path

import click

from logwright import durable
from logwright.cli.output import human_bytes
from logwright.cli.recovering import say_if_they_lead
from logwright.cli.request import Request
from logwright.errors import unreadable
from logwright.log.load import META_PROPERTIES
from logwright.maintenance.download import Downloaded, download_log
from logwright.place.bucket import bucket_of
from logwright.place.files import exists
from logwright.place.model import is_versioned


def run(request: Request, *, destination: Path) -> None:
    """Run the command."""
    if not is_versioned(request.place):
        raise click.UsageError(f"{request.place} is not the URL of logs in a bucket")
    bucket = bucket_of(request.place)
    partitions = request.partitions()
    if exists(destination / META_PROPERTIES):
        say_if_they_lead(destination, partitions, request.output.message, metadata=None)
    try:
        durable.make_directory(destination)
    except OSError as error:
        raise unreadable(error, destination) from error
    for partition in partitions:
        with (
            request.failures.of(partition),
            request.output.progress(str(partition)) as progress,
        ):
            done = download_log(bucket, partition, destination, progress=progress)
            request.changed.append(partition)
            _show(request, destination, done)
    if not exists(destination / META_PROPERTIES):
        request.output.message(
            f"{destination} is not formatted: a broker starts on it only after"
            " `kafka-storage.sh format --ignore-formatted`."
        )


def _show(request: Request, destination: Path, done: Downloaded) -> None:
    request.output.result(
        f"{done.partition}: up to offset {done.end_offset}, version {done.version};"
        f" {human_bytes(done.read_bytes)} of {human_bytes(done.bytes)} read",
        topicPartition=str(done.partition),
        to=str(destination),
        version=done.version,
        logEndOffset=done.end_offset,
        files=done.files,
        bytes=done.bytes,
        bytesRead=done.read_bytes,
    )
