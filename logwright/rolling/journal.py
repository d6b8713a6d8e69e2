"""Where a round over the brokers is, in a file outside of log directories, and the lock that keeps
two rounds of a cluster apart.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final, cast, get_args

from logwright import durable
from logwright.errors import (
    DiskFull,
    LogDirLocked,
    PreconditionError,
    UnreadableFile,
    unreadable_file,
)
from logwright.locks import lock_file
from logwright.rolling.model import Journal, Step

_LOCK: Final = ".rolling.lock"
_MAX_BYTES: Final = 1_048_576


@contextmanager
def only_run(state: Path, *, wait_seconds: float = 0) -> Iterator[None]:
    """Keep other runs away. Effects: makes the directory and a lock file, which goes at the end.

    Args:
        wait_seconds: how long another run is waited for.

    Raises:
        PreconditionError: another run is at work.
        UnreadableFile, DiskFull: the lock file cannot be made.
    """
    durable.make_directory(state)
    try:
        with lock_file(state, _LOCK, wait_seconds=wait_seconds):
            yield
    except LogDirLocked as error:
        raise PreconditionError(
            "another run maintains brokers of this cluster.",
            path=state,
            remedy="Wait for it to end, then run it again.",
        ) from error


def read_journal(path: Path) -> Journal:
    """Return what is written of a round; an empty one if there is nothing, or nothing that can be
    used: it is only a hint. Effects: reads.

    Raises:
        UnreadableFile: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES)
    except FileNotFoundError:
        return Journal()
    except OSError as error:
        raise unreadable_file(error, path) from error
    try:
        given = json.loads(content)
        done, broker, step = given["done"], given["broker"], given["step"]
    except (ValueError, TypeError, KeyError):
        return Journal()
    ids = [*done, *([] if broker is None else [broker])] if isinstance(done, list) else [None]
    if not all(isinstance(each, int) for each in ids) or step not in get_args(Step):
        return Journal()
    return Journal(done=tuple(done), broker=broker, step=cast("Step", step))


def write_journal(path: Path, journal: Journal) -> None:
    """Write where a round is; of one that has begun with no broker, remove the file. Effects: as
    said, durably.

    Raises:
        DiskFull, UnreadableFile: it cannot be written.
    """
    try:
        if journal == Journal():
            path.unlink(missing_ok=True)
            durable.sync(path.parent)
        else:
            durable.replace(path, json.dumps(asdict(journal)).encode())
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise DiskFull(
                "there is no room to note where the round is.",
                path=path,
                remedy="Free some space, then run it again.",
            ) from error
        raise UnreadableFile(f"it cannot be written: {error.strerror}.", path=path) from error
