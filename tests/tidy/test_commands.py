"""Every command of logwright that a document shows is one that the command line takes: its name and
its options exist. What the commands do is shown by the tests of each.
"""

from __future__ import annotations

import re
import shlex

import click
import pytest

from logwright.cli.main import main
from tests.tidy.trees import ROOT, text_files

SPAN = re.compile(r"`(?:\$ )?(logwright [^`\n]+)`")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELLS = {"", "sh", "bash", "console"}
END = re.compile(r" (?:#|\||>|&&)")
LINE = re.compile(r"^(?:\$ )?(?:\w+=\S+ )*(logwright .+)$", re.MULTILINE)


def documented() -> list[tuple[str, str]]:
    """(Document, command) of every command in code spans and blocks; each once."""
    commands_written = []
    for path in text_files():
        if path.suffix == ".md":
            text = path.read_text()
            blocks = [block for language, block in BLOCK.findall(text) if language in SHELLS]
            lines = [line for block in blocks for line in LINE.findall(block)]
            commands_written += [
                (str(path.relative_to(ROOT)), line) for line in (*SPAN.findall(text), *lines)
            ]
    return sorted(set(commands_written))


COMMANDS = documented()


def test_the_documents_have_commands() -> None:
    """The search finds those of the README and of the runbook."""
    assert {"README.md", "docs/runbook.md"} <= {document for document, _ in COMMANDS}


@pytest.mark.parametrize(("document", "command"), COMMANDS)
def test_a_documented_command_exists(document: str, command: str) -> None:
    """Optional parts in square brackets are taken as written; `…` and `...` stand for more."""
    cleaned = (
        command.split(" #", maxsplit=1)[0]
        .split(" | ", maxsplit=1)[0]
        .split(" > ", maxsplit=1)[0]
        .split(" && ", maxsplit=1)[0]
    )
    words = [
        word.strip("[],")
        for word in shlex.split(cleaned)[1:]
        if word not in {"…", "...", "[OPTIONS]"}
    ]
    at: click.Command = main
    context = click.Context(main, info_name="logwright")
    while isinstance(at, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        if name == "COMMAND":
            return
        inner = at.get_command(context, name)
        assert inner is not None, f"{document}: {command}: there is no command {name!r}"
        at, context = inner, click.Context(inner, info_name=name, parent=context)
    known = {
        option
        for parameter in at.get_params(context)
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert options <= known, f"{document}: {command}"
