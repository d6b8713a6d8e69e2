"""The options of ``logwright config``."""

from __future__ import annotations

import click

from logwright.cli.options.common import declare, topic_options


@declare("config", running="bounded")
@topic_options
@click.option("--all", "everything", is_flag=True, help="Include Kafka's defaults.")
def command() -> None:
    """Show the effective settings of topics and where each comes from; JSON output includes
    Kafka's defaults.

    Without TOPIC: every topic with a partition in LOG_DIR.
    """
