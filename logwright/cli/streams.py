"""Writing to stdout and stderr, text for people and JSON; and questions."""

from __future__ import annotations

import json
import sys
from typing import Final

import click

_INVALID_BYTES: Final = range(0xDC80, 0xDD00)
"""What Python has for bytes of a name that are not UTF-8 (PEP 383: 0xDC00 and the byte)."""


def echo(line: str, *, err: bool = False, newline: bool = True, colour: bool | None = None) -> None:
    """Write a line; what the stream's encoding lacks, as an escape. Effects: writes to stdout, or
    to stderr.

    Click itself keeps every stream that it finds, with all that was written if that is in memory: a
    program that calls the command line in a loop would grow. So it is given the stream.

    Args:
        colour: whether ANSI codes are written; None: if it is a terminal.
    """
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    shown = line.encode(encoding, "backslashreplace").decode(encoding)
    click.echo(shown, file=stream, nl=newline, color=colour)


def printable(text: str) -> str:
    r"""Return a line that has nothing but what is seen, as ``ls -b`` shows names: a line break as
    ``\n``, an escape as ``\x1b``, a byte that is not UTF-8 as ``\xNN``.

    All names that logwright shows to people pass here: what a log directory has cannot begin a line
    or reach the terminal.
    """
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escaped(each) for each in text)


def as_json(value: object) -> str:
    """Return one line of JSON without spaces, the same format as the oracle's dumps. Names are
    exact: what is not seen, or is not UTF-8, is an escape of JSON.
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)


def confirmed(question: str) -> bool:
    """Ask a question. Effects: reads the terminal, writes to stderr."""
    return click.confirm(printable(question), err=True)


def _escaped(character: str) -> str:
    code = ord(character)
    if code in _INVALID_BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()
