"""The engine's log lines and the commands' messages on stderr: text, or JSON objects, one per line.

Lines come from the standard library's logging. The fields of a JSON line are found in its template,
``purged topic_partition=%s bytes=%d``, never in its values: what a log directory has cannot become
a field. No line of logwright has a record's key or value; of bytes there is only the length.
"""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from math import isfinite
from typing import Final, Literal

import click

from logwright.cli.streams import as_json, echo, printable
from logwright.credentials import without_credentials
from logwright.errors import LogwrightError, PolicyError

LogFormat = Literal["text", "json"]

_META: Final = "logwright.log_format"
"""Key of the format in click's context."""
_BYTES: Final = (bytes, bytearray, memoryview)
_PLACE: Final = re.compile(r"(?:(\w+)=)?%[-#0 +]*\d*(?:\.\d+)?([a-z%])")
"""A placeholder of a template, and the name of its field if it has one."""


class JsonFormatter(logging.Formatter):
    """One line of JSON: ``time`` (UTC, ms), ``level``, ``logger``, ``message``, ``fields``, and
    ``exception`` if there is one.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; line breaks in values are escaped by JSON."""
        line: dict[str, object] = {
            "time": _time(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        fields = fields_of(record)
        if fields:
            line["fields"] = fields
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return as_json(line)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """Return the named values of a line, by their names in its template."""
    values = record.args
    if not isinstance(values, tuple) or not isinstance(record.msg, str):
        return {}
    places = [place for place in _PLACE.finditer(record.msg) if place[2] != "%"]
    return {
        place[1]: _plain(value)
        for place, value in zip(places, values, strict=False)
        if place[1] is not None
    }


class StderrHandler(logging.Handler):
    """Write the engine's log lines to stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line. Effects: writes to stderr."""
        if self.formatter is not None:
            echo(self.format(record), err=True)
        else:
            echo(printable(f"{record.levelname.lower()}: {record.getMessage()}"), err=True)


def log_to_stderr(*, verbose: bool, form: LogFormat) -> None:
    """Send the engine's log lines to stderr until the command ends; as JSON from level info on, as
    text from warning on, with `verbose` all. Effects: logging; the context of the command.
    """
    context = click.get_current_context()
    context.meta[_META] = form
    logger = logging.getLogger("logwright")
    before = logger.level
    least = logging.INFO if form == "json" else logging.WARNING
    handler = StderrHandler(logging.DEBUG if verbose else least)
    if form == "json":
        handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    logger.setLevel(handler.level)

    def undo() -> None:
        logger.removeHandler(handler)
        logger.setLevel(before)

    context.call_on_close(undo)


def say(level: str, message: str, *, paragraph: bool = False, **fields: object) -> None:
    """Write a message of the command that runs, in the format of its log lines. Effects: writes to
    stderr.

    Args:
        paragraph: line breaks are the message's own, and none is that of a name.
    """
    message = without_credentials(message)
    context = click.get_current_context(silent=True)
    if context is not None and context.meta.get(_META) == "json":
        echo(message_line(level, message, **fields), err=True)
        return
    if level == "error":
        message = f"Error: {message}"
    for line in message.split("\n") if paragraph else [message]:
        echo(printable(line), err=True)


def say_error(error: LogwrightError, *, of: str | None = None, **fields: object) -> None:
    """Write an error; of a policy it has a line per problem. Effects: writes to stderr.

    Args:
        of: the partition, directory or topic that has it.
    """
    message = str(error) if of is None else f"{of}: {error}"
    paragraph = isinstance(error, PolicyError)
    say("error", message, paragraph=paragraph, error=type(error).__name__, **fields)


def message_line(level: str, message: str, **fields: object) -> str:
    """Return a line for a message of a command, which is not a line of the engine's log."""
    line: dict[str, object] = {
        "time": _time(datetime.now(tz=UTC).timestamp()),
        "level": level,
        "logger": "logwright.cli",
        "message": message,
    }
    if fields:
        line["fields"] = {name: _plain(value) for name, value in fields.items()}
    return as_json(line)


def _time(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    if isinstance(record.args, tuple) and any(isinstance(value, _BYTES) for value in record.args):
        return str(record.msg) % tuple(
            _plain(value) if isinstance(value, _BYTES) else value for value in record.args
        )
    return record.getMessage()


def _plain(value: object) -> object:
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, _BYTES):
        return f"{len(value)} bytes"
    return str(value)
