"""Every command of logwright that a document shows is one that the command line takes: its name and
its options exist. What the commands do is shown by the tests of each. The other commands of blocks
are of `make`, with a target that exists, or of known programs.
"""

from __future__ import annotations

import re
import shlex

import click
import pytest

from logwright.cli.main import main
from tests.tidy.trees import ROOT, text_files

SPAN = re.compile(r"`(?:\$ )?(logwright [^`\n]+)`")
BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
SHELLS = {"", "sh", "bash", "console"}
END = re.compile(r" (?:#|\||>|&&)")
LINE = re.compile(r"^ *(?:\$ )?(?:\w+=\S+ )*(logwright .+)$", re.MULTILINE)
HERE_DOCUMENT = re.compile(r"<<-? *['\"]?(\w+)['\"]?.*?^\1$", re.MULTILINE | re.DOTALL)
ASSIGNMENT = re.compile(r"\w+=")
BETWEEN = {"&&", "||", "|", ";", "(", ")"}
RUN_BY = {
    "dagster": ("README.md", "tests/e2e/test_documented_commands.py"),
    "jq": ("docs/erasure.md", "tests/e2e/test_erasure_document.py"),
    "tail": ("docs/erasure.md", "tests/e2e/test_erasure_document.py"),
    "uv": ("docs/installing.md", "tests/packaging/test_installing.py"),
    "uvx": ("docs/installing.md", "tests/packaging/test_installing.py"),
}
"""Program → the one document with blocks of it, and the test that runs its blocks."""
ADMINISTRATORS = frozenset({"docker", "helm", "kubectl", "systemctl"})
"""Programs that docs/deploying.md and docs/rolling.md have; both say which of it was tried."""
EVERYDAY = frozenset(
    {
        *(
            "apt-get",
            "awk",
            "base64",
            "cat",
            "cd",
            "chmod",
            "chown",
            "cp",
            "curl",
            "duckdb",
            "echo",
        ),
        *("export", "git", "grep", "head", "install", "ls", "mkdir", "openssl", "pip", "printf"),
        *("pytest", "pre-commit", "python", "python3", "python3.11", "rm", "sed", "sha256sum"),
        *("comm", "cut", "sort", "stat", "sudo", "tr", "umask", "."),
    }
)
"""Programs of a system, and of a Python environment."""
OF_A_SHELL = {"logwright", "make", ".venv/bin/python", *RUN_BY, *ADMINISTRATORS, *EVERYDAY}
"""What a block without a language begins with, if it is a shell's."""


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


def commands_in(block: str) -> list[list[str]]:
    """The words of every command of a shell's block; the text of a here document is not one."""
    commands: list[list[str]] = []
    text = ""
    for line in HERE_DOCUMENT.sub("", block).replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(f"{text}\n{line}", posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            text = f"{text}\n{line}"  # a quote that a later line closes
            continue
        text = ""
        command: list[str] = []
        for word in (*words, ";"):
            if word not in BETWEEN:
                if command or not ASSIGNMENT.match(word):
                    command.append(word)
            elif command:
                commands.append(command)
                command = []
    return commands


BLOCKS = [
    (str(path.relative_to(ROOT)), block)
    for path in text_files()
    if path.suffix == ".md"
    for language, block in BLOCK.findall(path.read_text())
    if language in SHELLS - {""} or (not language and block.split()[0] in OF_A_SHELL)
]


def test_the_commands_of_a_block() -> None:
    """What is read of a block is what a shell would run."""
    block = "x --y 'a\nb' | z  # w\n(cd u && \\\nprintf v)\np <<E\nq\nE\nmake w"
    commands = [["x", "--y", "a\nb"], ["z"], ["cd", "u"], ["printf", "v"], ["p"], ["make", "w"]]
    assert commands == commands_in(block)


@pytest.mark.parametrize(("document", "block"), BLOCKS)
def test_every_command_of_a_block_is_checked(document: str, block: str) -> None:
    """By the command line of logwright, by the Makefile, by the test that runs the document's
    blocks, or as a program that everybody has.
    """
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for first, *words in commands_in(block):
        program = first.rpartition("/")[2]
        if program == "logwright":
            test_a_documented_command_exists(document, shlex.join([program, *words]))
        elif program == "make":
            assert set(targets) >= {word for word in words if word.islower()}, (document, words)
        elif program in RUN_BY:
            run_in, test = RUN_BY[program]
            assert (document, True) == (run_in, (ROOT / test).is_file()), program
        elif program in ADMINISTRATORS:
            assert document in {"docs/deploying.md", "docs/rolling.md"}, program
            inside = words.index("logwright") if "logwright" in words else None
            if inside is not None:
                test_a_documented_command_exists(document, shlex.join(words[inside:]))
        else:
            assert program in EVERYDAY, f"{document}: {program}"
