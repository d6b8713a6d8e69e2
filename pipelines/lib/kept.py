"""What a sensor's ticks remember of each log: in files, which its cursor names.

Dagster shows a cursor on the sensor's page and stores it with each tick, so it is short and can be
read. The file is named by its content: a tick that is not finished, or a trial in the web UI,
replaces nothing that the sensor's cursor names. Where the file is not to be had, as on another
machine, nothing is remembered, and all logs are read again.
"""

import hashlib
import json
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import dagster as dg

from logwright import durable

_FILE: Final = re.compile(r"[0-9a-f]{16}\.json")
_UNUSED_SECONDS: Final = 3_600
"""A file that no tick has written for so long is removed; a tick is never so late."""

Cursor = Mapping[str, Any]


def keep(context: dg.SensorEvaluationContext, document: str, shown: Cursor) -> str:
    """Return a cursor with `shown` and the name of a file with `document`. Effects: writes the
    file, next to those of other ticks and sensors; removes old ones.

    Raises:
        OSError: it cannot be written.
    """
    directory = _directory(context)
    directory.mkdir(parents=True, exist_ok=True)
    content = document.encode()
    path = directory / f"{hashlib.blake2b(content, digest_size=8).hexdigest()}.json"
    durable.replace(path, content)
    for other in directory.iterdir():
        with suppress(FileNotFoundError):  # another sensor's tick removes it, too
            if other.stat().st_mtime < time.time() - _UNUSED_SECONDS:
                other.unlink()
    return json.dumps({**shown, "file": path.name})


def kept(context: dg.SensorEvaluationContext) -> tuple[str, Cursor]:
    """Return the document and what else is in the context's cursor; both are empty for a cursor of
    another form, the document also if its file is not there. Effects: reads.
    """
    try:
        cursor = json.loads(context.cursor or "{}")
    except ValueError:
        return "", {}
    name = str(cursor.get("file", "")) if isinstance(cursor, dict) else ""
    if not _FILE.fullmatch(name):
        return "", {}
    try:
        return (_directory(context) / name).read_text(), cursor
    except (OSError, UnicodeDecodeError):
        return "", cursor


def _directory(context: dg.SensorEvaluationContext) -> Path:
    return Path(context.instance.storage_directory()) / "logwright" / "ticks"
