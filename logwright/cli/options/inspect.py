"""The options of ``logwright inspect``."""

from __future__ import annotations

from logwright.cli.options.common import declare, read_options


@declare("inspect", running="bounded", tiered=True)
@read_options
def command() -> None:
    """Show one line per log; with --verbose also segments, checkpoints and file names."""
