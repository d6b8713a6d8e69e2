"""``logwright policies``: check the policies before they are used. Read-only."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from logwright.cli.options.policies import VARIABLE
from logwright.cli.output import Output
from logwright.config.marked import Problem
from logwright.config.policies import EXAMPLES, CheckedPolicies, check_policies
from logwright.errors import PolicyError


def run(output: Output, *, directory: Path | None) -> None:
    """Run the command."""
    if directory is None:
        directory = EXAMPLES
        output.message(f"Neither DIR nor {VARIABLE} is given: these are the examples.")
    checked = check_policies(directory)
    _show(output, checked.problems, "error")
    _show(output, checked.warnings, "warning")
    _sum_up(output, directory, checked)
    if checked.problems:
        click.get_current_context().exit(PolicyError.exit_status)


def _show(output: Output, found: Iterable[Problem], level: str) -> None:
    """Print one line per problem or warning. Effects: writes to stdout."""
    for one in found:
        output.text(str(one) if level == "error" else f"{one} ({level})")
        output.json_object(
            {
                "level": level,
                "file": str(one.mark.path),
                "line": one.mark.line,
                "column": one.mark.column,
                "setting": one.setting,
                "rule": one.rule,
                "got": one.got,
                "nearest": one.nearest,
            }
        )


def _sum_up(output: Output, directory: Path, checked: CheckedPolicies) -> None:
    """Print the numbers: a result if all is valid, else a message. Effects: writes to stdout or
    stderr.
    """
    parts = (
        _count(len(checked.files), "file"),
        _count(checked.entries, "topics entry", "topics entries"),
        _count(len(checked.problems), "problem") if checked.problems else "no problems",
        _count(len(checked.warnings), "warning") if checked.warnings else "no warnings",
    )
    say = output.message if checked.problems else output.text
    if not output.is_json:
        say(f"{directory}: {', '.join(parts)}.")
    output.json_object(
        {
            "directory": str(directory),
            "files": len(checked.files),
            "topics": checked.entries,
            "problems": len(checked.problems),
            "warnings": len(checked.warnings),
        }
    )


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
