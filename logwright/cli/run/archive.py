"""``logwright archive``: copy topics from a running broker into offline logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import click

from logwright.cli.output import human_bytes
from logwright.cli.request import Request
from logwright.cli.run.replicas import say_unknown_replicas
from logwright.cli.wording import counted
from logwright.errors import DiskFull, LogDirLocked, LogwrightError
from logwright.format.codec import CODEC_NAMES
from logwright.ingest.archive import Archive, archive_topic
from logwright.ingest.broker import BrokerUnavailable, TopicUnavailable, topics_of
from logwright.ingest.model import Appended, AppendOptions
from logwright.place.model import is_versioned


def run(
    request: Request,
    *,
    bootstrap: str,
    topics: Sequence[str],
    all_topics: bool,
    isolation: Literal["read_committed", "read_uncommitted"],
    consumer: tuple[tuple[str, str], ...],
    compression: str,
    scratch: Path | None,
) -> None:
    """Run the command."""
    request.require_terminal(versioned=True)
    if request.named:
        raise click.UsageError("archive copies every partition of the topic: give no TOPIC-N")
    if bool(topics) == all_topics:
        raise click.UsageError("give one or more --topic T, or --all-topics")
    consumer_config = dict(consumer)
    wanted = [
        Archive(
            bootstrap=bootstrap,
            topic=topic,
            isolation=isolation,
            consumer=consumer_config,
            append=AppendOptions(codec=CODEC_NAMES.index(compression)),
        )
        for topic in topics or topics_of(bootstrap, consumer_config)
    ]
    named = wanted[0].topic if len(wanted) == 1 else counted(len(wanted), "topic")
    if request.dry_run:
        request.output.text(f"Would copy {named} from {bootstrap} to {request.place}.")
        return
    request.confirm(f"Copy {named} from {bootstrap} to {request.place}?")
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
            for log in _copied(request, wanted, scratch)
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


def _copied(
    request: Request, wanted: Sequence[Archive], scratch: Path | None
) -> Iterator[Appended]:
    """Yield what was copied of each partition. Effects: as `archive_topic`, or in a bucket
    `archive_to_bucket`; output of a topic's error, if there are other topics.

    Raises:
        BrokerUnavailable, DiskFull, LogDirLocked: no other topic can be copied, either.
        LogwrightError: as `archive_topic`, of the only topic.
    """
    for each in wanted:
        try:
            yield from _copy(request, each, scratch)
        except LogwrightError as error:
            of_all = isinstance(error, (BrokerUnavailable, DiskFull, LogDirLocked))
            if len(wanted) == 1 or (of_all and not isinstance(error, TopicUnavailable)):
                raise
            request.failures.add_topic(each.topic, error)


def _copy(request: Request, wanted: Archive, scratch: Path | None) -> Iterator[Appended]:
    """Yield what was copied of each partition of one topic. Effects and errors: see `_copied`."""
    if is_versioned(request.place):
        from logwright.cli.run.archive_in_bucket import archive  # noqa: PLC0415 -- an extra

        return archive(request, wanted, scratch)
    say_unknown_replicas(request)
    return archive_topic(request.log_dir, wanted, request.sources(), now_ms=request.now_ms)
