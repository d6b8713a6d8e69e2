"""``logwright archive``: copy a topic from a running broker into offline logs."""

from __future__ import annotations

from typing import Literal

import click

from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.ingest.archive import Archive, archive_topic
from logwright.ingest.model import Appended


def run(
    request: Request,
    *,
    bootstrap: str,
    topic: str,
    isolation: Literal["read_committed", "read_uncommitted"],
    consumer: tuple[str, ...],
) -> None:
    """Run the command."""
    request.require_terminal()
    if request.named:
        raise click.UsageError("archive copies every partition of the topic: give no TOPIC-N")
    settings = {}
    for pair in consumer:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.UsageError("--consumer-config must be KEY=VALUE")
        settings[key] = value
    wanted = Archive(bootstrap=bootstrap, topic=topic, isolation=isolation, consumer=settings)
    if request.dry_run:
        request.output.text(f"Would copy {topic} from {bootstrap} to {request.log_dir}.")
        return
    request.confirm(f"Copy {topic} from {bootstrap} to {request.log_dir}?")
    done = []
    for one in archive_topic(request.log_dir, wanted, request.sources(), now_ms=request.now_ms):
        request.output.json_object(_as_object(one))
        done.append(one)
    request.output.table(
        ("partition", "records", "from offset", "log end", "bytes"),
        [(str(o.partition), o.records, o.first_offset, o.end_offset, o.log_bytes) for o in done],
    )
    copied = human_bytes(sum(one.log_bytes for one in done))
    request.output.text(f"{sum(one.records for one in done)} records, {copied}.")


def _as_object(one: Appended) -> dict[str, object]:
    return {
        "topicPartition": str(one.partition),
        "records": one.records,
        "firstOffset": one.first_offset,
        "logEndOffset": one.end_offset,
        "bytesAppended": one.log_bytes,
        "segmentsRolled": one.segments_rolled,
    }
