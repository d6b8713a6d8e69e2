"""The verdicts of an examination: for each law how often it was broken, and where first."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from logwright.checks import thorough_kernels as laws
from logwright.compaction.model import LawResult
from logwright.units import Offset

LAWS: Final = (
    "crc_valid",
    "offsets_ascending",
    "survivors_identical",
    "latest_value_per_key",
    "index_entries_valid",
)


def blame_at(verdict: NDArray[np.int64], offset: int) -> None:
    """Count a violation, as the kernels do (`laws.blame`)."""
    if verdict[laws.VIOLATIONS] == 0 or offset < verdict[laws.FIRST_OFFENDER]:
        verdict[laws.FIRST_OFFENDER] = offset
    verdict[laws.VIOLATIONS] += 1


class Verdicts:
    """Violations and first offender of each law, int64[2] each."""

    def __init__(self) -> None:
        self.cells = {law: np.array([0, -1], dtype=np.int64) for law in LAWS}

    def blame(self, law: str, offset: int) -> None:
        """Count a violation at this offset."""
        blame_at(self.cells[law], offset)

    def add(self, others: Verdicts) -> None:
        """Count those of another examination too."""
        for law, cells in others.cells.items():
            if cells[laws.VIOLATIONS]:
                before = int(self.cells[law][laws.VIOLATIONS])
                self.blame(law, int(cells[laws.FIRST_OFFENDER]))
                self.cells[law][laws.VIOLATIONS] = before + cells[laws.VIOLATIONS]

    def results(self) -> tuple[LawResult, ...]:
        """How each law fared."""
        return tuple(
            LawResult(
                law=law,
                violations=int(cells[laws.VIOLATIONS]),
                first_offset=Offset(int(cells[laws.FIRST_OFFENDER])) if cells[0] else None,
            )
            for law, cells in self.cells.items()
        )
