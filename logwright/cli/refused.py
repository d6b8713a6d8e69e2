"""What a command that refuses a log directory elsewhere says, and which one to use instead."""

from __future__ import annotations

from typing import Final

import click

from logwright.place.model import Place, is_versioned

IN_A_BUCKET: Final = {
    "delete": "no command deletes a whole log there. `logwright retain` deletes its old segments,"
    " `logwright pause` leaves it alone; to delete it, remove its directory with the tools of the"
    " bucket once nothing writes it",
    "recover": "a version there is whole, so nothing is to be recovered. `logwright verify` checks"
    " it, `logwright undo` restores what the last operation changed",
    "move": "`logwright download` writes the log into a log directory, from where `logwright"
    " upload` writes it into another bucket",
    "ingest": "append to a log directory, and `logwright upload` it",
    "doctor": "no broker starts on it. `logwright download` writes it into a log directory,"
    " `logwright verify` checks it where it is",
}
"""Command → what there is instead for a log in a bucket."""


def only_here(place: Place) -> click.UsageError:
    """Return the error of the command that is called, for a place that it does not work on."""
    context = click.get_current_context(silent=True)
    name = "" if context is None else context.info_name or ""
    if is_versioned(place) and name in IN_A_BUCKET:
        return click.UsageError(
            f"{place} is in a bucket, and `logwright {name}` works on a directory of this machine:"
            f" {IN_A_BUCKET[name]}"
        )
    return click.UsageError(
        f"{place} can only be read: this command works on a directory of this machine"
    )
