"""The options of ``logwright metrics``."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, TypedDict

import click

from logwright.cli.options.common import (
    declare,
    metadata_option,
    no_metadata_option,
    now_option,
    policies_option,
    properties_option,
)
from logwright.cli.options.parameters import LogDir, kafka_version_option, log_format_option

_PATH: Final = click.Path(path_type=Path)

_LAST_PORT: Final = 65_535


class Given(TypedDict):
    """Values of the options about settings, as click passes them."""

    policies_dir: Path | None
    metadata: Path | None
    no_metadata: bool
    properties: Path | None
    kafka_version: str | None
    high_watermark: Literal["end", "checkpoint", "recorded"] | None


@declare("metrics", extra="metrics")
@click.argument("log_dirs", metavar="LOG_DIR...", nargs=-1, required=True, type=LogDir())
@click.option("--textfile", metavar="FILE", type=_PATH, help="Write to this file, atomically.")
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, _LAST_PORT),
    help="Serve over HTTP until interrupted; each request reads the directories.",
)
@click.option(
    "--address", default="127.0.0.1", show_default=True, help="Address to listen on with --port."
)
@click.option(
    "--history",
    metavar="DIR",
    type=_PATH,
    help="The platform's maintenance history: adds the metrics of the last sweep.",
)
@policies_option
@metadata_option
@no_metadata_option
@properties_option
@kafka_version_option
@click.option(
    "--high-watermark",
    type=click.Choice(["end", "checkpoint", "recorded"]),
    help="What counts as committed [default: as the policies say, else recorded].",
)
@now_option
@log_format_option
def command() -> None:
    """Export metrics for Prometheus, with the names of Kafka's: to stdout, a file or over HTTP.

    Of a running broker the values are those below its high watermarks.
    """
