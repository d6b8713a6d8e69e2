"""The options of ``logwright retain``."""

from __future__ import annotations

import click

from logwright.cli.options.common import (
    declare,
    like_kafka_option,
    request_options,
    scratch_option,
)


@declare("retain")
@request_options
@scratch_option
@click.option(
    "--delete-records-before",
    metavar="OFFSET",
    type=click.IntRange(min=-1),
    help="First raise the log start offset to OFFSET; -1 means the high watermark.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Include stray logs, and compacted ones in quarantine or with the cleaner disabled.",
)
@like_kafka_option
def command() -> None:
    """Delete segments below the log start offset, over retention.bytes or past retention.ms."""
