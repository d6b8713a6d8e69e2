"""The options of ``logwright offsets``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

import click

from logwright.cli.options.common import declare, directory_options
from logwright.cli.options.parameters import Duration

if TYPE_CHECKING:
    from logwright.place.model import Place


class Given(TypedDict):
    """Values of the options below, as click passes them."""

    more_dirs: tuple[Place, ...]
    names: bool
    top: int
    late_ms: int


@declare("offsets", running="bounded")
@click.option("--names", is_flag=True, help="Show the names of groups and transactional ids.")
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many groups and transactional ids to show, those with the most bytes first.",
)
@click.option(
    "--late",
    "late_ms",
    type=Duration(),
    default="1h",
    show_default=True,
    help="How long a log may wait for the cleaner once it is due, and a transaction for its end.",
)
@directory_options
def command() -> None:
    """Show why __consumer_offsets and __transaction_state grow: a cleaner that died, transactions
    that hang, corrupt batches, groups without members; and what to do. All LOG_DIRs are read
    together: the state of a transaction may be on another broker. Nothing is changed.

    Exit status: 0 nothing was found; 5 something makes them grow; 3 a batch is corrupt; 4 whether a
    transaction hangs is not known, or what a record is.
    """
