"""The options of ``logwright find``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from logwright.cli.options.common import declare, directory_options, dry_run_option
from logwright.cli.options.keys import SearchOptions, key_options, search_options
from logwright.cli.options.parameters import TablePath, Time

if TYPE_CHECKING:
    from logwright.place.model import Place
    from logwright.tier.remote import RemoteSegments

_PATH: Final = click.Path(path_type=Path)


class Given(SearchOptions):
    """Values of the options below, as click passes them."""

    more_dirs: tuple[Place, ...]
    tier: RemoteSegments | None
    tables: tuple[Path | str, ...]
    forecast: bool
    deadline_ms: int | None
    keys_to: Path | None
    threads: int | None


@declare("find", running="whole", tiered=True)
@key_options
@search_options
@click.option(
    "--table",
    "tables",
    metavar="PATH",
    type=TablePath(),
    multiple=True,
    help="A Parquet, Delta or Iceberg table; repeatable.",
)
@click.option(
    "--forecast",
    is_flag=True,
    help="When each key is gone, as if deleted now if it has a value.",
)
@click.option(
    "--deadline",
    "deadline_ms",
    metavar="TIME",
    type=Time(),
    help="When they must be gone: ISO 8601 with a zone, or ms.",
)
@click.option(
    "--keys-to",
    metavar="FILE",
    type=_PATH,
    help="New file for the keys of what has a --pattern.",
)
@click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(min=1),
    help="Threads that read [default: all cores].",
)
@directory_options
@dry_run_option
def command() -> None:
    """Find every record of some keys in every file of LOG_DIRs. Changes nothing.

    Exit status: 0 everything was searched, nothing found; 8 records were
    found; 9 not everything that could hold records was searched, the rest is named; 10 records were
    found that are not gone by --deadline.
    """
