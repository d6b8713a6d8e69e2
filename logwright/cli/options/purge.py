"""The options of ``logwright purge``."""

from __future__ import annotations

from logwright.cli.options.common import declare, request_options


@declare("purge")
@request_options
def command() -> None:
    """Remove retired files whose file.delete.delay.ms has passed, and unused leftovers.

    The delay is the longer one of the settings now and of those that a file was retired with, or
    that of --config.
    """
