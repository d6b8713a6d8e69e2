"""The options of ``logwright roll``."""

from __future__ import annotations

import click

from logwright.cli.options.common import declare, request_options, scratch_option


@declare("roll")
@request_options
@scratch_option
@click.option(
    "--force",
    is_flag=True,
    help="Roll even if not due, and stray logs too; never an empty segment.",
)
def command() -> None:
    """Roll active segments that are due by size, by time or because an index is full."""
