"""The verdicts of an examination: for each check how often it was broken, and where first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from logwright.checks import thorough_kernels as kernels
from logwright.checks.model import CHECK_NAMES, CheckResult
from logwright.units import Offset


def blame_at(verdict: NDArray[np.int64], offset: int) -> None:
    """Count a violation, as the kernels do (`kernels.blame`)."""
    if verdict[kernels.VIOLATIONS] == 0 or offset < verdict[kernels.FIRST_OFFENDER]:
        verdict[kernels.FIRST_OFFENDER] = offset
    verdict[kernels.VIOLATIONS] += 1


class Verdicts:
    """Violations and first offender of each check, int64[2] each."""

    def __init__(self) -> None:
        self.cells = {check: np.array([0, -1], dtype=np.int64) for check in CHECK_NAMES}

    def blame(self, check: str, offset: int) -> None:
        """Count a violation at this offset."""
        blame_at(self.cells[check], offset)

    def add(self, others: Verdicts) -> None:
        """Count those of another examination too."""
        for check, cells in others.cells.items():
            if cells[kernels.VIOLATIONS]:
                before = int(self.cells[check][kernels.VIOLATIONS])
                self.blame(check, int(cells[kernels.FIRST_OFFENDER]))
                self.cells[check][kernels.VIOLATIONS] = before + cells[kernels.VIOLATIONS]

    def results(self) -> tuple[CheckResult, ...]:
        """How each check fared."""
        return tuple(
            CheckResult(
                name=name,
                violations=int(cells[kernels.VIOLATIONS]),
                first_offset=Offset(int(cells[kernels.FIRST_OFFENDER])) if cells[0] else None,
            )
            for name, cells in self.cells.items()
        )
