"""The options of ``logwright delete``."""

from __future__ import annotations

from logwright.cli.options.common import declare, request_options


@declare("delete")
@request_options
def command() -> None:
    """Delete whole logs: rename their directories to -delete, for a later purge."""
