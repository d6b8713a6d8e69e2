"""The options of ``logwright plan``."""

from __future__ import annotations

import click

from logwright.cli.options.common import declare, like_kafka_option, read_options


@declare("plan", running="bounded")
@like_kafka_option
@click.option(
    "--forecast/--no-forecast",
    default=None,
    help="Read the keys to forecast reclaimed bytes by cause [default: for logs that are due, up to"
    " 1 GiB]. Above 1 GiB by a sample of the keys.",
)
@read_options
def command() -> None:
    """Show what is due, when, why, and what it would reclaim: roll, compaction, retention, purge,
    and erasure requests of the policies' store; with --verbose every reason of a compaction.

    Next to a running broker it reads what is below the high watermarks, and its cleaner may act
    first. A forecast waits up to 10 s for them.

    Skips partitions that are paused or in quarantine; --forecast includes quarantined ones. For a
    log that was not shut down cleanly it shows the recovery that would run first.
    """
