"""The options of ``logwright ingest``."""

from __future__ import annotations

from typing import Final, TypedDict

import click

from logwright.cli.options.common import declare, request_options
from logwright.cli.options.parameters import Pair
from logwright.format.codec import CODEC_NAMES

BATCH_BYTES: Final = 16_384
"""A producer's ``batch.size`` (`logwright.ingest.model.DEFAULT_BATCH_BYTES`)."""


class Given(TypedDict):
    """Values of the options below, as click passes them."""

    source: str
    file_format: str
    topic: str
    partitions: int
    ingest_id: str | None
    options: tuple[tuple[str, str], ...]
    batch_size: int
    compression: str


@declare("ingest", extra="spark")
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
    type=Pair(),
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
def command() -> None:
    """Append rows from files to a topic's logs, as a producer would: key, value, headers,
    partition, timestamp.
    """
