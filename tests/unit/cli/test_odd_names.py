"""Names that a log directory may have: a line break, a terminal's codes, bytes that are not UTF-8.
People see them escaped, programs get them exactly.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from logwright.cli.log_lines import message_line
from logwright.cli.output import Cell, table_lines
from logwright.cli.streams import as_json, printable
from tests.e2e.command import call
from tests.log_builder import LogBuilder

FOREIGN = {
    b"new\nline-0": r"new\nline-0",
    b"\x1b[31mred-0": r"\x1b[31mred-0",
    b"bad\xff-0": r"bad\xff-0",
    b"tab\tc1\xc2\x9b31m\xe2\x80\xae-0": r"tab\tc1\x9b31m\u202e-0",
    "café-☕-日本-0".encode(): "café-☕-日本-0",
}
"""Directories that no broker starts with, and how they are shown."""

FILE, SHOWN_FILE = b"a\nb\x1b[2J\xfe.index", r"a\nb\x1b[2J\xfe.index"
"""A file in a partition's directory that no broker writes."""


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A log directory with a log; its own name is odd, too."""
    directory = tmp_path / "lo\ng\x1b[31m"
    directory.mkdir()
    log = LogBuilder(directory)
    log.segment(0).batch(0, [("k", "v")])
    log.write(cleaner_checkpoint=None)
    (directory / "meta.properties").write_text(
        "version=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\nnode.id=1\n"
    )
    for name in FOREIGN:
        os.mkdir(os.path.join(os.fsencode(directory), name))  # noqa: PTH102, PTH118 -- bytes
    (directory / "t-0" / os.fsdecode(FILE)).touch()
    return directory


def _seen(text: str) -> str:
    """The text, of which each line has nothing that a terminal would obey."""
    for line in text.split("\n"):
        assert line.isprintable(), repr(line)
    return text


@pytest.mark.parametrize(
    "words",
    [
        ("inspect",),
        ("doctor",),
        ("verify",),
        ("rescue", "--dry-run"),
        ("recover", "--dry-run"),
    ],
    ids=" ".join,
)
def test_people_see_names_escaped(log_dir: Path, words: tuple[str, ...]) -> None:
    """The names of foreign directories, of a file in a log and of the directory itself."""
    answer = call(words[0], log_dir, *words[1:])
    shown = _seen(answer.out) + _seen(answer.err)
    assert r"lo\ng\x1b[31m" in shown
    assert SHOWN_FILE in shown
    for name in FOREIGN.values():
        assert name in shown


@pytest.mark.parametrize(
    "words", [("plan",), ("purge", "--dry-run"), ("dump", "t-0"), ("config",), ("find", "--help")]
)
def test_no_command_writes_a_code(log_dir: Path, words: tuple[str, ...]) -> None:
    """Nor those that show nothing of what is foreign."""
    answer = call(words[0], log_dir, *words[1:])
    assert _seen(answer.out) + _seen(answer.err)


def test_errors(log_dir: Path) -> None:
    """Of the engine and of a wrong call: the words of the call are names of files, too."""
    absent = call("inspect", log_dir, "t-7")
    assert absent.status == 5
    assert r"lo\ng\x1b[31m: has no partition t-7" in _seen(absent.err)
    wrong = call("inspect", log_dir, "x\n\x1b[31m")
    assert wrong.status == 2
    assert r"x\n\x1b[31m" in _seen(wrong.err)
    unread = call("rescue", log_dir, "--free", "1MiB", "--set-aside", "\x1b[31m", "--dry-run")
    assert unread.status == 2
    assert _seen(unread.err)


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 -- what JSON has
    if isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("words", [("doctor",), ("verify",), ("rescue", "--dry-run")], ids=" ".join)
def test_json_has_the_names_exactly(log_dir: Path, words: tuple[str, ...]) -> None:
    """One object a line, and no code in it; paths as `os` has them."""
    answer = call(words[0], log_dir, *words[1:], "--output", "json", "--log-format", "json")
    _seen(answer.out)
    for line in _seen(answer.err).splitlines():
        assert "message" in json.loads(line)
    texts = set(_texts(answer.lines))
    for name in FOREIGN:
        assert str(log_dir / os.fsdecode(name)) in texts
    assert any(os.fsdecode(FILE) in text for text in texts)


def test_log_lines_are_json() -> None:
    """Of a message, too, the codes are escapes of JSON."""
    name = os.fsdecode(b"a\n\xff\xc2\x9b\x1b")
    line = message_line("info", name, path=name)
    assert _seen(line).isascii()
    assert json.loads(line)["message"] == json.loads(line)["fields"]["path"] == name
    assert json.loads(as_json({name: name})) == {name: name}


def test_columns_of_odd_names() -> None:
    """A cell is as wide as what is seen of it; the codes of its own colour stay codes."""
    lines = table_lines(("name", "size"), [("a\nb", 1), (Cell(text="\x1b", colour="red"), 10)])
    assert ["name  size", r"a\nb     1"] == lines[:2]
    assert "\x1b[31m\\x1b\x1b[0m" in lines[2]


def test_what_is_seen_stays() -> None:
    """Letters of all languages, signs and blanks; a backslash is itself."""
    for text in ("", "t-0: 1 file", "naïve 日本語 العربية ☕ → …", r"C:\logs"):
        assert printable(text) == text
