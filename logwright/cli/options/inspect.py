"""The options of ``logwright inspect``."""

from __future__ import annotations

from logwright.cli.options.common import declare, request_options


@declare("inspect")
@request_options
def command() -> None:
    """Show one line per log; with --verbose also segments, checkpoints and file names."""
