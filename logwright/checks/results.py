"""The counts of an examination: for each check the violations, and the offset of the first."""

from __future__ import annotations

from logwright.checks import kernels
from logwright.checks.model import CHECK_NAMES, CheckResult


class Verdicts:
    """The verdict of each check, by its name (`kernels.new_verdict`)."""

    def __init__(self) -> None:
        self.of = {name: kernels.new_verdict() for name in CHECK_NAMES}

    def blame(self, name: str, offset: int) -> None:
        """Count a violation at this offset."""
        kernels.blame(self.of[name], offset)

    def add(self, others: Verdicts) -> None:
        """Count those of another part of the examination too."""
        for name, verdict in others.of.items():
            if verdict.violations:
                before = int(self.of[name].violations)
                self.blame(name, int(verdict.first_offset))
                self.of[name].violations = before + verdict.violations

    def results(self) -> tuple[CheckResult, ...]:
        """Return the result of each check."""
        return tuple(
            CheckResult(
                name=name,
                violations=int(verdict.violations),
                first_offset=int(verdict.first_offset) if verdict.violations else None,
            )
            for name, verdict in self.of.items()
        )
