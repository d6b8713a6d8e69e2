"""The options of ``logwright maintain``: those that compaction, retention and purge share."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from logwright.cli.options.clean import coordinate_option, spark_master_option, threads_option
from logwright.cli.options.common import declare, maintenance_options, scratch_option

if TYPE_CHECKING:
    from pathlib import Path

    from logwright.place.model import Place


class Given(TypedDict):
    """Values of the options below, as click passes them."""

    more_dirs: tuple[Place, ...]
    threads: int | None
    replicas: tuple[Path, ...]
    scratch: Path | None
    spark_master: str | None


@declare("maintain")
@maintenance_options
@threads_option
@coordinate_option
@scratch_option
@spark_master_option
def command() -> None:
    """Do what `clean`, then `retain`, then `purge` do, of all logs.

    Each runs whatever the one before ended with: a log that fails keeps no other log from being
    maintained. The exit status is the worst of the three. Logs in quarantine keep their retired
    files. --dry-run shows the three plans for the logs as they are now.
    """
