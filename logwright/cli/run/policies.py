"""``logwright policies``: check the policies before they are used. Read-only."""

from __future__ import annotations

from pathlib import Path

from logwright.cli.options.parameters import POLICIES_VARIABLE
from logwright.cli.output import Output
from logwright.cli.wording import counted
from logwright.config.policies import EXAMPLES, CheckedPolicies, check_policies
from logwright.errors import PolicyError


def run(output: Output, *, directory: Path | None) -> int:
    """Run the command."""
    if directory is None:
        directory = EXAMPLES
        output.message(f"Neither DIR nor {POLICIES_VARIABLE} is given: these are the examples.")
    checked = check_policies(directory)
    for level, problems in (("error", checked.problems), ("warning", checked.warnings)):
        for problem in problems:
            output.result(
                str(problem) if level == "error" else f"{problem} ({level})",
                level=level,
                file=str(problem.mark.path),
                line=problem.mark.line,
                column=problem.mark.column,
                setting=problem.setting,
                rule=problem.rule,
                got=problem.got,
                nearest=problem.nearest,
            )
    _sum_up(output, directory, checked)
    return PolicyError.exit_status if checked.problems else 0


def _sum_up(output: Output, directory: Path, checked: CheckedPolicies) -> None:
    """Print the numbers: a result if all is valid, else a message. Effects: writes to stdout or
    stderr.
    """
    entries, files = checked.entries, len(checked.files)
    problems, warnings = len(checked.problems), len(checked.warnings)
    line = (
        f"{directory}: {counted(files, 'file')}, {entries} topics"
        f" {'entry' if entries == 1 else 'entries'},"
        f" {counted(problems, 'problem') if problems else 'no problems'},"
        f" {counted(warnings, 'warning') if warnings else 'no warnings'}."
    )
    output.result(
        None if problems else line,
        directory=str(directory),
        files=files,
        topics=entries,
        problems=problems,
        warnings=warnings,
    )
    if problems and not output.is_json:
        output.message(line)
