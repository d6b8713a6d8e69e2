"""One table has every exit status, and help and runbook show it."""

from __future__ import annotations

import ast
import re
from itertools import product
from pathlib import Path

import click
import pytest

from logwright import errors
from logwright.cli.main import main
from logwright.cli.request import Request
from logwright.cli.run.doctor import LOSES
from logwright.cli.statuses import EXIT_STATUSES, STOPPED, WORST_FIRST, worst
from logwright.erasure.status import FOUND, INCOMPLETE, LATE
from tests.fixtures import copy_before
from tests.log_builder import LogBuilder
from tests.property.accidents import write_unknown_log
from tests.unit.cli.conftest import Call

ROOT = Path(__file__).parents[3]
ERRORS = frozenset(range(1, 8))
COMMANDS = main.list_commands(click.Context(main))


def all_errors(kind: type[errors.LogwrightError]) -> set[type[errors.LogwrightError]]:
    return {kind}.union(*map(all_errors, kind.__subclasses__()))


def test_every_status_of_an_error_is_in_the_table() -> None:
    """So are those that a search and an interruption have."""
    used = {one.exit_status for one in all_errors(errors.LogwrightError)}
    used |= {0, STOPPED, FOUND, INCOMPLETE, LATE, LOSES}
    assert set(EXIT_STATUSES) == used


def test_no_command_exits_with_another_number() -> None:
    """A literal number in a call of `exit` would be a status outside the table."""
    literal = [
        f"{path.name}:{node.lineno}"
        for path in sorted((ROOT / "logwright/cli").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("exit", "Exit")
        and any(isinstance(one, ast.Constant) for one in node.args)
    ]
    assert [] == literal


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_statuses_are_in_the_table(name: str) -> None:
    """Those that its help names."""
    command = main.get_command(click.Context(main), name)
    assert command is not None
    section = re.search(r"[Ee]xit status:?(.*)", command.help or "", re.DOTALL)
    numbers = re.findall(r"(?:^|; |: | )(\d{1,3}) ", section[1]) if section else []
    assert {int(one) for one in numbers} <= set(EXIT_STATUSES)


def test_the_help_has_the_table(call: Call) -> None:
    """All of it."""
    text = " ".join(call("--help").out.split())
    for status, meaning in EXIT_STATUSES.items():
        assert f" {status} {meaning}" in text


def test_the_runbook_has_the_table() -> None:
    """The same words, in the same order."""
    text = (ROOT / "docs/runbook.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \|", text, re.MULTILINE)
    assert [(str(status), said) for status, said in EXIT_STATUSES.items()] == rows


@pytest.mark.parametrize(("first", "second"), tuple(product(EXIT_STATUSES, repeat=2)))
def test_the_worst_of_two(first: int, second: int) -> None:
    """It is one of both, whichever came first; 0 only if both are; and an error, 1 to 7, comes
    before what a search has found, 9, 10 and 8, as docs/runbook.md says.
    """
    status = worst((first, second))
    assert status == worst((second, first)) == worst((status, first, second))
    assert status in {first, second}
    assert (status == 0) == (first == second == 0)
    if STOPPED in {first, second}:
        assert STOPPED == status
    elif {first, second} & ERRORS:
        assert status in ERRORS


def test_the_order_has_every_status_once() -> None:
    """That of the runbook for what a search has found; a bug before all that is known of logs."""
    assert sorted(EXIT_STATUSES) == sorted(WORST_FIRST)
    assert [9, 10, 8] == [status for status in WORST_FIRST if status in {8, 9, 10}]
    assert 1 == worst(ERRORS)
    assert 0 == worst(())


def test_a_question_answered_with_no(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator stopped the command: nothing is wrong with a log."""
    log_dir = copy_before("torn-tail", tmp_path)
    monkeypatch.setattr(Request, "require_terminal", lambda _, **__: None)
    answer = call("clean", log_dir, "--config", "cleanup.policy=compact", typed="n\n")
    assert STOPPED == answer.status, answer.err


def test_a_recovered_log_is_not_called_unchanged(call: Call, tmp_path: Path) -> None:
    """`clean` recovers a log, cuts it, and then cannot clean it: it does not say that nothing was
    changed.
    """
    log = LogBuilder(tmp_path / "logs")
    log.segment(0).batch(0, [("a", "1"), ("b", "2")])
    log.segment(2).batch(2, [("a", "3")])
    log.segment(3).batch(3, [("c", "4")])
    log.write(producers=True)
    log_dir = tmp_path / "logs"
    write_unknown_log(log_dir / "old-0")
    first = log_dir / f"t-0/{0:020d}.log"
    content = bytearray(first.read_bytes())
    content[16] = 3
    first.write_bytes(content)
    (log_dir / ".kafka_cleanshutdown").unlink()
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\nt 0 3\n")
    with (log_dir / f"t-0/{3:020d}.log").open("ab") as file:
        file.write(b"torn")
    answer = call("clean", log_dir, "t-0", "--yes", "--config", "cleanup.policy=compact", "--force")
    assert 4 == answer.status
    assert "cut 00000000000000000003.log" in answer.err
    assert "The log was recovered, and not changed after that" in answer.err
    (error,) = [line for line in answer.err.splitlines() if line.startswith("Error: t-0")]
    assert "The log was not changed" not in error
