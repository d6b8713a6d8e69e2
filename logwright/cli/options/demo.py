"""The options of ``logwright demo``."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.cli.options.common import declare


@declare("demo", extra="dagster")
@click.option("--ui/--no-ui", default=True, help="Open Dagster's web UI at the end.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=3000,
    show_default=True,
    help="Port of the web UI.",
)
@click.option(
    "--home",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("logwright-demo"),
    show_default=True,
    help="Directory for all files of the demo.",
)
@click.option(
    "--bucket",
    metavar="URL",
    help="Write the logs of one topic into a bucket, too: file:///DIR needs no server; the"
    " credentials of others are taken from the environment.",
)
def command() -> None:
    """Create a sample log directory, compact it through Dagster, and show what happened."""
