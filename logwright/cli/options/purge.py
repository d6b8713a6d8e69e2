"""The options of ``logwright purge``."""

from __future__ import annotations

from logwright.cli.options.common import declare, request_options


@declare("purge")
@request_options
def command() -> None:
    """Remove retired files whose file.delete.delay.ms has passed, and unused leftovers."""
