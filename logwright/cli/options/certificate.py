"""The options of ``logwright certificate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from logwright.cli.options.common import declare, directory_options, dry_run_option, run
from logwright.cli.options.keys import SearchOptions, key_options, search_options
from logwright.cli.options.parameters import TableFiles, Time

if TYPE_CHECKING:
    from logwright.place.model import Place
    from logwright.tier.remote import RemoteSegments

_PATH: Final = click.Path(path_type=Path)


class Given(SearchOptions):
    """Values of the options below, as click passes them."""

    more_dirs: tuple[Place, ...]
    tier: RemoteSegments | None
    tables: tuple[Place, ...]
    deadline_ms: int | None
    earlier: tuple[Path, ...]
    issuer: str | None
    signing_key: Path
    out: Path


def _make_key(ctx: click.Context, _: click.Parameter, path: Path | None) -> None:
    """Make a key pair, print its fingerprint and exit. Effects: two files; output."""
    if path is None or ctx.resilient_parsing:
        return
    run("new_key", {"path": path}, extra="erasure")
    ctx.exit()


@declare("certificate", extra="erasure", running="whole", tiered=True)
@click.option(
    "--new-key",
    metavar="FILE",
    type=_PATH,
    is_eager=True,
    expose_value=False,
    callback=_make_key,
    help="Make a key pair, FILE and FILE.pub, and exit.",
)
@key_options
@search_options
@click.option(
    "--deadline",
    "deadline_ms",
    metavar="TIME",
    type=Time(),
    help="Deadline of --keys: ISO 8601 with a zone, or ms.",
)
@click.option(
    "--table",
    "tables",
    metavar="PATH",
    type=TableFiles(),
    multiple=True,
    help="A Parquet, Delta or Iceberg table; repeatable.",
)
@click.option(
    "--earlier",
    metavar="FILE",
    type=_PATH,
    multiple=True,
    help="Earlier certificate of this key; repeatable.",
)
@click.option(
    "--issuer",
    metavar="NAME",
    help="Who says this, as is signed [default: --policies].",
)
@click.option(
    "--signing-key", metavar="FILE", type=_PATH, required=True, help="The private key of --new-key."
)
@click.option(
    "--out",
    metavar="FILE",
    type=_PATH,
    required=True,
    help="The certificate, and its page .html.",
)
@directory_options
@dry_run_option
def command() -> None:
    """Search all files of LOG_DIRs for the keys of requests; sign what was found, and a list of
    every file. Changes nothing in them.

    Exit status 6: made, but a deadline was missed or will be, records remain that nothing removes,
    not all was searched, or a request's topics have no log.
    """
