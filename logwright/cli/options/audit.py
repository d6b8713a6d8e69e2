"""The options of ``logwright audit``."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.cli.options.common import declare, no_metadata_option
from logwright.cli.options.parameters import LogDir, log_format_option, output_option


@declare("audit", running="exact")
@click.argument("log_dirs", metavar="LOG_DIR LOG_DIR ...", nargs=-1, type=LogDir())
@click.option("--topic", "topics", multiple=True, help="Only partitions of this topic; repeatable.")
@click.option(
    "--metadata",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="The cluster's __cluster_metadata-0, which says which brokers hold replicas "
    "[default: search the log directories and their siblings].",
)
@no_metadata_option
@click.option(
    "--high-watermark",
    type=click.Choice(["end", "checkpoint"]),
    default="end",
    show_default=True,
    help="Compare up to the log end offset, or up to the high watermark checkpoint.",
)
@output_option
@log_format_option
@click.option("--verbose", is_flag=True, help="Debug messages on stderr.")
def command() -> None:
    """Compare what the replicas in several log directories of stopped or running brokers serve, and
    print one line per fault; exit status 3 if there is any. Read-only.

    Faults: keys that are back, lost records, lost transaction markers, aborted records shown, last
    stable offsets that do not advance, offsets with different records. No faults: lag, retention,
    cleanings at other times.
    """
