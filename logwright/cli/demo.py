"""``logwright demo``: a log directory to try it all on, and the platform over it."""

from __future__ import annotations

from pathlib import Path

import click

from logwright.extras import require


@click.command(name="demo")
@click.option("--ui/--no-ui", default=True, help="Show Dagster's pages at the end.")
@click.option(
    "--port", type=click.IntRange(1, 65_535), default=3000, show_default=True, help="Of the pages."
)
@click.option(
    "--home",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path("logwright-demo"),
    show_default=True,
    help="Where everything of the demo is kept.",
)
def command(*, ui: bool, port: int, home: Path) -> None:
    """Make a log directory, compact it through the platform, and show what happened."""
    require("dagster", by="demo")
    from logwright.demo.run import run_demo  # noqa: PLC0415 -- Dagster and Spark: not for --help

    run_demo(home=home, ui=ui, port=port)
