"""The options of ``logwright archive``."""

from __future__ import annotations

import click

from logwright.cli.options.common import declare, request_options, scratch_option
from logwright.cli.options.parameters import Pair
from logwright.format.codec import CODEC_NAMES


@declare("archive", extra="archive")
@click.option(
    "--bootstrap", metavar="HOST:PORT", required=True, help="Address of a running broker."
)
@click.option("--topic", "topics", metavar="T", multiple=True, help="Topic to copy; repeatable.")
@click.option(
    "--all-topics",
    is_flag=True,
    help="Copy every topic that the broker shows, except Kafka's internal ones.",
)
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
    type=Pair(),
    multiple=True,
    help="A librdkafka setting, for example for TLS or SASL; repeatable.",
)
@click.option(
    "--compression",
    type=click.Choice(CODEC_NAMES),
    default="zstd",
    show_default=True,
    help="Codec where the topic has compression.type=producer: a broker does not say which one the"
    " producers used. Any other topic keeps its own.",
)
@request_options
@scratch_option
def command() -> None:
    """Copy new records of topics, with their offsets and timestamps. A repeated run continues
    where the copy ends.

    A topic that cannot be copied does not stop the others.
    """
