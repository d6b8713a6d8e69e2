"""The options of ``logwright resume``."""

from __future__ import annotations

import click

from logwright.cli.options.common import declare, request_options


@declare("resume")
@click.option("--owner", metavar="NAME", help="Remove only this owner's pauses [default: all].")
@request_options
def command() -> None:
    """Remove the pauses of partitions, so that they are maintained again.

    Without TOPIC-N: all paused partitions. A partition without a pause is not an error.
    """
