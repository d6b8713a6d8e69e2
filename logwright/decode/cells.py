"""A limit of what a value may grow to: a list of a million empty messages takes 2 MB, and a million
times the columns of a message.
"""

from __future__ import annotations

from typing import Final

from logwright.decode.refusal import Refused

MOST_CELLS: Final = 4_000_000
"""The most fields and items of lists that one value may have, missing fields included."""

TOO_MANY: Final = f"has more than {MOST_CELLS} fields and items"


class Cells:
    """Counts the cells of a value while it is parsed."""

    def __init__(self) -> None:
        self._left = MOST_CELLS

    def start(self) -> None:
        """Begin a value."""
        self._left = MOST_CELLS

    def take(self, count: int) -> None:
        """Count cells.

        Raises:
            Refused: the value has too many.
        """
        self._left -= count
        if self._left < 0:
            raise Refused(TOO_MANY)
