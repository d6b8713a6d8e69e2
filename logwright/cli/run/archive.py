"""``logwright archive``: copy a topic from a running broker into offline logs."""

from __future__ import annotations

from typing import Literal

import click

from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.format.codec import CODEC_NAMES
from logwright.ingest.archive import Archive, archive_topic
from logwright.ingest.model import AppendOptions


def run(
    request: Request,
    *,
    bootstrap: str,
    topic: str,
    isolation: Literal["read_committed", "read_uncommitted"],
    consumer: tuple[tuple[str, str], ...],
    compression: str,
) -> None:
    """Run the command."""
    request.require_terminal()
    if request.named:
        raise click.UsageError("archive copies every partition of the topic: give no TOPIC-N")
    wanted = Archive(
        bootstrap=bootstrap,
        topic=topic,
        isolation=isolation,
        consumer=dict(consumer),
        append=AppendOptions(codec=CODEC_NAMES.index(compression)),
    )
    if request.dry_run:
        request.output.text(f"Would copy {topic} from {bootstrap} to {request.log_dir}.")
        return
    request.confirm(f"Copy {topic} from {bootstrap} to {request.log_dir}?")
    copied = archive_topic(request.log_dir, wanted, request.sources(), now_ms=request.now_ms)
    rows = request.output.show(
        (
            {
                "topicPartition": str(log.partition),
                "records": log.records,
                "firstOffset": log.first_offset,
                "logEndOffset": log.end_offset,
                "bytesAppended": log.log_bytes,
                "segmentsRolled": log.segments_rolled,
            }
            for log in copied
        ),
        {
            "partition": "topicPartition",
            "records": "records",
            "from offset": "firstOffset",
            "log end": "logEndOffset",
            "bytes": "bytesAppended",
        },
    )
    size = human_bytes(sum(row["bytesAppended"] for row in rows))
    request.output.text(f"{sum(row['records'] for row in rows)} records, {size}.")
