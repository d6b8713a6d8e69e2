"""The check `will_start`: whether a broker starts on each log directory, and loses nothing."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import dagster as dg

from logwright.assets.lib.report import table
from logwright.fleet.starts import NOT_JUDGED, STARTS, DirectoryStart

WILL_START: Final = "will_start"
"""The check of the next starts."""
DESCRIPTION: Final = (
    "By its files a broker starts on each log directory, and loses nothing. Not judged: directories"
    " of running brokers, and those in buckets."
)
_SHOWN_FINDINGS: Final = 100
_NAMED: Final = 5
"""Maximum findings in the check's description, of each directory."""
_FINDING: Final = (
    "log directory",
    "what a start does",
    "path",
    "problem",
    "what to do before",
    "bytes lost",
    "first offset",
    "end offset",
)


def will_start_check(starts: Sequence[DirectoryStart]) -> dg.AssetCheckResult:
    """Return the check of the directories that were judged; none judged is not passed. What is not
    known is a warning, and what is known to fail or to lose records an error.
    """
    judged = [one for one in starts if one.outcome != NOT_JUDGED]
    bad = [one for one in judged if one.outcome != STARTS]
    lines = [_sentence(one) for one in bad]
    lines += [_sentence(one) for one in starts if one.outcome == NOT_JUDGED]
    if not judged:
        lines.insert(0, "No log directory was judged")
    is_harm = any(one.does_harm for one in bad)
    covered = dict.fromkeys(
        phrase
        for start in starts
        if start.verdict is not None
        for phrase in start.verdict.not_looked_at
    )
    return dg.AssetCheckResult(
        check_name=WILL_START,
        passed=bool(judged) and not bad,
        severity=dg.AssetCheckSeverity.ERROR if is_harm else dg.AssetCheckSeverity.WARN,
        description="; ".join(lines),
        metadata={
            "log directories judged": len(judged),
            "log directories on which a broker starts": len(judged) - len(bad),
            "log directories": table(
                ("name", "log directory", "a broker", "why"),
                ((one.name, one.log_dir, one.outcome, why_of(one)) for one in starts),
                most=len(starts),
            ),
            "findings": table(_FINDING, _findings(starts), most=_SHOWN_FINDINGS),
            "not looked at": "; ".join(covered),
        },
    )


def why_of(start: DirectoryStart) -> str:
    """Return what its outcome is by: the first findings, or why there is none."""
    if start.verdict is None:
        return start.why
    grave = [one for one in start.findings if one.effect != "repairs"]
    texts = [f"{one.path}: {one.problem}" for one in grave[:_NAMED]]
    more = len(grave) - len(texts)
    return " ".join([*texts, *([f"And {more} more findings."] if more else [])])


def _sentence(start: DirectoryStart) -> str:
    return f"{start.log_dir}: {start.outcome}: {why_of(start)}"


def _findings(starts: Iterable[DirectoryStart]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each finding, those of a node once, the gravest first."""
    names: dict[int, list[str]] = {}
    for start in starts:
        names.setdefault(id(start.verdict), []).append(start.name)
    grave = ("stops", "loses", "not judged", "sets aside", "repairs")
    rows = [
        (", ".join(names[id(start.verdict)]), finding)
        for start in starts
        if names[id(start.verdict)][0] == start.name
        for finding in start.findings
    ]
    for name, finding in sorted(rows, key=lambda row: grave.index(row[1].effect)):
        yield (
            name,
            finding.effect,
            finding.path,
            finding.problem,
            finding.remedy or "",
            finding.bytes,
            -1 if finding.first_offset is None else finding.first_offset,
            -1 if finding.end_offset is None else finding.end_offset,
        )
