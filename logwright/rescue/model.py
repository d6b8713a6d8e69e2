"""What is known of a broker's next start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from logwright.errors import LogwrightError
from logwright.units import ByteCount

NEVER_LOOKED_AT: Final = (
    "the broker's own settings and its JVM",
    "access control lists, and limits of open files",
    "its network and the cluster's other nodes",
)
"""What a start needs, too."""
Effect = Literal["stops", "loses", "sets aside", "repairs", "not judged"]
"""What the start does: it fails; it succeeds without some records, which it removes or which are
not there; it renames a log, which it does not serve then; it succeeds without a loss; or that is
not known, since a file could not be read, or is of an unknown format.
"""
About = Literal["log", "absent log", "root", "node", "twin", "cluster", "machine"]
"""What a finding is about: a log's files; a log of which nothing is there; the root's files and
directories; the ids of the directories; two logs of one partition; the cluster's metadata; rights
and space.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFinding:
    """One thing in the log directories, and what the next start makes of it.

    Attributes:
        problem: a sentence. remedy: what to do before the start; None: nothing.
        bytes: of the segments that the start removes; 0 unless it loses some.
        offsets: how many are missing already; 0 unless some are.
        first_offset, end_offset: the offsets concerned, where they are known.
    """

    path: Path
    problem: str
    effect: Effect
    about: About = "log"
    remedy: str | None = None
    bytes: int = 0
    offsets: int = 0
    first_offset: int | None = None
    end_offset: int | None = None

    @classmethod
    def of(
        cls, error: LogwrightError, effect: Effect, path: Path, *, about: About = "log"
    ) -> StartFinding:
        """Return what an error says; `path`: if it names none."""
        return cls(
            path=path if error.path is None else Path(str(error.path)),
            problem=error.problem,
            effect=effect,
            about=about,
            remedy=error.remedy,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemSpace:
    """The space of a log directory's file system.

    Attributes:
        free_bytes: for the broker's user. needed_bytes: what a start writes, about.
        has_inodes: a file can be made.
    """

    free_bytes: int
    needed_bytes: int
    has_inodes: bool
    is_read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StartVerdict:
    """Whether a broker starts, by what was looked at.

    Attributes:
        log_dirs: which were looked at. logs: how many logs they have that a broker loads.
        findings: in the order of the directories, and of the names in them.
        space: of the file systems of the log directories that exist.
        user: whose rights were looked at; None: nobody's.
        not_looked_at: what else a start needs, in phrases.
    """

    log_dirs: tuple[Path, ...]
    logs: int
    findings: tuple[StartFinding, ...]
    space: Mapping[Path, FileSystemSpace]
    user: str | None
    not_looked_at: tuple[str, ...]

    @property
    def starts(self) -> bool | None:
        """Whether it does; None: that is not known."""
        effects = {finding.effect for finding in self.findings}
        if "stops" in effects:
            return False
        return None if "not judged" in effects else True

    @property
    def loses(self) -> bool:
        """Whether records go, or are missing."""
        return any(finding.effect == "loses" for finding in self.findings)

    @property
    def missing_offsets(self) -> int:
        """How many offsets are missing already."""
        return sum(finding.offsets for finding in self.findings)

    @property
    def lost_bytes(self) -> ByteCount:
        """Bytes of segments that the start removes."""
        return ByteCount(sum(finding.bytes for finding in self.findings))
