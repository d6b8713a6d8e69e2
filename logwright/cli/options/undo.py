"""The options of ``logwright undo``."""

from __future__ import annotations

from logwright.cli.options.common import declare, request_options


@declare("undo")
@request_options
def command() -> None:
    """Restore the segments of the last compaction or retention, or a whole deleted log."""
