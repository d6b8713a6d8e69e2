"""What is known of a broker's next start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from logwright.errors import LogwrightError
from logwright.units import ByteCount

NOT_LOOKED_AT: Final = (
    "the cluster's metadata log",
    "which logs the metadata gives this broker",
    "rights and owners",
    "free space",
)
"""What a start needs, too."""
Effect = Literal["stops", "loses", "repairs", "not judged"]
"""What the start does: it fails; it succeeds without some records, or without a loss; or that is
not known, since a file could not be read, or is of an unknown format.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFinding:
    """One thing in the log directories, and what the next start makes of it.

    Attributes:
        problem: a sentence. remedy: what to do before the start; None: nothing.
        bytes: of the segments that the start removes; 0 unless it loses some.
        first_offset, end_offset: the offsets concerned, where they are known.
    """

    path: Path
    problem: str
    effect: Effect
    remedy: str | None = None
    bytes: int = 0
    first_offset: int | None = None
    end_offset: int | None = None

    @classmethod
    def of(cls, error: LogwrightError, effect: Effect, path: Path) -> StartFinding:
        """Return what an error says; `path`: if it names none."""
        return cls(
            path=path if error.path is None else Path(str(error.path)),
            problem=error.problem,
            effect=effect,
            remedy=error.remedy,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StartVerdict:
    """Whether a broker starts, by what was looked at: see `NOT_LOOKED_AT`.

    Attributes:
        log_dirs: which were looked at. logs: how many logs they have that a broker loads.
        findings: in the order of the directories, and of the names in them.
    """

    log_dirs: tuple[Path, ...]
    logs: int
    findings: tuple[StartFinding, ...]

    @property
    def starts(self) -> bool | None:
        """Whether it does; None: that is not known."""
        effects = {finding.effect for finding in self.findings}
        if "stops" in effects:
            return False
        return None if "not judged" in effects else True

    @property
    def lost_bytes(self) -> ByteCount:
        """Bytes of segments that the start removes."""
        return ByteCount(sum(finding.bytes for finding in self.findings))
