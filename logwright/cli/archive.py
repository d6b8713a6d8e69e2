"""``logwright archive``: copy a topic from a running broker into offline logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from logwright.cli.output import human_bytes
from logwright.cli.request import Request, request_options

if TYPE_CHECKING:
    from logwright.ingest.model import Appended


@click.command(name="archive")
@click.option(
    "--bootstrap", metavar="HOST:PORT", required=True, help="Address of a running broker."
)
@click.option("--topic", metavar="T", required=True, help="Topic to copy.")
@click.option(
    "--isolation",
    type=click.Choice(["read_committed", "read_uncommitted"]),
    default="read_committed",
    show_default=True,
    help="read_committed leaves out data of aborted and open transactions.",
)
@click.option(
    "--consumer-config",
    "consumer",
    metavar="KEY=VALUE",
    multiple=True,
    help="A librdkafka setting, for example for TLS or SASL; repeatable.",
)
@request_options
def command(
    request: Request,
    *,
    bootstrap: str,
    topic: str,
    isolation: Literal["read_committed", "read_uncommitted"],
    consumer: tuple[str, ...],
) -> None:
    """Copy new records of a topic, with their offsets and timestamps. A repeated run continues
    where the copy ends.
    """
    from logwright.ingest.archive import Archive, archive_topic  # noqa: PLC0415 -- not for --help

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
