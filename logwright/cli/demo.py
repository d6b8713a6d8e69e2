"""``logwright demo``: a sample log directory, and the Dagster platform that maintains it."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.extras import require


@click.command(name="demo")
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
def command(*, ui: bool, port: int, home: Path) -> None:
    """Create a sample log directory, compact it through Dagster, and show what happened."""
    require("dagster", by="demo")
    from logwright.demo.run import run_demo  # noqa: PLC0415 -- Dagster and Spark: not for --help

    run_demo(home=home, ui=ui, port=port)
