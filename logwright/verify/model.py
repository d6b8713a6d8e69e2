"""The faults that a verification finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logwright.place.model import PlaceOrText

MOST_PER_FILE = 20
"""Faults of one kind that are listed for one file; further ones are only counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault in a file.

    Attributes:
        position: byte in the file, None if it is about the whole file.
        problem: a sentence without a full stop; never a record's key or value.
    """

    path: PlaceOrText
    position: int | None
    problem: str

    def __str__(self) -> str:
        where = "" if self.position is None else f" at byte {self.position}"
        return f"{self.path}{where}: {self.problem}"


def entry_faults(
    path: PlaceOrText, wrong: NDArray[np.bool_], *, entry_bytes: int, problem: str
) -> list[Fault]:
    """Return a fault for each wrong entry of an index, and one for all after `MOST_PER_FILE`."""
    rows = np.flatnonzero(wrong)
    faults = [
        Fault(path=path, position=int(row) * entry_bytes, problem=f"entry {int(row)} {problem}")
        for row in rows[:MOST_PER_FILE]
    ]
    if len(rows) > MOST_PER_FILE:
        more = f"{len(rows) - MOST_PER_FILE} more entries are wrong"
        position = int(rows[MOST_PER_FILE]) * entry_bytes
        faults.append(Fault(path=path, position=position, problem=more))
    return faults
