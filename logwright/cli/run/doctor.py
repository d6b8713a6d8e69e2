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
from logwright.rescue.model import NOT_LOOKED_AT, StartFinding, StartVerdict
from logwright.rescue.start import judge_start
from logwright.units import TimestampMs

_NS_PER_MS: Final = 1_000_000
_STATUS: Final = {
    True: 0,
    False: PreconditionError.exit_status,
    None: UnsupportedFormatError.exit_status,
}
_WORDS: Final = {
    "stops": "does not start",
    "loses": "starts, and loses records",
    "repairs": "starts",
    "not judged": "not known",
}


def run(output: Output, *, log_dirs: tuple[Place, ...], now_ms: int | None) -> int:
    """Run the command; its exit status."""
    directories = [local_directory(log_dir) for log_dir in log_dirs]
    if len({each.resolve() for each in directories}) < len(directories):
        raise click.UsageError("give each log directory once")
    clock_ms = TimestampMs(time.time_ns() // _NS_PER_MS if now_ms is None else now_ms)
    with ExitStack() as stack:
        for each in directories:
            stack.enter_context(reading(each))
        verdict = judge_start(directories, now_ms=clock_ms)
    for finding in verdict.findings:
        _show(output, finding)
    _show_verdict(output, verdict, directories)
    return _STATUS[verdict.starts]


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
        firstOffset=finding.first_offset,
        endOffset=finding.end_offset,
    )


def _show_verdict(output: Output, verdict: StartVerdict, directories: Sequence[Path]) -> None:
    logs = f"{counted(verdict.logs, 'log')} in {', '.join(map(str, directories))}"
    if verdict.starts is None:
        sentence = f"Whether a broker starts is not known: {logs}."
    elif not verdict.starts:
        sentence = f"A broker does not start: {logs}."
    elif verdict.lost_bytes:
        sentence = (
            f"By its files a broker starts, and removes {human_bytes(verdict.lost_bytes)}: {logs}."
        )
    else:
        sentence = f"By its files a broker starts: {logs}."
    output.result(
        sentence,
        logDirs=[str(each) for each in directories],
        logs=verdict.logs,
        starts=verdict.starts,
        lostBytes=verdict.lost_bytes,
        notLookedAt=NOT_LOOKED_AT,
    )
    output.message(f"Not looked at: {', '.join(NOT_LOOKED_AT)}.")
