"""Prose is plain English: words to avoid, and what to write instead.

The test reads docstrings, comments and strings of Python files, Markdown and YAML.
"""

from __future__ import annotations

import io
import re
import tokenize
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.trees import ROOT, text_files

HERE = "tests/tidy/test_words.py"
AVOID = {
    r"\banew\b": "again",
    r"\bbeside\b": "next to, besides, or with",
    r"\bmend(?:s|ed|ing)?\b": "fix or repair",
    r"(?<!\bthere )\b(?:is|are) no (?!longer\b|more\b|less\b)": "is not a",
    r"\btold\b": "given, reported, or called with",
    r"\btells?\b(?! (?:them )?apart)": "shows, reports, or has",
    r"\bgone on\b|\bgo(?:es)? on\b": "continue",
    r"\bso many\b": "as many as, or the number",
    r"\bneed be\b": "if necessary",
    r"\bleft alone\b": "skipped",
    r"\bpassed over\b": "ignored",
    r"\blies? aside\b|\bput (?:aside|back)\b": "renamed, restored",
    r"\bcut (?:back|short)\b": "truncated, rolled back, or interrupted",
    r"\bfor good\b": "permanently",
    r"\bnothing says\b": "unknown, or not set",
    r"\bof ours\b|\bby us\b": "of logwright, by logwright",
    r"\bbehind\b": "after",
    r"\bmidst\b": "middle",
    r"\b(?:a|the) laws?\b|\bthis page is law\b": "check",
}


@cache
def prose(path: Path) -> list[tuple[int, str]]:
    """Return (line number, text) of the lines that people read: of a Python file its comments and
    strings with blanks, of any other file all lines.
    """
    text = path.read_text()
    lines = text.splitlines()
    if path.suffix != ".py":
        return list(enumerate(lines, 1))
    read: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_text = token.type == tokenize.STRING or token.type == getattr(
            tokenize, "FSTRING_MIDDLE", -1
        )
        if token.type == tokenize.COMMENT or (is_text and " " in token.string):
            read.update(range(token.start[0], token.end[0] + 1))
    return [(number, lines[number - 1]) for number in sorted(read)]


@cache
def checked_files() -> list[Path]:
    """Return the files whose wording is checked."""
    return [
        path
        for path in text_files()
        if path.suffix in {".py", ".md", ".yml", ".yaml"} and path != ROOT / HERE
    ]


@pytest.mark.parametrize("pattern", AVOID)
def test_words(pattern: str) -> None:
    """No word of the house dialect in the files that are checked."""
    avoided = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]} (write: {AVOID[pattern]})"
        for path in checked_files()
        for number, line in prose(path)
        if re.search(pattern, line, re.IGNORECASE)
    ]
    assert [] == avoided
