"""Output of the command line: results go to stdout, messages and progress to stderr.

Results are text (lines and tables) or JSON (one object per line, with Kafka's names).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import click

from logwright.batches.runtime import Progress
from logwright.cli.log_lines import say
from logwright.cli.streams import as_json, echo, printable
from logwright.errors import LogwrightError

Format = Literal["text", "json"]
Row = Mapping[str, Any]
"""The fields of a result, by their names in JSON."""
Column = str | Callable[[Row], object]
"""A column of a table of results: a field, or what gives the cell."""

_KIB = 1024
_GAP = "  "
"""Separator of the columns of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A table cell with a format.

    Attributes:
        colour: a colour of `click.style`, used on a terminal.
        right: align right, like a number.
    """

    text: str
    colour: str | None = None
    right: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Where and in which format a command writes.

    Attributes:
        form: ``text`` or ``json``.
        verbose: text output has all details, not only one line per log.
        begins: the fields that each object of JSON begins with.
    """

    form: Format
    verbose: bool = False
    begins: Row = field(default_factory=dict)

    @property
    def is_json(self) -> bool:
        """Whether results are JSON objects, one per line."""
        return self.form == "json"

    def text(self, line: str = "") -> None:
        """Write a line of a result, in text format only. Effects: writes to stdout."""
        if not self.is_json:
            echo(printable(line))

    def line(self, line: str) -> None:
        """Write a line of a result in either format, buffered. Effects: writes to stdout."""
        sys.stdout.write(f"{line}\n")

    def result(self, text: str | Sequence[str] | None, /, **fields: object) -> None:
        """Write a result: a line of text, or lines, none if it is None, or an object of JSON.
        Effects: writes to stdout.
        """
        if self.is_json:
            echo(as_json({**self.begins, **fields}))
        elif text is not None:
            for line in [text] if isinstance(text, str) else text:
                echo(printable(line))

    def error_object(self, error: LogwrightError, **more: object) -> None:
        """Write an error as one line of JSON, in JSON format only. Effects: writes to stdout."""
        self.result(
            None,
            **more,
            error=type(error).__name__,
            message=str(error),
            problem=error.problem,
            path=None if error.path is None else str(error.path),
            position=error.position,
            remedy=error.remedy,
            exitStatus=error.exit_status,
        )

    def show(self, rows: Iterable[Row], columns: Mapping[str, Column]) -> list[Row]:
        """Write results: each as an object of JSON, at once, or all as a table. Return them.
        Effects: writes to stdout.

        Args:
            rows: the fields of each result.
            columns: header → name of the field, or what gives the cell of a row.
        """
        shown = []
        for row in rows:
            shown.append(row)
            if self.is_json:
                echo(as_json({**self.begins, **row}))
        self.table(
            tuple(columns), ([_picked(row, each) for each in columns.values()] for row in shown)
        )
        return shown

    def table(self, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Write a table, in text format only; numbers are aligned right. Coloured on a terminal,
        unless the environment has NO_COLOR (no-color.org). Effects: writes to stdout.
        """
        if not self.is_json:
            colour = False if os.environ.get("NO_COLOR") else None
            for line in table_lines(header, rows):
                echo(line, colour=colour)

    def message(self, line: str) -> None:
        """Write a message, which is not part of the result. Effects: writes to stderr."""
        say("info", line)

    @contextmanager
    def progress(self, title: str) -> Iterator[Progress]:
        """Show a progress bar if stderr is a terminal. Effects: writes to stderr."""
        if not sys.stderr.isatty():
            yield _silent
            return
        from logwright.cli.bar import bar  # noqa: PLC0415 -- only for a terminal

        with bar(printable(title)) as progress:
            yield progress


def table_lines(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the printable lines of a table; a column is as wide as its widest cell, colours are
    ANSI codes.
    """
    body = [[_cell(value) for value in row] for row in rows]
    right = [
        bool(body) and all(cell.right or cell.text == "-" for cell in column)
        for column in zip(*body, strict=True)
    ] or [False] * len(header)
    head = [Cell(text=title) for title in header]
    widths = [max(len(cell.text) for cell in column) for column in zip(head, *body, strict=True)]
    return [_table_line(cells, widths, right) for cells in (head, *body)]


def _table_line(cells: Sequence[Cell], widths: Sequence[int], right: Sequence[bool]) -> str:
    line = ""
    blanks = 0
    for cell, width, flushed in zip(cells, widths, right, strict=True):
        padding = width - len(cell.text)
        before, after = (padding, 0) if flushed else (0, padding)
        text = cell.text if cell.colour is None else click.style(cell.text, fg=cell.colour)
        if cell.text:
            line += " " * (blanks + before) + text
            blanks = after + len(_GAP)
        else:
            blanks += width + len(_GAP)
    return line


def size_cell(count: int | None) -> Cell | None:
    """Return the cell of a size for people, aligned like a number; None without a size."""
    return None if count is None else Cell(text=human_bytes(count), right=True)


def human_bytes(count: int) -> str:
    """Return a size for people: ``1234 B``, ``1.2 MiB``."""
    size = float(count)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(size) < _KIB or unit == "TiB":
            return f"{count} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= _KIB
    raise AssertionError(count)


def _picked(row: Row, column: Column) -> object:
    return row[column] if isinstance(column, str) else column(row)


def _cell(value: object) -> Cell:
    if isinstance(value, Cell):
        return replace(value, text=printable(value.text))
    if value is None:
        return Cell(text="-", right=True)
    text = f"{value:.4f}" if isinstance(value, float) else str(value)
    return Cell(text=printable(text), right=isinstance(value, int | float))


def _silent(stage: str, done: int, total: int) -> None:
    del stage, done, total
