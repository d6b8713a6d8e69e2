"""``logwright doctor``: whether a broker starts on its log directories."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import click

from logwright.cli.output import Output, human_bytes
from logwright.cli.request import local_directory
from logwright.cli.wording import counted
from logwright.errors import PreconditionError, UnsupportedFormatError
from logwright.place.model import Place
from logwright.reading import reading
from logwright.rescue.model import StartFinding, StartVerdict
from logwright.rescue.rights import owner_of, user_named
from logwright.rescue.start import judge_start
from logwright.units import TimestampMs

_NS_PER_MS: Final = 1_000_000
LOSES: Final = 11
"""Exit status: by its files a broker starts, without records that were there."""
STATUS: Final = {
    True: 0,
    False: PreconditionError.exit_status,
    None: UnsupportedFormatError.exit_status,
}
_WORDS: Final = {
    "stops": "does not start",
    "loses": "starts, and loses records",
    "sets aside": "starts, and sets a log aside",
    "repairs": "starts",
    "not judged": "not known",
}


def run(
    output: Output,
    *,
    log_dirs: tuple[Place, ...],
    now_ms: int | None,
    user: str | None,
    metadata: Path | None,
) -> int:
    """Run the command; its exit status."""
    directories = local_directories(log_dirs)
    clock_ms = TimestampMs(time.time_ns() // _NS_PER_MS if now_ms is None else now_ms)
    with ExitStack() as stack:
        for each in directories:
            stack.enter_context(reading(each))
        who = owner_of(directories) if user is None else user_named(user)
        verdict = judge_start(directories, now_ms=clock_ms, user=who, metadata=metadata)
    show_verdict(output, verdict)
    return status_of(verdict)


def status_of(verdict: StartVerdict) -> int:
    """Return the exit status of a verdict."""
    return LOSES if verdict.starts and verdict.loses else STATUS[verdict.starts]


def local_directories(log_dirs: Sequence[Place]) -> list[Path]:
    """Return the log directories of this machine, each given once. Effects: follows links."""
    directories = [local_directory(log_dir) for log_dir in log_dirs]
    if len({each.resolve() for each in directories}) < len(directories):
        raise click.UsageError("give each log directory once")
    return directories


def show_verdict(output: Output, verdict: StartVerdict) -> None:
    """Show the findings, the verdict and what it does not cover. Effects: output."""
    for finding in verdict.findings:
        _show(output, finding)
    _show_sentence(output, verdict)


def _show(output: Output, finding: StartFinding) -> None:
    line = f"{_WORDS[finding.effect]}: {finding.path}: {finding.problem}"
    if finding.bytes:
        line += f" {human_bytes(finding.bytes)} are removed."
    if finding.remedy is not None:
        line += f" {finding.remedy}"
    is_shown = finding.effect != "repairs" or output.verbose
    output.result(
        line if is_shown else None,
        path=str(finding.path),
        effect=finding.effect,
        problem=finding.problem,
        remedy=finding.remedy,
        bytes=finding.bytes,
        offsets=finding.offsets,
        firstOffset=finding.first_offset,
        endOffset=finding.end_offset,
    )


def _show_sentence(output: Output, verdict: StartVerdict) -> None:
    logs = f"{counted(verdict.logs, 'log')} in {', '.join(map(str, verdict.log_dirs))}"
    aside = sum(finding.effect == "sets aside" for finding in verdict.findings)
    if verdict.starts is None:
        sentence = f"Whether a broker starts is not known: {logs}."
    elif not verdict.starts:
        sentence = f"A broker does not start: {logs}."
    else:
        loses = f", and removes {human_bytes(verdict.lost_bytes)}" if verdict.lost_bytes else ""
        missing = verdict.missing_offsets
        loses += f", without {counted(missing, 'offset')} that were there" if missing else ""
        loses += f", and sets {counted(aside, 'log')} aside" if aside else ""
        sentence = f"By its files a broker starts{loses}: {logs}."
    output.result(
        sentence,
        logDirs=[str(each) for each in verdict.log_dirs],
        logs=verdict.logs,
        starts=verdict.starts,
        lostBytes=verdict.lost_bytes,
        missingOffsets=verdict.missing_offsets,
        setAside=aside,
        user=verdict.user,
        space=[
            {"logDir": str(each), "freeBytes": space.free_bytes, "neededBytes": space.needed_bytes}
            for each, space in verdict.space.items()
        ],
        notLookedAt=list(verdict.not_looked_at),
    )
    for each, space in verdict.space.items():
        output.message(
            f"{each}: {human_bytes(space.free_bytes)} free, the start needs about"
            f" {human_bytes(space.needed_bytes)}."
        )
    output.message(f"Not looked at: {'; '.join(verdict.not_looked_at)}.")
