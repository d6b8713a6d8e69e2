"""The options of ``logwright upload``."""

from __future__ import annotations

import click

from logwright.cli.options.common import declare, read_options


@declare("upload", extra="bucket", running="exact")
@click.option(
    "--to",
    metavar="URL",
    required=True,
    help="Directory in a bucket: s3://, gs://, az:// or file://. Credentials are taken from the"
    " environment.",
)
@click.option(
    "--rate",
    metavar="BYTES",
    type=click.IntRange(min=1),
    help="Read at most this many bytes per second of the log directory.",
)
@click.option(
    "--bring-back-erased",
    is_flag=True,
    help="Write a log, too, that may have records of keys that were erased in the bucket.",
)
@read_options
def command() -> None:
    """Write logs into a bucket, byte for byte, with all that is needed to read them there. What
    the bucket has already is not sent again. Retention of LOG_DIR deletes nothing there, unless
    the log is compacted.

    A log that a broker has open is written up to its high watermark.
    """
