"""The keys of the records in which a pattern was found, as a file that requests are made of."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from logwright import durable
from logwright.cli.request import Request
from logwright.cli.wording import counted
from logwright.erasure.find.result import SearchResult
from logwright.errors import PreconditionError, unreadable

_MODE: Final = 0o600


def require_new(pattern: Path | None, path: Path) -> None:
    """Refuse to write keys without a pattern, or over another file. Effects: looks.

    Raises:
        UsageError: there is no pattern. PreconditionError: there is something.
    """
    if pattern is None:
        raise click.UsageError("--keys-to writes the keys of records with a --pattern")
    if os.path.lexists(path):
        raise PreconditionError(
            "it exists, and is not replaced.", path=path, remedy="Give the path of a new file."
        )


def write_keys(request: Request, searched: Sequence[SearchResult], path: Path) -> None:
    """Write the keys of the records in which only a pattern was found, each once, in base64, for
    this user alone. Effects: creates the file; output, without any key.

    Raises:
        UnreadableFile: it cannot be written.
    """
    of_topics: dict[str, set[bytes | None]] = {}
    for place in searched:
        for topic, keys in place.keys.items():
            of_topics.setdefault(topic, set()).update(keys)
    every = set[bytes | None]().union(*of_topics.values())
    lines = [base64.b64encode(key) for key in sorted(key for key in every if key)]
    try:
        durable.new(path, b"".join(b"%b\n" % line for line in lines), mode=_MODE)
    except OSError as error:
        raise unreadable(error, path) from error
    counts = {topic: len(keys - {None, b""}) for topic, keys in sorted(of_topics.items())}
    named = ", ".join(f"{count} of {topic or 'no known topic'}" for topic, count in counts.items())
    without = bool(every & {None, b""})
    more = " There are records without a key, which no request can name." if without else ""
    request.output.result(
        f"{counted(len(lines), 'key')} of records with a pattern: {named or 'none'}, in {path}."
        f" Rows of tables are not among them.{more} What else is of these keys: --keys {path}"
        " --keys-format base64.",
        keysFile=str(path),
        keysWritten=len(lines),
        keysOfTopics=counts,
        withoutKey=without,
    )
